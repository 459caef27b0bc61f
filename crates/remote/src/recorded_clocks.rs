//! That a wrong clock of this machine is put right by the servers of Azure and Google; S3's are in `s3/recorded.rs`.

use std::path::Path;
use std::sync::Arc;

use aws_smithy_types::base64;
use base::{Clock, Rng, SystemClock, Timestamp};

use crate::http::http_date;
use crate::http::recording::Recording;
use crate::{
    Azure, AzureCredentials, AzureOptions, ErrorKind, Gcs, GcsCredentials, GcsOptions, Key, Remote,
    Secret,
};

const KEY: &str = include_str!("gcs/test-key.pem");

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// An hour from now, in seconds and as a header says it.
fn soon() -> (i64, String) {
    let secs = SystemClock::new().wall().secs + 3600;
    (secs, format!("date: {}\r\n", http_date(Timestamp { secs, nanos: 0 })))
}

fn world() -> (Arc<dyn Clock>, Arc<Rng>) {
    (Arc::new(SystemClock::new()), Arc::new(Rng::from_entropy()))
}

#[tokio::test]
async fn azure_is_signed_for_at_the_time_there() {
    let (secs, date) = soon();
    let refused = format!("403 No\r\n{date}x-ms-error-code: AuthenticationFailed\r\n\r\n");
    let object = format!(
        "200 OK\r\n{date}etag: \"0x1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\nbytes"
    );
    let server = Recording::start(&[&refused, &object, &refused]).await;
    let credentials = AzureCredentials::SharedKey(Secret::new("aHVzaA=="));
    let endpoint = Some(format!("{}/account", server.url()));
    let options = AzureOptions { endpoint, ..AzureOptions::new("account", "c", credentials) };
    let (clock, rng) = world();
    let azure = Azure::connect(&options, clock, rng).unwrap();
    let key = Key::from("a");
    assert_eq!(azure.head(&key).await.unwrap_err().kind, TRANSIENT);
    azure.head(&key).await.unwrap();
    assert_eq!(azure.head(&key).await.unwrap_err().kind, ErrorKind::Denied, "the clock is right");
    let said = crate::http::parse_http_date(server.asked()[1].header("x-ms-date")).unwrap();
    assert!((said.secs - secs).abs() < 60, "{said:?}");
}

#[tokio::test]
async fn google_is_told_who_asks_at_the_time_there() {
    let (secs, date) = soon();
    let refused = format!("400 No\r\n{date}\r\n{{\"error\":\"invalid_grant\"}}");
    let granted = format!("200 OK\r\n{date}\r\n{{\"access_token\":\"a\",\"expires_in\":3600}}");
    let tokens = Recording::start(&[&refused, &granted]).await;
    let file = serde_json::json!({
        "type": "service_account",
        "client_email": "me@project",
        "private_key": KEY,
        "token_uri": format!("{}/token", tokens.url()),
    });
    let read = |path: &Path| Err(std::io::Error::other(path.display().to_string()));
    let credentials = GcsCredentials::from_file(&file.to_string(), read).unwrap();
    let object = r#"{"name":"a","generation":"7","size":"1","updated":"1994-11-06T08:49:37Z"}"#;
    let server = Recording::start(&[&format!("200 OK\r\n\r\n{object}")]).await;
    let endpoint = Some(server.url().to_owned());
    let options = GcsOptions { endpoint, ..GcsOptions::new("b", credentials) };
    let (clock, rng) = world();
    let gcs = Gcs::connect(&options, clock, rng).unwrap();
    let key = Key::from("a");
    assert_eq!(gcs.head(&key).await.unwrap_err().kind, TRANSIENT);
    gcs.head(&key).await.unwrap();
    let said = issued_secs(&tokens.asked()[1].body);
    assert!((said - secs).abs() < 60, "{said}");
}

/// When the assertion in a form says that it was made.
fn issued_secs(form: &str) -> i64 {
    let assertion = form.rsplit_once('=').unwrap().1;
    let claims = assertion.split('.').nth(1).unwrap().replace('-', "+").replace('_', "/");
    let padding = "=".repeat((4 - claims.len() % 4) % 4);
    let claims = base64::decode(format!("{claims}{padding}")).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    claims["iat"].as_i64().unwrap()
}
