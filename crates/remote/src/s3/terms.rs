//! On which terms objects are read and written: how they are encrypted, in which class they are kept,
//! whose they are, what they are tagged with, and who pays.
//!
//! All of it is headers. Requests go two ways, straight and through the library, and each asks here, so
//! that both say the same.

use super::customer_key::CustomerKey;
use super::tags::Tags;
use crate::Key;

/// On which terms a bucket is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Terms {
    /// How new objects are encrypted by the store.
    pub encryption: Encryption,
    /// In which class new objects are kept; the bucket's own if `None`.
    pub storage_class: Option<String>,
    /// The canned access control list of new objects.
    pub acl: Option<String>,
    /// The tags of new objects.
    pub tags: Tags,
    /// Who pays for the requests.
    pub payer: Payer,
    /// The account that the bucket must be of; a bucket of another is refused.
    pub bucket_owner: Option<String>,
}

/// How the store encrypts what is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// As the bucket says.
    #[default]
    OfBucket,
    /// With keys of the store.
    Store,
    /// With a key of the key service.
    Kms {
        /// Which; that of the account if `None`.
        key_id: Option<String>,
    },
    /// With a key that goes with each request, and that the store does not keep. Objects that are
    /// encrypted otherwise cannot be read then.
    Customer(CustomerKey),
}

/// Who pays for requests and traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payer {
    /// Who owns the bucket.
    #[default]
    Owner,
    /// Who asks.
    Requester,
}

/// What a request is for, as far as terms go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose<'a> {
    /// To read an object, or to ask of it.
    Read,
    /// To make an object of this key.
    New(&'a Key),
    /// To send a part, or to put parts together.
    Part,
    /// To make an object of another one.
    Copy { from: &'a Key, to: &'a Key },
    /// To begin to make an object, in parts, of another one, whose tags are looked up.
    CopyInParts,
    /// To make a part of an object.
    PartCopy,
    /// Anything else.
    Other,
}

/// Says how the store encrypts; the names of more that it is told of that begin so.
const ENCRYPTION: &str = "x-amz-server-side-encryption";

/// A header.
pub(super) type Header = (&'static str, String);

impl S3Terms {
    /// What goes with a request for `purpose`.
    pub(super) fn headers(&self, purpose: Purpose<'_>) -> Vec<Header> {
        let mut headers = Vec::new();
        if self.payer == Payer::Requester {
            headers.push(("x-amz-request-payer", "requester".to_owned()));
        }
        if let Some(owner) = &self.bucket_owner {
            headers.push(("x-amz-expected-bucket-owner", owner.clone()));
        }
        match purpose {
            Purpose::Other => {}
            Purpose::Read | Purpose::Part => headers.extend(self.customer_key()),
            Purpose::New(key) => {
                headers.extend(self.of_new());
                headers.extend(self.tags.of(key).map(|tags| ("x-amz-tagging", tags)));
            }
            Purpose::Copy { from, to } => {
                headers.extend(self.of_new());
                headers.extend(self.of_source());
                if let Some(tags) = self.tags_anew(from, to) {
                    headers.push(("x-amz-tagging-directive", "REPLACE".to_owned()));
                    headers.push(("x-amz-tagging", tags));
                }
            }
            Purpose::CopyInParts => headers.extend(self.of_new()),
            Purpose::PartCopy => {
                headers.extend(self.customer_key());
                headers.extend(self.of_source());
            }
        }
        headers
    }

    /// Likewise of a directory bucket: what is written there is encrypted as was said when its session began, and
    /// that is not said again ("Specifying server-side encryption with AWS KMS for new object uploads in directory
    /// buckets" of the S3 user guide).
    pub(super) fn headers_in_session(&self, purpose: Purpose<'_>) -> Vec<Header> {
        let mut headers = self.headers(purpose);
        match purpose {
            Purpose::New(_) | Purpose::CopyInParts => {
                headers.retain(|(name, _)| !name.starts_with(ENCRYPTION));
            }
            Purpose::Read
            | Purpose::Part
            | Purpose::Copy { .. }
            | Purpose::PartCopy
            | Purpose::Other => {}
        }
        headers
    }

    /// What is said when a session begins.
    pub(super) fn of_session(&self) -> Vec<Header> {
        self.encryption()
    }

    /// All that a new object is given but its tags.
    fn of_new(&self) -> Vec<Header> {
        let mut headers = self.encryption();
        headers
            .extend(self.storage_class.iter().map(|class| ("x-amz-storage-class", class.clone())));
        headers.extend(self.acl.iter().map(|acl| ("x-amz-acl", acl.clone())));
        headers
    }

    fn encryption(&self) -> Vec<Header> {
        let name = ENCRYPTION;
        match &self.encryption {
            Encryption::OfBucket => Vec::new(),
            Encryption::Store => vec![(name, "AES256".to_owned())],
            Encryption::Kms { key_id } => {
                let key = key_id.clone();
                let key = key.map(|key| ("x-amz-server-side-encryption-aws-kms-key-id", key));
                [(name, "aws:kms".to_owned())].into_iter().chain(key).collect()
            }
            Encryption::Customer(_) => self.customer_key(),
        }
    }

    /// The key with which the store decrypts what it is asked for, or encrypts what it is sent.
    fn customer_key(&self) -> Vec<Header> {
        match &self.encryption {
            Encryption::OfBucket | Encryption::Store | Encryption::Kms { .. } => Vec::new(),
            Encryption::Customer(CustomerKey { key, md5 }) => vec![
                ("x-amz-server-side-encryption-customer-algorithm", "AES256".to_owned()),
                ("x-amz-server-side-encryption-customer-key", key.reveal().to_owned()),
                ("x-amz-server-side-encryption-customer-key-md5", md5.clone()),
            ],
        }
    }

    /// What the object that is copied needs to be read.
    fn of_source(&self) -> Vec<Header> {
        let owner = self.bucket_owner.clone();
        let owner = owner.map(|owner| ("x-amz-source-expected-bucket-owner", owner));
        let key = match &self.encryption {
            Encryption::OfBucket | Encryption::Store | Encryption::Kms { .. } => Vec::new(),
            Encryption::Customer(CustomerKey { key, md5 }) => vec![
                (
                    "x-amz-copy-source-server-side-encryption-customer-algorithm",
                    "AES256".to_owned(),
                ),
                ("x-amz-copy-source-server-side-encryption-customer-key", key.reveal().to_owned()),
                ("x-amz-copy-source-server-side-encryption-customer-key-md5", md5.clone()),
            ],
        };
        owner.into_iter().chain(key).collect()
    }

    /// The tags that the rules have for a new object.
    pub(super) fn tags_of_new(&self, to: &Key) -> Option<String> {
        self.tags.of(to)
    }

    /// The tags of a copy, if the rules have others for its name than for that of its source. Else it
    /// keeps all that its source has, also those of others.
    pub(super) fn tags_anew(&self, from: &Key, to: &Key) -> Option<String> {
        self.tags.of(to).filter(|tags| self.tags.of(from).as_ref() != Some(tags))
    }
}

#[cfg(test)]
mod tests {
    use super::super::customer_key::CustomerKey;
    use super::super::tags::Tags;
    use super::{Encryption, Payer, Purpose, S3Terms};
    use crate::Key;

    fn check(terms: &S3Terms, purpose: Purpose<'_>, want: &[(&str, &str)]) {
        let found = terms.headers(purpose);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (*name, &value[..])).collect();
        assert_eq!(found, want, "{purpose:?}");
    }

    #[test]
    fn nothing_is_said_that_nobody_asked_for() {
        let key = Key::from("a");
        for purpose in [
            Purpose::Read,
            Purpose::New(&key),
            Purpose::Part,
            Purpose::Copy { from: &key, to: &key },
            Purpose::CopyInParts,
            Purpose::PartCopy,
            Purpose::Other,
        ] {
            check(&S3Terms::default(), purpose, &[]);
        }
    }

    #[test]
    fn payer_and_owner_are_named_with_every_request() {
        let owner = Some("123456789012".to_owned());
        let terms = S3Terms { payer: Payer::Requester, bucket_owner: owner, ..S3Terms::default() };
        let each =
            [("x-amz-request-payer", "requester"), ("x-amz-expected-bucket-owner", "123456789012")];
        let key = Key::from("a");
        for purpose in [Purpose::Read, Purpose::New(&key), Purpose::Part, Purpose::Other] {
            check(&terms, purpose, &each);
        }
        let source = ("x-amz-source-expected-bucket-owner", "123456789012");
        check(&terms, Purpose::PartCopy, &[each[0], each[1], source]);
    }

    #[test]
    fn a_session_says_once_how_all_in_it_is_encrypted() {
        let key = Key::from("a");
        let kms = Encryption::Kms { key_id: Some("k".to_owned()) };
        let terms = S3Terms { encryption: kms, ..S3Terms::default() };
        let said = terms.of_session();
        assert_eq!(said.len(), 2);
        for purpose in [Purpose::New(&key), Purpose::CopyInParts] {
            assert_eq!(terms.headers_in_session(purpose), [], "{purpose:?}");
        }
        // No business of a session.
        let copy = Purpose::Copy { from: &key, to: &key };
        assert_eq!(terms.headers_in_session(copy), said);
    }

    #[test]
    fn a_copy_is_tagged_anew_only_if_its_name_wants_other_tags() {
        let tags = Tags::parse("*.bam=kind=alignment").unwrap();
        let terms = S3Terms { tags, ..S3Terms::default() };
        let [a, b, other] = ["a.bam", "d/b.bam", "a"].map(Key::from);
        check(&terms, Purpose::New(&a), &[("x-amz-tagging", "kind=alignment")]);
        check(&terms, Purpose::Copy { from: &a, to: &b }, &[]);
        check(&terms, Purpose::Copy { from: &a, to: &other }, &[]);
        let anew = [("x-amz-tagging-directive", "REPLACE"), ("x-amz-tagging", "kind=alignment")];
        check(&terms, Purpose::Copy { from: &other, to: &a }, &anew);
    }

    #[test]
    fn a_customers_key_goes_with_all_that_reads_or_writes_bytes() {
        let key = CustomerKey::from_file(b"0123456789abcdefghijklmnopqrstuv").unwrap();
        let terms = S3Terms { encryption: Encryption::Customer(key), ..S3Terms::default() };
        let name = Key::from("a");
        let count = |purpose| terms.headers(purpose).len();
        let of_both = Purpose::Copy { from: &name, to: &name };
        assert_eq!([Purpose::Read, Purpose::New(&name), Purpose::Part].map(count), [3, 3, 3]);
        assert_eq!([of_both, Purpose::PartCopy, Purpose::Other].map(count), [6, 6, 0]);
    }
}
