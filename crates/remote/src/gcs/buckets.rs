//! Which buckets a project has.

use std::sync::Arc;

use base::Clock;
use http::Method;
use serde::Deserialize;

use crate::{BUCKET_PAGES_MAX, Error, ErrorKind, Key, Result};

use super::Gcs;
use super::call::{Bucket, Call};
use super::connect::GcsOptions;
use super::objects::PAGE_BYTES_MAX;

/// A page of buckets.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Vec<Named>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Gcs {
    /// The buckets of `project`, as far as the credentials of `options` may list them; the bucket in
    /// `options` is not asked.
    pub async fn buckets(
        options: &GcsOptions,
        project: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Vec<String>> {
        let op = "list buckets";
        let key = Key::from("");
        let service = Bucket::of_account(options, clock)?;
        let (mut names, mut next) = (Vec::new(), None);
        for _ in 0..BUCKET_PAGES_MAX {
            let call = Call::new(op, Method::GET, &key)
                .query("project", project)
                .query("maxResults", "1000")
                .query("fields", "items(name),nextPageToken")
                .queries(next.map(|token| ("pageToken", token)));
            let answer = service.send(call).await?;
            let document = answer.bytes(PAGE_BYTES_MAX).await;
            let document = document.map_err(|failure| failure.into_error(op, &key))?;
            let garbled = |_| Error::new(ErrorKind::Corrupt, op, &key).because("not a listing");
            let page: Page = serde_json::from_slice(&document).map_err(garbled)?;
            names.extend(page.items.into_iter().map(|bucket| bucket.name));
            next = page.next_page_token.filter(|token| !token.is_empty());
            if next.is_none() {
                break;
            }
        }
        Ok(names)
    }
}
