//! Which renames may have been carried out, and under which token each is asked for again.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::{Condition, Key, Version};

/// Renames of which the outcome is not known; the oldest are forgotten, and told by what is there then.
const UNCLEAR_MAX: usize = 256;

const TOKEN_BYTES: usize = 16;

/// What is known of renames.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// The store has said that it does not know them.
    are_unknown: AtomicBool,
    // Invariant: at most `UNCLEAR_MAX`, oldest first. A leaf: no other lock is taken under it.
    unclear: Mutex<Vec<Unclear>>,
}

/// A rename that may have been carried out.
#[derive(Debug)]
struct Unclear {
    what: What,
    token: String,
}

/// All that must be the same when a token is used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct What {
    pub(super) from: Key,
    pub(super) version: Version,
    pub(super) to: Key,
    pub(super) condition: Condition,
}

/// The token for a try.
pub(super) enum Token {
    New(String),
    Again(String),
}

impl Renames {
    /// The store does not know renames.
    pub(super) fn learn_unknown(&self) {
        self.are_unknown.store(true, Ordering::Relaxed);
    }

    /// Whether the store renames objects, as far as is known.
    pub(super) fn are_known(&self) -> bool {
        !self.are_unknown.load(Ordering::Relaxed)
    }

    /// The token to ask for it with; an error if there is no randomness.
    pub(super) fn token(&self, what: &What) -> Result<Token, Unspecified> {
        let mut unclear = self.unclear.lock();
        if let Some(before) = unclear.iter().find(|before| before.what == *what) {
            return Ok(Token::Again(before.token.clone()));
        }
        let mut bytes = [0; TOKEN_BYTES];
        SystemRandom::new().fill(&mut bytes)?;
        let mut token = String::new();
        for byte in bytes {
            write!(token, "{byte:02x}").expect("a string takes all text");
        }
        if unclear.len() == UNCLEAR_MAX {
            unclear.remove(0);
        }
        unclear.push(Unclear { what: what.clone(), token: token.clone() });
        Ok(Token::New(token))
    }

    /// Its outcome is known.
    pub(super) fn settled(&self, what: &What) {
        self.unclear.lock().retain(|unclear| unclear.what != *what);
    }
}

#[cfg(test)]
mod tests {
    use super::{Renames, Token, UNCLEAR_MAX, What};
    use crate::{Condition, Key, Version};

    fn what(from: &str) -> What {
        What {
            from: Key::from(from),
            version: Version::new("1"),
            to: Key::from("to"),
            condition: Condition::Absent,
        }
    }

    fn token(renames: &Renames, what: &What) -> (String, bool) {
        match renames.token(what).unwrap() {
            Token::New(text) => (text, false),
            Token::Again(text) => (text, true),
        }
    }

    #[test]
    fn a_token_is_used_again_until_the_rename_is_settled_and_only_for_the_same() {
        let renames = Renames::default();
        let (first, again) = token(&renames, &what("a"));
        assert!(!again && first.len() == 32, "{first}");
        assert_eq!(token(&renames, &what("a")), (first.clone(), true));
        let other = What { condition: Condition::Always, ..what("a") };
        assert_ne!(token(&renames, &other).0, first);
        renames.settled(&what("a"));
        let (second, again) = token(&renames, &what("a"));
        assert!(!again && second != first);
    }

    #[test]
    fn not_all_that_is_unclear_is_remembered() {
        let renames = Renames::default();
        let (first, _) = token(&renames, &what("first"));
        for number in 0..UNCLEAR_MAX {
            token(&renames, &what(&number.to_string()));
        }
        assert_ne!(token(&renames, &what("first")).0, first);
    }
}
