//! Copies that the service makes in the background.

use std::time::Duration;

use http::Method;

use crate::http::Answer;
use crate::{Error, ErrorKind, Key, Result, Version};

use super::call::Call;
use super::{Azure, version_of};

/// How long a copy may take, and how often it is looked after.
const COPY_MAX: Duration = Duration::from_mins(15);
const COPY_PAUSE_MIN: Duration = Duration::from_millis(50);
const COPY_PAUSE_MAX: Duration = Duration::from_secs(2);

impl Azure {
    /// Waits until the copy to `to` is complete.
    pub(super) async fn copied(
        &self,
        op: &'static str,
        to: &Key,
        mut answer: Answer,
    ) -> Result<Version> {
        let copy_id = answer.header("x-ms-copy-id").map(str::to_owned);
        let begun = self.shared.clock.monotonic();
        let mut pause = COPY_PAUSE_MIN;
        let fail = |kind, words: &str| Err(Error::new(kind, op, to).because(words));
        let transient = ErrorKind::Transient { retry_after: None };
        loop {
            if answer.header("x-ms-copy-id") != copy_id.as_deref() {
                return fail(ErrorKind::Changed, "somebody else wrote the copy meanwhile");
            }
            match answer.header("x-ms-copy-status") {
                Some("success") => return version_of(op, to, &answer),
                Some("pending") => {}
                Some(_) | None => return fail(transient, "the service gave the copy up"),
            }
            if COPY_MAX < self.shared.clock.monotonic().saturating_sub(begun) {
                return fail(transient, "the copy takes too long");
            }
            self.shared.clock.sleep(pause).await;
            pause = (pause * 2).min(COPY_PAUSE_MAX);
            answer = self.blob(Call::new(op, Method::HEAD, to)).await?;
        }
    }
}
