//! Tells a store's answer from a page that something in between wrote for people; pure.
//!
//! Networks that want a login, and proxies that fail, answer everything with a page and status 200, or send
//! elsewhere for one. To a removal the first would look like success, and the second as if the store were
//! elsewhere; it says so in XML.

/// Answers of these have no body.
const NO_CONTENT: u16 = 204;
const NOT_MODIFIED: u16 = 304;

/// Each object has one of these, so that an object that is a page is not taken for such an answer.
const VERSIONS: [&str; 2] = ["etag", "x-goog-generation"];

/// Whether an answer of this status and with these headers, of lower case, is such a page.
pub(crate) fn is_page<'a>(status: u16, header: impl Fn(&str) -> Option<&'a str>) -> bool {
    let is_said = (200..400).contains(&status);
    // An answer without a body is none, whatever its type.
    is_said
        && ![NO_CONTENT, NOT_MODIFIED].contains(&status)
        && is_html(header("content-type"))
        && VERSIONS.iter().all(|name| header(name).is_none())
}

/// Whether a content type is that of a web page.
pub(crate) fn is_html(content_type: Option<&str>) -> bool {
    let word = content_type.and_then(|kind| kind.split(';').next()).unwrap_or("");
    word.trim().eq_ignore_ascii_case("text/html")
}

#[cfg(test)]
mod tests {
    use super::is_page;

    #[test]
    fn a_page_is_known_by_its_type_and_an_object_by_its_version() {
        let page = |status, headers: &'static [(&str, &str)]| {
            let header = |name: &str| {
                headers.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
            };
            is_page(status, header)
        };
        assert!(page(200, &[("content-type", "text/html")]));
        assert!(page(201, &[("content-type", "Text/HTML; charset=utf-8")]));
        assert!(!page(200, &[]) && !page(200, &[("content-type", "application/xml")]));
        assert!(page(302, &[("content-type", "text/html")]));
        assert!(!page(301, &[("content-type", "application/xml")]));
        assert!(!page(204, &[("content-type", "text/html")]));
        assert!(!page(304, &[("content-type", "text/html")]));
        assert!(!page(404, &[("content-type", "text/html")]));
        for version in ["etag", "x-goog-generation"] {
            let headers: &'static [_] = match version {
                "etag" => &[("content-type", "text/html"), ("etag", "\"1\"")],
                _ => &[("content-type", "text/html"), ("x-goog-generation", "1")],
            };
            assert!(!page(200, headers), "{version}");
        }
    }
}
