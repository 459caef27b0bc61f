//! The pages of a folder, one after the other. Prints the microseconds it took.

use crate::timer::Timer;
use crate::{Result, Store};

/// Lists the folder `prefix`.
pub(crate) async fn pages(store: &Store, prefix: &str) -> Result<()> {
    let timer = Timer::start();
    let list = store.client.list_objects_v2().bucket(&store.bucket).prefix(prefix).delimiter("/");
    let mut pages = list.into_paginator().send();
    while let Some(page) = pages.next().await {
        page?;
    }
    timer.tell();
    Ok(())
}
