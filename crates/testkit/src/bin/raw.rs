//! Downloads one object as fast as a plain client can: ranged GETs side by side, written to a file
//! at their offsets and handed on, in order, to the standard output.
//!
//! `quayfs-bench-raw ENDPOINT BUCKET KEY FILE`, with the keys in the environment.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::{Client, Config};
use bytes::Bytes;
use futures::{StreamExt, stream};

const RANGE_BYTES: u64 = 8 << 20;
const RANGES_AT_A_TIME: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, bucket, key, file] = arguments.as_slice() else {
        return Err("usage: quayfs-bench-raw ENDPOINT BUCKET KEY FILE".into());
    };
    let client = client(endpoint)?;
    let file = Arc::new(File::create(file)?);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(download(&client, bucket, key, &file))
}

fn client(endpoint: &str) -> Result<Client, Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "a program's keys come from its environment")]
    let (user, secret) =
        (std::env::var("AWS_ACCESS_KEY_ID")?, std::env::var("AWS_SECRET_ACCESS_KEY")?);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url(endpoint)
        .force_path_style(true)
        .credentials_provider(Credentials::new(user, secret, None, None, "environment"))
        .retry_config(RetryConfig::standard())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Ok(Client::from_conf(config.build()))
}

async fn download(
    client: &Client,
    bucket: &str,
    key: &str,
    file: &Arc<File>,
) -> Result<(), Box<dyn Error>> {
    let head = client.head_object().bucket(bucket).key(key).send().await?;
    let len = u64::try_from(head.content_length().unwrap_or(0))?;
    let starts = (0..len.div_ceil(RANGE_BYTES)).map(|number| number * RANGE_BYTES);
    let mut ranges = stream::iter(starts)
        .map(|start| range(client, bucket, key, start, len.min(start + RANGE_BYTES)))
        .buffered(RANGES_AT_A_TIME);
    let mut pipe = std::io::stdout().lock();
    while let Some(got) = ranges.next().await {
        let (start, pieces) = got?;
        let file = Arc::clone(file);
        // The file is written while the next ranges arrive; the pipe waits for both.
        let pieces = tokio::task::spawn_blocking(move || write_at(&file, start, pieces)).await??;
        for piece in pieces {
            pipe.write_all(&piece)?;
        }
    }
    pipe.flush()?;
    Ok(())
}

async fn range(
    client: &Client,
    bucket: &str,
    key: &str,
    start: u64,
    end: u64,
) -> Result<(u64, Vec<Bytes>), Box<dyn Error>> {
    let range = format!("bytes={start}-{}", end - 1);
    let mut answer = client.get_object().bucket(bucket).key(key).range(range).send().await?;
    let mut pieces = Vec::new();
    while let Some(piece) = answer.body.try_next().await? {
        pieces.push(piece);
    }
    Ok((start, pieces))
}

fn write_at(file: &File, start: u64, pieces: Vec<Bytes>) -> std::io::Result<Vec<Bytes>> {
    let mut at = start;
    for piece in &pieces {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(pieces)
}
