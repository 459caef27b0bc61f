//! What is timed, and the one table that names it all.

/// Whose time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A call of the kernel, from its arrival until it is answered.
    Kernel,
    /// A request to the object store, from sending it until the last byte of the answer.
    Store,
}

macro_rules! timings {
    ($($variant:ident = $party:ident $name:literal, $text:literal;)*) => {
        /// Something whose time is taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Timing {
            $(#[doc = $text] $variant,)*
        }

        impl Timing {
            /// All of them, in the order of the table.
            pub const ALL: &[Timing] = &[$(Timing::$variant,)*];

            /// The name under which it is shown, among those of its party.
            pub fn name(self) -> &'static str {
                match self {
                    $(Timing::$variant => $name,)*
                }
            }

            /// Whose time it is.
            pub fn party(self) -> Party {
                match self {
                    $(Timing::$variant => Party::$party,)*
                }
            }
        }
    };
}

timings! {
    Lookup = Kernel "lookup", "Finding a name.";
    Forget = Kernel "forget", "Giving back references.";
    GetAttr = Kernel "getattr", "Attributes asked for.";
    SetAttr = Kernel "setattr", "Attributes or the length changed.";
    ReadLink = Kernel "readlink", "Where a link points.";
    MkNod = Kernel "mknod", "Making a file or a special file.";
    MkDir = Kernel "mkdir", "Making a folder.";
    Unlink = Kernel "unlink", "Removing a file.";
    RmDir = Kernel "rmdir", "Removing a folder.";
    SymLink = Kernel "symlink", "Making a link.";
    Rename = Kernel "rename", "Renaming.";
    Link = Kernel "link", "A second name, which is refused.";
    Open = Kernel "open", "Opening a file.";
    Create = Kernel "create", "Making and opening a file.";
    Read = Kernel "read", "Reading; what passthrough reads is not seen.";
    Write = Kernel "write", "Writing.";
    Flush = Kernel "flush", "A close, as the program sees it.";
    Release = Kernel "release", "The last descriptor of an open is gone.";
    Fsync = Kernel "fsync", "Making a file durable.";
    OpenDir = Kernel "opendir", "Opening a folder.";
    ReadDir = Kernel "readdir", "A page of a listing.";
    ReleaseDir = Kernel "releasedir", "Closing a folder.";
    FsyncDir = Kernel "fsyncdir", "Making a folder durable.";
    StatFs = Kernel "statfs", "Space asked for.";
    SetXattr = Kernel "setxattr", "Setting an extended attribute.";
    GetXattr = Kernel "getxattr", "Reading an extended attribute.";
    ListXattr = Kernel "listxattr", "Names of extended attributes.";
    RemoveXattr = Kernel "removexattr", "Removing an extended attribute.";
    Fallocate = Kernel "fallocate", "Reserving or punching.";
    Lseek = Kernel "lseek", "Looking for data or holes.";
    CopyRange = Kernel "copy_file_range", "Copying inside the mount.";
    StoreHead = Store "head", "What an object is.";
    StoreGet = Store "get", "Bytes of files.";
    StoreSmallGet = Store "small-get", "Small objects that say something of others.";
    StoreList = Store "list", "A page of a listing.";
    StorePut = Store "put", "A whole object.";
    StoreCreate = Store "create", "Beginning an upload in parts.";
    StorePart = Store "part", "A part of an upload.";
    StorePartCopy = Store "part-copy", "A part that the store copies.";
    StoreComplete = Store "complete", "Completing an upload in parts.";
    StoreAbort = Store "abort", "Giving up an upload in parts.";
    StoreCopy = Store "copy", "A copy inside the store.";
    StoreDelete = Store "delete", "Removing an object.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Party, Timing};

    #[test]
    fn no_two_of_a_party_have_one_name() {
        for party in [Party::Kernel, Party::Store] {
            let of_party = Timing::ALL.iter().filter(|timing| timing.party() == party);
            let names: Vec<&str> = of_party.map(|timing| timing.name()).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        }
    }
}
