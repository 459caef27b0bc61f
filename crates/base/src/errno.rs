//! `Errno`: the numbers the kernel understands, and nothing else.

use std::fmt;

/// A Linux error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($value);)*

            /// The number.
            pub fn code(self) -> i32 {
                self.0
            }

            fn name(self) -> &'static str {
                match self.0 {
                    $($value => stringify!($name),)*
                    _ => "errno",
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted.";
    ENOENT = 2, "No such file or directory.";
    EIO = 5, "Input/output error.";
    ENXIO = 6, "No such device or address.";
    E2BIG = 7, "Argument list too long.";
    EBADF = 9, "Bad file descriptor.";
    ENOMEM = 12, "Cannot allocate memory.";
    EACCES = 13, "Permission denied.";
    EBUSY = 16, "Device or resource busy.";
    EEXIST = 17, "File exists.";
    EXDEV = 18, "Invalid cross-device link.";
    ENOTDIR = 20, "Not a directory.";
    EISDIR = 21, "Is a directory.";
    EINVAL = 22, "Invalid argument.";
    ENFILE = 23, "Too many open files in system.";
    ENOTTY = 25, "Inappropriate ioctl for device.";
    ETXTBSY = 26, "Text file busy.";
    EFBIG = 27, "File too large.";
    ENOSPC = 28, "No space left on device.";
    EROFS = 30, "Read-only file system.";
    ERANGE = 34, "Numerical result out of range.";
    ENAMETOOLONG = 36, "File name too long.";
    ENOSYS = 38, "Function not implemented.";
    ENOTEMPTY = 39, "Directory not empty.";
    ENODATA = 61, "No data available.";
    EOPNOTSUPP = 95, "Operation not supported.";
    ESTALE = 116, "Stale file handle.";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
