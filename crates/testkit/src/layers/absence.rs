//! Names that must not appear in some places.

use super::modules::{Source, paths};
use super::tokens::{Token, tokens};

/// Something that must not be named.
#[derive(Clone, Copy, Debug)]
pub enum Absence {
    /// No path through this one, such as `std::fs`.
    Path(&'static str),
    /// No such word at all.
    Word(&'static str),
}

/// What is named in `sources` though it must not be, in words. Modules in `except` may.
pub fn check_absences(sources: &[Source], absences: &[Absence], except: &[&str]) -> Vec<String> {
    let checked = sources.iter().filter(|source| {
        // A module's children are part of it.
        let is_in = |module: &str| {
            source.module == module || source.module.starts_with(&format!("{module}::"))
        };
        !except.iter().any(|module| is_in(module))
    });
    checked
        .flat_map(|source| {
            let named = absences.iter().filter(|absence| names(source, **absence));
            named.map(|absence| match absence {
                Absence::Path(name) | Absence::Word(name) => {
                    format!("{} names {name}", source.module)
                }
            })
        })
        .collect()
}

fn names(source: &Source, absence: Absence) -> bool {
    match absence {
        Absence::Path(path) => {
            let wanted: Vec<&str> = path.split("::").collect();
            paths(source).iter().any(|found| {
                found.len() >= wanted.len() && found.iter().zip(&wanted).all(|(a, b)| a == b)
            })
        }
        Absence::Word(word) => {
            tokens(&source.text).iter().filter_map(Token::word).any(|found| found == word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Absence, check_absences};
    use crate::layers::Source;

    #[test]
    fn what_must_not_be_named_is_told_except_where_it_may() {
        let source = |module: &str, text: &str| Source { module: module.into(), text: text.into() };
        let sources = [
            source("a", "use std::{fs, io};"),
            source("b", "fn f() { std::fs::read(x) }"),
            source("c", "// std::fs\nuse std::fsx;\n#[cfg(test)] mod tests { use std::fs; }"),
            source("folder", "use std::fs::File;"),
            source("folder::list", "use std::fs::File;"),
            source("d", "let fuse = 1;"),
        ];
        let absences = [Absence::Path("std::fs"), Absence::Word("fuse")];
        let found = check_absences(&sources, &absences, &["folder"]);
        assert_eq!(found, ["a names std::fs", "b names std::fs", "d names fuse"]);
    }
}
