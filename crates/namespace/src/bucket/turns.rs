//! Who may change names below a path: operations wait for one another by path.
//!
//! Who publishes a file or makes one holds its path *shared*: any number may, and only a change of
//! a name at or above it keeps them waiting. Who removes, makes or moves names holds their paths
//! *exclusively*, with everything below them; one operation takes all its paths at once.
//!
//! Who comes waits for all who came before and are in the way, whether they hold their paths or wait
//! themselves: nobody is overtaken by who is in his way, and as all waiting is for those who came
//! earlier, nobody waits for himself. Who only reads names takes no turn.
//!
//! Who is stuck, because the store does not answer, says so: nobody waits for him.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A path below the mounted folder, without slashes at its ends; empty for the folder itself.
pub(super) type Path = Vec<u8>;

/// What an operation does at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// It gives the file of this path other bytes, or makes it.
    Shared(Path),
    /// It changes the name of this path, and so the paths of all below it.
    Exclusive(Path),
}

/// The operations under way and those that wait for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    // Invariant: who has nobody in `waits_for` was told so; `delays` names only those who came later
    // and are in the line, and each of them counts us once. A leaf: no other lock is taken under it.
    line: Arc<Mutex<Line>>,
}

// Invariant: `shared` and `exclusive` have just the wants of `places`, each with the number of its
// place: thousands may be in the line, and who comes looks only at those at, above and below him.
#[derive(Debug, Default)]
struct Line {
    last: u64,
    places: BTreeMap<u64, Place>,
    shared: Index,
    exclusive: Index,
}

/// The numbers of who holds a path or waits for it.
type Index = BTreeMap<Path, BTreeSet<u64>>;

#[derive(Debug)]
struct Place {
    wants: Vec<Want>,
    /// How many who came earlier are in the way.
    waits_for: usize,
    /// Who came later and waits for us.
    delays: Vec<u64>,
    /// Tells that nobody is in the way any more, or that somebody is for who knows how long.
    wake: Option<oneshot::Sender<Woken>>,
    pace: Pace,
    standing: Standing,
}

/// Whether what an operation does to names is to be seen already.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// Not yet: who comes later does not know what he will find.
    Open,
    /// On this mount; the bucket follows.
    Applied,
    /// The same at and below this path only.
    AppliedBelow(Path),
}

/// Whether whoever holds a place will be done in bounded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Going,
    Stuck,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// It is our turn.
    Turn,
    /// Somebody in the way is stuck.
    Stuck,
}

/// What tells who passed others that it is his turn.
#[derive(Debug)]
pub(super) struct Wait(oneshot::Receiver<Woken>);

/// Somebody in the way is stuck: there is no use in waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stuck;

/// The right to do what was wanted, or a place in the line; given up when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    line: Arc<Mutex<Line>>,
    number: u64,
}

impl Turns {
    /// Waits until nobody is in the way of any of `wants`.
    pub(super) async fn take(&self, wants: Vec<Want>) -> Result<Turn, Stuck> {
        let (turn, woken) = self.queue(wants)?;
        let Some(woken) = woken else { return Ok(turn) };
        match woken.await.expect("a place in the line keeps its sender until it is its turn") {
            Woken::Turn => Ok(turn),
            Woken::Stuck => Err(Stuck),
        }
    }

    /// The right to do what is wanted, if nothing is in its way now.
    pub(super) fn take_now(&self, wants: Vec<Want>) -> Option<Turn> {
        let line = self.line.lock();
        if !line.in_the_way(&wants).is_empty() {
            return None;
        }
        let (turn, _) = self.queue_in(line, wants);
        Some(turn)
    }

    /// A place in the line, and what tells that it is our turn, if that is not now. `None` if there
    /// is somebody in the way whose changes are not to be seen yet.
    pub(super) fn pass(&self, wants: Vec<Want>) -> Option<(Turn, Option<Wait>)> {
        let line = self.line.lock();
        if line.in_the_way(&wants).iter().any(|number| line.places[number].is_open_to(&wants)) {
            return None;
        }
        let (turn, woken) = self.queue_in(line, wants);
        Some((turn, woken.map(Wait)))
    }

    /// A place in the line, and what tells that it is our turn, if that is not now.
    fn queue(&self, wants: Vec<Want>) -> Result<(Turn, Option<oneshot::Receiver<Woken>>), Stuck> {
        let line = self.line.lock();
        if line.in_the_way(&wants).iter().any(|number| line.places[number].pace == Pace::Stuck) {
            return Err(Stuck);
        }
        Ok(self.queue_in(line, wants))
    }

    fn queue_in(
        &self,
        mut line: MutexGuard<'_, Line>,
        wants: Vec<Want>,
    ) -> (Turn, Option<oneshot::Receiver<Woken>>) {
        line.last += 1;
        let number = line.last;
        let in_the_way = line.in_the_way(&wants);
        let waits_for = in_the_way.len();
        for earlier in in_the_way {
            let place = line.places.get_mut(&earlier).expect("found in the line");
            place.delays.push(number);
        }
        let (wake, woken) = if waits_for == 0 {
            (None, None)
        } else {
            let (wake, woken) = oneshot::channel();
            (Some(wake), Some(woken))
        };
        let (delays, pace, standing) = (Vec::new(), Pace::Going, Standing::Open);
        line.insert(number, Place { wants, waits_for, delays, wake, pace, standing });
        (Turn { line: Arc::clone(&self.line), number }, woken)
    }
}

impl Line {
    /// Those who are in the way of `wants`, each once.
    fn in_the_way(&self, wants: &[Want]) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        for want in wants {
            let above = at_and_above(want.path());
            found.extend(above.filter_map(|tree| self.exclusive.get(tree)).flatten());
            if let Want::Exclusive(tree) = want {
                found.extend(self.shared.get(tree).into_iter().flatten());
                found.extend(below(&self.shared, tree));
                found.extend(below(&self.exclusive, tree));
            }
        }
        found
    }

    fn insert(&mut self, number: u64, place: Place) {
        for want in &place.wants {
            let path = want.path().to_vec();
            self.index_of(want).entry(path).or_default().insert(number);
        }
        self.places.insert(number, place);
    }

    fn remove(&mut self, number: u64) -> Place {
        let place = self.places.remove(&number).expect("in the line until it is dropped");
        for want in &place.wants {
            let index = self.index_of(want);
            // Wanted twice by one, it is gone already.
            let Some(numbers) = index.get_mut(want.path()) else { continue };
            numbers.remove(&number);
            if numbers.is_empty() {
                index.remove(want.path());
            }
        }
        place
    }

    fn index_of(&mut self, want: &Want) -> &mut Index {
        match want {
            Want::Shared(_) => &mut self.shared,
            Want::Exclusive(_) => &mut self.exclusive,
        }
    }
}

/// `path`, the folders above it, and the mounted one.
fn at_and_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let whole = (!path.is_empty()).then_some(path);
    iter::once(&b""[..]).chain(slashes.map(|(at, _)| &path[..at])).chain(whole)
}

/// What `path` is in.
fn folder(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    &path[..slash.unwrap_or(0)]
}

/// Who is below `tree`, not at it.
fn below<'a>(index: &'a Index, tree: &[u8]) -> impl Iterator<Item = &'a u64> {
    // A slash comes next in all that is below; for the mounted folder, anything at all.
    let [from, to] = [b'/', b'/' + 1].map(|next| [tree, &[next]].concat());
    let range = match tree {
        b"" => (Bound::Excluded(tree), Bound::Unbounded),
        _ => (Bound::Included(&from[..]), Bound::Excluded(&to[..])),
    };
    index.range::<[u8], _>(range).flat_map(|(_, numbers)| numbers)
}

impl Turn {
    /// It will be held for who knows how long: who waits for it is sent away, and so is who comes.
    pub(super) fn sticks(&self) {
        let mut line = self.line.lock();
        let place = line.places.get_mut(&self.number).expect("in the line until it is dropped");
        place.pace = Pace::Stuck;
        for later in place.delays.clone() {
            let wake = line.places.get_mut(&later).and_then(|waiting| waiting.wake.take());
            // Who does not hear it is about to leave the line.
            let _ = wake.map(|wake| wake.send(Woken::Stuck));
        }
    }

    /// Waits for what [`Turns::pass`] did not wait for, however long those in the way take.
    pub(super) async fn come(&self, mut wait: Option<Wait>) {
        while let Some(Wait(woken)) = wait {
            match woken.await.expect("a place in the line keeps its sender until it is its turn") {
                Woken::Turn => return,
                Woken::Stuck => wait = self.wait_on(),
            }
        }
    }

    fn wait_on(&self) -> Option<Wait> {
        let mut line = self.line.lock();
        let place = line.places.get_mut(&self.number).expect("in the line until it is dropped");
        if place.waits_for == 0 {
            return None;
        }
        let (wake, woken) = oneshot::channel();
        place.wake = Some(wake);
        Some(Wait(woken))
    }

    /// The folder of each path that it holds, by what they were called when it came.
    pub(super) fn folders(&self) -> Vec<Path> {
        let line = self.line.lock();
        let place = line.places.get(&self.number).expect("in the line until it is dropped");
        place.wants.iter().map(|want| folder(want.path()).to_vec()).collect()
    }

    /// What it does to names is to be seen on this mount.
    pub(super) fn applied(&self) {
        self.stands(Standing::Applied);
    }

    /// What it does to names at and below `path` is to be seen on this mount.
    pub(super) fn applied_below(&self, path: Path) {
        self.stands(Standing::AppliedBelow(path));
    }

    fn stands(&self, standing: Standing) {
        if let Some(place) = self.line.lock().places.get_mut(&self.number) {
            place.standing = standing;
        }
    }
}

impl Place {
    /// Whether it is in the way of `wants` where what it does is not to be seen yet.
    fn is_open_to(&self, wants: &[Want]) -> bool {
        let is_open = |want: &&Want| match &self.standing {
            Standing::Open => true,
            Standing::Applied => false,
            Standing::AppliedBelow(path) => !is_within(want.path(), path),
        };
        let open = self.wants.iter().filter(is_open);
        open.into_iter().any(|one| wants.iter().any(|other| one.excludes(other)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut line = self.line.lock();
        let place = line.remove(self.number);
        for later in place.delays {
            // Who gave up waiting is not in the line any more.
            let Some(waiting) = line.places.get_mut(&later) else { continue };
            waiting.waits_for -= 1;
            if waiting.waits_for == 0
                && let Some(wake) = waiting.wake.take()
            {
                // Who does not hear it is about to leave the line.
                let _ = wake.send(Woken::Turn);
            }
        }
    }
}

impl Want {
    fn path(&self) -> &[u8] {
        match self {
            Want::Shared(path) | Want::Exclusive(path) => path,
        }
    }

    fn excludes(&self, other: &Want) -> bool {
        match (self, other) {
            (Want::Shared(_), Want::Shared(_)) => false,
            (Want::Shared(file), Want::Exclusive(tree))
            | (Want::Exclusive(tree), Want::Shared(file)) => is_within(file, tree),
            (Want::Exclusive(one), Want::Exclusive(other)) => {
                is_within(one, other) || is_within(other, one)
            }
        }
    }
}

/// Whether `path` is `tree` or below it.
pub(super) fn is_within(path: &[u8], tree: &[u8]) -> bool {
    tree.is_empty()
        || path.strip_prefix(tree).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::FutureExt;
    use proptest::prelude::*;

    use super::{Line, Stuck, Turn, Turns, Want};

    impl Line {
        fn is_empty(&self) -> bool {
            self.places.is_empty() && self.shared.is_empty() && self.exclusive.is_empty()
        }
    }

    fn collide(some: &[Want], others: &[Want]) -> bool {
        some.iter().any(|one| others.iter().any(|other| one.excludes(other)))
    }

    fn shared(path: &str) -> Want {
        Want::Shared(path.into())
    }

    fn exclusive(path: &str) -> Want {
        Want::Exclusive(path.into())
    }

    #[test]
    fn a_change_of_a_name_keeps_out_all_at_and_below_it_and_changes_above() {
        for (one, other, want) in [
            (shared("a/b"), shared("a/b"), false),
            (shared("a/b"), exclusive("a/b"), true),
            (shared("a/b/c"), exclusive("a/b"), true),
            (shared("a/bc"), exclusive("a/b"), false),
            (shared("a"), exclusive("a/b"), false),
            (exclusive("a/b"), exclusive("a/b"), true),
            (exclusive("a"), exclusive("a/b/c"), true),
            (exclusive("a/b"), exclusive("a/c"), false),
            (exclusive(""), shared("x"), true),
        ] {
            assert_eq!(one.excludes(&other), want, "{one:?} {other:?}");
            assert_eq!(other.excludes(&one), want, "{other:?} {one:?}");
        }
    }

    #[test]
    fn who_waits_is_not_overtaken_by_who_is_in_his_way() {
        let turns = Turns::default();
        let publishing = turns.take(vec![shared("d/f")]).now_or_never().unwrap().unwrap();
        let mut renaming = Box::pin(turns.take(vec![exclusive("d"), exclusive("e")]));
        assert!(renaming.as_mut().now_or_never().is_none());
        let mut late = Box::pin(turns.take(vec![shared("d/g")]));
        assert!(late.as_mut().now_or_never().is_none(), "the rename came first");
        drop(turns.take(vec![exclusive("elsewhere")]).now_or_never().unwrap().unwrap());
        drop(publishing);
        let renaming = renaming.now_or_never().unwrap().unwrap();
        assert!(late.as_mut().now_or_never().is_none());
        drop(renaming);
        late.now_or_never().unwrap().unwrap();
        assert!(turns.line.lock().is_empty());
    }

    #[test]
    fn who_gives_up_waiting_is_in_nobodys_way() {
        let turns = Turns::default();
        let publishing = turns.take(vec![shared("d/f")]).now_or_never().unwrap().unwrap();
        let mut renaming = Box::pin(turns.take(vec![exclusive("d")]));
        assert!(renaming.as_mut().now_or_never().is_none());
        let mut late = Box::pin(turns.take(vec![shared("d/g")]));
        assert!(late.as_mut().now_or_never().is_none());
        drop(renaming);
        late.now_or_never().unwrap().unwrap();
        drop(publishing);
        assert!(turns.line.lock().is_empty());
    }

    #[test]
    fn nobody_waits_for_who_is_stuck() {
        let turns = Turns::default();
        let stuck = turns.take(vec![exclusive("d")]).now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(turns.take(vec![shared("d/f"), exclusive("e")]));
        assert!(waiting.as_mut().now_or_never().is_none());
        let mut behind = Box::pin(turns.take(vec![exclusive("e")]));
        assert!(behind.as_mut().now_or_never().is_none());
        stuck.sticks();
        assert_eq!(waiting.now_or_never().unwrap().err(), Some(Stuck));
        assert_eq!(turns.take(vec![shared("d/g")]).now_or_never().unwrap().err(), Some(Stuck));
        drop(behind.now_or_never().unwrap().unwrap());
        drop(stuck);
        drop(turns.take(vec![shared("d/g")]).now_or_never().unwrap().unwrap());
        assert!(turns.line.lock().is_empty());
    }

    #[test]
    fn who_only_needs_the_names_passes_those_whose_changes_are_to_be_seen() {
        let turns = Turns::default();
        let removing = turns.take(vec![exclusive("d/f")]).now_or_never().unwrap().unwrap();
        assert!(turns.pass(vec![shared("d/f")]).is_none(), "nobody knows yet what becomes of it");
        removing.applied();
        let (making, wait) = turns.pass(vec![exclusive("d/f")]).unwrap();
        let mut coming = Box::pin(making.come(wait));
        assert!(coming.as_mut().now_or_never().is_none(), "its place is after the removal");
        assert!(turns.pass(vec![shared("d/f")]).is_none());
        removing.sticks();
        assert!(coming.as_mut().now_or_never().is_none(), "it keeps its place");
        drop(removing);
        coming.now_or_never().unwrap();
        drop(making);
        assert!(turns.line.lock().is_empty());
    }

    #[test]
    fn who_needs_the_old_name_of_what_moves_waits_and_who_needs_the_new_one_does_not() {
        let turns = Turns::default();
        let moving = turns.take(vec![exclusive("d/a"), exclusive("b")]);
        let moving = moving.now_or_never().unwrap().unwrap();
        assert!(turns.pass(vec![shared("b/f")]).is_none());
        moving.applied_below(b"b".to_vec());
        assert!(turns.pass(vec![shared("d/a/f")]).is_none());
        assert!(turns.pass(vec![exclusive("d"), exclusive("e")]).is_none());
        let (making, wait) = turns.pass(vec![shared("b/f")]).unwrap();
        assert!(making.come(wait).now_or_never().is_none(), "its place is after the move");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Come(Vec<Want>),
        /// Whoever is at this place among those present goes, having had his turn or not.
        Go(usize),
    }

    fn want() -> impl Strategy<Value = Want> {
        let path = proptest::collection::vec(prop_oneof![Just("a"), Just("b")], 0..4)
            .prop_map(|parts| parts.join("/"));
        (path, any::<bool>())
            .prop_map(|(path, alone)| if alone { exclusive(&path) } else { shared(&path) })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => proptest::collection::vec(want(), 1..3).prop_map(Step::Come),
            2 => any::<usize>().prop_map(Step::Go),
        ]
    }

    type Waiting<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Turn, Stuck>> + 'a>>;

    enum Present<'a> {
        Holds(#[expect(dead_code, reason = "held, not read")] Turn),
        Waits(Waiting<'a>),
    }

    proptest! {
        /// Who is present has his turn just when nobody who came earlier and is still present is in
        /// his way.
        #[test]
        fn turns_are_given_in_the_order_of_coming(steps in proptest::collection::vec(step(), 1..60)) {
            let turns = Turns::default();
            let mut present: BTreeMap<usize, (Vec<Want>, Present<'_>)> = BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Come(wants) => {
                        let take = Box::pin(turns.take(wants.clone()));
                        present.insert(number, (wants, Present::Waits(take)));
                    }
                    Step::Go(_) if present.is_empty() => {}
                    Step::Go(at) => {
                        let who = *present.keys().nth(at % present.len()).unwrap();
                        present.remove(&who);
                    }
                }
                for (_, state) in present.values_mut() {
                    if let Present::Waits(take) = state
                        && let Some(turn) = take.as_mut().now_or_never()
                    {
                        *state = Present::Holds(turn.unwrap());
                    }
                }
                let all: Vec<_> = present.values().collect();
                for (at, (wants, state)) in all.iter().enumerate() {
                    let free = all[..at].iter().all(|(earlier, _)| !collide(earlier, wants));
                    prop_assert_eq!(free, matches!(state, Present::Holds(_)));
                }
            }
            drop(present);
            prop_assert!(turns.line.lock().is_empty());
        }
    }
}
