//! What kind of server an endpoint is, where it makes a difference.

use std::sync::{Arc, OnceLock};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

/// How the store checks that it got the bytes of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartChecks {
    /// By the signature of the request, of which they are a part.
    Signature,
    /// By checksums that the upload announces.
    Announced,
    /// By checksums that it does not announce.
    Unannounced,
}

/// How uploads to the server of a bucket are to be checked.
pub(super) async fn part_checks(client: &Client, bucket: &str) -> PartChecks {
    let named = Named::default();
    let request = client.head_bucket().bucket(bucket).customize().interceptor(named.clone());
    if let Err(error) = request.send().await {
        // Whether the bucket can be used shows the first call.
        tracing::debug!(%error, bucket, "asked for the server's name");
    }
    part_checks_of(named.0.get().map_or("", |name| name))
}

/// `MinIO` copies no part into an upload that announces checksums.
fn part_checks_of(server: &str) -> PartChecks {
    if server.starts_with("MinIO") { PartChecks::Unannounced } else { PartChecks::Announced }
}

/// Listens for the server's name.
#[derive(Clone, Debug, Default)]
struct Named(Arc<OnceLock<String>>);

impl Intercept for Named {
    fn name(&self) -> &'static str {
        "server name"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(name) = context.response().headers().get("server") {
            self.0.get_or_init(|| name.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PartChecks, part_checks_of};

    #[test]
    fn only_minio_is_spared_announcements() {
        assert_eq!(part_checks_of("MinIO"), PartChecks::Unannounced);
        for server in ["AmazonS3", "", "nginx"] {
            assert_eq!(part_checks_of(server), PartChecks::Announced, "{server}");
        }
    }
}
