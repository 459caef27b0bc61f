//! Memory that requests come into and replies leave from.

use std::io;
use std::ptr;

use base::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::wire::{Fields, Header, OUT_HEADER_BYTES, Opcode, RING_REQUEST_BYTES_MAX, out_header};

/// `struct fuse_uring_req_header`: the header of request or reply, the `struct fuse_*_in`, and
/// `struct fuse_uring_ent_in_out`.
const HEADERS_BYTES: usize = 288;
const FIXED_AT: usize = 128;
const ENTRY_AT: usize = 256;

/// The fields of `struct fuse_uring_ent_in_out` after its flags.
const COMMIT_AT: usize = ENTRY_AT + 8;
const PAYLOAD_BYTES_AT: usize = ENTRY_AT + 16;

/// The headers have a page.
const HEADERS_ROOM: usize = 4096;

/// Names and data; the kernel asks for as much as the largest request needs.
const PAYLOAD_ROOM: usize = RING_REQUEST_BYTES_MAX as usize;

const SEAT_BYTES: usize = HEADERS_ROOM + PAYLOAD_ROOM;

/// Places for requests. Each is the kernel's while it waits for a request, and ours until that is
/// answered; only ours are looked at.
#[derive(Debug)]
pub(super) struct Seats {
    start: *mut u8,
    /// How much of each payload may take memory.
    touched: Vec<usize>,
    warm_bytes: usize,
    warm_bytes_max: usize,
}

// SAFETY: the memory is reached through `Seats` alone, by the one thread that has it.
unsafe impl Send for Seats {}

/// A buffer as the kernel is told of it: `struct iovec`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Buffer {
    start: *mut u8,
    bytes: usize,
}

/// A request that has come.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) header: Header,
    pub(super) fixed: &'a [u8],
    pub(super) rest: &'a [u8],
    /// What the kernel calls it when it is answered.
    pub(super) commit: u64,
}

impl Seats {
    /// `warm_bytes_max` is what payloads may have of memory before those that come by give it back.
    pub(super) fn new(count: usize, warm_bytes_max: usize) -> io::Result<Seats> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which nobody else knows.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), count * SEAT_BYTES, access, flags) }?;
        let touched = vec![0; count];
        Ok(Seats { start: start.cast(), touched, warm_bytes: 0, warm_bytes_max })
    }

    pub(super) fn count(&self) -> usize {
        self.touched.len()
    }

    fn at(&self, seat: usize, offset: usize) -> *mut u8 {
        assert!(seat < self.count() && offset <= SEAT_BYTES);
        // SAFETY: inside the mapping, as was just checked.
        unsafe { self.start.add(seat * SEAT_BYTES + offset) }
    }

    /// The two buffers of a seat, for its registration.
    pub(super) fn buffers(&self, seat: usize) -> [Buffer; 2] {
        let headers = Buffer { start: self.at(seat, 0), bytes: HEADERS_BYTES };
        [headers, Buffer { start: self.at(seat, HEADERS_ROOM), bytes: PAYLOAD_ROOM }]
    }

    /// The request in a seat of ours; none if it makes no sense.
    pub(super) fn request(&mut self, seat: usize) -> Option<Arrived<'_>> {
        // SAFETY: the seat is ours, so that the kernel leaves it alone, and lies in the mapping.
        let headers = unsafe { std::slice::from_raw_parts(self.at(seat, 0), HEADERS_BYTES) };
        let header = Header::read(headers)?;
        let commit = Fields(&headers[COMMIT_AT..]).u64()?;
        let bytes = usize::try_from(Fields(&headers[PAYLOAD_BYTES_AT..]).u32()?).ok()?;
        if bytes > PAYLOAD_ROOM {
            return None;
        }
        self.touch(seat, bytes);
        // SAFETY: as above, and not longer than the payload.
        let rest = unsafe { std::slice::from_raw_parts(self.at(seat, HEADERS_ROOM), bytes) };
        let fixed = Opcode::of(header.opcode).map_or(0, Opcode::fixed_bytes);
        Some(Arrived { header, fixed: &headers[FIXED_AT..FIXED_AT + fixed], rest, commit })
    }

    /// Puts a reply into a seat of ours.
    pub(super) fn reply(&mut self, seat: usize, unique: u64, outcome: &Result<Vec<u8>, Errno>) {
        let (errno, body) = match outcome {
            Ok(body) if body.len() <= PAYLOAD_ROOM => (0, &body[..]),
            Ok(_) => (Errno::EIO.code(), &[][..]),
            Err(errno) => (errno.code(), &[][..]),
        };
        self.cool_if_too_warm(seat);
        self.touch(seat, body.len());
        // SAFETY: the seat is ours, so that the kernel leaves it alone, and lies in the mapping.
        let headers = unsafe { std::slice::from_raw_parts_mut(self.at(seat, 0), HEADERS_BYTES) };
        headers[..OUT_HEADER_BYTES].copy_from_slice(&out_header(unique, -errno, body.len()));
        let bytes = u32::try_from(body.len()).unwrap_or(0);
        headers[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&bytes.to_ne_bytes());
        // SAFETY: as above, and not longer than the payload, which was checked.
        let payload =
            unsafe { std::slice::from_raw_parts_mut(self.at(seat, HEADERS_ROOM), body.len()) };
        payload.copy_from_slice(body);
    }

    fn touch(&mut self, seat: usize, bytes: usize) {
        let more = bytes.saturating_sub(self.touched[seat]);
        self.touched[seat] += more;
        self.warm_bytes += more;
    }

    /// Gives back the memory of the payload of a seat of ours, which nobody needs any more, if
    /// together they have too much of it.
    pub(super) fn cool_if_too_warm(&mut self, seat: usize) {
        if self.warm_bytes <= self.warm_bytes_max || self.touched[seat] == 0 {
            return;
        }
        let payload = self.at(seat, HEADERS_ROOM).cast();
        // SAFETY: pages of the mapping that nobody needs any more read as zeros afterwards.
        let done = unsafe { madvise(payload, PAYLOAD_ROOM, Advice::LinuxDontNeed) };
        if let Err(error) = done {
            tracing::debug!(%error, "memory is kept");
            return;
        }
        self.warm_bytes -= self.touched[seat];
        self.touched[seat] = 0;
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the ring through which the kernel knew of it is gone.
        let done = unsafe { munmap(self.start.cast(), self.count() * SEAT_BYTES) };
        if let Err(error) = done {
            tracing::debug!(%error, "memory is not given back");
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Errno;

    use super::{FIXED_AT, HEADERS_ROOM, PAYLOAD_BYTES_AT, PAYLOAD_ROOM, SEAT_BYTES, Seats};

    /// What the kernel would write.
    fn put(seats: &mut Seats, seat: usize, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= SEAT_BYTES);
        let to = seats.at(seat, at);
        // SAFETY: inside the seat, as was just checked, and nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    #[test]
    fn a_request_is_read_from_where_the_kernel_puts_it() {
        let mut seats = Seats::new(3, 0).unwrap();
        put(&mut seats, 2, 4, &5u32.to_ne_bytes());
        put(&mut seats, 2, 8, &77u64.to_ne_bytes());
        put(&mut seats, 2, 264, &9u64.to_ne_bytes());
        put(&mut seats, 2, PAYLOAD_BYTES_AT, &3u32.to_ne_bytes());
        put(&mut seats, 2, FIXED_AT, &[8; 8]);
        put(&mut seats, 2, HEADERS_ROOM, b"abcd");
        let arrived = seats.request(2).unwrap();
        assert_eq!((arrived.header.opcode, arrived.header.unique, arrived.commit), (5, 77, 9));
        assert_eq!((arrived.fixed, arrived.rest), (&[][..], &b"abc"[..]));
        put(&mut seats, 2, 4, &9u32.to_ne_bytes());
        assert_eq!(seats.request(2).unwrap().fixed, [8; 8], "a mkdir");
        put(&mut seats, 2, PAYLOAD_BYTES_AT, &u32::MAX.to_ne_bytes());
        assert!(seats.request(2).is_none(), "longer than its room");
    }

    #[test]
    fn a_reply_lies_where_the_kernel_looks_for_it() {
        let mut seats = Seats::new(2, 0).unwrap();
        seats.reply(1, 7, &Ok(b"data".to_vec()));
        let arrived = seats.request(1).unwrap();
        assert_eq!((arrived.header.opcode, arrived.header.unique), (0, 7), "where the error is");
        assert_eq!(arrived.rest, b"data");
        seats.reply(1, 7, &Err(Errno::ENOENT));
        let arrived = seats.request(1).unwrap();
        assert_eq!((arrived.header.opcode.cast_signed(), arrived.rest), (-2, &[][..]));
        seats.reply(1, 7, &Ok(vec![0; PAYLOAD_ROOM + 1]));
        assert_eq!(seats.request(1).unwrap().header.opcode.cast_signed(), -5);
    }

    #[test]
    fn memory_beyond_the_limit_is_given_back() {
        let mut seats = Seats::new(3, 300_000).unwrap();
        for seat in 0..2 {
            seats.reply(seat, 1, &Ok(vec![1; 200_000]));
        }
        assert_eq!(seats.warm_bytes, 400_000);
        seats.cool_if_too_warm(2);
        seats.cool_if_too_warm(1);
        seats.cool_if_too_warm(0);
        assert_eq!(seats.touched, [200_000, 0, 0]);
        seats.reply(0, 1, &Ok(vec![1; 10]));
        assert_eq!(seats.warm_bytes, 200_000, "touched before");
    }
}
