//! getxattr, listxattr, setxattr, removexattr.

use std::sync::Arc;

use base::{Errno, Ino};
use namespace::{ErrorKind, XattrMode};

use crate::errno::{Error, Result};
use crate::vfs::Vfs;
use crate::xattr_names::{is_kept, is_trusted};

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
        self.check(&name)?;
        Ok(self.namespace.xattr(ino, &name).await?)
    }

    /// The names of all extended attributes that the caller may see, each with a NUL behind it.
    pub async fn xattrs(self: Arc<Self>, ino: Ino, privilege: Privilege) -> Result<Vec<u8>> {
        let names = self.namespace.xattrs(ino).await?;
        let is_seen = |name: &&Vec<u8>| {
            let is_privileged = is_trusted(name) && privilege == Privilege::Ordinary;
            !is_privileged && is_kept(name, self.options.trusted_xattrs)
        };
        let seen = names.iter().filter(is_seen);
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
        self.check(&name)?;
        supported(self.namespace.set_xattr(ino, &name, &value, mode).await)?;
        self.note_attributes(ino)
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(self: Arc<Self>, ino: Ino, name: Vec<u8>) -> Result<()> {
        self.check(&name)?;
        supported(self.namespace.remove_xattr(ino, &name).await)?;
        self.note_attributes(ino)
    }

    fn check(&self, name: &[u8]) -> Result<()> {
        if is_kept(name, self.options.trusted_xattrs) {
            Ok(())
        } else {
            Err(Error::Call(Errno::EOPNOTSUPP))
        }
    }
}

/// A volume that keeps no attributes says so in the words for these calls.
fn supported(done: namespace::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind == ErrorKind::Unsupported => Err(Error::Call(Errno::EOPNOTSUPP)),
        done => Ok(done?),
    }
}
