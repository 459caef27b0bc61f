//! What directory buckets do not know, and is refused; pure.

use super::connect::{Credentials, S3Options};
use super::tags::Tags;
use super::terms::{Encryption, Payer};

/// The class that they keep objects in.
const CLASS: &str = "EXPRESS_ONEZONE";

/// What of `options` a directory bucket does not know, if anything: nobody is to think that it is so.
pub(super) fn unknown(options: &S3Options) -> Option<&'static str> {
    let terms = &options.terms;
    let wrong = [
        (options.credentials == Credentials::Anonymous, "cannot be read without credentials"),
        (terms.acl.is_some(), "have no access control lists: leave out --acl"),
        (terms.tags != Tags::default(), "have no tags: leave out --tags"),
        (terms.payer == Payer::Requester, "are paid by their owner: leave out --requester-pays"),
        (
            terms.storage_class.as_ref().is_some_and(|class| class != CLASS),
            "keep everything in the class EXPRESS_ONEZONE: leave out --storage-class",
        ),
        (
            matches!(terms.encryption, Encryption::Customer(_)),
            "encrypt with keys of the store or of its key service only: leave out --sse-key-file",
        ),
        (options.endpoints.dual_stack, "have no endpoints with IPv6: leave out --dual-stack"),
    ];
    wrong.into_iter().find_map(|(is_wrong, words)| is_wrong.then_some(words))
}

#[cfg(test)]
mod tests {
    use super::super::customer_key::CustomerKey;
    use super::unknown;
    use crate::{Credentials, Encryption, Endpoints, Payer, S3Options, S3Terms, Tags};

    #[test]
    fn what_a_directory_bucket_does_not_know_is_refused_by_name() {
        let keys = || Credentials::Static {
            access_key_id: "name".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: None,
        };
        let options = |terms| S3Options { terms, credentials: keys(), ..S3Options::new("b") };
        let terms = S3Terms::default;
        let key = CustomerKey::from_file(b"0123456789abcdefghijklmnopqrstuv").unwrap();
        for (terms, word) in [
            (S3Terms { acl: Some("private".to_owned()), ..terms() }, "--acl"),
            (S3Terms { tags: Tags::parse("a=b").unwrap(), ..terms() }, "--tags"),
            (S3Terms { payer: Payer::Requester, ..terms() }, "--requester-pays"),
            (S3Terms { storage_class: Some("STANDARD".to_owned()), ..terms() }, "--storage-class"),
            (S3Terms { encryption: Encryption::Customer(key), ..terms() }, "--sse-key-file"),
        ] {
            let said = unknown(&options(terms)).unwrap();
            assert!(said.contains(word), "{said}");
        }
        let class = Some("EXPRESS_ONEZONE".to_owned());
        let known = S3Terms { encryption: Encryption::Store, storage_class: class, ..terms() };
        assert_eq!(unknown(&options(known)), None);
        let anonymous =
            S3Options { credentials: Credentials::Anonymous, ..options(S3Terms::default()) };
        assert!(unknown(&anonymous).unwrap().contains("credentials"));
        let endpoints = Endpoints { fips: false, dual_stack: true };
        let dual = S3Options { endpoints, ..options(S3Terms::default()) };
        assert!(unknown(&dual).unwrap().contains("--dual-stack"));
    }
}
