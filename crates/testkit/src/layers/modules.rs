//! The modules of a crate, which of them uses which, and the circles in that.
//!
//! A module is a file. A path such as `crate::a::b::Thing` is an edge to the deepest module it goes
//! through; a name that a module only re-exports (`pub use`) leads on to where it is. The root of a
//! crate is not a module here: it consists of declarations and re-exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::graph::{self, Graph};
use super::tokens::{Token, tokens};

/// One source file of a crate.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its module path: empty for the root, else such as `bucket::keys`.
    pub module: String,
    /// Its text.
    pub text: String,
}

/// A path, as written in one module: `crate`, `bucket`, `keys`, `Key`.
type Segments = Vec<String>;

/// The sources of the crate in `folder`, test files left out.
pub fn sources(folder: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    collect(&folder.join("src"), &mut Vec::new(), &mut sources);
    sources
}

/// The circles among the modules, each as the names along it; none in a well-made crate.
pub fn circles(sources: &[Source]) -> Vec<Vec<String>> {
    graph::circles(&uses(sources))
}

/// All paths in `source` that are written out, by `use` or in place.
pub(super) fn paths(source: &Source) -> Vec<Segments> {
    let found = found_paths(&tokens(&source.text));
    found.into_iter().map(|(_, path)| path).collect()
}

fn collect(folder: &Path, module: &mut Vec<String>, sources: &mut Vec<Source>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a crate has sources").flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let stem =
            path.file_stem().and_then(|stem| stem.to_str()).expect("modules have plain names");
        // Test modules in files of their own, and programs beside the library.
        if stem == "tests" || stem == "bin" {
            continue;
        }
        let is_own_name = !matches!(stem, "lib" | "main" | "mod");
        if is_own_name {
            module.push(stem.to_owned());
        }
        if path.is_dir() {
            collect(&path, module, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            sources.push(Source { module: module.join("::"), text });
        }
        if is_own_name {
            module.pop();
        }
    }
}

fn uses(sources: &[Source]) -> Graph {
    let modules: BTreeSet<String> = sources.iter().map(|source| source.module.clone()).collect();
    let crate_paths = Paths::new(sources, &modules);
    let mut graph = Graph::new();
    for source in sources.iter().filter(|source| !source.module.is_empty()) {
        for path in paths(source) {
            if let Some(used) = crate_paths.module(&source.module, &path)
                && !used.is_empty()
                && used != source.module
            {
                graph.entry(source.module.clone()).or_default().insert(used);
            }
        }
    }
    graph
}

/// What paths lead to within one crate.
struct Paths<'a> {
    modules: &'a BTreeSet<String>,
    // By module and name: the path that the module re-exports under this name.
    exports: BTreeMap<(String, String), Segments>,
}

impl Paths<'_> {
    fn new<'a>(sources: &[Source], modules: &'a BTreeSet<String>) -> Paths<'a> {
        let mut exports = BTreeMap::new();
        for source in sources {
            for (kind, path) in found_paths(&tokens(&source.text)) {
                if let Found::Export(name) = kind {
                    exports.insert((source.module.clone(), name), path);
                }
            }
        }
        Paths { modules, exports }
    }

    /// The module that `path`, written in module `from`, leads into; `None` for other crates.
    fn module(&self, from: &str, path: &[String]) -> Option<String> {
        // Longer chains of re-exports than this are a circle of their own.
        self.follow(from, path, 8)
    }

    fn follow(&self, from: &str, path: &[String], hops: u8) -> Option<String> {
        let (mut at, mut rest) = self.start(from, path)?;
        while let Some((name, after)) = rest.split_first() {
            let deeper = join(&at, name);
            if self.modules.contains(&deeper) {
                (at, rest) = (deeper, after);
                continue;
            }
            let export = self.exports.get(&(at.clone(), name.clone()));
            if hops > 0
                && let Some(export) = export
                && let Some(module) = self.follow(&at, export, hops - 1)
            {
                return Some(module);
            }
            break;
        }
        Some(at)
    }

    /// The module a path starts in, and what of the path is left.
    fn start<'p>(&self, from: &str, path: &'p [String]) -> Option<(String, &'p [String])> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((String::new(), rest)),
            "self" => Some((from.to_owned(), rest)),
            "super" => {
                let mut at = parent(from);
                let mut rest = rest;
                while let Some((first, after)) = rest.split_first()
                    && first == "super"
                {
                    (at, rest) = (parent(&at), after);
                }
                Some((at, rest))
            }
            // A child of this module, named without more; anything else is another crate.
            name => self.modules.contains(&join(from, name)).then(|| (from.to_owned(), path)),
        }
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn parent(module: &str) -> String {
    module.rsplit_once("::").map_or(String::new(), |(parent, _)| parent.to_owned())
}

/// How a path was found.
enum Found {
    /// It is named, in a `use` or in place.
    Named,
    /// It is re-exported under this name.
    Export(String),
}

fn found_paths(tokens: &[Token]) -> Vec<(Found, Segments)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut is_public = false;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Word(word) if word == "use" => {
                let mut leaves = Vec::new();
                at += 1 + use_tree(&tokens[at + 1..], &Vec::new(), &mut leaves);
                for (name, path) in leaves {
                    let kind = if is_public { Found::Export(name) } else { Found::Named };
                    found.push((kind, path));
                }
                is_public = false;
            }
            Token::Word(word) if word == "pub" => {
                is_public = true;
                at += 1;
                if tokens.get(at) == Some(&Token::Sign('(')) {
                    // `pub(crate)`, `pub(in path)`: no path of interest.
                    at += tokens[at..]
                        .iter()
                        .position(|token| *token == Token::Sign(')'))
                        .unwrap_or(0);
                    at += 1;
                }
            }
            Token::Word(word) => {
                is_public = false;
                let mut path = vec![word.clone()];
                at += 1;
                while let [Token::Path, Token::Word(next), ..] = &tokens[at..] {
                    path.push(next.clone());
                    at += 2;
                }
                if path.len() > 1 {
                    found.push((Found::Named, path));
                }
            }
            Token::Path | Token::Sign(_) => {
                is_public = false;
                at += 1;
            }
        }
    }
    found
}

/// Reads `a::{b, c::d as e, self}` after `prefix`, and returns how many tokens it took.
fn use_tree(tokens: &[Token], prefix: &Segments, leaves: &mut Vec<(String, Segments)>) -> usize {
    let mut path = prefix.clone();
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) if word == "as" => {
                let name = tokens.get(at + 1).and_then(Token::word).unwrap_or("_").to_owned();
                leaves.push((name, path));
                return at + 2;
            }
            Some(Token::Word(word)) => {
                // `a::{self}` names `a` itself.
                if word != "self" || path.is_empty() {
                    path.push(word.clone());
                }
                at += 1;
            }
            Some(Token::Path) => at += 1,
            Some(Token::Sign('*')) => {
                leaves.push(("*".to_owned(), path));
                return at + 1;
            }
            Some(Token::Sign('{')) => {
                at += 1;
                while !matches!(tokens.get(at), None | Some(Token::Sign('}'))) {
                    at += use_tree(&tokens[at..], &path, leaves);
                    at += usize::from(tokens.get(at) == Some(&Token::Sign(',')));
                }
                return at + 1;
            }
            Some(Token::Sign(_)) | None => {
                if let Some(last) = path.last().cloned()
                    && path.len() > prefix.len().min(1)
                {
                    leaves.push((last, path));
                }
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, circles, sources};

    #[test]
    fn a_made_up_tree_with_a_circle_is_caught() {
        let folder = crate::Scratch::new();
        let src = folder.folder("src");
        folder.folder("src/bucket");
        std::fs::write(src.join("lib.rs"), "mod bucket; mod error; pub use error::Error;").unwrap();
        std::fs::write(src.join("bucket.rs"), "mod keys;\nuse keys::Key;").unwrap();
        std::fs::write(src.join("bucket/keys.rs"), "use crate::Error;\nstruct Key;").unwrap();
        std::fs::write(src.join("error.rs"), "struct Error;").unwrap();
        assert_eq!(circles(&sources(folder.path())), Vec::<Vec<String>>::new());

        std::fs::write(src.join("error.rs"), "fn f() { crate::bucket::g() }").unwrap();
        let circle = ["bucket", "bucket::keys", "error", "bucket"];
        assert_eq!(circles(&sources(folder.path())), [circle.map(String::from).to_vec()]);
    }

    #[test]
    fn circles_are_seen_through_every_way_of_writing_a_path() {
        for back in [
            "use crate::a::X;",
            "use crate::{a::X, c::Y};",
            "use crate::a;",
            "use super::a::X;",
            "use super::{c, a as d};",
            "fn f() -> crate::a::X { todo!() }",
            "fn f() { super::a::x() }",
            "use crate::Exported;",
            "fn f(x: crate::Renamed) {}",
            "pub use crate::a::X;",
        ] {
            let sources = tree(&[
                ("", "mod a; mod b; pub use a::Exported; pub use crate::a::{X as Renamed};"),
                ("a", "use crate::b::Y;"),
                ("b", back),
                ("c", ""),
            ]);
            assert_eq!(circles(&sources).len(), 1, "{back}");
        }
    }

    #[test]
    fn what_is_no_use_of_a_module_makes_no_circle() {
        for harmless in [
            "// use crate::a::X;",
            "const A: &str = \"crate::a::X\";",
            "#[cfg(test)] mod tests { use crate::a::X; }",
            "#[cfg(test)]\nuse crate::a::X;",
            "use other::a::X;",
            "use crate::c::X;",
            "use crate::b::X; use super::b; use self::Y;",
            "fn f() { std::a::x() }",
        ] {
            let sources = tree(&[
                ("", "mod a; mod b; mod c;"),
                ("a", "use crate::b::Y;"),
                ("b", harmless),
                ("c", ""),
            ]);
            assert_eq!(circles(&sources), Vec::<Vec<String>>::new(), "{harmless}");
        }
    }

    fn tree(files: &[(&str, &str)]) -> Vec<Source> {
        let source = |(module, text): &(&str, &str)| Source {
            module: (*module).to_owned(),
            text: (*text).to_owned(),
        };
        files.iter().map(source).collect()
    }
}
