//! Rust source as a list of words and signs, without comments, strings and test modules.

/// What matters for finding paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word(String),
    /// `::`
    Path,
    /// Any other sign.
    Sign(char),
}

impl Token {
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            Token::Path | Token::Sign(_) => None,
        }
    }
}

/// The tokens of `source`, test modules left out.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    without_tests(&all_tokens(source))
}

fn all_tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let used = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(len) = string(rest) {
            len
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else if rest.starts_with("::") {
            tokens.push(Token::Path);
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[used..];
    }
    tokens
}

/// The length of the comment that `text` starts with; they nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the string or character that `text` starts with, if it does.
fn string(text: &str) -> Option<usize> {
    let unprefixed = text.trim_start_matches(['b', 'c', 'r']);
    let prefix = text.len() - unprefixed.len();
    let is_raw = text[..prefix].contains('r');
    if prefix <= 2 && is_raw {
        let hashes = unprefixed.len() - unprefixed.trim_start_matches('#').len();
        if unprefixed[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = prefix + hashes + 1;
            return Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()));
        }
        return None;
    }
    if prefix <= 1 && unprefixed.starts_with('"') {
        return Some(prefix + quoted(unprefixed, '"'));
    }
    if prefix <= 1 && unprefixed.starts_with('\'') {
        // A lifetime has no closing quote right after its first character.
        let mut chars = unprefixed.chars().skip(1);
        let (first, second) = (chars.next(), chars.next());
        if first == Some('\\') || second == Some('\'') {
            return Some(prefix + quoted(unprefixed, '\''));
        }
    }
    None
}

/// The length of a quoted text with escapes, both quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Leaves out every item under `#[cfg(test)]` or `#[cfg(any(test, …))]`: tests may use what they
/// test.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = attribute(&tokens[at..]) {
            let attribute = &tokens[at..at + end];
            let is_test = attribute.get(2).and_then(Token::word) == Some("cfg")
                && attribute.iter().any(|token| token.word() == Some("test"))
                && !attribute.iter().any(|token| token.word() == Some("not"));
            at += end;
            if is_test {
                at += item(&tokens[at..]);
            }
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The length of the attribute that `tokens` starts with, if it does.
fn attribute(tokens: &[Token]) -> Option<usize> {
    if tokens.first() != Some(&Token::Sign('#')) {
        return None;
    }
    let open = if tokens.get(1) == Some(&Token::Sign('!')) { 2 } else { 1 };
    (tokens.get(open) == Some(&Token::Sign('['))).then(|| open + block(&tokens[open..], '[', ']'))
}

/// The length of the item that `tokens` starts with: to its `;` or to the end of its braces.
fn item(tokens: &[Token]) -> usize {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Sign('#') => at += attribute(&tokens[at..]).unwrap_or(1),
            Token::Sign(';' | ',') => return at + 1,
            Token::Sign('{') => return at + block(&tokens[at..], '{', '}'),
            Token::Sign('(') => at += block(&tokens[at..], '(', ')'),
            Token::Word(_) | Token::Path | Token::Sign(_) => at += 1,
        }
    }
    at
}

/// The length of what `open`, the first token, opens.
fn block(tokens: &[Token], open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        if *token == Token::Sign(open) {
            depth += 1;
        } else if *token == Token::Sign(close) {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn comments_strings_and_characters_are_left_out() {
        check("a /* b /* c */ d */ e // f\ng", &["a", "e", "g"]);
        check(r##"a "b \" c" r#"d " e"# b"f" 'g' '\'' h"##, &["a", "h"]);
        check("fn f<'a>(x: &'a str)", &["fn", "f", "a", "x", "a", "str"]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        check(
            "use a; #[cfg(test)] mod tests { use b; fn c() {} } use d;",
            &["use", "a", "use", "d"],
        );
        check("#[cfg(test)] #[path = \"x\"] mod tests; use d;", &["use", "d"]);
        check("#[cfg(test)] pub(crate) fn f(a: A) -> B { c } d", &["d"]);
        check("#[cfg(not(test))] fn f() {}", &["fn", "f"]);
        check("#[cfg(feature = \"x\")] fn f() {}", &["fn", "f"]);
    }

    fn check(source: &str, want: &[&str]) {
        let tokens = tokens(source);
        let words: Vec<&str> = tokens.iter().filter_map(Token::word).collect();
        assert_eq!(words, want, "{source}");
    }
}
