//! A grid of characters, drawn on and then shown. Pure.

use std::fmt::Write as _;

use crate::width;

/// How large a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    Plain,
    Dim,
    Strong,
    Good,
    Warning,
    Bad,
    In,
    Out,
    Bar,
}

impl Look {
    /// The numbers by which a terminal knows it; its user chose the colours.
    fn codes(self, palette: Palette) -> &'static str {
        match (self, palette) {
            (Look::Plain, _) => "0",
            (Look::Strong, _) => "0;1",
            (Look::Bar, _) => "0;7",
            (Look::Dim, Palette::Colours) => "0;90",
            (Look::Good, Palette::Colours) => "0;1;32",
            (Look::Warning, Palette::Colours) => "0;1;33",
            (Look::Bad, Palette::Colours) => "0;1;31",
            (Look::In, Palette::Colours) => "0;36",
            (Look::Out, Palette::Colours) => "0;35",
            (Look::Good | Look::Warning | Look::Bad, Palette::None) => "0;1",
            (Look::Dim | Look::In | Look::Out, Palette::None) => "0",
        }
    }
}

/// Whether there are colours; bold and inverse there are anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    Colours,
    None,
}

/// The grid.
#[derive(Clone, Debug)]
pub(super) struct Canvas {
    size: Size,
    /// Behind a wide character is a [`REST`].
    cells: Vec<(char, Look)>,
}

/// The second column of a wide character. No text has it: control characters are not drawn.
const REST: char = '\0';

impl Canvas {
    pub(super) fn new(size: Size) -> Canvas {
        Canvas { size, cells: vec![(' ', Look::Plain); size.columns * size.rows] }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Writes `text` at a place; what does not fit is left out.
    pub(super) fn put(&mut self, (column, row): (usize, usize), text: &str, look: Look) {
        if self.size.rows <= row {
            return;
        }
        let room = self.size.columns.saturating_sub(column);
        let from = row * self.size.columns + column;
        let mut at = 0;
        for character in text.chars() {
            // A name may hold what would move the terminal's cursor.
            let shown = if character.is_control() { '?' } else { character };
            let columns = width::columns_of(shown);
            if room < at + columns {
                break;
            }
            // A mark that takes no column would need a cell with its letter: it is left out.
            for rest in 0..columns {
                self.cells[from + at + rest] = (if rest == 0 { shown } else { REST }, look);
            }
            at += columns;
        }
    }

    /// Gives a whole row a look.
    pub(super) fn tint(&mut self, row: usize, look: Look) {
        let columns = self.size.columns;
        for cell in self.cells.iter_mut().skip(row * columns).take(columns) {
            cell.1 = look;
        }
    }

    /// The rows as they are read.
    pub(super) fn text(&self) -> String {
        let rows = self.cells.chunks(self.size.columns.max(1));
        let lines: Vec<String> = rows
            .map(|row| {
                row.iter()
                    .map(|cell| cell.0)
                    .filter(|shown| *shown != REST)
                    .collect::<String>()
                    .trim_end()
                    .to_owned()
            })
            .collect();
        lines.join("\n")
    }

    /// What a terminal is sent.
    pub(super) fn escapes(&self, palette: Palette) -> String {
        let mut text = String::new();
        for (number, row) in self.cells.chunks(self.size.columns.max(1)).enumerate() {
            let _ = write!(text, "\x1b[{};1H", number + 1);
            let mut look = None;
            for &(character, wanted) in row {
                if look != Some(wanted) {
                    let _ = write!(text, "\x1b[{}m", wanted.codes(palette));
                    look = Some(wanted);
                }
                if character != REST {
                    text.push(character);
                }
            }
        }
        text + "\x1b[0m"
    }
}

#[cfg(test)]
mod tests {
    use super::{Canvas, Look, Palette, Size};

    #[test]
    fn what_does_not_fit_is_left_out_and_no_name_moves_the_cursor() {
        let mut canvas = Canvas::new(Size { columns: 5, rows: 2 });
        canvas.put((2, 0), "abcdef", Look::Plain);
        canvas.put((0, 1), "x\x1b[2J", Look::Bad);
        canvas.put((0, 7), "nowhere", Look::Plain);
        canvas.put((9, 0), "nowhere", Look::Plain);
        assert_eq!(canvas.text(), "  abc\nx?[2J");
        for (palette, bad) in [(Palette::Colours, "0;1;31"), (Palette::None, "0;1")] {
            let want = format!("\x1b[1;1H\x1b[0m  abc\x1b[2;1H\x1b[{bad}mx?[2J\x1b[0m");
            assert_eq!(canvas.escapes(palette), want);
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut canvas = Canvas::new(Size { columns: 8, rows: 2 });
        canvas.put((0, 0), "数据x", Look::Plain);
        canvas.put((6, 0), "ab", Look::Plain);
        canvas.put((5, 1), "x数据", Look::Plain);
        assert_eq!(canvas.text(), "数据x ab\n     x数", "half a character is left out");
        let escapes = canvas.escapes(Palette::None);
        assert!(escapes.contains("数据x ab") && !escapes.contains('\0'), "{escapes:?}");
    }

    #[test]
    fn who_wants_no_colours_gets_none() {
        for look in [
            Look::Plain,
            Look::Dim,
            Look::Strong,
            Look::Good,
            Look::Warning,
            Look::Bad,
            Look::In,
            Look::Out,
            Look::Bar,
        ] {
            let codes = look.codes(Palette::None);
            assert!(["0", "0;1", "0;7"].contains(&codes), "{look:?}: {codes}");
        }
    }
}
