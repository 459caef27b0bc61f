//! Which buckets an account has.

use super::{S3, S3Options, connect, fault};
use crate::{BUCKET_PAGES_MAX, Key, Result};

/// As many as a page has.
const PAGE_BUCKETS: i32 = 1000;

impl S3 {
    /// The buckets of whose credentials `options` names, as far as they may list them; the bucket in
    /// `options` is not asked.
    pub async fn buckets(options: &S3Options) -> Result<Vec<String>> {
        let op = "list buckets";
        let mut client = connect::client_of_account(options).await;
        let (mut names, mut next) = (Vec::new(), None);
        let mut may_be_elsewhere = true;
        for _ in 0..BUCKET_PAGES_MAX {
            let request = client.list_buckets().max_buckets(PAGE_BUCKETS);
            let page = request.set_continuation_token(next.clone()).send().await;
            let page = match page.map_err(|error| fault::of_call(op, &Key::from(""), &error)) {
                Ok(page) => page,
                Err(error) => match fault::region_told(&error) {
                    Some(region) if may_be_elsewhere => {
                        client = connect::in_region(&client, region);
                        may_be_elsewhere = false;
                        continue;
                    }
                    Some(_) | None => return Err(error),
                },
            };
            names.extend(page.buckets().iter().filter_map(|bucket| bucket.name.clone()));
            next = page.continuation_token;
            if next.is_none() {
                break;
            }
        }
        Ok(names)
    }
}
