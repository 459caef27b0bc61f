//! Blocks: their names, the lists of them, and the parts of uploads that they are; pure.
//!
//! The receipt of a part that was sent is the name of its block. That of a part that was copied
//! names committed blocks of the blob, and the version which has them:
//!
//! ```text
//! AAEC…BQY=              a block that was sent
//! AAEC…BQY=,AAEC…BQc=@0x8DC…    blocks of the version 0x8DC…
//! ```

use std::fmt::Write as _;

use aws_smithy_types::base64;
use base::ByteRange;

use crate::xml;
use crate::{Condition, PartNumber, PartTag, Version};

/// The name of a block: all names of a blob's blocks must have one length.
pub(super) fn name(number: u128, part: PartNumber) -> String {
    let mut id = [0; NAME_BYTES];
    id[..16].copy_from_slice(&number.to_be_bytes());
    id[16..].copy_from_slice(&part.0.to_be_bytes());
    base64::encode(id)
}

/// How long our names are, before they are text.
const NAME_BYTES: usize = 20;

/// The committed blocks of a blob, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    names: Vec<String>,
    /// Where in the blob each of them ends.
    ends: Vec<u64>,
}

impl Blocks {
    /// The list as the service sends it; `None` if it is not one.
    pub(super) fn parse(document: &[u8]) -> Option<Blocks> {
        let root = xml::parse(document).filter(|root| root.name == "BlockList")?;
        let mut blocks = Blocks { names: Vec::new(), ends: Vec::new() };
        let Some(committed) = root.child("CommittedBlocks") else { return Some(blocks) };
        let mut end = 0_u64;
        for block in &committed.children {
            end = end.checked_add(block.text_of("Size")?.parse().ok()?)?;
            blocks.names.push(block.text_of("Name")?.to_owned());
            blocks.ends.push(end);
        }
        Some(blocks)
    }

    /// The receipt of a part that is exactly some of the blocks, if `range` is; `None` also if they
    /// cannot be in one list with ours.
    pub(super) fn part(&self, range: ByteRange, version: &Version) -> Option<PartTag> {
        let first = match range.start() {
            0 => 0,
            start => self.ends.binary_search(&start).ok()? + 1,
        };
        let last = self.ends.binary_search(&range.end()).ok()?;
        let run = self.names.get(first..=last)?;
        let length = name(0, PartNumber(0)).len();
        let fit = run.iter().all(|name| name.len() == length);
        fit.then(|| PartTag(format!("{}@{}", run.join(","), version.as_str())))
    }
}

/// The list that makes `parts` a blob, and the condition under which it does so: what was copied is
/// there only as long as the blob is the version that it was copied from. `None` if `condition` is
/// that it is another one.
pub(super) fn list(
    parts: &[(PartNumber, PartTag)],
    condition: &Condition,
) -> Option<(String, Condition)> {
    let mut condition = condition.clone();
    let mut blocks = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>".to_owned();
    for (_, PartTag(tag)) in parts {
        let (names, kind) = match tag.split_once('@') {
            None => (&tag[..], "Uncommitted"),
            Some((names, version)) => {
                let copied = Condition::Is(Version::new(version));
                if condition != Condition::Always && condition != copied {
                    return None;
                }
                condition = copied;
                (names, "Committed")
            }
        };
        for name in names.split(',') {
            let name = xml::escape(name);
            write!(blocks, "<{kind}>{name}</{kind}>").expect("a string takes all text");
        }
    }
    blocks.push_str("</BlockList>");
    Some((blocks, condition))
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use proptest::prelude::*;

    use super::{Blocks, list, name};
    use crate::{Condition, PartNumber, PartTag, Version};

    #[test]
    fn block_names_have_one_length_and_differ() {
        let first = name(1, PartNumber(1));
        assert_eq!(first.len(), 28);
        assert_eq!(name(u128::MAX, PartNumber(50_000)).len(), 28);
        assert_ne!(first, name(1, PartNumber(2)));
        assert_ne!(first, name(2, PartNumber(1)));
    }

    #[test]
    fn a_range_is_copied_if_it_is_exactly_some_blocks() {
        let names: Vec<String> = (1..=3).map(|part| name(7, PartNumber(part))).collect();
        let blocks = blocks(&[(&names[0], 10), (&names[1], 5), (&names[2], 1)]);
        let version = Version::new("0x1");
        let part = |start, end| {
            let part = blocks.part(ByteRange::new(start, end).unwrap(), &version);
            part.map(|PartTag(tag)| tag)
        };
        assert_eq!(part(0, 10), Some(format!("{}@0x1", names[0])));
        assert_eq!(part(10, 16), Some(format!("{},{}@0x1", names[1], names[2])));
        assert_eq!(part(0, 16), Some(format!("{}@0x1", names.join(","))));
        for (start, end) in [(0, 9), (1, 10), (10, 17), (16, 17), (0, 17), (3, 4)] {
            assert_eq!(part(start, end), None, "{start}..{end}");
        }
    }

    #[test]
    fn blocks_of_others_are_not_mixed_with_ours() {
        let blocks = blocks(&[("MDAwMQ==", 10)]);
        assert_eq!(blocks.part(ByteRange::new(0, 10).unwrap(), &Version::new("0x1")), None);
    }

    #[test]
    fn what_was_copied_is_committed_only_over_what_it_was_copied_from() {
        let sent = (PartNumber(2), PartTag("BBBB".to_owned()));
        let copied = (PartNumber(1), PartTag("AAAA,CCCC@0x1".to_owned()));
        let is = |version: &str| Condition::Is(Version::new(version));
        let both = [copied.clone(), sent.clone()];
        let want = "<Committed>AAAA</Committed><Committed>CCCC</Committed><Uncommitted>BBBB</Uncommitted></BlockList>";
        for condition in [Condition::Always, is("0x1")] {
            let (document, condition) = list(&both, &condition).unwrap();
            assert!(document.ends_with(want), "{document}");
            assert_eq!(condition, is("0x1"));
        }
        for condition in [Condition::Absent, is("0x2")] {
            assert_eq!(list(&both, &condition), None);
            assert_eq!(list(std::slice::from_ref(&sent), &condition).unwrap().1, condition);
        }
        let other = (PartNumber(3), PartTag("DDDD@0x2".to_owned()));
        assert_eq!(list(&[copied, other], &Condition::Always), None);
    }

    #[test]
    fn a_list_that_lacks_something_is_no_list() {
        for document in [
            "<BlockList><CommittedBlocks><Block><Name>A</Name></Block></CommittedBlocks></BlockList>",
            "<BlockList><CommittedBlocks><Block><Size>1</Size></Block></CommittedBlocks></BlockList>",
            "<BlockList><CommittedBlocks><Block><Name>A</Name><Size>-1</Size></Block></CommittedBlocks></BlockList>",
            "<Error/>",
            "",
        ] {
            assert_eq!(Blocks::parse(document.as_bytes()), None, "{document}");
        }
        let none = Blocks { names: Vec::new(), ends: Vec::new() };
        assert_eq!(Blocks::parse(b"<BlockList />"), Some(none));
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            Blocks::parse(&bytes);
        }
    }

    fn blocks(blocks: &[(&str, u64)]) -> Blocks {
        let block = |(name, size): &(&str, u64)| {
            format!("<Block><Name>{name}</Name><Size>{size}</Size></Block>")
        };
        let blocks: Vec<String> = blocks.iter().map(block).collect();
        let document = format!(
            "<BlockList><CommittedBlocks>{}</CommittedBlocks></BlockList>",
            blocks.concat()
        );
        Blocks::parse(document.as_bytes()).unwrap()
    }
}
