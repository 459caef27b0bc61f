//! The promises of downloads and uploads, over a store on the real disk and a bucket in memory.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::sync::Arc;
use std::time::Duration;

use quayfs_transfer as transfer;

use base::{Budget, ByteRange, Counter, ManualClock, Metrics, Rng};
use futures::FutureExt;
use futures::future::join_all;
use remote::fake::{Fake, Op};
use remote::{
    Condition, ErrorKind, Extent, Key, Metadata, PartNumber, PutOptions, Remote, Version,
};
use store::{Base, CacheLimit, GRANULE_BYTES, Options, Store};
use tokio::runtime::Handle;
use transfer::{
    Download, Error, Fetcher, FetcherOptions, Tuned, UploadJob, UploadLog, Uploader,
    UploaderOptions,
};

const MIB: u64 = 1 << 20;

/// A bucket, a store and what moves bytes between them.
struct World {
    bucket: Fake,
    store: Store,
    metrics: Arc<Metrics>,
    fetcher: Fetcher,
    dir: tempfile::TempDir,
}

impl World {
    fn new(cache_bytes: u64, requests_max: usize) -> World {
        World::over(Fake::new(), tempfile::tempdir().unwrap(), (cache_bytes, requests_max))
    }

    fn over(
        bucket: Fake,
        dir: tempfile::TempDir,
        (cache_bytes, requests_max): (u64, usize),
    ) -> World {
        let metrics = Arc::new(Metrics::new());
        let options = Options { dir: dir.path().to_owned(), cache: CacheLimit::Bytes(cache_bytes) };
        let store =
            Store::open(options, Arc::new(ManualClock::default()), Arc::clone(&metrics)).unwrap();
        let fetcher = Fetcher::new(
            (Arc::new(bucket.clone()), store.clone()),
            Budget::new(64 * MIB),
            Handle::current(),
            Arc::clone(&metrics),
            FetcherOptions { requests_max, window: Tuned::of(32 * MIB), bandwidth: None },
        );
        World { bucket, store, metrics, fetcher, dir }
    }

    /// The process goes, and another comes.
    fn reborn(self) -> World {
        let World { bucket, dir, .. } = self;
        World::over(bucket, dir, (1 << 30, 16))
    }

    /// Puts an object of `size` bytes and returns it with a reader of it.
    fn object(&self, key: &str, size: u64) -> (Vec<u8>, Arc<Download>) {
        let (bytes, extent) = self.put(key, size);
        (bytes, self.open(&extent))
    }

    fn put(&self, key: &str, size: u64) -> (Vec<u8>, Extent) {
        let bytes = pattern(size);
        let key = Key::from(key);
        let version = self.bucket.insert(&key, bytes.clone(), Metadata::new());
        let range = ByteRange::new(0, size).unwrap();
        (bytes, Extent { range, key, version, object_offset: 0 })
    }

    fn open(&self, whole: &Extent) -> Arc<Download> {
        let identity = whole.version.as_str().as_bytes();
        let cached = self.store.cached(identity, whole.range.end()).unwrap();
        Download::new(&self.fetcher, cached, vec![whole.clone()])
    }

    fn uploader(&self, part_bytes: u64) -> Uploader {
        self.uploader_at(Duration::ZERO, part_bytes)
    }

    /// One that begins so late.
    fn uploader_at(&self, time: Duration, part_bytes: u64) -> Uploader {
        let part_bytes = Tuned::of(part_bytes);
        let options = UploaderOptions { requests_max: 4, part_bytes, bandwidth: None };
        let clock = ManualClock::default();
        clock.advance(time);
        let log = UploadLog::new(&self.store, Arc::new(clock), "fake://b");
        let bucket = (Arc::new(self.bucket.clone()) as _, log);
        Uploader::new(bucket, Budget::new(8 * MIB), Arc::new(Rng::seeded(1)), options)
    }
}

fn pattern(size: u64) -> Vec<u8> {
    (0..size).map(|i| u8::try_from((i * 2_654_435_761) >> 13 & 0xff).unwrap()).collect()
}

fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::at(start, len).unwrap()
}

fn slice(bytes: &[u8], range: ByteRange) -> &[u8] {
    &bytes[usize::try_from(range.start()).unwrap()..usize::try_from(range.end()).unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_read_fetches_its_granule_and_nothing_else() {
    let world = World::new(1 << 30, 16);
    let (bytes, download) = world.object("a", 8 * MIB);
    let read = range(5 * MIB + 77, 4096);
    assert_eq!(download.read(read).await.unwrap(), slice(&bytes, read));
    assert_eq!(world.bucket.calls(Op::Get), 1);
    let granule = read.aligned(GRANULE_BYTES);
    assert_eq!(download.cached().unwrap().missing(granule), None);
    assert_eq!(download.cached().unwrap().missing(range(0, 5 * MIB)), Some(range(0, 5 * MIB)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_which_an_eighth_was_missed_is_fetched_whole_if_there_is_room() {
    for (cache_bytes, want) in [(1 << 30, None), (4 * MIB, Some(()))] {
        let world = World::new(cache_bytes, 16);
        let (bytes, download) = world.object("a", 8 * MIB);
        for granule in [3, 60, 11, 40, 29, 50, 17, 8_u64] {
            let read = range(granule * GRANULE_BYTES + 5, 100);
            assert_eq!(download.read(read).await.unwrap(), slice(&bytes, read));
        }
        let cached = download.cached().unwrap();
        let all = range(0, 8 * MIB);
        while want.is_none() && cached.missing(all).is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(cached.missing(all).map(drop), want);
        assert!(world.bucket.calls(Op::Get) <= 8 + 16, "in pieces, each byte once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_one_range_share_one_request() {
    let world = World::new(1 << 30, 16);
    let (bytes, download) = world.object("a", MIB);
    let gate = world.bucket.hold(Op::Get);
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let download = Arc::clone(&download);
            tokio::spawn(async move { download.read(range(1000, 3000)).await })
        })
        .collect();
    gate.arrived(1).await;
    drop(gate);
    for reader in join_all(readers).await {
        assert_eq!(reader.unwrap().unwrap(), slice(&bytes, range(1000, 3000)));
    }
    assert_eq!(world.bucket.calls(Op::Get), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_fetched_ahead_of_its_reader() {
    let world = World::new(1 << 30, 16);
    let (bytes, download) = world.object("a", 32 * MIB);
    let mut read = Vec::new();
    for part in range(0, 32 * MIB).pieces(128 << 10) {
        read.extend(download.read(part).await.unwrap());
    }
    assert!(read == bytes, "the stream is the object");
    // A request for each of the 256 reads would be no reading ahead.
    assert!(world.bucket.calls(Op::Get) < 40, "{} requests", world.bucket.calls(Op::Get));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_fetched_ahead_of_who_opens_the_file_anew_for_each_read() {
    let world = World::new(1 << 30, 16);
    let (bytes, whole) = world.put("a", 32 * MIB);
    for part in range(0, 32 * MIB).pieces(128 << 10) {
        assert_eq!(world.open(&whole).read(part).await.unwrap(), slice(&bytes, part));
    }
    assert!(world.bucket.calls(Op::Get) < 128, "{} requests", world.bucket.calls(Op::Get));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_overtakes_guesses_that_wait_for_their_turn() {
    // Four requests at a time, three of them for guesses.
    let world = World::new(1 << 30, 4);
    let (bytes, download) = world.object("a", 64 * MIB);
    let gate = world.bucket.hold(Op::Get);
    let stream = Arc::clone(&download);
    let stream = tokio::spawn(async move {
        for part in range(0, 2 * MIB).pieces(128 << 10) {
            stream.read(part).await?;
        }
        Ok::<(), Error>(())
    });
    // The stream's own read comes first, then guesses fill their three places.
    gate.arrived(1).await;
    gate.let_through(1);
    gate.arrived(2).await;
    let elsewhere = range(60 * MIB, 4096);
    let reader = {
        let download = Arc::clone(&download);
        tokio::spawn(async move { download.read(elsewhere).await })
    };
    // It arrives although nothing that was guessed has gone through.
    gate.arrived(3).await;
    drop(gate);
    assert_eq!(reader.await.unwrap().unwrap(), slice(&bytes, elsewhere));
    stream.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_far_too_small_still_gives_right_bytes() {
    let world = World::new(2 * GRANULE_BYTES, 16);
    let (bytes, download) = world.object("a", 16 * MIB);
    for part in range(0, 16 * MIB).pieces(MIB) {
        assert!(download.read(part).await.unwrap() == slice(&bytes, part), "{part}");
    }
    assert!(world.metrics.value(Counter::UncachedReadBytes) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_through_a_smaller_cache_makes_room_in_its_own_file() {
    let world = World::new(48 * MIB, 4);
    let (bytes, download) = world.object("a", 128 * MIB);
    for part in range(0, 128 * MIB).pieces(MIB) {
        assert!(download.read(part).await.unwrap() == slice(&bytes, part), "{part}");
    }
    assert_eq!(
        world.metrics.value(Counter::UncachedReadBytes),
        0,
        "all of it came through the cache"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_fetch_fails_its_readers_and_the_next_read_tries_again() {
    let world = World::new(1 << 30, 16);
    let (bytes, download) = world.object("a", MIB);
    world.bucket.break_next_body(70_000);
    let broken = download.read(range(0, 4096)).await;
    assert!(matches!(broken, Err(Error::Remote(_))), "a broken body was taken for whole");
    assert_eq!(download.read(range(0, 4096)).await.unwrap(), slice(&bytes, range(0, 4096)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_with_a_wrong_checksum_is_forgotten_to_the_last_byte() {
    let world = World::new(1 << 30, 16);
    let wanted = range(0, 8 * GRANULE_BYTES);
    // No more than that: of a longer one the end is fetched, too, and may be the body that is spoilt.
    let (bytes, download) = world.object("a", wanted.len());
    // Granules have landed when it shows, and a reader of the first has had nothing wrong yet.
    world.bucket.spoil_next_body(GRANULE_BYTES * 2);
    let spoilt = download.read(wanted).await;
    assert!(
        matches!(&spoilt, Err(Error::Remote(error)) if error.kind == ErrorKind::Corrupt),
        "{:?}",
        spoilt.map(|bytes| bytes.len())
    );
    // Of what came with it nothing is believed: all of it came once more, now or already.
    assert_eq!(download.read(wanted).await.unwrap(), slice(&bytes, wanted));
    assert!(2 * wanted.len() <= world.bucket.fetched_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_object_is_never_mixed_with_what_is_cached() {
    let world = World::new(1 << 30, 16);
    let (bytes, download) = world.object("a", MIB);
    download.read(range(0, 4096)).await.unwrap();
    world.bucket.insert(&Key::from("a"), vec![0; 1 << 20], Metadata::new());
    assert_eq!(download.read(range(0, 4096)).await.unwrap(), slice(&bytes, range(0, 4096)));
    let Err(Error::Remote(error)) = download.read(range(MIB / 2, 4096)).await else {
        panic!("bytes of another version");
    };
    assert_eq!(error.kind, ErrorKind::Changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_goes_in_one_request_and_large_in_parts() {
    let world = World::new(1 << 30, 16);
    let uploader = world.uploader(MIB);
    for (size, puts, parts) in [(0, 1, 0), (MIB, 1, 0), (3 * MIB + 5, 0, 4)] {
        let calls = [Op::Put, Op::UploadPart].map(|op| world.bucket.calls(op));
        let staged = world.store.stage(b"note", Base::Empty).unwrap();
        let bytes = pattern(size);
        staged.write(0, &bytes).unwrap();
        let sealed = Arc::new(staged.seal().unwrap());
        let version = upload(&uploader, &sealed, "k", Condition::Always).await.unwrap();
        assert_eq!(world.bucket.bytes(&Key::from("k")).unwrap(), bytes);
        assert_eq!(world.bucket.meta(&Key::from("k")).unwrap().version, version);
        let after = [Op::Put, Op::UploadPart].map(|op| world.bucket.calls(op));
        assert_eq!([after[0] - calls[0], after[1] - calls[1]], [puts, parts]);
        world.store.reject(&staged, Arc::into_inner(sealed).unwrap());
        world.store.discard(&staged).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upload_leaves_no_parts_behind_and_gives_the_first_reason() {
    let world = World::new(1 << 30, 16);
    let uploader = world.uploader(MIB);
    let staged = world.store.stage(b"note", Base::Empty).unwrap();
    staged.write(0, &pattern(9 * MIB)).unwrap();
    let sealed = Arc::new(staged.seal().unwrap());
    world.bucket.fail_next(Op::UploadPart, ErrorKind::Denied);
    let Err(Error::Remote(error)) = upload(&uploader, &sealed, "k", Condition::Always).await else {
        panic!("an upload without one of its parts");
    };
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(world.bucket.uploads_open(), 0);
    assert!(world.bucket.head(&Key::from("k")).await.is_err());
    // Nothing may still read what the caller now gives up.
    assert!(Arc::into_inner(sealed).is_some());
}

const IN_PARTS: u64 = MIB / 4;

/// A bucket whose upload of `k` was about to begin when the process died.
fn died_before_it_began() -> World {
    let world = World::new(1 << 30, 16);
    let staged = world.store.stage(b"note", Base::Empty).unwrap();
    staged.write(0, &pattern(MIB)).unwrap();
    let gate = world.bucket.hold(Op::UploadCreate);
    let uploader = world.uploader(IN_PARTS);
    let sealed = Arc::new(staged.seal().unwrap());
    let dying = upload(&uploader, &sealed, "k", Condition::Absent).now_or_never();
    assert!(dying.is_none(), "it waits at the gate");
    drop((gate, uploader, sealed, staged));
    world.reborn()
}

fn anybodys() -> PutOptions {
    PutOptions { condition: Condition::Absent, metadata: Metadata::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_began_later_is_not_taken_for_what_a_dead_process_left() {
    let world = died_before_it_began();
    // As many seconds go by in the bucket.
    for _ in 0..400 {
        world.bucket.insert(&Key::from("other"), "bytes", Metadata::new());
    }
    let key = Key::from("k");
    world.bucket.upload_create(&key, &anybodys()).await.unwrap();
    let uploader = world.uploader_at(Duration::from_hours(1), IN_PARTS);
    uploader.adopt_left().unwrap();
    uploader.remove_left().await;
    assert_eq!(world.bucket.uploads(&key).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_begun_here_while_others_are_looked_for_is_not_removed() {
    let world = died_before_it_began();
    let uploader = Arc::new(world.uploader(IN_PARTS));
    uploader.adopt_left().unwrap();
    let looks = world.bucket.hold(Op::Uploads);
    let parts = world.bucket.hold(Op::UploadPart);
    let looking = Arc::clone(&uploader);
    let looking = tokio::spawn(async move { looking.remove_left().await });
    looks.arrived(1).await;
    let staged = world.store.stage(b"note", Base::Empty).unwrap();
    staged.write(0, &pattern(MIB)).unwrap();
    let sealed = Arc::new(staged.seal().unwrap());
    let sending =
        tokio::spawn(async move { upload(&uploader, &sealed, "k", Condition::Absent).await });
    parts.arrived(1).await;
    drop(looks);
    looking.await.unwrap();
    drop(parts);
    sending.await.unwrap().unwrap();
    assert_eq!(world.bucket.bytes(&Key::from("k")).unwrap(), pattern(MIB));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_the_death_of_its_sender_leaves_no_parts_behind() {
    let (key, others) = (Key::from("k"), Key::from("l"));
    let world = died_before_it_began();
    let uploader = world.uploader(IN_PARTS);
    uploader.adopt_left().unwrap();
    uploader.remove_left().await;
    let options = anybodys();
    for late in [&key, &others] {
        world.bucket.upload_create(late, &options).await.unwrap();
    }
    let at_work = world.bucket.upload_create(&key, &options).await.unwrap();
    world.bucket.upload_part(&key, &at_work, PartNumber(1), "bytes".into()).await.unwrap();
    uploader.remove_left().await;
    let left = world.bucket.uploads(&key).await.unwrap();
    let left: Vec<_> = left.into_iter().map(|unfinished| unfinished.upload).collect();
    assert_eq!(left, std::slice::from_ref(&at_work), "somebody is at work on it");
    world.bucket.upload_abort(&key, &at_work).await.unwrap();
    assert_eq!(world.bucket.uploads(&others).await.unwrap().len(), 1, "somebody else's");
    // That was long enough.
    world.bucket.upload_create(&key, &options).await.unwrap();
    uploader.remove_left().await;
    drop(uploader);
    let world = world.reborn();
    let uploader = world.uploader(IN_PARTS);
    uploader.adopt_left().unwrap();
    uploader.remove_left().await;
    assert_eq!(world.bucket.uploads_open(), 2);
}

async fn upload(
    uploader: &Uploader,
    sealed: &Arc<store::Sealed>,
    key: &str,
    condition: Condition,
) -> transfer::Result<Version> {
    let (key, metadata, id) = (Key::from(key), Metadata::new(), uploader.new_id());
    let (condition, metadata) = (&condition, &metadata);
    let job = UploadJob {
        key: &key,
        condition,
        metadata,
        id: &id,
        original: None,
        base: None,
        begun: None,
    };
    uploader.upload(sealed, &job).await
}
