//! Changes mode, owner, times, and notes that bytes are being changed.

use std::sync::Arc;

use base::{Attr, Ino};

use super::attributes::delay::What;
use super::form::Form;
use super::nodes::Kind;
use super::shared::Shared;
use crate::node::without_set_id;
use crate::{Error, ErrorKind, Result, SetAttr, SetId};

impl Shared {
    /// Changes attributes of `ino`. Without a size the change survives a crash when this returns;
    /// with one it goes with the bytes.
    pub(super) async fn set_attr(self: &Arc<Self>, ino: Ino, change: SetAttr) -> Result<Attr> {
        let fail = |kind| Err(Error::node(kind, "set_attr", ino));
        if change.size.is_none() {
            self.know_target(ino).await?;
            self.check_sayable("set_attr", ino).await?;
        }
        let attr = {
            let now = self.clock.wall();
            let mut state = self.state();
            let node = state.tree.named_by_kernel("set_attr", ino)?;
            if let Some(size) = change.size {
                match &mut node.kind {
                    Kind::File(file) if file.form == Form::Plain => {
                        node.looks.is_timed &= file.unpublished();
                        file.edit(size);
                    }
                    Kind::File(_) => return fail(ErrorKind::Invalid),
                    Kind::Folder(_) => return fail(ErrorKind::IsDirectory),
                }
            }
            let is_file = matches!(node.kind, Kind::File(_));
            let mode = match change.set_id {
                SetId::Dropped if is_file => {
                    Some(without_set_id(change.mode.unwrap_or(node.looks.mode)))
                }
                SetId::Dropped | SetId::Kept => change.mode,
            };
            node.looks.change(&SetAttr { mode, ..change }, now);
            node.attr(ino)
        };
        if change.size.is_none() {
            self.note(ino, What::Attributes)?;
            self.renew_making("set_attr", ino)?;
        }
        Ok(attr)
    }
}
