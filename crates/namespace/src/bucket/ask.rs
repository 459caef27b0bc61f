//! What to ask the bucket about a name: about it alone, or about its neighbours too.
//!
//! One name costs a HEAD and a LIST of one entry. A page of the folder costs one LIST and tells
//! about up to a thousand names, so it is asked for as soon as a second name of the folder is wanted.
//! In a folder of many pages that is a bet on the order of asking: the page begins with the name,
//! and the next one is asked for only if the last one answered somebody else's question.

use std::time::Duration;

use base::Name;

/// A question to the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// HEAD the key, LIST one entry below it.
    One,
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
    asked: Option<Box<(Name, Duration)>>,
    pages: Pages,
}

impl Default for Interest {
    fn default() -> Interest {
        Interest { asked: None, pages: Pages::One }
    }
}

impl Interest {
    /// What to ask about `name` at `now`, if two questions within `soon` belong together.
    pub(super) fn ask(&mut self, name: &Name, now: Duration, soon: Duration) -> Ask {
        let before = self.asked.replace(Box::new((name.clone(), now)));
        let neighbours = before.is_some_and(|before| before.0 != *name && now < before.1 + soon);
        match (neighbours, self.pages) {
            (false, _) | (true, Pages::Many { earned: false }) => Ask::One,
            (true, Pages::One) => Ask::FirstPage,
            (true, Pages::Many { earned: true }) => {
                self.pages = Pages::Many { earned: false };
                Ask::PageFrom
            }
        }
    }

    /// A page answered a question without a request.
    pub(super) fn earn(&mut self) {
        if let Pages::Many { earned } = &mut self.pages {
            *earned = true;
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

    use super::{Ask, Interest};

    const SOON: Duration = Duration::from_secs(1);

    fn ask(interest: &mut Interest, text: &str, at_ms: u64) -> Ask {
        let name = Name::new(text.as_bytes()).unwrap();
        interest.ask(&name, Duration::from_millis(at_ms), SOON)
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
}
