//! Every store and every decorator keeps the promises of `Remote`.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod azure;
mod azurite;
mod decorators;
mod encryption;
mod fake_gcs;
mod folder;
mod gcs;
mod minio;
mod process;
mod s3;

use std::sync::Arc;

use base::{Metrics, Rng, SystemClock};
use quayfs_remote::{Fake, Folder, Key, Limit, Meter, Retry, RetryOptions, conformance, prefixed};

#[tokio::test]
async fn the_fake_keeps_the_promises() {
    conformance::run(&Fake::new(), "").await;
}

#[tokio::test]
async fn the_fake_with_folders_keeps_the_promises_of_names() {
    conformance::run_names(&Fake::with_folders(), "").await;
    let within = prefixed(Arc::new(Fake::with_folders()), Key::from("deep/er/"));
    conformance::run_names(&within, "").await;
}

#[tokio::test]
async fn a_folder_keeps_the_promises() {
    let dir = tempfile::tempdir().unwrap();
    conformance::run(&Folder::open(dir.path()).unwrap(), "").await;
}

#[tokio::test]
async fn s3_keeps_the_promises() {
    let server = minio::Server::start();
    let bucket = server.bucket("promises").await;
    let known_broken = [
        // MinIO takes `x` and `x/y`, and then does not list the second.
        "a_key_may_also_be_a_folder",
        // A page of one that ends in the folder of a marker is called the last.
        "pages_of_one_are_the_whole",
        // It leaves a folder out as soon as one of its keys is behind us.
        "a_folder_counts_as_far_as_its_keys",
    ];
    conformance::run_but(&bucket, "", &known_broken).await;
    conformance::run_but(&bucket, "deep/er/", &known_broken).await;
}

#[tokio::test]
async fn azure_keeps_the_promises() {
    let server = azurite::Server::start();
    let container = server.container("promises").await;
    // An upload has no name there; its blocks vanish by themselves.
    let known_broken = ["unfinished_uploads_are_told"];
    conformance::run_but(&container, "", &known_broken).await;
    conformance::run_but(&container, "deep/er/", &known_broken).await;
}

#[tokio::test]
async fn gcs_keeps_the_promises() {
    let server = fake_gcs::Server::start();
    let bucket = server.bucket("promises").await;
    // `recorded` in `remote::gcs` checks what is asked for where the emulator does not heed it.
    let known_broken = [
        // The emulator heeds conditions on puts only: neither on copies nor on compositions.
        "a_copy_names_its_source_version",
        "complete_heeds_its_condition",
        // It folds the whole bucket on every page, whatever the page's size and beginning are.
        "pages_of_any_size_are_the_whole",
        "pages_of_one_are_the_whole",
        "a_folder_counts_as_far_as_its_keys",
    ];
    conformance::run_but(&bucket, "", &known_broken).await;
    conformance::run_but(&bucket, "deep/er/", &known_broken).await;
}

#[tokio::test]
async fn decorators_keep_the_promises() {
    let metrics = Arc::new(Metrics::new());
    let metered =
        Meter::new(Arc::new(Fake::new()), Arc::clone(&metrics), Arc::new(SystemClock::new()));
    let limited = Limit::new(Arc::new(metered), 3, Arc::new(Metrics::new()));
    let retried = Retry::new(
        Arc::new(limited),
        RetryOptions::default(),
        Arc::new(SystemClock::new()),
        Rng::seeded(1),
        metrics,
    );
    conformance::run(&prefixed(Arc::new(retried), Key::from("a//b/../")), "").await;
}
