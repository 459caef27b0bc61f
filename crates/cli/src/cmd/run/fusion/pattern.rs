//! Patterns of paths, as Nextflow's outputs are: `*` and `?` within a name, `**` for any part of a path, `[a-z]`,
//! `{one,other}`, and backslashes; pure.

/// More ways than these to read the braces of one pattern are left out.
const WAYS_MAX: usize = 256;

/// A pattern, in all ways in which its braces can be read.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    ways: Vec<Vec<Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any byte of a name.
    Any,
    /// One of these ranges of bytes, or none of them.
    Class {
        ranges: Vec<(u8, u8)>,
        is_one: bool,
    },
    /// Any bytes of a name.
    Star,
    /// Any bytes.
    Stars,
}

impl Pattern {
    /// Reads a pattern. What makes no sense is taken as it stands; so is the pattern itself, beside what it means,
    /// for it may be no more than a name.
    pub(super) fn new(text: &str) -> Pattern {
        let parts = text.split('/').enumerate();
        let parts = parts.filter(|(at, part)| *part != "." && (!part.is_empty() || *at == 0));
        let text = parts.map(|(_, part)| part).collect::<Vec<_>>().join("/");
        let literal = text.bytes().map(Token::Byte).collect();
        let mut ways: Vec<Vec<Token>> =
            ways(&text).iter().map(|way| tokens(way.as_bytes())).collect();
        if !ways.contains(&literal) {
            ways.push(literal);
        }
        Pattern { ways }
    }

    /// Whether it is a name, and no more.
    pub(super) fn is_plain(&self) -> bool {
        let is_byte = |token: &Token| matches!(token, Token::Byte(_));
        matches!(self.ways.as_slice(), [way] if way.iter().all(is_byte))
    }

    /// Whether it fits all of `path`, or a folder above it.
    pub(super) fn covers(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends = ends.chain([path.len()]);
        ends.any(|end| self.ways.iter().any(|way| fits(way, &path[..end])))
    }
}

/// All ways to read the braces of `text`.
pub(super) fn ways(text: &str) -> Vec<String> {
    let (mut done, mut open) = (Vec::new(), vec![text.to_owned()]);
    while let Some(text) = open.pop() {
        match braces(&text) {
            Some((before, choices, after)) if done.len() + open.len() < WAYS_MAX => {
                let choices = choices.split(',').rev();
                open.extend(choices.map(|choice| format!("{before}{choice}{after}")));
            }
            Some(_) | None => done.push(text),
        }
    }
    done
}

/// What is before, in and behind the first braces that have none in them.
fn braces(text: &str) -> Option<(&str, &str, &str)> {
    let mut begin = None;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (byte, begin) {
            (b'\\', _) => drop(bytes.next()),
            (b'{', _) => begin = Some(at),
            (b'}', Some(begin)) => {
                return Some((&text[..begin], &text[begin + 1..at], &text[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

fn tokens(mut text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        let (token, taken) = match text {
            [] => return tokens,
            // Also no folder at all.
            [b'*', b'*', b'/', ..] if tokens.is_empty() => (Token::Stars, 3),
            [b'*', b'*', ..] => (Token::Stars, 2),
            [b'*', ..] => (Token::Star, 1),
            [b'?', ..] => (Token::Any, 1),
            [b'\\', byte, ..] => (Token::Byte(*byte), 2),
            [b'[', inner @ ..] => match class(inner) {
                Some((class, taken)) => (class, taken + 1),
                None => (Token::Byte(b'['), 1),
            },
            [byte, ..] => (Token::Byte(*byte), 1),
        };
        tokens.push(token);
        text = &text[taken..];
    }
}

/// The class that begins `text`, and how long it is with its end.
fn class(text: &[u8]) -> Option<(Token, usize)> {
    let is_one = !matches!(text.first(), Some(b'!' | b'^'));
    let begin = usize::from(!is_one);
    let end = begin + 1 + text.get(begin + 1..)?.iter().position(|&byte| byte == b']')?;
    let (mut ranges, mut members) = (Vec::new(), &text[begin..end]);
    while let [first, rest @ ..] = members {
        if let [b'-', last, rest @ ..] = rest {
            ranges.push((*first, *last));
            members = rest;
        } else {
            ranges.push((*first, *first));
            members = rest;
        }
    }
    Some((Token::Class { ranges, is_one }, end + 1))
}

/// Whether `tokens` fit all of `path`: all places that may be reached in the pattern, byte by byte.
fn fits(tokens: &[Token], path: &[u8]) -> bool {
    let mut reached = vec![false; tokens.len() + 1];
    reached[0] = true;
    pass_stars(tokens, &mut reached);
    for &byte in path {
        let mut next = vec![false; tokens.len() + 1];
        // The rest of a character of which the first byte was taken for all of it.
        for (at, token) in tokens.iter().enumerate() {
            let is_one = matches!(token, Token::Any | Token::Class { .. });
            next[at + 1] |= is_one && reached[at + 1] && byte & 0xc0 == 0x80;
        }
        for (at, token) in tokens.iter().enumerate().filter(|(at, _)| reached[*at]) {
            match token {
                Token::Stars => next[at] = true,
                Token::Star => next[at] |= byte != b'/',
                Token::Any => next[at + 1] |= byte != b'/',
                Token::Byte(wanted) => next[at + 1] |= byte == *wanted,
                Token::Class { ranges, is_one } => {
                    let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&byte));
                    next[at + 1] |= byte != b'/' && is_in == *is_one;
                }
            }
        }
        pass_stars(tokens, &mut next);
        reached = next;
    }
    reached[tokens.len()]
}

/// Stars fit nothing, too.
fn pass_stars(tokens: &[Token], reached: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        if reached[at] && matches!(token, Token::Star | Token::Stars) {
            reached[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_cover_paths_and_what_is_below_them() {
        for (pattern, path, want) in [
            ("*.out", "a.out", true),
            ("*.out", "sub/a.out", false),
            ("*.out", "a.out/below", true),
            ("sub/**", "sub/d/e", true),
            ("sub/**", "subd", false),
            ("**.bam", "a/b/c.bam", true),
            ("**/*.bam", "c.bam", true),
            ("**/*.bam", "a/c.bam", true),
            ("dir", "dir/a/b", true),
            ("dir", "dirt", false),
            ("./x", "x", true),
            ("*.{bam,bai}", "a.bai", true),
            ("*.{bam,{csi,bai}}", "a.csi", true),
            ("*.{bam,bai}", "a.bed", false),
            ("chr[1-3X].vcf", "chrX.vcf", true),
            ("chr[!1-3].vcf", "chr2.vcf", false),
            ("a?c", "a/c", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("[x", "[x", true),
            ("odd name.txt", "odd name.txt", true),
            ("", "a", false),
        ] {
            assert_eq!(Pattern::new(pattern).covers(path.as_bytes()), want, "{pattern} {path}");
        }
    }

    #[test]
    fn a_name_is_told_from_a_pattern() {
        for (pattern, want) in [("a.bam", true), ("a*", false), ("{a,b}", false), ("a/b", true)] {
            assert_eq!(Pattern::new(pattern).is_plain(), want, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_would_never_end_does() {
        let stars = "*a".repeat(200);
        assert!(!Pattern::new(&stars).covers("a".repeat(199).as_bytes()));
        let braces = "{a,b}".repeat(40);
        let _ = Pattern::new(&braces).covers(b"x");
    }
}
