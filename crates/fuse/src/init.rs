//! The handshake: what we want, what the kernel offers, what holds.
//!
//! Only what the rest of this crate honours is asked for. Left out on purpose:
//!
//! * `WRITEBACK_CACHE`: excludes passthrough for the whole mount.
//! * `AUTO_INVAL_DATA`, `EXPLICIT_INVAL_DATA`: without either the kernel drops pages when it
//!   learns of a new size, which is right, and otherwise when it is told to.
//! * `ATOMIC_O_TRUNC`: truncation arrives as a setattr, in one way only.
//! * `POSIX_LOCKS`, `FLOCK_LOCKS`: the kernel keeps locks itself, which is exact on one host.
//! * `SETXATTR_EXT`: `fuser` 0.18 panics at the longer request.

use fuser::{InitFlags, KernelConfig};

use crate::passthrough::PassthroughWish;

/// Who takes the set-uid and set-gid bits off a file that someone else than root changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetIdBits {
    /// The kernel, by a setattr. It then asks for `security.capability` before each write, which
    /// doubles the cost of a small one.
    KernelClears,
    /// The service; asks for `HANDLE_KILLPRIV_V2`. A write or a truncation by a caller other than
    /// root must then clear both bits before it is answered (the set-gid bit where the group may
    /// execute) and call [`crate::Notifier::inval_attr`], and so must every change of the owner.
    ServiceClears,
}

/// What the mount would have if the kernel had it too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) passthrough: PassthroughWish,
    pub(crate) set_id_bits: SetIdBits,
}

/// The largest read and write: what the kernel's own limit of 256 pages holds.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Reads ahead and other background requests that may be under way at once. The remote end is far
/// away, so many are needed to keep it busy.
const BACKGROUND_MAX: u16 = 128;

/// Agrees with the kernel on how the two of us talk.
pub(crate) fn agree(config: &mut KernelConfig, wishes: Wishes) {
    let wanted = wanted(config.capabilities(), wishes);
    tracing::debug!(?wanted, "the handshake");
    config.add_capabilities(wanted).expect("only what is offered is wanted");
    // The setters refuse what is out of range, and then what was there before holds; the
    // readahead is at the most that the kernel offered from the start.
    let _ = config.set_max_write(REQUEST_BYTES_MAX);
    let _ = config.set_max_background(BACKGROUND_MAX);
    let _ = config.set_congestion_threshold(BACKGROUND_MAX / 4 * 3);
    if wanted.contains(InitFlags::FUSE_PASSTHROUGH) {
        let _ = config.set_max_stack_depth(1);
    }
}

/// What to ask of a kernel that offers `offered`.
fn wanted(offered: InitFlags, wishes: Wishes) -> InitFlags {
    let mut wanted = InitFlags::FUSE_ASYNC_READ
        | InitFlags::FUSE_BIG_WRITES
        | InitFlags::FUSE_MAX_PAGES
        | InitFlags::FUSE_PARALLEL_DIROPS
        | InitFlags::FUSE_DO_READDIRPLUS
        | InitFlags::FUSE_READDIRPLUS_AUTO
        | InitFlags::FUSE_ASYNC_DIO
        | InitFlags::FUSE_CACHE_SYMLINKS;
    if wishes.passthrough == PassthroughWish::Wanted {
        wanted |= InitFlags::FUSE_PASSTHROUGH;
    }
    if wishes.set_id_bits == SetIdBits::ServiceClears {
        wanted |= InitFlags::FUSE_HANDLE_KILLPRIV_V2;
    }
    wanted & offered
}

#[cfg(test)]
mod tests {
    use fuser::InitFlags;

    use super::{SetIdBits, Wishes, wanted};
    use crate::passthrough::PassthroughWish;

    const ALL: Wishes =
        Wishes { passthrough: PassthroughWish::Wanted, set_id_bits: SetIdBits::ServiceClears };
    const NONE: Wishes =
        Wishes { passthrough: PassthroughWish::Off, set_id_bits: SetIdBits::KernelClears };

    #[test]
    fn what_excludes_passthrough_or_breaks_the_library_is_never_asked_for() {
        assert!(!wanted(InitFlags::all(), ALL).intersects(
            InitFlags::FUSE_WRITEBACK_CACHE
                | InitFlags::FUSE_SETXATTR_EXT
                | InitFlags::FUSE_ATOMIC_O_TRUNC
                | InitFlags::FUSE_POSIX_LOCKS
                | InitFlags::FUSE_FLOCK_LOCKS
        ));
    }

    #[test]
    fn nothing_is_asked_of_a_kernel_that_does_not_offer_it() {
        let offered = InitFlags::FUSE_ASYNC_READ;
        assert_eq!(wanted(offered, ALL), offered);
    }

    #[test]
    fn only_what_was_wished_for_is_asked_for() {
        let wished = InitFlags::FUSE_PASSTHROUGH | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        assert!(wanted(InitFlags::all(), ALL).contains(wished));
        assert!(!wanted(InitFlags::all(), NONE).intersects(wished));
    }
}
