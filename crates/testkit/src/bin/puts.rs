//! Puts many small objects as fast as a plain client can, so many at a time, and prints how many
//! microseconds that took.
//!
//! `quayfs-bench-puts ENDPOINT BUCKET PREFIX COUNT BYTES AT_A_TIME`, with the keys in the environment.

use std::error::Error;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::{Client, Config};
use futures::{StreamExt, TryStreamExt, stream};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, bucket, prefix, count, bytes, at_a_time] = arguments.as_slice() else {
        return Err("usage: quayfs-bench-puts ENDPOINT BUCKET PREFIX COUNT BYTES AT_A_TIME".into());
    };
    let (count, bytes, at_a_time): (u32, usize, usize) =
        (count.parse()?, bytes.parse()?, at_a_time.parse()?);
    let client = &client(endpoint)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let micros = runtime.block_on(async {
        // The connections are there already, as they are in a mount.
        put(client, bucket, prefix, 0..64, bytes, at_a_time).await?;
        let started = testkit::wait::now();
        put(client, bucket, prefix, 0..count, bytes, at_a_time).await?;
        Ok::<u128, Box<dyn Error>>(started.elapsed().as_micros())
    })?;
    say(&micros.to_string());
    Ok(())
}

async fn put(
    client: &Client,
    bucket: &str,
    prefix: &str,
    numbers: std::ops::Range<u32>,
    bytes: usize,
    at_a_time: usize,
) -> Result<(), Box<dyn Error>> {
    stream::iter(numbers)
        .map(|number| async move {
            let body = ByteStream::from(vec![7; bytes]);
            let key = format!("{prefix}{number}");
            client.put_object().bucket(bucket).key(key).body(body).send().await.map(drop)
        })
        .buffer_unordered(at_a_time)
        .try_collect::<()>()
        .await?;
    Ok(())
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

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn say(text: &str) {
    println!("{text}");
}
