//! Measures a bucket by requests alone, as the best that any file system over it could do.

use std::sync::Arc;

use base::{ByteRange, Rng};
use bytes::Bytes;
use futures::{StreamExt, stream};
use remote::{Condition, Key, Metadata, PartNumber, PutOptions, Remote};

use crate::figures::{AT_A_TIME, Figures, Phase, RANDOM_READS, SMALL_BYTES, SMALL_FILES, Stop};

/// What one request sends or asks for.
const PART_BYTES: u64 = 8 << 20;

/// Measures `remote` with an object of `bytes` and some small ones, and removes them.
pub(crate) async fn measure(
    remote: &Arc<dyn Remote>,
    bytes: u64,
    stop: &Stop,
) -> remote::Result<Figures> {
    let name = format!(".quayfs-bench-{:016x}", Rng::from_entropy().id() >> 64);
    let raw = Raw { remote: Arc::clone(remote), name, stop: stop.clone() };
    let measured = raw.measure(bytes).await;
    raw.remove().await;
    measured
}

struct Raw {
    remote: Arc<dyn Remote>,
    name: String,
    stop: Stop,
}

impl Raw {
    fn key(&self, end: &str) -> Key {
        Key::from(format!("{}-{end}", self.name).as_str())
    }

    async fn measure(&self, bytes: u64) -> remote::Result<Figures> {
        let (write_bytes, size) = self.write(bytes).await?;
        let read_bytes = self.read(size).await?;
        Ok(Figures {
            write_bytes,
            first_read_bytes: read_bytes,
            read_bytes,
            random_reads: self.read_here_and_there(size).await?,
            small_writes: self.write_small().await?,
            small_reads: self.read_small().await?,
        })
    }

    /// How many bytes are written each second, and how many there are in the end.
    async fn write(&self, bytes: u64) -> remote::Result<(Option<u64>, u64)> {
        let part = Bytes::from(vec![b'q'; usize::try_from(PART_BYTES).unwrap_or(0)]);
        let (key, condition) = (self.key("large"), Condition::Always);
        let options = PutOptions { condition: condition.clone(), metadata: Metadata::new() };
        let phase = Phase::begin(&self.stop);
        let upload = self.remote.upload_create(&key, &options).await?;
        let count = u32::try_from(bytes.div_ceil(PART_BYTES)).unwrap_or(1).max(1);
        let sent: Vec<_> = stream::iter(1..=count)
            // The first is sent whatever the time: an object has bytes.
            .take_while(|&number| std::future::ready(number == 1 || !phase.is_over()))
            .map(|number| {
                let (key, upload, part) = (&key, &upload, part.clone());
                async move {
                    let number = PartNumber(number);
                    let tag = self.remote.upload_part(key, upload, number, part).await;
                    tag.map(|tag| (number, tag))
                }
            })
            .buffered(AT_A_TIME)
            .collect()
            .await;
        let parts = sent.into_iter().collect::<remote::Result<Vec<_>>>();
        let done = match parts {
            Ok(parts) => {
                let size = parts.len() as u64 * PART_BYTES;
                let done = self.remote.upload_complete(&key, &upload, &parts, &condition).await;
                done.map(|_| size)
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(size) => Ok((phase.rate(size), size)),
            Err(error) => {
                self.remote.upload_abort(&key, &upload).await?;
                Err(error)
            }
        }
    }

    async fn read(&self, size: u64) -> remote::Result<Option<u64>> {
        let ranges = ByteRange::new(0, size).into_iter().flat_map(|all| all.pieces(PART_BYTES));
        let phase = Phase::begin(&self.stop);
        let done = self.each(&phase, ranges, |range| self.get("large".to_owned(), range)).await?;
        Ok(phase.rate(done * PART_BYTES))
    }

    async fn read_here_and_there(&self, size: u64) -> remote::Result<Option<u64>> {
        let places = (size / SMALL_BYTES).max(1);
        let rng = Rng::from_entropy();
        let ranges = (0..RANDOM_READS)
            .filter_map(|_| ByteRange::at(rng.below(places) * SMALL_BYTES, SMALL_BYTES));
        let phase = Phase::begin(&self.stop);
        let done = self.each(&phase, ranges, |range| self.get("large".to_owned(), range)).await?;
        Ok(phase.rate(done))
    }

    async fn write_small(&self) -> remote::Result<Option<u64>> {
        let content = Bytes::from(vec![b'q'; usize::try_from(SMALL_BYTES).unwrap_or(0)]);
        let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
        let phase = Phase::begin(&self.stop);
        let put = |number: u64| {
            let (key, content, options) =
                (self.key(&number.to_string()), content.clone(), &options);
            async move { self.remote.put(&key, content, options).await.map(drop) }
        };
        let done = self.each(&phase, 0..SMALL_FILES, put).await?;
        Ok(phase.rate(done))
    }

    async fn read_small(&self) -> remote::Result<Option<u64>> {
        let all = ByteRange::new(0, SMALL_BYTES).expect("they are not empty");
        let phase = Phase::begin(&self.stop);
        let get = |number: u64| async move {
            match self.get(number.to_string(), all).await {
                // It was not written in time.
                Err(error) if error.kind == remote::ErrorKind::NotFound => Ok(()),
                got => got,
            }
        };
        let done = self.each(&phase, 0..SMALL_FILES, get).await?;
        Ok(phase.rate(done))
    }

    async fn get(&self, end: String, range: ByteRange) -> remote::Result<()> {
        let mut body = self.remote.get(&self.key(&end), range, None).await?;
        while let Some(chunk) = body.next().await {
            chunk?;
        }
        Ok(())
    }

    /// Does `one` with each, some at a time, until the time is over; returns how many were done.
    async fn each<T, F: Future<Output = remote::Result<()>>>(
        &self,
        phase: &Phase,
        all: impl Iterator<Item = T>,
        one: impl Fn(T) -> F,
    ) -> remote::Result<u64> {
        let mut running =
            stream::iter(all.take_while(|_| !phase.is_over())).map(one).buffer_unordered(AT_A_TIME);
        let mut done = 0;
        while let Some(one) = running.next().await {
            one?;
            done += 1;
        }
        Ok(done)
    }

    /// Removes what was made; removing what was not is no error.
    async fn remove(&self) {
        let small = (0..SMALL_FILES).map(|number| number.to_string());
        let removed = stream::iter(small.chain(["large".to_owned()]))
            .map(|end| async move { self.remote.delete(&self.key(&end)).await })
            .buffer_unordered(AT_A_TIME);
        let failed = removed.filter_map(|one| async { one.err() }).collect::<Vec<_>>().await;
        if let Some(error) = failed.first() {
            tracing::warn!(%error, name = self.name, "objects of a bench stay behind");
        }
    }
}
