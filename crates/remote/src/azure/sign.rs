//! The account's own signature of a request ("Shared Key"); pure.

use std::fmt::Write as _;

use aws_smithy_types::base64;
use http::Method;
use ring::hmac;

/// What is signed of a request.
pub(super) struct Signed<'a> {
    pub(super) account: &'a str,
    pub(super) method: &'a Method,
    /// As it stands in the URL.
    pub(super) path: &'a str,
    /// Not escaped.
    pub(super) query: &'a [(&'static str, String)],
    pub(super) headers: &'a [(String, String)],
    pub(super) length: usize,
}

/// The headers that are signed in a place of their own, behind the length.
const FIXED: [&str; 8] = [
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// The `Authorization` header.
pub(super) fn authorization(key: &hmac::Key, request: &Signed<'_>) -> String {
    let signature = hmac::sign(key, text(request).as_bytes());
    format!("SharedKey {}:{}", request.account, base64::encode(signature.as_ref()))
}

fn text(request: &Signed<'_>) -> String {
    let header = |wanted: &str| {
        let mut headers = request.headers.iter();
        headers.find(|(name, _)| name == wanted).map_or("", |(_, value)| value)
    };
    let length = if request.length == 0 { String::new() } else { request.length.to_string() };
    let mut text = format!(
        "{}\n{}\n{}\n{length}\n",
        request.method,
        header("content-encoding"),
        header("content-language"),
    );
    for name in FIXED {
        text.push_str(header(name));
        text.push('\n');
    }
    let own = request.headers.iter().filter(|(name, _)| name.starts_with("x-ms-"));
    let mut own: Vec<&(String, String)> = own.collect();
    own.sort_by_key(|(name, _)| rank(name));
    for (name, value) in own {
        writeln!(text, "{name}:{}", value.trim()).expect("a string takes all text");
    }
    write!(text, "/{}{}", request.account, request.path).expect("a string takes all text");
    let query = request.query.iter();
    let mut query: Vec<(String, &String)> =
        query.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    query.sort();
    for (name, value) in query {
        write!(text, "\n{name}:{value}").expect("a string takes all text");
    }
    text
}

/// The service sorts header names as words of a language: `_` comes before digits, and `-` counts
/// only where all else is equal.
fn rank(name: &str) -> (String, &str) {
    let words = name.chars().filter(|&letter| letter != '-');
    (words.map(|letter| if letter == '_' { ' ' } else { letter }).collect(), name)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use ring::hmac;

    use super::{Signed, authorization, rank, text};

    #[test]
    fn a_request_is_spelt_as_documented() {
        let headers = [
            ("x-ms-version", "2015-02-21"),
            ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"),
            ("if-match", "\"1\""),
            ("accept", "all"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let query = [("restype", "container".to_owned()), ("Comp", "a b".to_owned())];
        let request = Signed {
            account: "myaccount",
            method: &Method::GET,
            path: "/mycontainer/%C3%BC",
            query: &query,
            headers: &headers,
            length: 0,
        };
        assert_eq!(
            text(&request),
            "GET\n\n\n\n\n\n\n\n\"1\"\n\n\n\n\
             x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer/%C3%BC\ncomp:a b\nrestype:container",
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        assert!(authorization(&key, &request).starts_with("SharedKey myaccount:"));
        let longer = text(&Signed { length: 7, method: &Method::PUT, ..request });
        assert!(longer.starts_with("PUT\n\n\n7\n"), "{longer}");
    }

    #[test]
    fn headers_are_sorted_as_the_service_does() {
        let mut names = ["x-ms-meta-a0", "x-ms-meta-a_x2d_b", "x-ms-meta-ab", "x-ms-date"];
        names.sort_by_key(|name| rank(name).0);
        assert_eq!(names, ["x-ms-date", "x-ms-meta-a_x2d_b", "x-ms-meta-a0", "x-ms-meta-ab"]);
    }
}
