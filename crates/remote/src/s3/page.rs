//! Tells a store's answer from a page that something in between wrote for people.
//!
//! Networks that want a login, and proxies that fail, answer everything with a page and status 200.
//! To a removal that would look like success.

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

use crate::http::is_page;

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
        if is_page(answer.status().as_u16(), |name| headers.get(name)) {
            return Err("a page for people instead of an answer".into());
        }
        Ok(())
    }
}
