//! Where listings go: as many entries as the kernel takes, and word to [`Core`] of what it did not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use crate::answer::Core;
use crate::convert;
use crate::service::{Caller, DirEntry, Reply};
use crate::slot::{GENERATION, Slot};

/// For readdir.
pub(crate) struct ListSlot {
    pub(crate) reply: ReplyDirectory,
    pub(crate) core: Arc<Core>,
}

impl Slot for ListSlot {
    fn fill(mut self, reply: Reply) -> Result<(), (ListSlot, Reply)> {
        let Reply::Entries(entries, _) = reply else { return Err((self, reply)) };
        for (index, entry) in entries.iter().enumerate() {
            let full = self.reply.add(
                INodeNo(entry.ino.0),
                entry.next_offset,
                convert::file_type(entry.kind),
                OsStr::from_bytes(&entry.name),
            );
            if full {
                self.core.learn_list_bytes(wire_bytes(&entries[..index], DIRENT_BYTES));
                break;
            }
        }
        self.reply.ok();
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }
}

/// For readdirplus. What does not fit was counted as a reference by the service, and the kernel
/// never hears of it; so it is forgotten at once.
pub(crate) struct ListPlusSlot {
    pub(crate) reply: ReplyDirectoryPlus,
    pub(crate) core: Arc<Core>,
    pub(crate) caller: Caller,
}

impl Slot for ListPlusSlot {
    fn fill(mut self, reply: Reply) -> Result<(), (ListPlusSlot, Reply)> {
        let Reply::Entries(entries, ttl) = reply else { return Err((self, reply)) };
        if !entries.iter().all(is_complete) {
            return Err((self, Reply::Entries(entries, ttl)));
        }
        let ttl = convert::ttl(ttl);
        let mut sent = entries.len();
        for (index, entry) in entries.iter().enumerate() {
            let attr = match &entry.attr {
                Some(attr) => convert::attr(attr),
                None => convert::bare_attr(entry.ino, entry.kind),
            };
            let name = OsStr::from_bytes(&entry.name);
            let ino = INodeNo(entry.ino.0);
            if self.reply.add(ino, entry.next_offset, name, &ttl, &attr, GENERATION) {
                sent = index;
                self.core.learn_list_bytes(wire_bytes(&entries[..sent], DIRENTPLUS_BYTES));
                break;
            }
        }
        self.reply.ok();
        for entry in entries[sent..].iter().filter(|entry| !is_dot(entry)) {
            self.core.forget(self.caller, entry.ino, 1);
        }
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }
}

/// The kernel takes no node from `.` and `..`, whose attributes it does not look at either.
fn is_dot(entry: &DirEntry) -> bool {
    entry.name == b"." || entry.name == b".."
}

fn is_complete(entry: &DirEntry) -> bool {
    is_dot(entry) || entry.attr.is_some()
}

/// Sizes of `struct fuse_dirent` and `struct fuse_direntplus` before the name.
const DIRENT_BYTES: usize = 24;
const DIRENTPLUS_BYTES: usize = 152;

fn wire_bytes(entries: &[DirEntry], before_name: usize) -> usize {
    entries.iter().map(|entry| (before_name + entry.name.len()).next_multiple_of(8)).sum()
}
