//! Attributes that deviate, kept in one hidden object per folder.
//!
//! A listing tells size, etag and time of an object and nothing else. What else there is to say of
//! a name stands in the folder's attribute object, which the listing reveals: a folder without one
//! costs nothing. `item` is what is said of one name, `line` and `sheet` are the text, `book` is
//! what is known of one folder's object and what is to be written to it, `books` are all of them.

pub(super) mod book;
pub(super) mod books;
pub(super) mod carried;
pub(super) mod delay;
pub(super) mod dress;
pub(super) mod escape;
pub(super) mod follow;
pub(super) mod item;
pub(super) mod line;
pub(super) mod note;
pub(super) mod place;
pub(super) mod read;
pub(super) mod record;
pub(super) mod remove;
pub(super) mod schedule;
pub(super) mod sheet;
pub(super) mod write;
