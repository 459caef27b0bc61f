//! What was staged and not changed is a clean file again, or nobody's if others have replaced it meanwhile.

use std::sync::Arc;

use base::Errno;
use namespace::{Abandoned, ErrorKind};
use remote::Condition;
use store::Staged;
use transfer::Download;

use crate::errno::{Error, Result};
use crate::file::{Announced, Bytes, File, Mapped, Named, Overwrite, State};
use crate::origin::whole_object;
use crate::vfs::Vfs;

impl Vfs {
    /// After a close, a file that was staged and that nobody changed may be a clean one again. What
    /// the kernel wrote past us through a mapping is found here.
    pub(crate) fn restore(&self, file: &Arc<File>) -> Result<()> {
        let mut state = file.state.write();
        if state.is_dirty() {
            return Ok(());
        }
        if !self.handles.is_written(file) {
            // Whoever writes next has written nothing of it whole.
            state.overwrite = Overwrite::Yields;
        }
        let (Bytes::Staged { staged, .. }, Named::Yes) = (&state.bytes, state.name) else {
            return Ok(());
        };
        if state.overwrite == Overwrite::Wins {
            // Who has cut it to nothing may have it open still, and write: until then others do not count.
            return Ok(());
        }
        let size = staged.size();
        // Asked first: once the bytes have moved there is no way back.
        let target = match self.namespace.target(file.ino()) {
            Ok(target) => target,
            // Others have put something in its place: who reads it goes on with these bytes.
            Err(error) if error.kind == ErrorKind::Stale => {
                let staged = Arc::clone(staged);
                return self.unname_replaced(file, &mut state, &staged);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(cached) = self.store.restore(staged)? {
            let Condition::Is(version) = &target.condition else {
                return Err(Error::Call(Errno::ESTALE));
            };
            let extents = whole_object(&target.key, version, size);
            state.clean(Download::new(&self.fetcher, cached, extents));
            self.take_back(file);
        }
        Ok(())
    }

    /// What others have put in the place of `file`, which nobody has changed, is all that its name stands for. Who
    /// may still write, also through a mapping, is to hear that it is lost: it is not nameless before his end.
    fn unname_replaced(&self, file: &Arc<File>, state: &mut State, staged: &Staged) -> Result<()> {
        let is_ours_alone = state.mapped == Mapped::Never || staged.is_back()?;
        if is_ours_alone && !state.is_dirty() && !self.handles.is_written(file) {
            state.name = Named::No;
            state.mapped = Mapped::Never;
            file.announce(Announced::No);
        }
        Ok(())
    }

    /// Fails if others have replaced the file and nobody wrote it then: what would be written to it from now on
    /// would be nowhere after the close. What was removed here is written on, and so is what is in the recovery
    /// folder.
    pub(crate) fn check_writable(&self, file: &File, name: Named) -> Result<()> {
        if name == Named::Yes || file.check_not_lost().is_err() {
            return Ok(());
        }
        match self.namespace.target(file.ino()) {
            Err(error) if error.kind == ErrorKind::Stale => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A close is about to return: if nothing came of what the names were told of changes, they forget it before
    /// the kernel's last word on the open, which may come late. Not of a file that is to win over what others put:
    /// whoever has cut it to nothing may have it open by another descriptor still, and write.
    pub(crate) fn take_back_at_close(&self, file: &File) {
        if file.is_announced() {
            // No write is between its announcement and its bytes meanwhile.
            let state = file.state.write();
            let is_settled = !state.is_dirty() && state.name == Named::Yes;
            if is_settled && state.overwrite == Overwrite::Yields {
                self.take_back(file);
            }
        }
    }

    /// What others do to the object counts again; under the state's guard.
    fn take_back(&self, file: &File) {
        if file.is_announced() {
            self.namespace.abandon(file.ino(), Abandoned::Unchanged);
            file.announce(Announced::No);
        }
    }
}
