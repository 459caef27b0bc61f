//! Whether we may write: found out without writing.

use std::sync::atomic::Ordering;

use aws_smithy_types::base64;
use http::Method;

use crate::{Error, Key, PartNumber, Result};

use super::call::Call;
use super::{Azure, blocks};

impl Azure {
    /// An error if we may not write. A block whose checksum is wrong is refused by a service that
    /// lets us write and leaves nothing behind.
    pub(super) async fn check_write(
        &self,
        op: &'static str,
        key: &Key,
        number: u128,
    ) -> Result<()> {
        if self.shared.may_write.load(Ordering::Relaxed) {
            return Ok(());
        }
        let call = Call::new(op, Method::PUT, key)
            .query("comp", "block")
            .query("blockid", blocks::name(number, PartNumber(0)))
            .header("content-md5", base64::encode([0; 16]))
            .body("x");
        match self.blob(call).await {
            Ok(_) => {}
            Err(error) if is_refused_block(&error) => {}
            Err(error) => return Err(error),
        }
        self.shared.may_write.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a block was refused for its checksum alone.
fn is_refused_block(error: &Error) -> bool {
    let refusals = ["Md5Mismatch", "InvalidMd5", "InvalidOperation"];
    error.provider_error().is_some_and(|said| refusals.contains(&&said.code[..]))
}
