//! How both kinds of calls are made: those that go straight, and those of the library. What can be put right after a
//! refusal, such as keys that have been replaced, is, and the call fails in passing.

use std::sync::Arc;

use aws_sdk_s3::client::customize::CustomizableOperation;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use http::Method;

use super::direct::Call;
use super::terms::{Header, Purpose};
use super::ways::Way;
use super::{BucketKind, S3, fault};
use crate::http::Answer;
use crate::{Key, Result};

impl S3 {
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Answer> {
        let way = self.ways.now();
        match way.direct.send(call).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.ways.put_right(&way, error).await),
        }
    }

    /// A call that goes straight, on the bucket's terms.
    pub(super) fn call<'a>(
        &self,
        op: &'static str,
        method: Method,
        key: &'a Key,
        purpose: Purpose<'_>,
    ) -> Call<'a> {
        Call::new(op, method, key).terms(self.headers(purpose))
    }

    pub(super) fn headers(&self, purpose: Purpose<'_>) -> Vec<Header> {
        match self.kind {
            BucketKind::General => self.terms.headers(purpose),
            BucketKind::Directory => self.terms.headers_in_session(purpose),
        }
    }

    /// A call of the library's, on the same terms.
    pub(super) fn on_terms<T, E, B>(
        &self,
        call: CustomizableOperation<T, E, B>,
        purpose: Purpose<'_>,
    ) -> CustomizableOperation<T, E, B> {
        let headers = self.headers(purpose);
        // It is signed afterwards.
        call.mutate_request(move |request| {
            for (name, value) in &headers {
                request.headers_mut().insert(*name, value.clone());
            }
        })
    }

    /// What comes of a call of the library's on this way.
    pub(super) async fn ask<T, E>(
        &self,
        (way, purpose): (&Arc<Way>, Purpose<'_>),
        (op, key): (&'static str, &Key),
        asking: impl Future<Output = std::result::Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let keys = way.keys_for(purpose);
        // The library asks for them as well, and gets the same.
        let used = match keys {
            Some(keys) => keys.now().await.map(Some),
            None => Ok(None),
        };
        let used = used.map_err(|error| fault::of_credentials(op, key, &error))?;
        let error = match asking.await {
            Ok(answer) => return Ok(answer),
            Err(error) => fault::of_call(op, key, &error),
        };
        let error = self.ways.put_right(way, error).await;
        Err(match keys {
            Some(keys) => keys.put_right(used.as_ref(), error).await,
            None => error,
        })
    }

    /// Likewise of one for which the store copies or puts together so much.
    pub(super) async fn ask_for_work<T, E>(
        &self,
        way: (&Arc<Way>, Purpose<'_>),
        (op, key): (&'static str, &Key),
        work_bytes: u64,
        asking: impl Future<Output = std::result::Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let asked = self.http.in_time(work_bytes, self.ask(way, (op, key), asking)).await;
        asked.unwrap_or_else(|failure| Err(failure.into_error(op, key)))
    }
}
