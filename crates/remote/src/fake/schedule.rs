//! Which calls fail, and how many there were.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::{ErrorKind, Trouble};

macro_rules! ops {
    ($($variant:ident = $name:literal;)*) => {
        /// A kind of call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Op {
            /// All of them.
            pub const ALL: &[Op] = &[$(Op::$variant,)*];

            /// The name that errors carry.
            pub fn name(self) -> &'static str {
                match self {
                    $(Op::$variant => $name,)*
                }
            }
        }
    };
}

ops! {
    Head = "head";
    Get = "get";
    GetWhole = "get whole";
    Put = "put";
    UploadCreate = "upload create";
    UploadPart = "upload part";
    UploadPartCopy = "upload part copy";
    UploadComplete = "upload complete";
    UploadAbort = "upload abort";
    Uploads = "uploads";
    Copy = "copy";
    Rename = "rename";
    RenameFolder = "rename folder";
    Delete = "delete";
    List = "list";
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does nothing and gives this error, for this reason.
    Refuse(ErrorKind, Trouble),
    /// It is carried out, and gives a transient error all the same.
    LoseAnswer,
    /// Its body ends with an error after so many bytes.
    BreakBody {
        /// How many bytes come through.
        bytes: u64,
        /// The error.
        kind: ErrorKind,
    },
}

/// The faults to come and the calls so far.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    faults: Mutex<VecDeque<(Op, Fault)>>,
    calls: [AtomicU64; Op::ALL.len()],
}

impl Schedule {
    pub(super) fn clear(&self) {
        self.faults.lock().clear();
    }

    pub(super) fn push(&self, op: Op, fault: Fault) {
        self.faults.lock().push_back((op, fault));
    }

    /// Counts a call, and says how it is to fail.
    pub(super) fn begin(&self, op: Op) -> Option<Fault> {
        self.calls[op as usize].fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock();
        let at = faults.iter().position(|(wanted, _)| *wanted == op)?;
        faults.remove(at).map(|(_, fault)| fault)
    }

    pub(super) fn calls(&self, op: Op) -> u64 {
        self.calls[op as usize].load(Ordering::Relaxed)
    }
}
