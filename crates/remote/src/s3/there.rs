//! What time it is at the server, also told by the answers that the library gets.

use std::fmt;
use std::sync::Arc;

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

use crate::there::{Skew, There};

/// Listens to the answers that the library gets. What the library signs by itself follows them too.
#[derive(Clone, Debug)]
pub(super) struct Listening(pub(super) Arc<There>);

impl Intercept for Listening {
    fn name(&self) -> &'static str {
        "time there"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response();
        match self.0.learn(answer.headers().get("date")) {
            // Perhaps for this alone.
            Skew::Other if [401, 403].contains(&answer.status().as_u16()) => Err(WrongTime.into()),
            Skew::Other | Skew::Same => Ok(()),
        }
    }
}

/// A request was refused that was signed before the time there was known.
#[derive(Debug)]
pub(super) struct WrongTime;

impl fmt::Display for WrongTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the clock of this machine, or that of the store, is wrong")
    }
}

impl std::error::Error for WrongTime {}
