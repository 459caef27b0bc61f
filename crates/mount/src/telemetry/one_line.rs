//! A line of text for each event: a name in it cannot begin another one, which would say what never happened.

use std::io::{self, Write};

use base::printable;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::cut::{chars_max, cut};

/// A way to write, of which each write is one line.
pub(super) struct OneLine<W> {
    inner: W,
    chars_max: usize,
}

impl<W> OneLine<W> {
    /// Lines to `inner`.
    pub(super) fn new(inner: W) -> OneLine<W> {
        OneLine { inner, chars_max: usize::MAX }
    }
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine { inner: self.inner.make_writer(), chars_max: self.chars_max }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let chars_max = chars_max(metadata.target());
        OneLine { inner: self.inner.make_writer_for(metadata), chars_max }
    }
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let inner = text.strip_suffix('\n').unwrap_or(&text);
        // In one call, so that lines do not mix.
        let short = cut(inner, self.chars_max);
        self.inner.write_all(format!("{}\n", printable(&short)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::OneLine;

    #[test]
    fn a_name_begins_no_line_of_its_own() {
        let mut written = Vec::new();
        for line in ["a call path=x\n2026 ERROR all is lost\r\x1b[2J\n", "another\n"] {
            OneLine::new(&mut written).write_all(line.as_bytes()).unwrap();
        }
        let want = "a call path=x\\n2026 ERROR all is lost\\r\\u{1b}[2J\nanother\n";
        assert_eq!(String::from_utf8(written).unwrap(), want);
    }
}
