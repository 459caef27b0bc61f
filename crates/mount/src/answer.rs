//! Answers now what needs no waiting, and later what does.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use base::Errno;
use fuse::{Answer, Reply};
use tokio::runtime::Handle;
use vfs::Error;

/// Runs `work` as far as it goes without waiting. Most requests end there, on the thread that read
/// them, which saves two switches of threads; the rest goes to the runtime.
pub(crate) fn answer(
    runtime: &Handle,
    work: impl Future<Output = Result<Reply, Error>> + Send + 'static,
) -> Answer {
    let mut work = Box::pin(work);
    let _entered = runtime.enter();
    // What waits is polled again by the runtime, with a waker that wakes.
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Answer::Now(done.map_err(|error| told(&error))),
        Poll::Pending => {
            Answer::Later(Box::pin(async move { work.await.map_err(|error| told(&error)) }))
        }
    }
}

/// What the application is told of `error`. What it could not guess from the number is logged.
pub(crate) fn told(error: &Error) -> Errno {
    let errno = vfs::errno(error);
    match errno {
        Errno::EIO
        | Errno::ESTALE
        | Errno::EACCES
        | Errno::ENOSPC
        | Errno::EBUSY
        | Errno::ETXTBSY => {
            tracing::warn!(%errno, %error, "a request failed");
        }
        _ => tracing::debug!(%errno, %error, "a request was refused"),
    }
    errno
}
