//! Names of extended attributes that the file system keeps.
//!
//! `user.*` attributes are kept. `trusted.*` attributes are kept if [`TrustedXattrs`] allows them: programs of root
//! obey them, and any client that can write to the bucket can set them. ACLs and the attributes of security modules
//! would have to be honoured, not only kept, and are refused.

const USER: &[u8] = b"user.";
const TRUSTED: &[u8] = b"trusted.";

/// Whether `trusted.*` attributes are part of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrustedXattrs {
    /// Calls for them fail with `EOPNOTSUPP`, and attributes in the bucket are not listed. An overlay mount takes
    /// the path of a directory from `trusted.overlay.redirect`, for example.
    #[default]
    Refused,
    /// They are kept, and privileged callers see them.
    Kept,
}

/// Whether attributes of this name are part of the file system.
pub(crate) fn is_kept(name: &[u8], trusted: TrustedXattrs) -> bool {
    let is_of = |space: &[u8]| space.len() < name.len() && name.starts_with(space);
    is_of(USER) || (is_of(TRUSTED) && trusted == TrustedXattrs::Kept)
}

/// Whether attributes of this name are for privileged callers only.
pub(crate) fn is_trusted(name: &[u8]) -> bool {
    name.starts_with(TRUSTED)
}

#[cfg(test)]
mod tests {
    use super::{TrustedXattrs, is_kept};

    #[test]
    fn trusted_attributes_are_kept_only_on_request() {
        for (name, by_default, on_request) in [
            (&b"user.a"[..], true, true),
            (b"trusted.overlay.opaque", false, true),
            (b"user.", false, false),
            (b"trusted.", false, false),
            (b"security.capability", false, false),
            (b"system.posix_acl_access", false, false),
            (b"a", false, false),
        ] {
            assert_eq!(is_kept(name, TrustedXattrs::default()), by_default, "{name:?}");
            assert_eq!(is_kept(name, TrustedXattrs::Kept), on_request, "{name:?}");
        }
    }
}
