//! Ranged GETs side by side, written to a file at their offsets and handed on, in order, to the
//! standard output; small ranges; and plain GETs one after the other.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};

use crate::timer::Timer;
use crate::{Result, Store};

const RANGE_BYTES: u64 = 8 << 20;
const RANGES_AT_A_TIME: usize = 64;

/// Brings all of `key` to `file` and to the standard output.
pub(crate) async fn get(store: &Store, key: &str, file: &Path) -> Result<()> {
    let file = Arc::new(File::create(file)?);
    let head = store.client.head_object().bucket(&store.bucket).key(key).send().await?;
    let len = u64::try_from(head.content_length().unwrap_or(0))?;
    let starts = (0..len.div_ceil(RANGE_BYTES)).map(|number| number * RANGE_BYTES);
    let mut ranges = stream::iter(starts)
        .map(|start| range(store, key, start, len.min(start + RANGE_BYTES)))
        .buffered(RANGES_AT_A_TIME);
    let mut pipe = std::io::stdout().lock();
    while let Some(got) = ranges.next().await {
        let (start, pieces) = got?;
        let file = Arc::clone(&file);
        // The file is written while the next ranges arrive; the pipe waits for both.
        let pieces = tokio::task::spawn_blocking(move || write_at(&file, start, pieces)).await??;
        for piece in pieces {
            pipe.write_all(&piece)?;
        }
    }
    pipe.flush()?;
    Ok(())
}

/// Brings `count` objects at most of the first page of `prefix`, one after the other, to nowhere. Prints the
/// microseconds it took, and how many there were.
pub(crate) async fn gets(store: &Store, prefix: &str, count: usize) -> Result<()> {
    let timer = Timer::start();
    let list = store.client.list_objects_v2().bucket(&store.bucket).prefix(prefix);
    let list = list.send().await?;
    let objects = &list.contents()[..count.min(list.contents().len())];
    for object in objects {
        let key = object.key().ok_or("an object without a key")?;
        let get = store.client.get_object().bucket(&store.bucket).key(key);
        get.send().await?.body.collect().await?;
    }
    timer.tell_count(objects.len());
    Ok(())
}

/// Brings `count` ranges of `bytes` each, all over `key`, `at_a_time` of them, to nowhere. Prints the
/// microseconds it took, and those of a single one.
pub(crate) async fn ranges(
    store: &Store,
    key: &str,
    count: u64,
    bytes: u64,
    at_a_time: usize,
) -> Result<()> {
    let head = store.client.head_object().bucket(&store.bucket).key(key).send().await?;
    let places = u64::try_from(head.content_length().unwrap_or(0))? / bytes;
    let timer = Timer::start();
    let mut ranges = stream::iter(0..count)
        .map(async |number| {
            let timer = Timer::start();
            // Each place once, far from the one before.
            let start = number * 7919 % places * bytes;
            range(store, key, start, start + bytes).await?;
            Ok::<_, Box<dyn std::error::Error>>(timer.micros())
        })
        .buffer_unordered(at_a_time);
    let mut single = Vec::new();
    while let Some(micros) = ranges.next().await {
        single.push(micros?);
    }
    timer.tell_all(single);
    Ok(())
}

async fn range(store: &Store, key: &str, start: u64, end: u64) -> Result<(u64, Vec<Bytes>)> {
    let range = format!("bytes={start}-{}", end - 1);
    let get = store.client.get_object().bucket(&store.bucket).key(key).range(range);
    let mut answer = get.send().await?;
    let mut pieces = Vec::new();
    while let Some(piece) = answer.body.try_next().await? {
        pieces.push(piece);
    }
    Ok((start, pieces))
}

fn write_at(file: &File, start: u64, pieces: Vec<Bytes>) -> std::io::Result<Vec<Bytes>> {
    let mut at = start;
    for piece in &pieces {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(pieces)
}
