//! Extended attributes. Which names may be used is the caller's business; how much fits is ours.

use std::sync::Arc;

use base::Ino;

use super::attributes::delay::What;
use super::attributes::item::{Xattrs, text_bytes};
use super::looks::Source;
use super::options::Attributes;
use super::shared::Shared;
use crate::{Error, ErrorKind, Result, XattrMode};

/// What the names and values of one node may take together.
const XATTRS_BYTES_MAX: usize = 128 << 10;

/// What those of all names in one object may take together: half of what is read of one.
const OBJECT_XATTRS_BYTES_MAX: usize = 8 << 20;

/// The largest value, and the longest list of names, as the kernel has it.
const VALUE_BYTES_MAX: usize = 64 << 10;

impl Shared {
    /// The value of one attribute.
    pub(super) async fn xattr(self: &Arc<Self>, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let xattrs = self.xattrs_of("getxattr", ino).await?;
        let value = xattrs.get(name).cloned();
        value.ok_or_else(|| Error::node(ErrorKind::NoAttribute, "getxattr", ino))
    }

    /// All attributes.
    pub(super) async fn xattrs_of(
        self: &Arc<Self>,
        op: &'static str,
        ino: Ino,
    ) -> Result<Arc<Xattrs>> {
        self.revalidate(op, ino).await?;
        let mut state = self.state();
        Ok(state.tree.named_by_kernel(op, ino)?.xattrs.clone().unwrap_or_default())
    }

    /// Sets one attribute.
    pub(super) async fn set_xattr(
        self: &Arc<Self>,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let fail = |kind| Err(Error::node(kind, "setxattr", ino));
        self.change_xattrs("setxattr", ino, |xattrs| {
            match (mode, xattrs.contains_key(name)) {
                (XattrMode::Create, true) => return fail(ErrorKind::Exists),
                (XattrMode::Replace, false) => return fail(ErrorKind::NoAttribute),
                (XattrMode::Set | XattrMode::Create | XattrMode::Replace, _) => {}
            }
            xattrs.insert(name.to_vec(), value.to_vec());
            let bytes: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
            let names: usize = xattrs.keys().map(|name| name.len() + 1).sum();
            if XATTRS_BYTES_MAX < bytes || VALUE_BYTES_MAX < names.max(value.len()) {
                return fail(ErrorKind::AttributesTooLarge);
            }
            Ok(())
        })
        .await
    }

    /// Removes one attribute.
    pub(super) async fn remove_xattr(self: &Arc<Self>, ino: Ino, name: &[u8]) -> Result<()> {
        self.change_xattrs("removexattr", ino, |xattrs| match xattrs.remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::node(ErrorKind::NoAttribute, "removexattr", ino)),
        })
        .await
    }

    async fn change_xattrs(
        self: &Arc<Self>,
        op: &'static str,
        ino: Ino,
        change: impl FnOnce(&mut Xattrs) -> Result<()> + Send,
    ) -> Result<()> {
        // They are nowhere but in attribute objects.
        if self.options.attributes == Attributes::Off {
            return Err(Error::node(ErrorKind::Unsupported, op, ino));
        }
        self.revalidate(op, ino).await?;
        self.know_target(ino).await?;
        self.check_sayable(op, ino).await?;
        {
            let now = self.clock.wall();
            let mut state = self.state();
            let beside = state.tree.xattrs_beside(ino);
            let node = state.tree.named_by_kernel(op, ino)?;
            let mut xattrs = node.xattrs.as_deref().cloned().unwrap_or_default();
            let before = text_bytes(&xattrs);
            change(&mut xattrs)?;
            let after = text_bytes(&xattrs);
            if before < after && OBJECT_XATTRS_BYTES_MAX < beside + after {
                return Err(Error::node(ErrorKind::AttributesTooLarge, op, ino));
            }
            node.xattrs = (!xattrs.is_empty()).then(|| Arc::new(xattrs));
            node.looks.ctime = now;
            node.looks.source = Source::Here;
        }
        self.note(ino, What::Attributes)?;
        self.renew_making(op, ino)
    }
}
