//! Which containers an account has.

use std::sync::Arc;

use base::Clock;
use http::Method;

use crate::{BUCKET_PAGES_MAX, Error, ErrorKind, Key, Result, xml};

use super::call::{Call, Container};
use super::connect::AzureOptions;
use super::{Azure, PAGE_BYTES_MAX};

impl Azure {
    /// The containers of the account, as far as the credentials of `options` may list them; the
    /// container in `options` is not asked.
    pub async fn containers(options: &AzureOptions, clock: Arc<dyn Clock>) -> Result<Vec<String>> {
        let op = "list containers";
        let key = Key::from("");
        let account = Container::of_account(options, clock)?;
        let (mut names, mut next) = (Vec::new(), None);
        for _ in 0..BUCKET_PAGES_MAX {
            let mut call = Call::new(op, Method::GET, &key).query("comp", "list");
            if let Some(marker) = next {
                call = call.query("marker", marker);
            }
            let answer = account.container(call.query("maxresults", "1000")).await?;
            let document = answer.bytes(PAGE_BYTES_MAX).await;
            let document = document.map_err(|failure| failure.into_error(op, &key))?;
            let garbled = || Error::new(ErrorKind::Corrupt, op, &key).because("not a listing");
            let (page, marker) = page(&document).ok_or_else(garbled)?;
            names.extend(page);
            next = marker;
            if next.is_none() {
                break;
            }
        }
        Ok(names)
    }
}

/// The names of a page, and where the next one begins; `None` if it is not one.
fn page(document: &[u8]) -> Option<(Vec<String>, Option<String>)> {
    let root = xml::parse(document).filter(|root| root.name == "EnumerationResults")?;
    let lines = &root.child("Containers")?.children;
    let names = lines.iter().filter(|line| line.name == "Container");
    let names = names.filter_map(|line| line.text_of("Name")).map(str::to_owned).collect();
    let next = root.text_of("NextMarker").filter(|marker| !marker.is_empty());
    Some((names, next.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::page;

    const PAGE: &str = "<EnumerationResults><Containers><Container><Name>a</Name></Container>\
        <Container><Name>$web</Name><Properties/></Container></Containers>\
        <NextMarker>/a/c</NextMarker></EnumerationResults>";

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(at in 0..PAGE.len(), bytes in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut page_of_theirs = PAGE.as_bytes().to_vec();
            page_of_theirs.splice(at..(at + bytes.len()).min(PAGE.len()), bytes);
            page(&page_of_theirs);
        }
    }

    #[test]
    fn a_page_names_containers_and_the_next_page() {
        let want = (vec!["a".to_owned(), "$web".to_owned()], Some("/a/c".to_owned()));
        assert_eq!(page(PAGE.as_bytes()), Some(want));
        assert_eq!(page(b"<Error/>"), None);
    }
}
