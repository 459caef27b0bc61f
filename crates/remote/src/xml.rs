//! A strict reader of small XML documents: what a server sends is not to be trusted.
//!
//! No document type, no entities but the five that XML itself has, a limit on depth; the size is
//! limited by who reads the answer. Everything else that is not well formed is an error.

use xmlparser::{ElementEnd, Token, Tokenizer};

/// How deep elements may be nested; a listing has seven levels.
const DEPTH_MAX: usize = 32;

/// An element with what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) children: Vec<Element>,
    /// Its own text, without that of its children.
    pub(crate) text: String,
}

impl Element {
    /// The first child of that name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child of that name.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| &child.text[..])
    }

    /// An attribute's value.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| &value[..])
    }
}

/// The root element of a document; `None` if it is not one that we read.
pub(crate) fn parse(document: &[u8]) -> Option<Element> {
    let text = std::str::from_utf8(document).ok()?;
    let mut reading = Reading::default();
    for token in Tokenizer::from(text) {
        reading.take(token.ok()?)?;
    }
    // An element that was never closed leaves no root.
    if reading.open.is_empty() { reading.root } else { None }
}

/// A document half read.
#[derive(Default)]
struct Reading {
    root: Option<Element>,
    /// The elements that are not closed yet, outermost first.
    open: Vec<Element>,
}

impl Reading {
    fn take(&mut self, token: Token<'_>) -> Option<()> {
        match token {
            Token::ElementStart { local, .. } => {
                if self.open.len() == DEPTH_MAX || self.root.is_some() {
                    return None;
                }
                self.open.push(Element { name: local.as_str().to_owned(), ..Element::default() });
            }
            Token::Attribute { local, value, .. } => {
                let value = unescape(value.as_str())?;
                self.open.last_mut()?.attributes.push((local.as_str().to_owned(), value));
            }
            Token::ElementEnd { end: ElementEnd::Open, .. } => {}
            Token::ElementEnd { end: ElementEnd::Empty, .. } => self.close()?,
            Token::ElementEnd { end: ElementEnd::Close(_, local), .. } => {
                if self.open.last()?.name != local.as_str() {
                    return None;
                }
                self.close()?;
            }
            Token::Text { text } => {
                let text = unescape(text.as_str())?;
                match self.open.last_mut() {
                    Some(element) => element.text.push_str(&text),
                    None if text.trim().is_empty() => {}
                    None => return None,
                }
            }
            Token::Cdata { text, .. } => self.open.last_mut()?.text.push_str(text.as_str()),
            Token::Declaration { .. }
            | Token::ProcessingInstruction { .. }
            | Token::Comment { .. } => {}
            Token::DtdStart { .. }
            | Token::EmptyDtd { .. }
            | Token::EntityDeclaration { .. }
            | Token::DtdEnd { .. } => return None,
        }
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        let done = self.open.pop()?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(done),
            None => self.root = Some(done),
        }
        Some(())
    }
}

/// Text without its escapes.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let (name, behind) = rest[at + 1..].split_once(';')?;
        plain.push(entity(name)?);
        rest = behind;
    }
    plain.push_str(rest);
    Some(plain)
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// Text with escapes, for documents that we write.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{DEPTH_MAX, escape, parse};

    #[test]
    fn a_document_is_read_with_its_escapes() {
        let document = "\u{feff}<?xml version=\"1.0\"?><!-- x --><a k='1 &lt;'>\n<b> x&amp;y&#x41;&#66; </b><c/><![CDATA[<&]]></a>\n";
        let root = parse(document.as_bytes()).unwrap();
        assert_eq!((&root.name[..], root.attribute("k")), ("a", Some("1 <")));
        assert_eq!(root.text_of("b"), Some(" x&yAB "));
        assert_eq!(root.text_of("c"), Some(""));
        assert_eq!(root.text.trim(), "<&");
        assert_eq!(root.child("d"), None);
    }

    #[test]
    fn what_is_not_plain_xml_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(DEPTH_MAX + 1), "</a>".repeat(DEPTH_MAX + 1));
        for document in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a></a><b></b>",
            "<a>&undefined;</a>",
            "<a>&#xD800;</a>",
            "<a>&amp</a>",
            "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
            "<!DOCTYPE a><a/>",
            "<html><p></html>",
            &deep,
        ] {
            assert_eq!(parse(document.as_bytes()), None, "{document}");
        }
        assert_eq!(parse(b"<a>\xff</a>"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }

        #[test]
        fn anything_like_xml_is_read_without_harm(text in "([<>/&;!?a-c'\"= \\]\\[-]|<a>|</a>|<!DOCTYPE |<!\\[CDATA\\[|&#x){0,40}") {
            parse(text.as_bytes());
        }

        #[test]
        fn what_was_escaped_comes_back(text in "[ -~ü水]*") {
            let root = parse(format!("<a>{}</a>", escape(&text)).as_bytes()).unwrap();
            prop_assert_eq!(root.text, text);
        }
    }
}
