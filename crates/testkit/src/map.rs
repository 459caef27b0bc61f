//! A file mapped into memory, shared: what is written to the memory is written to the file.

use std::fs::File;
use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A mapping of a whole file.
#[derive(Debug)]
pub struct SharedMap {
    // Invariant: `len` bytes are mapped here, readable, until drop. The tests that use it do not
    // truncate the file meanwhile.
    start: *mut u8,
    len: usize,
    protection: ProtFlags,
}

impl SharedMap {
    /// Maps the first `len` bytes of `file` for reading.
    pub fn readable(file: &File, len: usize) -> SharedMap {
        SharedMap::new(file, len, ProtFlags::READ)
    }

    /// Maps the first `len` bytes of `file`, open for both, for reading and writing.
    pub fn writable(file: &File, len: usize) -> SharedMap {
        SharedMap::new(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn new(file: &File, len: usize, protection: ProtFlags) -> SharedMap {
        // SAFETY: the kernel chooses the place, so no memory in use is replaced.
        let start =
            unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file.as_fd(), 0) };
        let start = start.expect("the file can be mapped").cast();
        SharedMap { start, len, protection }
    }

    /// Copies the mapped bytes out.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: by the invariant `len` bytes are there. Others may write them meanwhile, as with
        // any shared file; they are copied at once, and no reference to them is kept.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }.to_vec()
    }

    /// Copies what is mapped at `offset` into `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.len, "outside of what is mapped");
        // SAFETY: in bounds, see above.
        let source = unsafe { self.start.add(offset) };
        // SAFETY: in bounds, see above; `bytes` lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(self.protection.contains(ProtFlags::WRITE), "mapped for reading");
        assert!(offset + bytes.len() <= self.len, "outside of what is mapped");
        // SAFETY: in bounds, see above.
        let target = unsafe { self.start.add(offset) };
        // SAFETY: in bounds and writable, see above; `bytes` lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Writes what was changed back to the file, as `msync` with `MS_SYNC` does.
    pub fn sync(&self) -> std::io::Result<()> {
        // SAFETY: by the invariant the whole range is mapped.
        unsafe { msync(self.start.cast(), self.len, MsyncFlags::SYNC) }?;
        Ok(())
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: by the invariant the whole range is mapped, and nothing of it is in use any more.
        let unmapped = unsafe { munmap(self.start.cast(), self.len) };
        unmapped.expect("mapped by us");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::SharedMap;

    #[test]
    fn what_is_written_to_the_memory_is_in_the_file() {
        let folder = crate::Scratch::new();
        let path = folder.path().join("mapped");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        let map = SharedMap::writable(&file, 10);
        assert_eq!(map.bytes(), b"0123456789");
        let mut some = [0; 3];
        map.read(4, &mut some);
        assert_eq!(&some, b"456");
        map.write(3, b"abc");
        map.sync().unwrap();
        drop(map);
        assert_eq!(std::fs::read(&path).unwrap(), b"012abc6789");
    }
}
