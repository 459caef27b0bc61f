//! Tells a store's answer from a page that something in between wrote for people.
//!
//! Networks that want a login, and proxies that fail, answer everything with a page and status 200.
//! To a removal that would look like success.

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

/// The status of an answer that has no body.
const NO_CONTENT: u16 = 204;

/// Refuses such pages. What refuses an answer is a failure in passing.
#[derive(Debug)]
pub(super) struct NoPages;

impl Intercept for NoPages {
    fn name(&self) -> &'static str {
        "NoPages"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response();
        let headers = answer.headers();
        let kind = headers.get("content-type");
        let status = answer.status();
        // An answer without a body is none, whatever its type; an object may be one, but each has a
        // version.
        let has_body = status.as_u16() != NO_CONTENT;
        if status.is_success() && has_body && is_page(kind) && headers.get("etag").is_none() {
            return Err("a page for people instead of an answer".into());
        }
        Ok(())
    }
}

fn is_page(content_type: Option<&str>) -> bool {
    let word = content_type.and_then(|kind| kind.split(';').next()).unwrap_or("");
    word.trim().eq_ignore_ascii_case("text/html")
}

#[cfg(test)]
mod tests {
    use super::is_page;

    #[test]
    fn a_page_is_known_by_its_type() {
        assert!(is_page(Some("text/html")) && is_page(Some("Text/HTML; charset=utf-8")));
        assert!(!is_page(None) && !is_page(Some("application/xml")));
    }
}
