//! Asynchronous writes by `io_submit`, as databases do them: the kernel answers the call before the write is done.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `IOCB_CMD_PWRITE`.
const PWRITE: u16 = 1;

/// `struct iocb`.
#[repr(C)]
#[derive(Debug, Default)]
struct Command {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Debug, Default)]
struct Event {
    data: u64,
    command: u64,
    result: i64,
    result2: i64,
}

/// A queue of the kernel for one command at a time.
#[derive(Debug)]
pub struct AsyncWrites {
    // Invariant: a context of the kernel until drop.
    context: libc::c_ulong,
}

impl AsyncWrites {
    /// A queue with nothing in it.
    pub fn new() -> io::Result<AsyncWrites> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the number of the context, for which there is room.
        let done = unsafe { libc::syscall(libc::SYS_io_setup, 1_i64, &raw mut context) };
        result(done)?;
        Ok(AsyncWrites { context })
    }

    /// Writes `bytes` at `offset` and waits until that is done. Returns the number of bytes written.
    pub fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut command = Command {
            opcode: PWRITE,
            fd: u32::try_from(file.as_raw_fd()).expect("open files have no negative number"),
            buffer: bytes.as_ptr().expose_provenance() as u64,
            bytes: bytes.len() as u64,
            offset: i64::try_from(offset).map_err(io::Error::other)?,
            ..Command::default()
        };
        let mut commands = [&raw mut command];
        let list = commands.as_mut_ptr();
        // SAFETY: the command and the bytes that it names live until its event is here, below.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1_i64, list) };
        result(done)?;
        let mut event = Event::default();
        let room = &raw mut event;
        loop {
            // SAFETY: there is room for the one event that it waits for.
            let got = unsafe {
                libc::syscall(libc::SYS_io_getevents, self.context, 1_i64, 1_i64, room, 0_usize)
            };
            match result(got) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("a write is under way and does not end: {error}"),
                Ok(()) => break,
            }
        }
        match usize::try_from(event.result) {
            Ok(written) => Ok(written),
            Err(_) => Err(io::Error::from_raw_os_error(
                i32::try_from(-event.result).expect("errors are small numbers"),
            )),
        }
    }
}

impl Drop for AsyncWrites {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and nothing is under way in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn result(done: libc::c_long) -> io::Result<()> {
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
