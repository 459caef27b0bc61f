//! What a new node has from its folder.

use base::FileKind;

use super::looks::Looks;
use crate::{NewNode, Owner};

const SET_GROUP: u16 = 0o2000;

/// `new` as it is to be in a folder that looks like `folder`: one with the set-gid bit gives what is
/// made in it its own group, and folders the bit as well.
pub(super) fn inherited(new: NewNode, kind: FileKind, folder: &Looks) -> NewNode {
    if folder.mode & SET_GROUP == 0 {
        return new;
    }
    let bit = if kind == FileKind::Directory { SET_GROUP } else { 0 };
    NewNode { mode: new.mode | bit, owner: Owner { gid: folder.owner.gid, ..new.owner } }
}

#[cfg(test)]
mod tests {
    use base::{FileKind, Timestamp};

    use super::inherited;
    use crate::bucket::looks::{Looks, Source};
    use crate::{NewNode, Owner};

    #[test]
    fn a_set_gid_folder_gives_its_group_to_all_and_its_bit_to_folders() {
        let owner = Owner { uid: 1, gid: 2 };
        let group = Owner { uid: 1, gid: 7 };
        let folder = |mode| {
            let owner = Owner { uid: 5, gid: 7 };
            Looks::new(mode, owner, Timestamp::default(), Source::Assumed)
        };
        for (kind, of_folder, want) in [
            (FileKind::File, 0o755, (0o644, owner)),
            (FileKind::Directory, 0o1777, (0o644, owner)),
            (FileKind::File, 0o2755, (0o644, group)),
            (FileKind::Symlink, 0o2755, (0o644, group)),
            (FileKind::Directory, 0o2755, (0o2644, group)),
        ] {
            let new = inherited(NewNode { mode: 0o644, owner }, kind, &folder(of_folder));
            assert_eq!((new.mode, new.owner), want, "{kind:?} in {of_folder:o}");
        }
    }
}
