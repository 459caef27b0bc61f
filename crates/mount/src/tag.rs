//! Which volume an inode number belongs to.
//!
//! ```text
//!   63       52 51                            0
//!   ├── tag ───┼── number within the volume ───┤
//! ```
//!
//! The only volume of a mount has the tag 0, so its numbers are shown as they are. Where many are shown
//! as one, 0 is for the folders that they are in.

use base::Ino;

/// What the numbers of one volume begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(u16);

impl Tag {
    /// That of the only volume, or of what is in none.
    pub(crate) const NONE: Tag = Tag(0);

    /// There are so many others.
    pub(crate) const MAX: u16 = (1 << (u64::BITS - Ino::BITS)) - 1;

    /// The tag `number`, if there is one.
    pub(crate) fn new(number: u16) -> Option<Tag> {
        (1..=Tag::MAX).contains(&number).then_some(Tag(number))
    }

    /// The first from the one that `hash` asks for on that is not taken.
    pub(crate) fn free(hash: u32, is_taken: impl Fn(Tag) -> bool) -> Option<Tag> {
        let first = u16::try_from(hash % u32::from(Tag::MAX)).expect("less than 12 bits");
        let mut tags = (0..Tag::MAX).filter_map(|step| Tag::new((first + step) % Tag::MAX + 1));
        tags.find(|tag| !is_taken(*tag))
    }

    /// As the kernel knows what the volume calls `ino`.
    pub(crate) fn outer(self, ino: Ino) -> Ino {
        Ino(u64::from(self.0) << Ino::BITS | ino.0)
    }

    /// The volume of what the kernel calls `ino`, and its number there.
    pub(crate) fn split(ino: Ino) -> (Tag, Ino) {
        let tag = u16::try_from(ino.0 >> Ino::BITS).expect("12 bits fit in 16");
        (Tag(tag), Ino(ino.0 & ((1 << Ino::BITS) - 1)))
    }
}

#[cfg(test)]
mod tests {
    use base::Ino;
    use proptest::prelude::*;

    use super::Tag;

    proptest! {
        #[test]
        fn a_number_is_split_into_what_it_was_made_of(tag in 0..=Tag::MAX, ino in 1..1_u64 << Ino::BITS) {
            let tag = Tag::new(tag).unwrap_or(Tag::NONE);
            prop_assert_eq!(Tag::split(tag.outer(Ino(ino))), (tag, Ino(ino)));
        }
    }

    #[test]
    fn who_finds_his_tag_taken_gets_the_next_until_there_is_none() {
        assert_eq!(Tag::free(5, |_| false), Tag::new(6));
        assert_eq!(Tag::free(5, |tag| tag == Tag(6)), Tag::new(7));
        assert_eq!(Tag::free(5, |tag| tag != Tag(3)), Tag::new(3));
        assert_eq!(Tag::free(5, |_| true), None);
    }

    #[test]
    fn there_is_an_end_of_tags() {
        assert_eq!(Tag::new(0), None, "it is for what is in no volume");
        assert_eq!(Tag::new(Tag::MAX + 1), None);
        assert_eq!(Tag::NONE.outer(Ino(7)), Ino(7));
    }
}
