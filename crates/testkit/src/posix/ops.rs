//! One operation of a program, of somebody else, or of who runs the mount; as a line of text too, so
//! that what went wrong once can be kept and done again.

use std::fmt;
use std::str::FromStr;

use proptest::prelude::{Strategy, any, prop, prop_oneof};

/// What is done. The other parts of an [`Op`] say to what, as far as the verb needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Opens, makes if need be, writes `len` bytes at `at`, closes.
    Write,
    /// Opens, writes `len` bytes at the end, closes.
    Append,
    /// Makes or empties, writes `len` bytes, closes.
    Replace,
    /// Makes, and fails if it is there.
    Create,
    /// Opens, cuts or grows to `at` bytes, closes.
    Truncate,
    /// Reads `len` bytes at `at`.
    Read,
    /// Opens, maps shared, writes `len` bytes at `at` as far as they are in the file, closes.
    Map,
    /// Copies `len` bytes at `at` to the start of the file `other`, in the kernel.
    Copy,
    /// Opens, makes sure that `len` bytes at `at` have room, closes.
    Allocate,
    /// Opens, makes a hole of `len` bytes at `at`, closes.
    Punch,
    /// Opens, writes `len` zeros at `at` the quick way, closes.
    Zero,
    /// Makes a folder.
    MkDir,
    /// Removes a folder.
    RmDir,
    /// Removes anything else.
    Unlink,
    /// Renames to `other`.
    Rename,
    /// Renames to `other` if that is free.
    RenameNew,
    /// Gives `path` and `other` each other's names.
    Exchange,
    /// Makes a symbolic link to `other`, relative to the link.
    SymLink,
    /// Reads a symbolic link.
    ReadLink,
    /// Makes a pipe.
    MkFifo,
    /// Gives permission bits, chosen by `seed`.
    ChMod,
    /// Gives an owner, chosen by `seed`.
    ChOwn,
    /// Gives times long ago, chosen by `seed`.
    Times,
    /// Sets an extended attribute, chosen by `seed`, of up to `len` bytes.
    SetXattr,
    /// Removes an extended attribute, chosen by `seed`.
    RemoveXattr,
    /// Lists a folder.
    List,
    /// Looks at a node without following it.
    Stat,
    /// Opens and keeps the file in the hand that `seed` chooses, for a way of access chosen by `at`.
    Open,
    /// Writes `len` bytes at `at` of the file in the hand.
    Put,
    /// Reads `len` bytes at `at` of the file in the hand.
    Get,
    /// Cuts or grows the file in the hand to `at` bytes.
    Cut,
    /// Syncs the file in the hand.
    Sync,
    /// Closes the file in the hand.
    Close,
    /// Somebody else puts an object of `len` bytes.
    TheyPut,
    /// Somebody else deletes an object.
    TheyDelete,
    /// The mount ends and comes back.
    Remount,
    /// The daemon is killed, and mounted again.
    Kill,
}

/// Every verb, with its name and how often it comes.
const VERBS: [(Verb, &str, u32); 37] = [
    (Verb::Write, "write", 10),
    (Verb::MkDir, "mkdir", 10),
    (Verb::Append, "append", 4),
    (Verb::Replace, "replace", 8),
    (Verb::Create, "create", 4),
    (Verb::Truncate, "truncate", 4),
    (Verb::Read, "read", 4),
    (Verb::Map, "map", 3),
    (Verb::Copy, "copy", 3),
    (Verb::Allocate, "allocate", 2),
    (Verb::Punch, "punch", 3),
    (Verb::Zero, "zero", 2),
    (Verb::RmDir, "rmdir", 4),
    (Verb::Unlink, "unlink", 5),
    (Verb::Rename, "rename", 12),
    (Verb::RenameNew, "rename-new", 2),
    (Verb::Exchange, "exchange", 4),
    (Verb::SymLink, "symlink", 4),
    (Verb::ReadLink, "readlink", 1),
    (Verb::MkFifo, "mkfifo", 2),
    (Verb::ChMod, "chmod", 5),
    (Verb::ChOwn, "chown", 4),
    (Verb::Times, "times", 5),
    (Verb::SetXattr, "set-xattr", 4),
    (Verb::RemoveXattr, "remove-xattr", 1),
    (Verb::List, "list", 3),
    (Verb::Stat, "stat", 3),
    (Verb::Open, "open", 6),
    (Verb::Put, "put", 8),
    (Verb::Get, "get", 4),
    (Verb::Cut, "cut", 2),
    (Verb::Sync, "sync", 2),
    (Verb::Close, "close", 4),
    (Verb::TheyPut, "they-put", 5),
    (Verb::TheyDelete, "they-delete", 3),
    (Verb::Remount, "remount", 2),
    (Verb::Kill, "kill", 1),
];

/// One operation. What its verb does not need is ignored.
#[derive(Clone, PartialEq, Eq)]
pub struct Op {
    /// What is done.
    pub verb: Verb,
    /// To what, below the root of the tree.
    pub path: String,
    /// What else it is about.
    pub other: String,
    /// An offset or a size.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// Chooses among bytes, modes, owners, times and names.
    pub seed: u8,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op { verb, path, other, at, len, seed } = self;
        let (_, name, _) = VERBS.iter().find(|(known, _, _)| known == verb).expect("all are there");
        write!(f, "{name} {path} {other} {at} {len} {seed}")
    }
}

/// As the line that a recorded failure has.
impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(line: &str) -> Result<Op, String> {
        let wrong = || format!("{line}: not VERB PATH OTHER AT LEN SEED");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, path, other, at, len, seed] = words[..] else { return Err(wrong()) };
        let (verb, _, _) = VERBS.iter().find(|(_, known, _)| *known == name).ok_or_else(wrong)?;
        Ok(Op {
            verb: *verb,
            path: path.to_owned(),
            other: other.to_owned(),
            at: at.parse().map_err(|_| wrong())?,
            len: len.parse().map_err(|_| wrong())?,
            seed: seed.parse().map_err(|_| wrong())?,
        })
    }
}

/// What a tree begins with, so that random operations find something.
pub fn beginning() -> Vec<Op> {
    let lines = [
        "mkdir a - 0 0 0",
        "mkdir b - 0 0 0",
        "mkdir a/a - 0 0 0",
        "write a/b - 0 200000 1",
        "write b/a - 0 100 2",
        "write c - 0 5000 3",
    ];
    lines.map(|line| line.parse().expect("an operation")).into()
}

/// Up to `count_max` operations on few names, so that they meet.
pub fn ops(count_max: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..=count_max)
}

fn op() -> impl Strategy<Value = Op> {
    // A granule is 128 KiB; a file of more than three has one in the middle.
    let at =
        prop_oneof![4 => 0..10_000_u64, 1 => 0..420_000_u64, 1 => (0..4_u64).prop_map(|n| n << 17)];
    let len =
        prop_oneof![4 => 0..9_000_u64, 1 => 0..300_000_u64, 1 => (0..3_u64).prop_map(|n| n << 17)];
    (verb(), path(), path(), at, len, any::<u8>())
        .prop_map(|(verb, path, other, at, len, seed)| Op { verb, path, other, at, len, seed })
}

fn verb() -> impl Strategy<Value = Verb> {
    let total: u32 = VERBS.iter().map(|(_, _, weight)| weight).sum();
    (0..total).prop_map(|mut place| {
        for (verb, _, weight) in VERBS {
            match place.checked_sub(weight) {
                Some(left) => place = left,
                None => return verb,
            }
        }
        unreachable!("below the total")
    })
}

fn path() -> impl Strategy<Value = String> {
    let depth = prop_oneof![5 => 1..=1_usize, 4 => 2..=2_usize, 1 => 3..=3_usize];
    let names = depth.prop_flat_map(|depth| prop::collection::vec(0..3_usize, depth));
    names.prop_map(|names| {
        let names: Vec<&str> = names.into_iter().map(|name| ["a", "b", "c"][name]).collect();
        names.join("/")
    })
}

#[cfg(test)]
mod tests {
    use super::{Op, VERBS, Verb};

    #[test]
    fn an_operation_is_a_line_and_back() {
        for (verb, _, _) in VERBS {
            let (path, other) = ("a/b".to_owned(), "c".to_owned());
            let op = Op { verb, path, other, at: 1, len: 2, seed: 3 };
            assert_eq!(op.to_string().parse(), Ok(op));
        }
        let line = "they-put a/b c 1 2 3";
        assert_eq!(line.parse::<Op>().unwrap().verb, Verb::TheyPut);
        for wrong in ["", "write a b 1 2", "jump a b 1 2 3", "write a b x 2 3", "write a b 1 2 256"]
        {
            assert!(wrong.parse::<Op>().is_err(), "{wrong}");
        }
    }
}
