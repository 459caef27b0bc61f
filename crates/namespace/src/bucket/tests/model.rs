//! Random operations against a map of paths.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{FileKind, Ino, Share};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;
use remote::PutOptions;
use remote::Remote;

use super::crash::{End, Kind, Memory, Mortal, until_death};
use super::{Bench, NODE, name};
use crate::{
    Bucket, BucketOptions, Error, ErrorKind, Namespace, Published, RenameMode, Returns, Unsent,
};

/// A path: one of three folders, or none, and one of four names.
type Path = (Option<u8>, u8);

#[derive(Clone, Debug)]
enum Step {
    Create(Path),
    Upload(Path, u8),
    Mkdir(u8),
    Unlink(Path),
    Rmdir(u8),
    Rename(Path, Path, bool),
    List(Option<u8>),
    Forget(Path),
    Link(Path, u8),
    Wait,
    /// What is under way in the background comes so much further.
    Yield(u8),
}

/// What is at a path of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// The number, while it is held: a renamed file that was forgotten gets that of its path.
    File {
        ino: Option<Ino>,
        size: u64,
        published: bool,
    },
    /// The number as above, and the length of the target.
    Link {
        ino: Option<Ino>,
        length: u64,
    },
    Folder,
}

impl Item {
    fn held(&mut self) -> Option<&mut Option<Ino>> {
        match self {
            Item::File { ino, .. } | Item::Link { ino, .. } => Some(ino),
            Item::Folder => None,
        }
    }
}

fn path() -> impl Strategy<Value = Path> {
    (proptest::option::of(0..3_u8), 0..4_u8)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => path().prop_map(Step::Create),
        3 => (path(), any::<u8>()).prop_map(|(path, size)| Step::Upload(path, size)),
        2 => (0..3_u8).prop_map(Step::Mkdir),
        2 => path().prop_map(Step::Unlink),
        1 => (0..3_u8).prop_map(Step::Rmdir),
        3 => (path(), path(), any::<bool>()).prop_map(|(from, to, free)| Step::Rename(from, to, free)),
        2 => proptest::option::of(0..3_u8).prop_map(Step::List),
        2 => path().prop_map(Step::Forget),
        1 => (path(), 1..9_u8).prop_map(|(path, length)| Step::Link(path, length)),
        2 => Just(Step::Wait),
        3 => (0..9_u8).prop_map(Step::Yield),
    ]
}

fn folder_name(folder: u8) -> String {
    format!("d{folder}")
}

fn text((folder, file): Path) -> String {
    match folder {
        Some(folder) => format!("{}/f{file}", folder_name(folder)),
        None => format!("f{file}"),
    }
}

/// The tree as it should be: whole paths, and what is there.
#[derive(Debug, Default)]
struct Model(BTreeMap<String, Item>);

impl Model {
    fn has_folder(&self, folder: Option<u8>) -> bool {
        folder.is_none_or(|folder| self.0.contains_key(&folder_name(folder)))
    }

    fn below(&self, folder: u8) -> usize {
        let prefix = format!("{}/", folder_name(folder));
        self.0.keys().filter(|path| path.starts_with(&prefix)).count()
    }

    fn names(&self, folder: Option<u8>) -> Vec<(String, Item)> {
        let prefix = folder.map(|folder| format!("{}/", folder_name(folder))).unwrap_or_default();
        let inside = self.0.iter().filter_map(|(path, item)| {
            let rest = path.strip_prefix(&prefix)?;
            (!rest.contains('/')).then(|| (rest.to_owned(), item.clone()))
        });
        inside.collect()
    }
}

struct World {
    bench: Bench,
    model: Model,
}

impl World {
    async fn dir(&self, folder: Option<u8>) -> Option<Ino> {
        match folder {
            None => Some(Ino::ROOT),
            Some(folder) => {
                let found = self.bench.lookup(Ino::ROOT, &folder_name(folder)).await;
                assert_eq!(found.is_ok(), self.model.has_folder(Some(folder)));
                found.ok().map(|entry| entry.attr.ino)
            }
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Create(path) => self.create(path).await,
            Step::Upload(path, size) => self.upload(path, size).await,
            Step::Mkdir(folder) => {
                let made =
                    self.bench.bucket.mkdir(Ino::ROOT, &name(&folder_name(folder)), NODE).await;
                let free = !self.model.has_folder(Some(folder));
                assert_eq!(made.is_ok(), free);
                if free {
                    self.model.0.insert(folder_name(folder), Item::Folder);
                }
            }
            Step::Unlink((folder, file)) => {
                let Some(dir) = self.dir(folder).await else { return };
                let removed = self.bench.bucket.unlink(dir, &name(&format!("f{file}"))).await;
                match self.model.0.remove(&text((folder, file))) {
                    Some(Item::File { ino, .. } | Item::Link { ino, .. }) => {
                        same(removed.unwrap(), ino);
                    }
                    Some(Item::Folder) | None => not_found(removed),
                }
            }
            Step::Rmdir(folder) => {
                let removed = self.bench.bucket.rmdir(Ino::ROOT, &name(&folder_name(folder))).await;
                if !self.model.has_folder(Some(folder)) {
                    not_found(removed);
                } else if 0 < self.model.below(folder) {
                    assert_eq!(removed.unwrap_err().kind, ErrorKind::NotEmpty);
                } else {
                    removed.unwrap();
                    self.model.0.remove(&folder_name(folder));
                }
            }
            Step::Rename(from, to, free) => self.rename(from, to, free).await,
            Step::List(folder) => self.compare(folder).await,
            Step::Forget(path) => {
                if let Some(held) = self.model.0.get_mut(&text(path)).and_then(Item::held)
                    && let Some(ino) = held.take()
                {
                    self.bench.bucket.forget(ino);
                }
            }
            Step::Link(path, length) => self.link(path, length).await,
            Step::Wait => self.bench.expire(),
            Step::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    async fn link(&mut self, (folder, file): Path, length: u8) {
        let Some(dir) = self.dir(folder).await else { return };
        let (name, target) = (name(&format!("f{file}")), vec![b't'; usize::from(length)]);
        let made = self.bench.bucket.symlink(dir, &name, &target, NODE.owner).await;
        match self.model.0.entry(text((folder, file))) {
            Entry::Occupied(_) => assert_eq!(made.unwrap_err().kind, ErrorKind::Exists),
            Entry::Vacant(free) => {
                let ino = Some(made.unwrap().attr.ino);
                free.insert(Item::Link { ino, length: u64::from(length) });
            }
        }
    }

    async fn create(&mut self, (folder, file): Path) {
        let Some(dir) = self.dir(folder).await else { return };
        let made = self.bench.bucket.create(dir, &name(&format!("f{file}")), NODE).await;
        match self.model.0.entry(text((folder, file))) {
            Entry::Occupied(_) => assert_eq!(made.unwrap_err().kind, ErrorKind::Exists),
            Entry::Vacant(free) => {
                let ino = Some(made.unwrap().attr.ino);
                free.insert(Item::File { ino, size: 0, published: false });
            }
        }
    }

    async fn upload(&mut self, path: Path, bytes: u8) {
        let Some(Item::File { ino: held, .. }) = self.model.0.get(&text(path)).cloned() else {
            return;
        };
        let bench = &self.bench;
        let (folder, file) = path;
        let dir = self.dir(folder).await.unwrap();
        let ino = bench.ino(dir, &format!("f{file}")).await;
        same(ino, held);
        let _name = bench.bucket.settle(ino).await.unwrap();
        let target = bench.bucket.target(ino).unwrap();
        let options = PutOptions { condition: target.condition, metadata: target.metadata };
        let body = vec![0; usize::from(bytes)];
        let version = bench.fake.put(&target.key, body.into(), &options).await.unwrap();
        let size = u64::from(bytes);
        bench.bucket.publish(ino, Published { key: target.key, version, size });
        self.model.0.insert(text(path), Item::File { ino: Some(ino), size, published: true });
    }

    async fn rename(&mut self, from: Path, to: Path, free: bool) {
        let (Some(from_dir), Some(to_dir)) = (self.dir(from.0).await, self.dir(to.0).await) else {
            return;
        };
        let (old, new) = (name(&format!("f{}", from.1)), name(&format!("f{}", to.1)));
        let mode = if free { RenameMode::NoReplace } else { RenameMode::Replace };
        let moved = self.bench.bucket.rename((from_dir, &old), (to_dir, &new), mode).await;
        let there = self.model.0.get(&text(to)).cloned();
        match (self.model.0.get(&text(from)).cloned(), there) {
            (None, _) => not_found(moved),
            (Some(_), Some(_)) if free => assert_eq!(moved.unwrap_err().kind, ErrorKind::Exists),
            (Some(_), _) if from == to => assert_eq!(moved.unwrap(), None),
            (Some(item), there) => {
                match (moved.unwrap(), there) {
                    (Some(replaced), Some(Item::File { ino, .. } | Item::Link { ino, .. })) => {
                        same(replaced, ino);
                    }
                    (None, None) => {}
                    (replaced, there) => panic!("{replaced:?} was replaced, not {there:?}"),
                }
                self.model.0.remove(&text(from));
                self.model.0.insert(text(to), item);
            }
        }
    }

    /// Lists and looks up everything in a folder.
    async fn compare(&self, folder: Option<u8>) {
        let Some(dir) = self.dir(folder).await else { return };
        let listed = self.bench.bucket.list(dir).await.unwrap();
        let want = self.model.names(folder);
        assert_eq!(
            super::names(&listed),
            want.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        );
        for (text, item) in want {
            let attr = self.bench.lookup(dir, &text).await.unwrap().attr;
            match item {
                Item::File { ino, size, .. } => {
                    assert_eq!((attr.kind, attr.size), (FileKind::File, size));
                    same(attr.ino, ino);
                }
                Item::Link { ino, length } => {
                    assert_eq!((attr.kind, attr.size), (FileKind::Symlink, length));
                    same(attr.ino, ino);
                }
                Item::Folder => assert_eq!(attr.kind, FileKind::Directory),
            }
        }
    }

    /// Another mount sees what is published, every folder, and nothing else; but nobody knows what
    /// has become of `touched`.
    async fn compare_from_elsewhere(&self, touched: &BTreeSet<String>) {
        let other = Bench::over(self.bench.fake.clone(), BucketOptions::default());
        for folder in [None, Some(0), Some(1), Some(2)] {
            let dir = match folder {
                None => Ino::ROOT,
                Some(folder) => {
                    let found = other.lookup(Ino::ROOT, &folder_name(folder)).await;
                    if !touched.contains(&folder_name(folder)) {
                        assert_eq!(found.is_ok(), self.model.has_folder(Some(folder)), "{folder}");
                    }
                    let Ok(entry) = found else { continue };
                    entry.attr.ino
                }
            };
            let path = |name: &str| match folder {
                Some(folder) => format!("{}/{name}", folder_name(folder)),
                None => name.to_owned(),
            };
            let listed = other.bucket.list(dir).await.unwrap();
            let known = self.model.names(folder);
            for entry in &listed {
                let is_known = known.iter().any(|(name, _)| *name == entry.name.to_string());
                let path = path(&entry.name.to_string());
                assert!(is_known || touched.contains(&path), "{path} should not be there");
            }
            for (name, item) in known.iter().filter(|(name, _)| !touched.contains(&path(name))) {
                let want = match item {
                    Item::File { size, published: true, .. } => Some((FileKind::File, *size)),
                    Item::Link { length, .. } => Some((FileKind::Symlink, *length)),
                    // What was moved over an object and is not uploaded has that object's name.
                    Item::File { published: false, .. } => continue,
                    Item::Folder => None,
                };
                let found = listed.iter().find(|entry| entry.name.to_string() == *name);
                let found = found.unwrap_or_else(|| panic!("{} is lost", path(name))).attr;
                let found = (found.kind, found.size);
                assert!(want.is_none_or(|want| want == found), "{}: {found:?}", path(name));
            }
        }
    }
}

impl Step {
    /// The paths that change.
    fn paths(&self) -> BTreeSet<String> {
        match self {
            Step::Create(path)
            | Step::Upload(path, _)
            | Step::Unlink(path)
            | Step::Link(path, _) => [text(*path)].into(),
            Step::Rename(from, to, _) => [text(*from), text(*to)].into(),
            Step::Mkdir(folder) | Step::Rmdir(folder) => [folder_name(*folder)].into(),
            Step::List(_) | Step::Forget(_) | Step::Wait | Step::Yield(_) => BTreeSet::new(),
        }
    }
}

fn same(ino: Ino, held: Option<Ino>) {
    assert!(held.is_none_or(|held| held == ino), "{ino} is not {held:?}");
}

fn not_found<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::NotFound);
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]
    #[test]
    fn any_operations_leave_what_a_file_system_would_have(
        steps in proptest::collection::vec(step(), 1..60),
        nodes_max in prop_oneof![Just(1_usize), Just(4), Just(1000)],
        returns in prop_oneof![Just(Returns::InBucket), Just(Returns::Journaled)],
        kind in proptest::sample::select(&Kind::ALL[..]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let options = BucketOptions { returns, nodes: Share::whole(nodes_max), ..BucketOptions::default() };
            let ledger = Arc::new(Memory::default());
            let bench = Bench::with(kind.store(), options, Arc::clone(&ledger) as _);
            let mut world = World { bench, model: Model::default() };
            for step in steps {
                world.take(step).await;
            }
            for _ in 0..2 {
                for folder in [None, Some(0), Some(1), Some(2)] {
                    world.compare(folder).await;
                }
                world.bench.bucket.sync(None).await.unwrap();
                assert_eq!(world.bench.bucket.unsent(), Unsent::default());
                world.bench.expire();
            }
            world.compare_from_elsewhere(&BTreeSet::new()).await;
            assert_eq!(ledger.left(), []);
        });
    }

    #[test]
    fn what_any_operations_promised_is_there_when_the_process_dies_at_any_request(
        steps in proptest::collection::vec(step(), 1..60),
        requests in 0..60_u64,
        kind in proptest::sample::select(&Kind::ALL[..]),
        end in prop_oneof![Just(End::Death), Just(End::LastWords)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let options =
                BucketOptions { returns: Returns::Journaled, ..BucketOptions::default() };
            let (fake, ledger) = (kind.store(), Arc::new(Memory::default()));
            let clock = Arc::new(base::ManualClock::default());
            let mortal = Mortal::new(&fake, requests, end);
            let bucket = Bucket::new(
                Arc::clone(&mortal) as _,
                Arc::clone(&clock) as _,
                Arc::clone(&ledger) as _,
                options.clone(),
            );
            let bench = Bench { fake: fake.clone(), clock, bucket };
            let mut world = World { bench, model: Model::default() };
            let mut touched = BTreeSet::new();
            for step in steps {
                let paths = step.paths();
                if until_death(&mortal, world.take(step)).await.is_none() {
                    touched = paths;
                    break;
                }
            }
            mortal.die();
            let next = Bench::with(fake, options, Arc::clone(&ledger) as _);
            next.bucket.replay_attributes(ledger.all());
            assert_eq!(next.bucket.replay(ledger.left()).await.waiting, 0);
            next.bucket.sync(None).await.unwrap();
            assert_eq!(ledger.all(), []);
            world.compare_from_elsewhere(&touched).await;
        });
    }
}
