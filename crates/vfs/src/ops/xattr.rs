//! getxattr, listxattr, setxattr, removexattr.
//!
//! `user.*` and `trusted.*` are kept. ACLs and what security modules keep there would have to be
//! honoured, not only kept, and are refused.

use std::sync::Arc;

use base::{Errno, Ino};
use namespace::{ErrorKind, XattrMode};

use crate::errno::{Error, Result};
use crate::vfs::Vfs;

const KEPT: &[&[u8]] = &[b"user.", b"trusted."];
const PRIVILEGED: &[u8] = b"trusted.";

/// Whether the caller sees what is for administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It does.
    Root,
    /// It does not.
    Ordinary,
}

impl Vfs {
    /// The value of the extended attribute `name`.
    pub async fn xattr(self: Arc<Self>, ino: Ino, name: Vec<u8>) -> Result<Vec<u8>> {
        check(&name)?;
        Ok(self.namespace.xattr(ino, &name).await?)
    }

    /// The names of all extended attributes that the caller may see, each with a NUL behind it.
    pub async fn xattrs(self: Arc<Self>, ino: Ino, privilege: Privilege) -> Result<Vec<u8>> {
        let names = self.namespace.xattrs(ino).await?;
        let seen = names
            .iter()
            .filter(|name| privilege == Privilege::Root || !name.starts_with(PRIVILEGED));
        Ok(seen.flat_map(|name| name.iter().chain(&[0])).copied().collect())
    }

    /// Sets an extended attribute.
    pub async fn set_xattr(
        self: Arc<Self>,
        ino: Ino,
        name: Vec<u8>,
        value: Vec<u8>,
        mode: XattrMode,
    ) -> Result<()> {
        check(&name)?;
        supported(self.namespace.set_xattr(ino, &name, &value, mode).await)?;
        self.note_attributes(ino)
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(self: Arc<Self>, ino: Ino, name: Vec<u8>) -> Result<()> {
        check(&name)?;
        supported(self.namespace.remove_xattr(ino, &name).await)?;
        self.note_attributes(ino)
    }
}

fn check(name: &[u8]) -> Result<()> {
    let kept = KEPT.iter().any(|kept| kept.len() < name.len() && name.starts_with(kept));
    if kept { Ok(()) } else { Err(Error::Call(Errno::EOPNOTSUPP)) }
}

/// A volume that keeps no attributes says so in the words for these calls.
fn supported(done: namespace::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind == ErrorKind::Unsupported => Err(Error::Call(Errno::EOPNOTSUPP)),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_what_need_not_be_honoured_is_kept() {
        for (name, kept) in [
            (&b"user.a"[..], true),
            (b"trusted.overlay.opaque", true),
            (b"user.", false),
            (b"security.capability", false),
            (b"system.posix_acl_access", false),
            (b"a", false),
        ] {
            assert_eq!(check(name).is_ok(), kept, "{name:?}");
        }
    }
}
