//! A staged file beside a vector of bytes: whatever is done to both, they agree.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::sync::Arc;

use base::ByteRange;
use common::{Folder, GRANULE, bytes, complete, content, fill, kind, range, read, runs, write};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest,
};
use quayfs_store::{
    Adopted, Base, Cached, ErrorKind, Growth, Outcome, Sealed, Seek, Staged, Store,
};

/// Something that can be done to a staged file. Places are taken modulo what is possible.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write { at: usize, len: usize, seed: u8 },
    Append { len: usize, seed: u8 },
    Truncate { size: usize },
    Punch { at: usize, len: usize },
    Allocate { at: usize, len: usize, growth: Growth },
    Seek { at: usize },
    FillBase { granule: usize, through_cache: bool },
    Read { at: usize, len: usize },
    Seal,
    ReadSealed { at: usize, len: usize },
    DoneTo { at: usize },
    Reject,
    Adopt,
    Restart,
    Rebase { take: bool, cut: usize },
}

/// A little more than four granules, so that every kind of edge is met.
const SIZE_MAX: usize = 4 * GRANULE + 5000;

fn step() -> impl Strategy<Value = Step> {
    let at = || prop_oneof![0..SIZE_MAX, (0..5_usize).prop_map(|granule| granule * GRANULE)];
    let len = || prop_oneof![1..200_usize, 1..2 * GRANULE, Just(GRANULE)];
    prop_oneof![
        4 => (at(), len(), any::<u8>()).prop_map(|(at, len, seed)| Step::Write { at, len, seed }),
        2 => (len(), any::<u8>()).prop_map(|(len, seed)| Step::Append { len, seed }),
        2 => at().prop_map(|size| Step::Truncate { size }),
        2 => (at(), len()).prop_map(|(at, len)| Step::Punch { at, len }),
        1 => (at(), len(), prop_oneof![Just(Growth::Grows), Just(Growth::Stays)])
            .prop_map(|(at, len, growth)| Step::Allocate { at, len, growth }),
        2 => at().prop_map(|at| Step::Seek { at }),
        2 => (0..5_usize, any::<bool>())
            .prop_map(|(granule, through_cache)| Step::FillBase { granule, through_cache }),
        2 => (at(), len()).prop_map(|(at, len)| Step::Read { at, len }),
        2 => Just(Step::Seal),
        2 => (at(), len()).prop_map(|(at, len)| Step::ReadSealed { at, len }),
        1 => at().prop_map(|at| Step::DoneTo { at }),
        1 => Just(Step::Reject),
        2 => Just(Step::Adopt),
        1 => Just(Step::Restart),
        1 => (any::<bool>(), at()).prop_map(|(take, cut)| Step::Rebase { take, cut }),
    ]
}

/// A staged file beside what it should hold.
struct Run {
    folder: Folder,
    store: Store,
    staged: Arc<Staged>,
    /// The bytes of the file.
    model: Vec<u8>,
    /// The bytes of the version below it.
    base: Vec<u8>,
    /// The version that it was made from: its identity and bytes.
    origin: Option<(Vec<u8>, Vec<u8>)>,
    sealed: Option<(Sealed, Vec<u8>, usize)>,
    written_since: bool,
    versions: u32,
}

impl Run {
    fn new() -> Run {
        let folder = Folder::new();
        let store = folder.open();
        let staged = store.stage(b"note", Base::Empty).unwrap();
        Run {
            folder,
            store,
            staged,
            model: Vec::new(),
            base: Vec::new(),
            origin: None,
            sealed: None,
            written_since: false,
            versions: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { at, len, seed } => self.write(at, len, seed),
            Step::Append { len, seed } => {
                let at = self.model.len();
                self.write(at, len.min(SIZE_MAX.saturating_sub(at)), seed);
            }
            Step::Truncate { size } => {
                self.written_since |= size != self.model.len();
                self.staged.truncate(size as u64).unwrap();
                self.model.resize(size, 0);
            }
            Step::Punch { at, len } => self.punch(at, len),
            Step::Allocate { at, len, growth } => self.allocate(at, len, growth),
            Step::Seek { at } => self.seek(at),
            Step::FillBase { granule, through_cache } => self.fill_base(granule, through_cache),
            Step::Read { at, len } => self.read(at, len),
            Step::Seal => self.seal(),
            Step::ReadSealed { at, len } => {
                if let Some((sealed, want, done)) = &self.sealed {
                    let at = (*done).max(at).min(want.len());
                    let end = want.len().min(at + len);
                    assert!(sealed_bytes(sealed, &self.base, at, end) == want[at..end]);
                }
            }
            Step::DoneTo { at } => {
                if let Some((sealed, want, done)) = &mut self.sealed {
                    *done = (*done).max(at.min(want.len()));
                    sealed.done_to(*done as u64);
                }
            }
            Step::Reject => {
                if let Some((sealed, ..)) = self.sealed.take() {
                    self.store.reject(&self.staged, sealed);
                    assert!(self.staged.is_dirty());
                }
            }
            Step::Adopt => self.adopt(),
            Step::Restart => self.restart(),
            Step::Rebase { take, cut } => self.rebase(take, cut),
        }
        assert_eq!(self.staged.size(), self.model.len() as u64);
    }

    fn write(&mut self, at: usize, len: usize, seed: u8) {
        if len == 0 {
            return;
        }
        let new = bytes(seed, at, len);
        write(&self.staged, &self.base, at, &new);
        if self.model.len() < at + len {
            self.model.resize(at + len, 0);
        }
        self.model[at..at + len].copy_from_slice(&new);
        self.written_since = true;
    }

    fn punch(&mut self, at: usize, len: usize) {
        let range = ByteRange::at(at as u64, len as u64).unwrap();
        while let Outcome::Needs(needs) = self.staged.punch(range).unwrap() {
            let part = needs.start() as usize..needs.end() as usize;
            self.staged.fill(needs.start(), &self.base[part]).unwrap();
        }
        let end = self.model.len().min(at + len);
        if at < end {
            self.model[at..end].fill(0);
            self.written_since = true;
        }
    }

    fn allocate(&mut self, at: usize, len: usize, growth: Growth) {
        let range = ByteRange::at(at as u64, len as u64).unwrap();
        self.staged.allocate(range, growth).unwrap();
        if growth == Growth::Grows && self.model.len() < at + len {
            self.model.resize(at + len, 0);
            self.written_since = true;
        }
    }

    /// No byte but zeros is ever called a hole, and walking from one to the next comes to the end.
    fn seek(&mut self, at: usize) {
        let size = self.model.len();
        let mut at = at;
        while at < size {
            let data = self.staged.seek(Seek::Data, at as u64).unwrap();
            let data = data.map_or(size, |data| data as usize);
            assert!(self.model[at..data].iter().all(|&byte| byte == 0), "a hole at {at}..{data}");
            if data == size {
                break;
            }
            let hole = self.staged.seek(Seek::Hole, data as u64).unwrap();
            let hole = hole.expect("a hole follows the end") as usize;
            assert!(data < hole && hole <= size, "data at {data}..{hole} of {size}");
            at = hole;
        }
        assert_eq!(self.staged.seek(Seek::Data, size as u64).unwrap(), None);
        assert_eq!(self.staged.seek(Seek::Hole, size as u64).unwrap(), None);
    }

    fn fill_base(&mut self, granule: usize, through_cache: bool) {
        let start = granule * GRANULE;
        let end = self.base.len().min(start + GRANULE);
        let Some(base) = self.staged.base().filter(|_| start < end) else { return };
        if through_cache {
            base.fill(start as u64, &self.base[start..end]).unwrap();
            self.staged.draw_from_base(range(start, end)).unwrap();
        } else {
            self.staged.fill(start as u64, &self.base[start..end]).unwrap();
        }
    }

    fn read(&mut self, at: usize, len: usize) {
        let at = at.min(self.model.len());
        let end = self.model.len().min(at + len);
        let mut buf = vec![0xee; end - at];
        while let Outcome::Needs(needs) = self.staged.read(at as u64, &mut buf).unwrap() {
            let part = needs.start() as usize..needs.end() as usize;
            self.staged.fill(needs.start(), &self.base[part]).unwrap();
        }
        assert!(buf == self.model[at..end]);
    }

    fn seal(&mut self) {
        if self.sealed.is_some() {
            return;
        }
        if let Some(edge) = self.staged.edge() {
            assert_eq!(kind(self.staged.seal()), ErrorKind::Missing);
            let part = edge.start() as usize..edge.end() as usize;
            self.staged.fill(edge.start(), &self.base[part]).unwrap();
        }
        let sealed = self.staged.seal().unwrap();
        let origin = self.origin.as_ref();
        if let Some(identity) = sealed.origin() {
            assert_eq!(identity, origin.unwrap().0, "it was made from another version");
        }
        let all = ByteRange::new(0, self.model.len() as u64);
        for run in all.into_iter().flat_map(|all| runs(sealed.unchanged(), all)) {
            let run = run.start() as usize..run.end() as usize;
            let same = self.model[run.clone()] == origin.unwrap().1[run];
            assert!(same, "it is not unchanged");
        }
        for run in all.into_iter().flat_map(|all| runs(sealed.missing(), all)) {
            assert!(sealed.unchanged().has_all(run), "{run} is nowhere");
        }
        self.sealed = Some((sealed, self.model.clone(), 0));
        self.written_since = false;
    }

    fn adopt(&mut self) {
        let Some((sealed, want, done)) = self.sealed.take() else { return };
        assert!(sealed_bytes(&sealed, &self.base, done, want.len()) == want[done..]);
        self.versions += 1;
        let identity = self.versions.to_le_bytes();
        self.origin = Some((identity.to_vec(), want));
        match self.store.adopt(&self.staged, sealed, &identity).unwrap() {
            Adopted::Clean(cached) => {
                assert!(!self.written_since);
                if let Some(all) = ByteRange::new(0, self.model.len() as u64) {
                    let mut at = 0;
                    while let Some(rest) = ByteRange::new(at as u64, all.end()) {
                        let missing =
                            cached.missing(rest).unwrap_or(range(all.end() as usize, usize::MAX));
                        let here = missing.start() as usize;
                        assert!(read(&cached, at, here) == self.model[at..here]);
                        at = missing.end() as usize;
                    }
                }
                self.restage(cached, self.model.len(), self.versions.is_multiple_of(2));
            }
            Adopted::StillDirty => assert!(self.written_since),
            Adopted::Kept => panic!("the kernel has nothing"),
        }
    }

    /// Goes on with a new staged file over the version `cached`.
    fn restage(&mut self, cached: Arc<Cached>, cut: usize, take: bool) {
        self.base = self.model.clone();
        if take && let Some(all) = ByteRange::new(0, self.base.len() as u64) {
            fill(&cached, &self.base, all);
        }
        let cut = if take { self.base.len() } else { cut.min(self.base.len()) };
        let base = if take { Base::Take(cached) } else { Base::Over { cached, bytes: cut as u64 } };
        self.staged = self.store.stage(b"note", base).unwrap();
        assert_eq!(self.staged.is_dirty(), cut < self.base.len());
        self.model = self.base[..cut].to_vec();
        self.written_since = false;
    }

    /// Gives the file up and begins with a new version below, of which little is here.
    fn rebase(&mut self, take: bool, cut: usize) {
        self.sealed = None;
        self.store.discard(&self.staged).unwrap();
        self.versions += 1;
        let identity = self.versions.to_be_bytes();
        let content = bytes(self.versions as u8, 0, cut);
        if take {
            let cached = complete(&self.store, &identity, &content);
            self.origin = Some((identity.to_vec(), content.clone()));
            self.model = content;
            self.restage(cached, cut, true);
        } else {
            let cached = self.store.cached(&identity, cut as u64).unwrap();
            let base = Base::Over { cached, bytes: cut as u64 };
            self.staged = self.store.stage(b"note", base).unwrap();
            self.origin = Some((identity.to_vec(), content.clone()));
            (self.base, self.model) = (content.clone(), content);
        }
    }

    /// The process goes and comes back: what was not published is there.
    fn restart(&mut self) {
        let all = ByteRange::new(0, self.model.len() as u64);
        let is_as_sealed = self.sealed.is_some() && !self.written_since;
        if !is_as_sealed && all.is_some_and(|all| self.staged.missing(all).is_some()) {
            // Without its base the file has holes; recovery is not for it.
            return;
        }
        let is_dirty = self.staged.is_dirty();
        self.sealed = None;
        // The claim goes with the last reference to the file.
        self.staged = self.folder.open().stage(b"note", Base::Empty).unwrap();
        let placeholder = Arc::clone(&self.staged);
        self.store = self.folder.open();
        let mut orphans = self.store.orphans().unwrap();
        if is_dirty {
            // What a sealed version left in its base is there still, and nobody says as what.
            self.origin = Some((Vec::new(), self.base.clone()));
            let newest =
                orphans.iter().position(|orphan| content(&orphan.staged, &self.base) == self.model);
            let orphan = orphans.swap_remove(newest.expect("the newest bytes are kept"));
            assert_eq!(orphan.note, b"note");
            self.staged = orphan.staged;
            self.store.discard(&placeholder).unwrap();
            for other in orphans {
                self.store.discard(&other.staged).unwrap();
            }
        } else {
            assert!(orphans.is_empty(), "{orphans:?}");
            // A staged file belongs to the store that made it.
            self.staged = self.store.stage(b"note", Base::Empty).unwrap();
            self.store.discard(&placeholder).unwrap();
            self.model.clear();
            self.base.clear();
            self.origin = None;
        }
        self.written_since = true;
    }
}

/// Bytes of a sealed version, of which `base` has what is missing.
fn sealed_bytes(sealed: &Sealed, base: &[u8], start: usize, end: usize) -> Vec<u8> {
    let mut buf = vec![0xee; end - start];
    let mut at = start;
    while let Some(rest) = ByteRange::new(at as u64, end as u64) {
        let missing = sealed.missing().first_run(rest);
        let here = missing.map_or(end, |missing| missing.start() as usize);
        sealed.read(at as u64, &mut buf[at - start..here - start]).unwrap();
        at = missing.map_or(end, |missing| missing.end() as usize);
        if here < at {
            buf[here - start..at - start].copy_from_slice(&base[here..at]);
        }
    }
    buf
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_staged_file_holds_what_was_written_and_sealed(
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        let want = run.model.clone();
        prop_assert!(content(&run.staged, &run.base) == want);
    }
}
