//! Against servers that say one thing, or nothing.

use std::sync::Arc;
use std::time::Duration;

use base::{ByteRange, Clock, SystemClock, Timestamp};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::Method;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::recording::Recording;
use super::{Asked, Checksum, Failure, Http, Request, Told, collect, ranged};
use crate::{Authorities, ErrorKind, Key, Version};

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let url = server(vec![""]).await;
    let http = http(Duration::from_millis(100));
    let failed = http.send(get(&url)).await.err();
    assert_eq!(failed, Some(Failure::Timeout("no answer in time")));
}

/// A clock on which time flies.
#[derive(Debug)]
struct Hasty(SystemClock);

impl Clock for Hasty {
    fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic() * HASTE
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(delay / HASTE)
    }
}

const HASTE: u32 = 100;

#[tokio::test]
async fn a_server_that_is_silent_is_given_up_also_when_it_is_sent_much() {
    // Nobody accepts: the kernel takes what fits into its buffers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let clock: Arc<dyn Clock> = Arc::new(Hasty(SystemClock::new()));
    let http = Http::new(Duration::from_secs(5), &Authorities::default(), Arc::clone(&clock));
    for (sent_bytes, work_bytes, secs_max) in
        [(0, 1 << 20, 6), (2_000_000, 0, 9), (9_000_000, 0, 16), (64 << 20, 0, 12)]
    {
        let begun = clock.monotonic();
        let request = Request {
            work_bytes,
            ..Request::new(Method::PUT, url.clone()).body(Bytes::from(vec![0; sent_bytes]))
        };
        let failed = http.send(request).await.err();
        assert!(matches!(failed, Some(Failure::Timeout(_))), "{failed:?}");
        // A machine that is busy does the rest more slowly.
        let took = clock.monotonic().saturating_sub(begun);
        assert!(took < Duration::from_secs(secs_max + 60), "{sent_bytes} bytes: {took:?}");
    }
}

#[tokio::test]
async fn nobody_at_the_door_is_unreachable() {
    let failed = patient().send(get("http://127.0.0.1:1/secret?sig=hush")).await.err().unwrap();
    assert!(matches!(failed, Failure::Unreachable(_)), "{failed:?}");
    let error = failed.into_error("get", &Key::from("a"));
    assert_eq!(error.kind, ErrorKind::Transient { retry_after: None });
    assert!(!error.to_string().contains("hush"), "{error}");
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit() {
    let five = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12345";
    let unknown = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n12345";
    let url = server(vec![five, five, unknown, unknown]).await;
    for _ in 0..2 {
        let answer = patient().send(get(&url)).await.unwrap();
        assert_eq!(answer.bytes(5).await, Ok(Bytes::from("12345")));
        let answer = patient().send(get(&url)).await.unwrap();
        assert_eq!(answer.bytes(4).await, Err(Failure::TooLarge));
    }
}

#[tokio::test]
async fn a_body_is_the_range_or_an_error() {
    let key = Key::from("a");
    let range = ByteRange::new(5, 10).unwrap();
    let version = Version::new("1");
    for (answer, want) in [
        ("206 P\r\ncontent-range: bytes 5-9/100\r\ncontent-length: 5\r\n\r\n12345", Ok("12345")),
        (
            "206 P\r\ncontent-range: bytes 0-4/100\r\ncontent-length: 5\r\n\r\n12345",
            Err("is not the range"),
        ),
        (
            "206 P\r\ncontent-range: bytes 5-6/7\r\ncontent-length: 2\r\n\r\n12",
            Err("past the object's end"),
        ),
        ("206 P\r\ncontent-range: bytes 5-9/100\r\ncontent-length: 6\r\n\r\n123456", Err("length")),
        ("206 P\r\ncontent-range: bytes 5-9/100\r\ncontent-length: 5\r\n\r\n123", Err("broke")),
        ("200 OK\r\ncontent-length: 5\r\n\r\n12345", Err("is not the range")),
    ] {
        let url = server(vec![&format!("HTTP/1.1 {answer}")]).await;
        let answer = patient().send(get(&url)).await.unwrap();
        let asked = Asked { key: &key, range, version: Some(&version) };
        let got = match ranged(asked, answer, Some(&version), Told::Nothing) {
            Ok(body) => {
                body.collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<Bytes>, _>>()
            }
            Err(error) => Err(error),
        };
        match (got, want) {
            (Ok(got), Ok(want)) => assert_eq!(got.concat(), want.as_bytes()),
            (Err(error), Err(words)) => {
                let said = error.to_string().to_lowercase();
                assert!(said.contains(words) || words == "broke", "{error}");
            }
            (got, want) => panic!("{got:?} instead of {want:?}"),
        }
    }
}

#[tokio::test]
async fn a_body_of_another_version_is_not_handed_out() {
    let url = server(vec!["HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1"]).await;
    let answer = patient().send(get(&url)).await.unwrap();
    let (key, range) = (Key::from("a"), ByteRange::new(0, 1).unwrap());
    let (named, found) = (Version::new("1"), Version::new("2"));
    let asked = Asked { key: &key, range, version: Some(&named) };
    let error = ranged(asked, answer, Some(&found), Told::Nothing).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Changed);
}

#[tokio::test]
async fn a_body_of_no_version_is_not_the_stores() {
    let url = server(vec!["HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n<Error/>"; 2]).await;
    let (key, range, named) = (Key::from("a"), ByteRange::new(0, 8).unwrap(), Version::new("1"));
    for version in [Some(&named), None] {
        let answer = patient().send(get(&url)).await.unwrap();
        let error = ranged(Asked { key: &key, range, version }, answer, None, Told::Nothing);
        let transient = ErrorKind::Transient { retry_after: None };
        assert_eq!(error.err().unwrap().kind, transient, "{version:?}");
    }
}

#[tokio::test]
async fn bytes_with_another_checksum_are_corrupt() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789";
    let url = server(vec![answer, answer]).await;
    let key = Key::from("a");
    let answer = patient().send(get(&url)).await.unwrap();
    let good = base::crc32c(b"123456789");
    assert_eq!(collect(&key, 9, answer, Some(Checksum::Crc32c(good))).await.unwrap(), "123456789");
    let answer = patient().send(get(&url)).await.unwrap();
    let error = collect(&key, 9, answer, Some(Checksum::Crc32c(good ^ 1))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_request(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let http = patient();
    for _ in 0..3 {
        assert_eq!(http.send(get(&url)).await.unwrap().bytes(1).await, Ok(Bytes::from("1")));
    }
    serving.await.unwrap();
}

/// A server that gives each connection in turn one of `answers`, and is silent after an empty one.
async fn server(answers: Vec<&str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answers: Vec<String> = answers.into_iter().map(str::to_owned).collect();
    tokio::spawn(async move {
        let mut silent = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            if answer.is_empty() {
                silent.push(stream);
                std::future::pending::<()>().await;
            } else {
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    url
}

async fn read_request(stream: &mut tokio::net::TcpStream) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.unwrap();
        seen.push(byte);
    }
}

fn get(url: &str) -> Request {
    Request::new(Method::GET, url.to_owned())
}

fn patient() -> Http {
    http(Duration::from_secs(30))
}

fn http(patience: Duration) -> Http {
    Http::new(patience, &Authorities::default(), Arc::new(SystemClock::new()))
}

#[tokio::test]
async fn plain_http_goes_through_the_proxy_that_the_environment_names() {
    let proxy = Recording::start(&["200 OK\r\n\r\n1"]).await;
    let with_login = proxy.url().replace("http://", "http://name:pass@");
    let proxies = Matcher::builder().http(with_login).build().into();
    let http = Http::through(proxies, Arc::new(SystemClock::new()));
    let answer = http.send(get("http://store.invalid/bucket/key?a=b")).await.unwrap();
    assert_eq!(answer.bytes(1).await, Ok(Bytes::from("1")));
    let asked = &proxy.asked()[0];
    assert_eq!(asked.line, "GET http://store.invalid/bucket/key?a=b");
    assert_eq!(asked.header("host"), "store.invalid");
    assert_eq!(asked.header("proxy-authorization"), "Basic bmFtZTpwYXNz");
}
