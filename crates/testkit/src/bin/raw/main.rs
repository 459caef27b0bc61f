//! Moves bytes as fast as a plain client of the library can: what a mount is measured against.
//!
//! ```text
//!   quayfs-bench-raw ENDPOINT BUCKET get KEY FILE           ranged GETs, to a file and to standard output
//!   quayfs-bench-raw ENDPOINT BUCKET ranges KEY COUNT BYTES AT_A_TIME   small parts, all over
//!   quayfs-bench-raw ENDPOINT BUCKET upload KEY FILE        the parts of one upload side by side
//!   quayfs-bench-raw ENDPOINT BUCKET list PREFIX            page after page
//!   quayfs-bench-raw ENDPOINT BUCKET gets PREFIX COUNT       so many objects, one after the other
//!   quayfs-bench-raw ENDPOINT BUCKET puts COUNT BYTES AT_A_TIME   small objects
//! ```
//!
//! The keys are in the environment.

mod download;
mod list;
mod timer;
mod upload;

use std::error::Error;
use std::path::Path;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::{Client, Config};

/// What goes wrong ends the program.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A bucket, and how it is reached.
struct Store {
    client: Client,
    bucket: String,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [endpoint, bucket, what @ ..] = arguments.as_slice() else {
        return Err(
            "usage: quayfs-bench-raw ENDPOINT BUCKET get|ranges|gets|list|upload|puts ...".into()
        );
    };
    let store = Store { client: client(endpoint)?, bucket: (*bucket).to_owned() };
    let runtime = tokio::runtime::Runtime::new()?;
    match what {
        ["get", key, file] => runtime.block_on(download::get(&store, key, Path::new(file))),
        ["ranges", key, count, bytes, at_a_time] => {
            let (count, bytes, at_a_time) = (count.parse()?, bytes.parse()?, at_a_time.parse()?);
            runtime.block_on(download::ranges(&store, key, count, bytes, at_a_time))
        }
        ["gets", prefix, count] => runtime.block_on(download::gets(&store, prefix, count.parse()?)),
        ["list", prefix] => runtime.block_on(list::pages(&store, prefix)),
        ["upload", key, file] => runtime.block_on(upload::parts(&store, key, Path::new(file))),
        ["puts", count, bytes, at_a_time] => {
            let (count, bytes, at_a_time) = (count.parse()?, bytes.parse()?, at_a_time.parse()?);
            runtime.block_on(upload::puts(&store, count, bytes, at_a_time))
        }
        _ => Err("get KEY FILE, gets PREFIX COUNT, list PREFIX, upload KEY FILE, or \
                  puts COUNT BYTES AT_A_TIME"
            .into()),
    }
}

fn client(endpoint: &str) -> Result<Client> {
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
