//! What folders are to a store, and how it gives what it has other names.

/// What folders are to a store, and how it gives what it has other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    /// What says that a folder is there.
    pub folders: Folders,
    /// In which order the pages of a listing tell what is there.
    pub order: ListOrder,
    /// How an object is given another key.
    pub moves: Moves,
}

/// What says that a folder is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folders {
    /// Keys that begin with it, its own among them.
    Keys,
    /// The same; and an empty object of its key without the slash, whose metadata says that it is one:
    /// other programs make these.
    Stubs,
    /// It is a thing of its own, which the store makes with what is put below it and which stays without
    /// that. Its key, which ends in a slash, stands for it: `head` says whether it is there, a `put` of
    /// nothing makes it, and `delete` removes it when nothing is in it, or else does nothing. Folds of
    /// listings tell of empty ones, too; other listings may tell of folders as of empty objects.
    /// [`rename_folder`](crate::Remote::rename_folder) works.
    Real,
}

/// In which order the pages of a listing tell what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// That of the keys; a listing can begin at any of them.
    Keys,
    /// Where lines are folded that of the keys, else some order. Beginning elsewhere than at the
    /// beginning costs all pages before.
    Folded,
    /// None: each page is sorted in itself only, and a listing begins at its beginning only.
    /// [`in_order`](crate::in_order) asks for all there is.
    Unsorted,
}

/// How an object is given another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// It is copied, and removed under its old one.
    Copied,
    /// In one step: [`rename`](crate::Remote::rename) works.
    Atomic,
}

impl Naming {
    /// That of stores that know keys and nothing else.
    pub const OF_KEYS: Naming =
        Naming { folders: Folders::Keys, order: ListOrder::Keys, moves: Moves::Copied };
}
