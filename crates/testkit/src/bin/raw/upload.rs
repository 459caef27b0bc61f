//! The parts of one upload, or many small objects, side by side. Prints the microseconds it took.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::timer::Timer;
use crate::{Result, Store};

const PART_BYTES: u64 = 16 << 20;
const PARTS_AT_A_TIME: usize = 16;

/// Makes `file` the object `key`.
pub(crate) async fn parts(store: &Store, key: &str, file: &Path) -> Result<()> {
    let timer = Timer::start();
    let file = Arc::new(File::open(file)?);
    let len = file.metadata()?.len();
    let created = store.client.create_multipart_upload().bucket(&store.bucket).key(key);
    let created = created.send().await?;
    let upload = created.upload_id().ok_or("an upload without an id")?;
    let sent: Vec<CompletedPart> = stream::iter(0..len.div_ceil(PART_BYTES))
        .map(|number| part(store, (key, upload), &file, number, len))
        .buffered(PARTS_AT_A_TIME)
        .try_collect()
        .await?;
    let whole = CompletedMultipartUpload::builder().set_parts(Some(sent)).build();
    let complete = store.client.complete_multipart_upload().bucket(&store.bucket).key(key);
    complete.upload_id(upload).multipart_upload(whole).send().await?;
    timer.tell();
    Ok(())
}

async fn part(
    store: &Store,
    (key, upload): (&str, &str),
    file: &Arc<File>,
    number: u64,
    len: u64,
) -> Result<CompletedPart> {
    let start = number * PART_BYTES;
    let file = Arc::clone(file);
    let reading = tokio::task::spawn_blocking(move || {
        let bytes = usize::try_from(PART_BYTES.min(len - start)).expect("a part fits in memory");
        let mut part = vec![0; bytes];
        file.read_exact_at(&mut part, start).map(|()| Bytes::from(part))
    });
    let bytes = reading.await??;
    let number = i32::try_from(number + 1)?;
    let put = store.client.upload_part().bucket(&store.bucket).key(key).upload_id(upload);
    let sent = put.part_number(number).body(bytes.into()).send().await?;
    Ok(CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag).build())
}

/// Makes `count` objects of `bytes` each.
pub(crate) async fn puts(
    store: &Store,
    count: usize,
    bytes: usize,
    at_a_time: usize,
) -> Result<()> {
    let timer = Timer::start();
    let body = Bytes::from(vec![b'x'; bytes]);
    stream::iter(0..count)
        .map(|number| {
            let key = format!("raw/{number}");
            let put = store.client.put_object().bucket(&store.bucket).key(key);
            put.body(body.clone().into()).send()
        })
        .buffer_unordered(at_a_time)
        .try_for_each(async |_| Ok(()))
        .await?;
    timer.tell();
    Ok(())
}
