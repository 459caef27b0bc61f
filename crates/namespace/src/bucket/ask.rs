//! What to ask the bucket about a name: about it alone, or about its neighbours too.
//!
//! One name costs a HEAD and a LIST of one entry. A page of the folder costs one LIST and tells
//! about up to a thousand names, so it is asked for as soon as a second name of the folder is wanted.
//! In a folder of many pages that is a bet on the order of asking: the page begins with the name,
//! and the next one is asked for only if the last one answered somebody else's question.
//!
//! Mostly there is a second name, and who wants it need not wait for its page if it was asked for together
//! with the first. That is a bet, too, of which a few may be open: one that is won pays for the next.

use std::time::Duration;

use base::Name;

use super::options::Foresight;

/// A question to the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// HEAD the key, LIST one entry below it.
    One,
    /// The same, and LIST the folder's first page meanwhile, for whoever comes next.
    OneBeforePage,
    /// LIST the folder's first page.
    FirstPage,
    /// LIST the page that begins with the name.
    PageFrom,
}

/// What is known of a folder's size and of the use of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// It may fit into one page.
    One,
    /// It does not.
    Many {
        /// Whether the last page was worth its price.
        earned: bool,
    },
}

/// Who asked about a folder's names lately.
#[derive(Debug)]
pub(super) struct Interest {
    // In a box: a node, of which there may be millions, is no larger for it.
    asked: Option<Box<Asked>>,
    pages: Pages,
}

/// The last question.
#[derive(Debug)]
struct Asked {
    name: Name,
    at: Duration,
    bet: Bet,
}

/// What became of the bet on a second name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bet {
    /// A page was asked for that nobody wanted yet.
    Open,
    /// There was none left for it.
    Missed,
    /// There is nothing to win any more.
    Settled,
}

/// Bets on second names, of all folders.
#[derive(Debug)]
pub(super) struct Bets {
    left: u32,
    max: u32,
}

/// So many may be lost in a row.
const BETS_MAX: u32 = 8;

impl Bets {
    /// With as many as there may be, or without any for ever.
    pub(super) fn new(foresight: Foresight) -> Bets {
        let max = match foresight {
            Foresight::Names => BETS_MAX,
            Foresight::None => 0,
        };
        Bets { left: max, max }
    }

    fn place(&mut self) -> Bet {
        let Some(left) = self.left.checked_sub(1) else { return Bet::Missed };
        self.left = left;
        Bet::Open
    }

    /// There is a second name: that pays for another bet, also where none was placed.
    fn settle(&mut self, bet: &mut Bet) {
        if std::mem::replace(bet, Bet::Settled) != Bet::Settled {
            self.left = self.max.min(self.left + 1);
        }
    }
}

impl Default for Interest {
    fn default() -> Interest {
        Interest { asked: None, pages: Pages::One }
    }
}

impl Interest {
    /// What to ask about `name` at `now`, if two questions within `soon` belong together.
    pub(super) fn ask(
        &mut self,
        name: &Name,
        (now, soon): (Duration, Duration),
        bets: &mut Bets,
    ) -> Ask {
        self.settle(name, bets);
        let before = self.asked.take();
        let is_first = before.is_none() && self.pages == Pages::One;
        let bet = match &before {
            None if is_first => bets.place(),
            None => Bet::Settled,
            // Who asks the same once more may still be followed by others.
            Some(before) => before.bet,
        };
        let neighbours =
            before.is_some_and(|before| before.name != *name && now < before.at + soon);
        let ask = match (neighbours, self.pages) {
            _ if is_first && bet == Bet::Open => Ask::OneBeforePage,
            (false, _) | (true, Pages::Many { earned: false }) => Ask::One,
            (true, Pages::One) => Ask::FirstPage,
            (true, Pages::Many { earned: true }) => {
                self.pages = Pages::Many { earned: false };
                Ask::PageFrom
            }
        };
        self.asked = Some(Box::new(Asked { name: name.clone(), at: now, bet }));
        ask
    }

    /// A page answered a question without a request.
    pub(super) fn earn(&mut self) {
        if let Pages::Many { earned } = &mut self.pages {
            *earned = true;
        }
    }

    /// A bet is won by the first who asks about another name, however late.
    pub(super) fn settle(&mut self, name: &Name, bets: &mut Bets) {
        if let Some(asked) = &mut self.asked
            && asked.name != *name
        {
            bets.settle(&mut asked.bet);
        }
    }

    /// A first page, or the whole listing, came in.
    pub(super) fn learn_size(&mut self, fits_one_page: bool) {
        self.pages = if fits_one_page { Pages::One } else { Pages::Many { earned: true } };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Name;

    use super::{Ask, BETS_MAX, Bets, Interest};
    use crate::bucket::options::Foresight;

    const SOON: Duration = Duration::from_secs(1);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn ask(interest: &mut Interest, text: &str, at_ms: u64) -> Ask {
        let mut none = Bets::new(Foresight::None);
        interest.ask(&name(text), (Duration::from_millis(at_ms), SOON), &mut none)
    }

    #[test]
    fn a_second_name_soon_after_the_first_asks_for_the_page() {
        let mut interest = Interest::default();
        assert_eq!(ask(&mut interest, "a", 0), Ask::One);
        assert_eq!(ask(&mut interest, "a", 500), Ask::One, "the same name is no second one");
        assert_eq!(ask(&mut interest, "b", 900), Ask::FirstPage);
        assert_eq!(ask(&mut interest, "c", 5000), Ask::One, "too late to belong together");
    }

    #[test]
    fn in_a_large_folder_a_page_has_to_earn_the_next_one() {
        let mut interest = Interest::default();
        ask(&mut interest, "a", 0);
        interest.learn_size(false);
        assert_eq!(ask(&mut interest, "b", 1), Ask::PageFrom);
        assert_eq!(ask(&mut interest, "k", 2), Ask::One, "nobody used the page");
        interest.earn();
        assert_eq!(ask(&mut interest, "c", 3), Ask::PageFrom);
    }

    /// How many of 100 folders have their page asked for with the first name, if `visit` goes on there.
    fn pages_ahead(mut visit: impl FnMut(&mut Interest, &mut Bets)) -> usize {
        let mut bets = Bets::new(Foresight::Names);
        let mut ahead = 0;
        for second in 0..100 {
            let (mut interest, now) = (Interest::default(), Duration::from_secs(second * 10));
            let asked = interest.ask(&name("a"), (now, SOON), &mut bets);
            ahead += usize::from(asked == Ask::OneBeforePage);
            visit(&mut interest, &mut bets);
        }
        ahead
    }

    #[test]
    fn pages_come_with_first_names_for_as_long_as_there_are_second_ones() {
        let asks = |interest: &mut Interest, bets: &mut Bets| {
            interest.ask(&name("b"), (Duration::from_secs(5000), SOON), bets);
        };
        assert_eq!(pages_ahead(asks), 100);
        assert_eq!(pages_ahead(|interest, bets| interest.settle(&name("b"), bets)), 100);
        let lost = BETS_MAX as usize;
        assert_eq!(pages_ahead(|_, _| {}), lost);
        assert_eq!(pages_ahead(|interest, bets| interest.settle(&name("a"), bets)), lost);
        let same_first = |interest: &mut Interest, bets: &mut Bets| {
            interest.ask(&name("a"), (Duration::from_secs(4000), SOON), bets);
            interest.ask(&name("b"), (Duration::from_secs(5000), SOON), bets);
        };
        assert_eq!(pages_ahead(same_first), 100);
        let mut folders = 0;
        let later = |interest: &mut Interest, bets: &mut Bets| {
            folders += 1;
            if 50 <= folders {
                asks(interest, bets);
                interest.settle(&name("c"), bets);
            }
        };
        assert_eq!(pages_ahead(later), lost + 50, "they come again, one for each second name");
    }
}
