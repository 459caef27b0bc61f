//! Uploads whose ids are made here, for stores that have no name for an upload themselves.
//!
//! Such an id says all there is to know: a number nobody else draws, and the metadata that the
//! finished object gets. So an upload can be finished by another process than the one that began
//! it.
//!
//! ```text
//! 00f1…9c              32 hexadecimal digits
//! 00f1…9c?mode=33188   the same, with metadata as in a URL's query
//! ```

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::{Metadata, UploadId};

/// How many aborted uploads are remembered.
const ABORTED_MAX: usize = 1024;

/// An upload under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnUpload {
    pub(crate) number: u128,
    pub(crate) metadata: Metadata,
}

impl OwnUpload {
    pub(crate) fn to_id(&self) -> UploadId {
        let mut text = format!("{:032x}", self.number);
        for (index, (name, value)) in self.metadata.iter().enumerate() {
            text.push(if index == 0 { '?' } else { '&' });
            text.push_str(&escape(name));
            text.push('=');
            text.push_str(&escape(value));
        }
        UploadId(text)
    }

    /// `None` if the id is not one of ours.
    pub(crate) fn parse(id: &UploadId) -> Option<OwnUpload> {
        let (number, rest) = match id.0.split_once('?') {
            Some((number, rest)) => (number, Some(rest)),
            None => (&id.0[..], None),
        };
        if number.len() != 32 || !number.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((unescape(name)?, unescape(value)?))
        };
        let pairs = rest.into_iter().flat_map(|rest| rest.split('&'));
        let metadata = pairs.map(pair).collect::<Option<Metadata>>()?;
        Some(OwnUpload { number: u128::from_str_radix(number, 16).ok()?, metadata })
    }
}

fn escape(text: &str) -> String {
    crate::http::encode(text.as_bytes())
}

fn unescape(text: &str) -> Option<String> {
    String::from_utf8(crate::http::decode(text)?).ok()
}

/// The uploads that were given up lately: nothing may be added to them any more.
#[derive(Debug, Default)]
pub(crate) struct Aborted(Mutex<VecDeque<u128>>);

impl Aborted {
    pub(crate) fn add(&self, number: u128) {
        let mut aborted = self.0.lock();
        if aborted.contains(&number) {
            return;
        }
        if aborted.len() == ABORTED_MAX {
            aborted.pop_front();
        }
        aborted.push_back(number);
    }

    pub(crate) fn has(&self, number: u128) -> bool {
        self.0.lock().contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ABORTED_MAX, Aborted, OwnUpload};
    use crate::UploadId;

    proptest! {
        #[test]
        fn an_id_keeps_its_metadata(
            number: u128,
            metadata in prop::collection::btree_map("[a-z._-]{1,9}", "\\PC{0,9}", 0..4),
        ) {
            let upload = OwnUpload { number, metadata };
            prop_assert_eq!(OwnUpload::parse(&upload.to_id()), Some(upload));
        }

        #[test]
        fn what_is_no_id_of_ours_is_refused_without_harm(text in "\\PC*") {
            if let Some(upload) = OwnUpload::parse(&UploadId(text)) {
                prop_assert_eq!(OwnUpload::parse(&upload.to_id()), Some(upload));
            }
        }
    }

    #[test]
    fn only_the_latest_aborted_uploads_are_remembered() {
        let aborted = Aborted::default();
        for number in 0..=ABORTED_MAX as u128 {
            aborted.add(number);
            aborted.add(number);
        }
        assert!(!aborted.has(0) && aborted.has(1) && aborted.has(ABORTED_MAX as u128));
    }
}
