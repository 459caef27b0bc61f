//! Which tags an object gets, by its name; pure.

use std::fmt;

use crate::http::encode;
use crate::{Key, glob};

/// So many tags S3 keeps with an object.
const TAGS_MAX: usize = 10;

/// So many rules are looked through for each object that is written.
const RULES_MAX: usize = 100;

/// S3's own limits, in characters.
const NAME_CHARACTERS_MAX: usize = 128;
const VALUE_CHARACTERS_MAX: usize = 256;

/// Which tags objects get: a list of rules, of which the later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Vec<Rule>);

/// One tag, and for which objects.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// All of them if `None`.
    pattern: Option<String>,
    name: String,
    value: String,
}

/// Why a text is no list of tags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagsError {
    /// A part is not `NAME=VALUE`.
    #[error("{0}: not a tag like project=x or *.bam=kind=alignment")]
    Part(String),
    /// A name or value that S3 does not take.
    #[error(
        "{0}: tags have up to 128 characters for the name and 256 for the value, of letters, digits, spaces and + - = . _ : / @"
    )]
    Word(String),
    /// More than S3 keeps.
    #[error("more than {TAGS_MAX} names of tags, or {RULES_MAX} rules")]
    TooMany,
}

impl Tags {
    /// Reads `project=x;*.bam=kind=alignment`: separated by `;` or `,`, each `NAME=VALUE` for all
    /// objects, or `GLOB=NAME=VALUE` for those whose name fits. `*` is any text and `?` any one
    /// character; a glob with a `/` is compared with the whole key, another one with what follows
    /// the key's last `/`.
    pub fn parse(text: &str) -> Result<Tags, TagsError> {
        let parts = text.split([';', ',']).map(str::trim).filter(|part| !part.is_empty());
        let rules = parts.map(Rule::parse).collect::<Result<Vec<Rule>, TagsError>>()?;
        let mut names: Vec<&str> = rules.iter().map(|rule| &rule.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        if TAGS_MAX < names.len() || RULES_MAX < rules.len() {
            return Err(TagsError::TooMany);
        }
        Ok(Tags(rules))
    }

    /// The tags of the object `key` as a header spells them; `None` if it gets none.
    pub(super) fn of(&self, key: &Key) -> Option<String> {
        let mut tags: Vec<(&str, &str)> = Vec::new();
        for rule in self.0.iter().filter(|rule| rule.fits(key)) {
            tags.retain(|(name, _)| *name != rule.name);
            tags.push((&rule.name, &rule.value));
        }
        let spelt = |(name, value): &(&str, &str)| {
            format!("{}={}", encode(name.as_bytes()), encode(value.as_bytes()))
        };
        let text = tags.iter().map(spelt).collect::<Vec<String>>().join("&");
        (!text.is_empty()).then_some(text)
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Rule, TagsError> {
        let wrong = || TagsError::Part(text.to_owned());
        let (first, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (pattern, name, value) = match rest.split_once('=') {
            Some((name, value)) => (Some(first.to_owned()), name, value),
            None => (None, first, rest),
        };
        if name.is_empty() || pattern.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        let fits = |word: &str, characters_max: usize| {
            word.chars().count() <= characters_max && word.chars().all(is_of_tags)
        };
        if !fits(name, NAME_CHARACTERS_MAX) || !fits(value, VALUE_CHARACTERS_MAX) {
            return Err(TagsError::Word(text.to_owned()));
        }
        Ok(Rule { pattern, name: name.to_owned(), value: value.to_owned() })
    }

    fn fits(&self, key: &Key) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        let whole = key.as_bytes();
        let last = whole.rsplit(|&byte| byte == b'/').next().unwrap_or(whole);
        let text = if pattern.contains('/') { whole } else { last };
        glob::fits(pattern.as_bytes(), text)
    }
}

fn is_of_tags(letter: char) -> bool {
    letter.is_alphanumeric() || " +-=._:/@".contains(letter)
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Rule { pattern, name, value }) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { ";" };
            match pattern {
                Some(pattern) => write!(f, "{between}{pattern}={name}={value}")?,
                None => write!(f, "{between}{name}={value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Tags, TagsError};
    use crate::Key;

    proptest! {
        #[test]
        fn whatever_is_read_is_spelt_so_that_it_is_read_the_same(text in "[ab*?=;, ./ü]{0,40}") {
            if let Ok(tags) = Tags::parse(&text) {
                prop_assert_eq!(Tags::parse(&tags.to_string()), Ok(tags));
            }
        }
    }

    #[test]
    fn an_object_gets_the_tags_that_its_name_says() {
        let tags = Tags::parse(
            "project=a b; *.bam=kind=alignment, raw/*=kind=as it came;raw/*=by=x=y;s??=n=",
        )
        .unwrap();
        for (key, want) in [
            ("x", "project=a%20b"),
            ("d/e.bam", "project=a%20b&kind=alignment"),
            ("raw/e.bam", "project=a%20b&kind=as%20it%20came&by=x%3Dy"),
            ("d/s12", "project=a%20b&n="),
            ("d/s1", "project=a%20b"),
        ] {
            assert_eq!(tags.of(&Key::from(key)).as_deref(), Some(want), "{key}");
        }
        assert_eq!(Tags::parse(" ; ").unwrap().of(&Key::from("x")), None);
        assert_eq!(Tags::parse("*.bam=kind=a").unwrap().of(&Key::from("bam")), None);
    }

    #[test]
    fn what_s3_does_not_take_is_refused() {
        for text in ["project", "=x", "*.bam==x"] {
            assert_eq!(Tags::parse(text), Err(TagsError::Part(text.to_owned())));
        }
        let long = format!("a={}", "x".repeat(257));
        for text in ["a=b?", "a*=b", &long] {
            assert_eq!(Tags::parse(text), Err(TagsError::Word(text.to_owned())));
        }
        let many = (0..11).map(|n| format!("n{n}=x")).collect::<Vec<_>>().join(";");
        assert_eq!(Tags::parse(&many), Err(TagsError::TooMany));
    }

    #[test]
    fn a_list_of_tags_is_spelt_as_it_is_read() {
        let text = "project=x;*.bam=kind=alignment";
        assert_eq!(Tags::parse(text).unwrap().to_string(), text);
    }
}
