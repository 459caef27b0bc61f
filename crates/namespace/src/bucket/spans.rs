//! A listing in parts that are listed at the same time. Pure: says what to ask for, and which part
//! of the names an answer was about.
//!
//! A listing begins as one span. A folder of one page is one request, one of two is two; each page
//! that follows without being the last pays for one more cut, so that the number of requests under way doubles while pages keep
//! coming, up to what the caller bears, and what wrong guesses cost stays a part of what the folder costs.
//! When a span is at its end, another is cut in its place. All keys here are without the folder's
//! prefix.
//!
//! Most stores give a page in the middle of a folder as soon as its first. Some, such as `MinIO`, go through all
//! names behind it for each span that begins, for longer than it takes to answer, and are slower with many. They show
//! themselves by first pages that take longer than those that follow; there only a cut through much is worth it.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use base::Name;

use super::split::{self, Alphabet, Grain};
use super::window::{Range, straddling};

/// How many cuts a listing may have beyond those that half of its pages pay for.
const CUTS_FREE: usize = 12;

/// Until so many pages are there, what a beginning costs is not known.
const PAGES_TO_KNOW: usize = 6;

/// What is cut has so many pages by guess,
const CUT_PAGES_MIN: f64 = 2.0;

/// and so many for each page that could be had for what a beginning costs more than one. A store that goes
/// through all names behind a beginning does much more than what it makes one wait for.
const CUT_PAGES_PER_COST: f64 = 32.0;

/// First pages that take no more than so many times as long as others do so by chance.
const RATIO_MIN: f64 = 1.5;

/// So many pages say how long pages take.
const FOLLOWING_KEPT: usize = 16;

/// Which span of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpanId(u32);

/// A page to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) span: SpanId,
    /// Only keys above this one, at the beginning of a span.
    pub(super) start_after: Option<Vec<u8>>,
    /// Where the page before this one ended.
    pub(super) continuation: Option<String>,
}

/// Which spans may be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The first of those that are not done.
    Front,
    /// All.
    Any,
}

/// The spans of one listing, in order.
#[derive(Debug)]
pub(super) struct Spans {
    // Invariant: the spans cover what is not handed out yet, without gaps, in key order; the last
    // has no end.
    order: VecDeque<Span>,
    /// Names whose keys lie on both sides of a cut: told of when all spans are done.
    straddlers: BTreeSet<Name>,
    alphabet: Alphabet,
    latency: Latency,
    /// The first and the last key of all that were seen.
    seen: Option<(Vec<u8>, Vec<u8>)>,
    /// Pages after which more came in the same span.
    pages: usize,
    cuts: usize,
    last: u32,
}

#[derive(Debug)]
struct Span {
    id: SpanId,
    /// Listed up to this key.
    at: Vec<u8>,
    end: Option<Vec<u8>>,
    stage: Stage,
    grain: Grain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Waiting { continuation: Option<String> },
    Asked { is_first: bool },
    Done,
}

/// How long full pages take, in seconds. What makes one late, be it chance or that many are asked for, is to count as
/// little as can be.
#[derive(Debug, Default)]
struct Latency {
    /// The least of the first pages of a span, of which there are few.
    first: Option<f64>,
    /// Of the pages that follow, the first ones: later ones wait for what more beginnings have begun.
    following: Vec<f64>,
}

impl Latency {
    fn learn(&mut self, is_first: bool, took: Duration) {
        let took = took.as_secs_f64();
        if is_first {
            self.first = Some(self.first.map_or(took, |least| least.min(took)));
            return;
        }
        if self.following.len() < FOLLOWING_KEPT {
            self.following.push(took);
        }
    }

    /// How many pages there must be by guess for a cut to be worth its price.
    fn pages_to_cut(&self) -> f64 {
        let mut following = self.following.clone();
        following.sort_by(f64::total_cmp);
        let ratio = match (self.first, following.get(following.len() / 4)) {
            (Some(first), Some(&following)) if following > 0.0 => first / following,
            _ => 1.0,
        };
        let cost = if RATIO_MIN < ratio { ratio - 1.0 } else { 0.0 };
        CUT_PAGES_MIN + CUT_PAGES_PER_COST * cost
    }
}

impl Default for Spans {
    fn default() -> Spans {
        let id = SpanId(0);
        let stage = Stage::Waiting { continuation: None };
        let whole = Span { id, at: Vec::new(), end: None, stage, grain: Grain::default() };
        Spans {
            order: VecDeque::from([whole]),
            straddlers: BTreeSet::new(),
            alphabet: Alphabet::default(),
            latency: Latency::default(),
            seen: None,
            pages: 0,
            cuts: 0,
            last: 0,
        }
    }
}

impl Spans {
    /// The next page to ask for, if one is to be asked for now and fewer than `at_a_time` are.
    pub(super) fn next(&mut self, which: Which, at_a_time: usize) -> Option<Question> {
        if self.asked() >= at_a_time {
            return None;
        }
        if which == Which::Any {
            self.cut_more(at_a_time);
        }
        let not_done = self.order.iter_mut().filter(|span| span.stage != Stage::Done);
        let mut open = not_done.take(if which == Which::Front { 1 } else { usize::MAX });
        open.find_map(|span| {
            let Stage::Waiting { continuation } = &mut span.stage else { return None };
            let continuation = continuation.take();
            let begins = continuation.is_none() && !span.at.is_empty();
            let start_after = begins.then(|| span.at.clone());
            span.stage = Stage::Asked { is_first: continuation.is_none() };
            Some(Question { span: span.id, start_after, continuation })
        })
    }

    /// Takes in the `keys` of the page that was asked for `span`, in order, and where the next one
    /// begins. Returns which names the page was about.
    pub(super) fn learn(
        &mut self,
        id: SpanId,
        keys: &[&[u8]],
        next: Option<String>,
        took: Duration,
    ) -> Range {
        self.alphabet.learn(keys);
        if let (Some(&first), Some(&last)) = (keys.first(), keys.last()) {
            let (least, most) = self.seen.get_or_insert_with(|| (first.to_vec(), last.to_vec()));
            if *first < least[..] {
                *least = first.to_vec();
            }
            if &most[..] < last {
                *most = last.to_vec();
            }
        }
        let span = self.order.iter_mut().find(|span| span.id == id).expect("it was asked about");
        let last = keys.last().copied().unwrap_or_default();
        let past = span.end.as_ref().is_some_and(|end| &end[..] <= last);
        let upto = match next {
            Some(next) if !past => {
                self.pages += 1;
                // One with less in it takes less.
                self.latency.learn(span.stage == Stage::Asked { is_first: true }, took);
                span.grain = Grain::of(keys);
                span.stage = Stage::Waiting { continuation: Some(next) };
                // A page without keys tells nothing, and none goes back.
                Some(last.max(&span.at).to_vec())
            }
            Some(_) | None => {
                span.stage = Stage::Done;
                span.end.clone()
            }
        };
        let after = std::mem::replace(&mut span.at, upto.clone().unwrap_or_default());
        Range::Part { after, upto }
    }

    /// Goes on by keys, not by what the store remembers of earlier pages.
    pub(super) fn begin_anew(&mut self) {
        for span in &mut self.order {
            if let Stage::Waiting { continuation } = &mut span.stage {
                *continuation = None;
            }
        }
    }

    /// The first span that is not handed out.
    pub(super) fn front(&self) -> Option<SpanId> {
        self.order.front().map(|span| span.id)
    }

    /// Takes the first span away if it is done.
    pub(super) fn hand_out(&mut self) -> Option<SpanId> {
        let done = self.order.front().is_some_and(|span| span.stage == Stage::Done);
        if done { self.order.pop_front().map(|span| span.id) } else { None }
    }

    /// Names that no span's page is the last word on.
    pub(super) fn straddlers(&self) -> &BTreeSet<Name> {
        &self.straddlers
    }

    /// How many pages are asked for.
    pub(super) fn asked(&self) -> usize {
        self.order.iter().filter(|span| matches!(span.stage, Stage::Asked { .. })).count()
    }

    fn cut_more(&mut self, at_a_time: usize) {
        let at_a_time = if self.pages < PAGES_TO_KNOW { at_a_time.min(2) } else { at_a_time };
        let open = self.order.iter().filter(|span| span.stage != Stage::Done).count();
        let paid = self.pages.saturating_sub(1).min(CUTS_FREE + self.pages / 2);
        let paid = paid.saturating_sub(self.cuts);
        let differ = self.seen.as_ref().map_or(0, |(first, last)| split::common(first, last));
        for _ in open..(open + paid).min(at_a_time) {
            // Of a span that was not seen nobody knows whether there is anything in it.
            let seen = self.order.iter().enumerate().filter(|(_, span)| match &span.stage {
                Stage::Waiting { continuation } => continuation.is_some(),
                Stage::Asked { is_first } => !is_first,
                Stage::Done => false,
            });
            let cuts = seen.map(|(place, Span { at, grain, end, .. })| {
                let cuts = split::cuts(&self.alphabet, at, *grain, differ, end.as_deref());
                (place, split::pages(&cuts), cuts)
            });
            let widest = cuts.max_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
            let worth = widest.filter(|(_, pages, _)| self.latency.pages_to_cut() <= *pages);
            let cut = worth.and_then(|(place, _, cuts)| {
                let cut = split::middle(&cuts)?;
                Some((place, cut.key(&self.order[place].at)))
            });
            let Some((place, cut)) = cut else { return };
            self.cut(place, cut);
        }
    }

    fn cut(&mut self, place: usize, cut: Vec<u8>) {
        let names = straddling(&cut).filter_map(|name| Name::new(name).ok());
        self.straddlers.extend(names);
        self.cuts += 1;
        self.last += 1;
        let below = &mut self.order[place];
        let above = Span {
            id: SpanId(self.last),
            at: cut.clone(),
            end: below.end.replace(cut),
            stage: Stage::Waiting { continuation: None },
            grain: below.grain,
        };
        self.order.insert(place + 1, above);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use proptest::prelude::{prop, proptest};

    use super::{Question, Spans, Which};
    use crate::bucket::window::Range;

    const AT_A_TIME: usize = 8;

    /// What a listing cost.
    #[derive(Debug)]
    struct Cost {
        pages: usize,
        requests: usize,
        /// How many answers were waited for one after the other.
        rounds: usize,
    }

    /// Lists `keys` as a store would, all questions of a round at once.
    fn list(keys: &BTreeSet<String>, page_keys: usize) -> Cost {
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let mut spans = Spans::default();
        let mut cost = Cost { pages: keys.len().div_ceil(page_keys), requests: 0, rounds: 0 };
        let mut parts = Vec::new();
        let mut seen = Vec::new();
        loop {
            let asked: Vec<Question> =
                std::iter::from_fn(|| spans.next(Which::Any, AT_A_TIME)).collect();
            if asked.is_empty() {
                break;
            }
            assert!(asked.len() <= AT_A_TIME);
            cost.rounds += 1;
            cost.requests += asked.len();
            for Question { span, start_after, continuation } in asked {
                let after = continuation.map(String::into_bytes).or(start_after);
                let from = after.map_or(0, |after| keys.partition_point(|key| *key <= &after[..]));
                let page = &keys[from..keys.len().min(from + page_keys)];
                let more = from + page.len() < keys.len();
                let last = page.last().map(|key| String::from_utf8(key.to_vec()).unwrap());
                let part = spans.learn(span, page, last.filter(|_| more), Duration::ZERO);
                let within = page.iter().filter(|key| {
                    let Range::Part { after, upto } = &part else { panic!("{part:?}") };
                    &after[..] < **key && upto.as_ref().is_none_or(|upto| **key <= &upto[..])
                });
                seen.extend(within.copied());
                parts.push(part);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, keys, "every key once");
        cost
    }

    fn assert_good(shape: &str, keys: impl Iterator<Item = String>) {
        let keys: BTreeSet<String> = keys.collect();
        let cost = list(&keys, 1000);
        println!("{shape}: {cost:?}");
        assert!(cost.requests * 2 <= cost.pages * 3 + 40, "{shape}: {cost:?}");
        assert!(cost.rounds * 3 <= cost.pages + 30, "{shape}: {cost:?}");
    }

    fn scrambled(number: u64) -> u64 {
        number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn word(number: u64) -> String {
        let syllables = [
            "ba", "con", "di", "e", "fir", "gal", "in", "ka", "lo", "mer", "no", "o", "per", "ra",
            "sto", "ti", "un", "ve", "wa",
        ];
        let mut rest = scrambled(number) >> 20;
        (0..5)
            .map(|_| {
                let at = rest % 19;
                rest /= 19;
                syllables[usize::try_from(at).unwrap()]
            })
            .collect()
    }

    #[test]
    fn a_hundred_thousand_names_cost_at_most_half_as_much_again_and_a_part_of_the_time() {
        let all = 0..100_000_u64;
        assert_good("padded numbers", all.clone().map(|number| format!("file-{number:06}")));
        assert_good(
            "much padded numbers",
            all.clone().map(|number| format!("img_{number:016}.png")),
        );
        assert_good("plain numbers", all.clone().map(|number| format!("{number}.txt")));
        assert_good("hashes", all.clone().map(|number| format!("{:016x}", scrambled(number))));
        assert_good("HASHES", all.clone().map(|number| format!("{:016X}.bin", scrambled(number))));
        assert_good("words", all.clone().map(word));
        assert_good("folders", all.clone().map(|number| format!("sample_{number:05}/")));
        assert_good(
            "dates",
            all.clone().map(|number| {
                let (day, second) = (number / 300, number % 300 * 288);
                format!(
                    "2024-{:02}-{:02}T{:02}:{:02}:{:02}Z.json",
                    1 + day / 28,
                    1 + day % 28,
                    second / 3600,
                    second / 60 % 60,
                    second % 60
                )
            }),
        );
        assert_good(
            "groups",
            all.map(|number| {
                let group =
                    ["alpha", "beta", "gamma", "omega"][usize::try_from(number % 4).unwrap()];
                format!("{group}-{:05}", number / 4)
            }),
        );
    }

    #[test]
    fn small_folders_cost_what_their_pages_cost_or_little_more() {
        for (count, requests) in [(0, 1), (1000, 1), (1001, 2), (2000, 2), (2001, 4), (5000, 8)] {
            let keys = (0..count).map(|number| format!("{number:05}")).collect();
            let cost = list(&keys, 1000);
            assert!(cost.requests <= requests, "{count}: {cost:?}");
        }
    }

    /// A store with a processor of its own for each of two jobs. Time in milliseconds.
    #[derive(Clone, Copy)]
    struct Store {
        /// On the way there and back, and by how much its logarithm varies.
        latency: f64,
        jitter: f64,
        /// To make a page.
        page: f64,
        /// To find where a span begins, and then, after the answer, for each page behind that.
        begin: f64,
        behind: f64,
    }

    const PROCESSORS: f64 = 2.0;

    /// A request, or what is left to do after its answer.
    struct Job {
        question: Option<Question>,
        travels: f64,
        works: f64,
        since: f64,
    }

    /// About one of a normal distribution.
    fn normal(chance: u64) -> f64 {
        let parts = scrambled(chance).to_le_bytes();
        let uniforms = parts.map(|part| f64::from(part) / 255.0 - 0.5);
        // Eight of them vary by 8/12.
        uniforms.iter().sum::<f64>() * 1.5_f64.sqrt()
    }

    /// How long the listing of `keys` takes with so many pages at a time.
    fn time(keys: &[String], store: Store, at_a_time: usize) -> f64 {
        by_chance(keys, store, at_a_time, 0)
    }

    fn by_chance(keys: &[String], store: Store, at_a_time: usize, mut chance: u64) -> f64 {
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let from = |question: &Question| {
            let mark = question.continuation.as_deref().map(str::as_bytes);
            let after = mark.or(question.start_after.as_deref());
            after.map_or(0, |after| keys.partition_point(|key| *key <= after))
        };
        let mut spans = Spans::default();
        let mut jobs: Vec<Job> = Vec::new();
        let mut now = 0.0;
        loop {
            while let Some(question) = spans.next(Which::Any, at_a_time) {
                chance += 1;
                let from = from(&question);
                let is_first = question.continuation.is_none();
                // It finds at once that nothing is there.
                let begins = if is_first && from < keys.len() { store.begin } else { 0.0 };
                let full = keys.len().min(from + 1000) - from;
                #[expect(clippy::cast_precision_loss, reason = "few")]
                let works = begins + store.page * full as f64 / 1000.0;
                jobs.push(Job {
                    question: Some(question),
                    travels: store.latency * (store.jitter * normal(chance)).exp(),
                    works,
                    since: now,
                });
            }
            if spans.asked() == 0 {
                return now;
            }
            now += 1.0;
            let works = jobs.iter().filter(|job| job.travels <= 0.0).count();
            #[expect(clippy::cast_precision_loss, reason = "few")]
            let speed = (PROCESSORS / works as f64).min(1.0);
            for job in &mut jobs {
                if 0.0 < job.travels {
                    job.travels -= 1.0;
                } else {
                    job.works -= speed;
                }
            }
            let done = jobs.extract_if(.., |job| job.works <= 0.0).collect::<Vec<_>>();
            for job in done {
                let Some(question) = job.question else { continue };
                let took = Duration::from_secs_f64((now - job.since) / 1000.0);
                let from = from(&question);
                let page = &keys[from..keys.len().min(from + 1000)];
                let more = from + page.len() < keys.len();
                let last = page.last().map(|key| String::from_utf8(key.to_vec()).unwrap());
                if question.continuation.is_none() {
                    #[expect(clippy::cast_precision_loss, reason = "few")]
                    let works = store.behind * ((keys.len() - from) / 1000) as f64;
                    jobs.push(Job { question: None, travels: 0.0, works, since: now });
                }
                spans.learn(question.span, page, last.filter(|_| more), took);
            }
        }
    }

    #[test]
    fn a_listing_in_spans_is_faster_than_one_also_where_beginnings_are_dear() {
        // Such as MinIO: 20 ms of processor for each page behind the place where a span begins.
        for (count, most) in [(20_000_u64, 1.1), (100_000, 0.85)] {
            for (width, latency) in
                [5, 6, 7, 8].into_iter().zip([20.0, 50.0, 100.0].into_iter().cycle())
            {
                let keys: Vec<String> =
                    (0..count).map(|number| format!("file-{number:0width$}")).collect();
                let walks = Store { latency, jitter: 0.0, page: 15.0, begin: 60.0, behind: 20.0 };
                let (one, best) = (time(&keys, walks, 1), time(&keys, walks, 8));
                println!("{count} of {width} digits, {latency} ms away: {one}, {best} ms");
                assert!(best < one * most);
            }
        }
    }

    #[test]
    fn a_listing_in_spans_is_several_times_as_fast_where_each_page_takes_as_long_as_any_other() {
        for jitter in [0.0, 0.2, 0.4] {
            let far = Store { latency: 80.0, jitter, page: 1.0, begin: 0.0, behind: 0.0 };
            let numbers = (0..100_000_u64).map(|number| format!("file-{number:06}")).collect();
            let mut hashes: Vec<String> =
                (0..100_000).map(|number| format!("{:016x}", scrambled(number))).collect();
            hashes.sort_unstable();
            for keys in [numbers, hashes] {
                for chance in (0..5_u64).map(|turn| 1000 * turn) {
                    let by_chance = |at_a_time| by_chance(&keys, far, at_a_time, chance);
                    let (one, best) = (by_chance(1), by_chance(8));
                    println!("{}, jitter {jitter}: {one}, {best} ms", keys[0]);
                    assert!(best < one / 3.0);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_key_is_listed_once(
            keys in prop::collection::btree_set("[a-c0-2./-]{1,5}", 0..200),
            page_keys in 1..9_usize,
        ) {
            let cost = list(&keys, page_keys);
            assert!(cost.requests <= cost.pages * 3 / 2 + 20, "{cost:?}");
        }
    }
}
