//! A listing that is looked through in its order.

use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use remote::{Meta, Result};

/// An object below a prefix: what its key goes on with, and what the listing says.
pub(super) type Found = (Vec<u8>, Meta);

/// A listing that is looked through in its order.
pub(super) struct Ahead {
    listed: BoxStream<'static, Result<Found>>,
    head: Option<Found>,
}

impl Ahead {
    pub(super) fn of(listed: BoxStream<'static, Result<Found>>) -> Ahead {
        Ahead { listed, head: None }
    }

    /// The object whose key goes on with `rest`, which is greater than all asked for before.
    pub(super) async fn find(&mut self, rest: &[u8]) -> Result<Option<Meta>> {
        loop {
            match self.head.take() {
                Some((key, meta)) if key == rest => return Ok(Some(meta)),
                Some(ahead) if rest < ahead.0.as_slice() => {
                    self.head = Some(ahead);
                    return Ok(None);
                }
                Some(_) | None => match self.listed.try_next().await? {
                    Some(next) => self.head = Some(next),
                    None => return Ok(None),
                },
            }
        }
    }
}
