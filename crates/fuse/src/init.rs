//! The handshake: what we want, what the kernel offers, what holds.
//!
//! Only what the rest of this crate honours is asked for. Left out on purpose:
//!
//! * `WRITEBACK_CACHE`: excludes passthrough for the whole mount.
//! * `AUTO_INVAL_DATA`, `EXPLICIT_INVAL_DATA`: without either the kernel drops pages when it
//!   learns of a new size, which is right, and otherwise when it is told to.
//! * `ATOMIC_O_TRUNC`: truncation arrives as a setattr, in one way only.
//! * `POSIX_LOCKS`, `FLOCK_LOCKS`: the kernel keeps locks itself, which is exact on one host.
//! * `SETXATTR_EXT`: tells of a bit that is cleared without being told of.

use std::io;

use crate::channel::{BUFFER_BYTES, Channel, split};
use crate::passthrough::PassthroughWish;
use crate::wire::{Fields, MINOR, Opcode, REQUEST_BYTES_MAX, RING_REQUEST_BYTES_MAX};

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
    /// Whether requests are to come through rings, for which all is ready.
    pub(crate) rings: bool,
}

/// Reads ahead and other background requests that may be under way at once. The remote end is far
/// away, so many are needed to keep it busy.
const BACKGROUND_MAX: u16 = 128;

/// The only major version that there is.
const MAJOR: u32 = 7;

/// That of Linux 4.20, the first with requests of more than 32 pages: `struct fuse_init_out` and
/// all else has had the size that it has here for long.
const MINOR_MIN: u32 = 28;

/// Capabilities that both sides must have: `FUSE_*` of the same names.
mod offer {
    pub(super) const ASYNC_READ: u64 = 1 << 0;
    pub(super) const BIG_WRITES: u64 = 1 << 5;
    pub(super) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(super) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(super) const ASYNC_DIO: u64 = 1 << 15;
    pub(super) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(super) const MAX_PAGES: u64 = 1 << 22;
    pub(super) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(super) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// There are more than 32 of them.
    pub(super) const INIT_EXT: u64 = 1 << 30;
    pub(super) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(super) const PASSTHROUGH: u64 = 1 << 37;
    pub(super) const OVER_IO_URING: u64 = 1 << 41;
}

/// What the kernel says first.
#[derive(Clone, Copy, Debug)]
struct Hello {
    major: u32,
    minor: u32,
    read_ahead_bytes: u32,
    offered: u64,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed(u64);

impl Agreed {
    /// Whether requests come through rings as soon as they are registered.
    pub(crate) fn rings(self) -> bool {
        self.0 & offer::OVER_IO_URING != 0
    }
}

/// Agrees with the kernel on how the two of us talk.
pub(crate) fn shake_hands(channel: &Channel, wishes: Wishes) -> io::Result<Agreed> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let Some(message) = channel.read(&mut buffer)? else {
            return Err(io::Error::other("unmounted before the handshake"));
        };
        let (unique, hello) = hello(message)
            .ok_or_else(|| io::Error::other("the kernel began with something else"))?;
        if hello.major > MAJOR {
            // It asks again, in the words of the version that it is told.
            let body = [MAJOR.to_ne_bytes(), MINOR.to_ne_bytes()].concat();
            channel.reply(unique, 0, &body)?;
            continue;
        }
        if hello.major < MAJOR || hello.minor < MINOR_MIN {
            let words = format!("the kernel speaks FUSE {}.{}", hello.major, hello.minor);
            return Err(io::Error::other(format!("{words}, and Linux 4.20 or newer is needed")));
        }
        let wanted = wanted(hello.offered, wishes);
        tracing::debug!(wanted = format_args!("{wanted:#x}"), ?hello, "the handshake");
        let body = answer(hello, wanted);
        channel.reply(unique, 0, &body)?;
        return Ok(Agreed(wanted));
    }
}

/// The number of the request, and `struct fuse_init_in`.
fn hello(message: &[u8]) -> Option<(u64, Hello)> {
    let (header, body) = split(message)?;
    if Opcode::of(header.opcode) != Some(Opcode::Init) {
        return None;
    }
    let mut fields = Fields(body);
    let (major, minor) = (fields.u32()?, fields.u32()?);
    let (read_ahead_bytes, low) = (fields.u32()?, fields.u32()?);
    let mut offered = u64::from(low);
    if offered & offer::INIT_EXT != 0 {
        offered |= u64::from(fields.u32()?) << 32;
    }
    Some((header.unique, Hello { major, minor, read_ahead_bytes, offered }))
}

/// What to ask of a kernel that offers `offered`.
fn wanted(offered: u64, wishes: Wishes) -> u64 {
    let mut wanted = offer::ASYNC_READ
        | offer::BIG_WRITES
        | offer::MAX_PAGES
        | offer::PARALLEL_DIROPS
        | offer::DO_READDIRPLUS
        | offer::READDIRPLUS_AUTO
        | offer::ASYNC_DIO
        | offer::CACHE_SYMLINKS
        | offer::DIRECT_IO_ALLOW_MMAP
        | offer::INIT_EXT;
    if wishes.passthrough == PassthroughWish::Wanted {
        wanted |= offer::PASSTHROUGH;
    }
    if wishes.set_id_bits == SetIdBits::ServiceClears {
        wanted |= offer::HANDLE_KILLPRIV_V2;
    }
    if wishes.rings {
        wanted |= offer::OVER_IO_URING;
    }
    wanted & offered
}

/// `struct fuse_init_out`.
fn answer(hello: Hello, wanted: u64) -> Vec<u8> {
    let halves = wanted.to_le_bytes();
    let (low, high) = halves.split_at(4);
    let half = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut body = Vec::with_capacity(64);
    for field in [MAJOR, MINOR.min(hello.minor), hello.read_ahead_bytes, half(low)] {
        body.extend(field.to_ne_bytes());
    }
    body.extend(BACKGROUND_MAX.to_ne_bytes());
    body.extend((BACKGROUND_MAX / 4 * 3).to_ne_bytes());
    let rings = wanted & offer::OVER_IO_URING != 0;
    let request_bytes_max = if rings { RING_REQUEST_BYTES_MAX } else { REQUEST_BYTES_MAX };
    body.extend(request_bytes_max.to_ne_bytes());
    // Times are exact to this many nanoseconds.
    body.extend(1u32.to_ne_bytes());
    let pages_max = request_bytes_max as usize / rustix::param::page_size();
    let pages_max = u16::try_from(pages_max).unwrap_or(u16::MAX);
    body.extend(pages_max.to_ne_bytes());
    body.extend(0u16.to_ne_bytes());
    body.extend(half(high).to_ne_bytes());
    // Of file systems that lie on each other, which passthrough needs.
    let stack_depth = u32::from(wanted & offer::PASSTHROUGH != 0);
    body.extend(stack_depth.to_ne_bytes());
    body.resize(64, 0);
    body
}

#[cfg(test)]
mod tests {
    use super::{Hello, SetIdBits, Wishes, answer, offer, wanted};
    use crate::passthrough::PassthroughWish;

    const ALL: Wishes = Wishes {
        passthrough: PassthroughWish::Wanted,
        set_id_bits: SetIdBits::ServiceClears,
        rings: true,
    };
    const NONE: Wishes = Wishes {
        passthrough: PassthroughWish::Off,
        set_id_bits: SetIdBits::KernelClears,
        rings: false,
    };

    #[test]
    fn what_excludes_passthrough_or_is_not_honoured_is_never_asked_for() {
        // POSIX_LOCKS, ATOMIC_O_TRUNC, FLOCK_LOCKS, WRITEBACK_CACHE, SETXATTR_EXT.
        for bit in [1, 3, 10, 16, 29] {
            assert_eq!(wanted(u64::MAX, ALL) & 1 << bit, 0, "bit {bit}");
        }
    }

    #[test]
    fn nothing_is_asked_of_a_kernel_that_does_not_offer_it() {
        assert_eq!(wanted(offer::ASYNC_READ, ALL), offer::ASYNC_READ);
    }

    #[test]
    fn only_what_was_wished_for_is_asked_for() {
        let wished = offer::PASSTHROUGH | offer::HANDLE_KILLPRIV_V2 | offer::OVER_IO_URING;
        assert_eq!(wanted(u64::MAX, ALL) & wished, wished);
        assert_eq!(wanted(u64::MAX, NONE) & wished, 0);
    }

    #[test]
    fn the_answer_has_its_fields_where_the_kernel_looks_for_them() {
        let hello = Hello { major: 7, minor: 45, read_ahead_bytes: 0x0002_0000, offered: u64::MAX };
        let body = answer(hello, offer::PASSTHROUGH | offer::MAX_PAGES);
        assert_eq!(body.len(), 64);
        let field = |at: usize| u32::from_ne_bytes(body[at..at + 4].try_into().unwrap());
        assert_eq!([field(0), field(4), field(8)], [7, 42, 0x0002_0000]);
        assert_eq!([field(12), field(32), field(36)], [1 << 22, 1 << 5, 1]);
        assert_eq!([field(20), field(24), field(28) & 0xffff], [1 << 20, 1, 256]);
        let body = answer(hello, offer::OVER_IO_URING);
        assert_eq!(body[20..24], (1u32 << 18).to_ne_bytes());
        assert_eq!(body[28..30], 64u16.to_ne_bytes());
    }
}
