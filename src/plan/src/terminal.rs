//! Text for a terminal: no control characters, lines no wider than it is, and colours where it has them.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

/// What is known of where text goes. The default is a file or a pipe: no width, no colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Columns, if lines are to be broken there.
    pub width: Option<usize>,
    /// Whether colours are shown.
    pub has_colours: bool,
}

/// Columns below which nothing is broken: nobody could read it.
const LEAST_WIDTH: usize = 40;
/// By how much the lines are indented that follow a broken one.
const INDENT: usize = 4;

/// A writer of lines. Those after a blank one are titles, and those in capitals after a title are the heads of a table.
pub(crate) struct Paper<W> {
    writer: W,
    terminal: Terminal,
    line: Vec<u8>,
    before: Before,
}

/// What the line before was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// There was none.
    Nothing,
    Blank,
    Title,
    Text,
}

impl<W: Write> Paper<W> {
    pub(crate) fn new(writer: W, terminal: Terminal) -> Self {
        Paper { writer, terminal, line: Vec::new(), before: Before::Nothing }
    }

    fn finish_line(&mut self) -> io::Result<()> {
        let line = printable(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        let style = if self.terminal.has_colours { style_of(&line, self.before) } else { None };
        self.before = match self.before {
            _ if line.is_empty() => Before::Blank,
            Before::Blank => Before::Title,
            _ => Before::Text,
        };
        let lines = match self.terminal.width {
            Some(width) if width >= LEAST_WIDTH => broken(&line, width),
            _ => vec![line],
        };
        for line in lines {
            match style {
                Some((begin, style)) if begin < line.len() && line.is_char_boundary(begin) => {
                    let (before, styled) = line.split_at(begin);
                    writeln!(self.writer, "{before}{style}{styled}{style:#}")?;
                }
                _ => writeln!(self.writer, "{line}")?,
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Paper<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.split_last() {
                Some((b'\n', text)) => {
                    self.line.extend_from_slice(text);
                    self.finish_line()?;
                }
                _ => self.line.extend_from_slice(part),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.finish_line()?;
        }
        self.writer.flush()
    }
}

/// Text without control characters, which names may have and which move a terminal's cursor or hide what is written.
pub fn printable(text: &str) -> String {
    let is_shown = |char: char| !char.is_control() || char == '\n';
    text.chars().map(|char| if is_shown(char) { char } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Where the value begins in a line such as `Cost:   $1`.
fn value_at(line: &str) -> Option<usize> {
    let (label, rest) = line.trim_start().split_once(':')?;
    let is_label = label.len() <= 24 && label.chars().all(|char| char.is_alphabetic() || char == ' ');
    let blanks = rest.len() - rest.trim_start().len();
    (is_label && blanks >= 2).then(|| line.len() - rest.len() + blanks)
}

/// What of a line is styled, from where, and how.
fn style_of(line: &str, before: Before) -> Option<(usize, Style)> {
    let (bold, red) = (Style::new().bold(), AnsiColor::Red.on_default().bold());
    let is_bad = |text: &str| text.contains("unschedulable") || text.contains("Unschedulable");
    match before {
        Before::Blank => Some((0, if is_bad(line) { red } else { bold })),
        // The first line of a story says how it ends.
        Before::Nothing if value_at(line).is_none() => Some((0, if is_bad(line) { red } else { bold })),
        Before::Title if !line.chars().any(char::is_lowercase) => Some((0, Style::new().dimmed())),
        _ => match value_at(line) {
            Some(at) if line.get(at..).is_some_and(is_bad) => Some((at, red)),
            Some(at) if line.starts_with("Cost:") => Some((at, bold)),
            _ => None,
        },
    }
}

/// Lines of at most `width` columns, broken at blanks. Rows of tables, which have columns set apart by blanks, are whole.
fn broken(line: &str, width: usize) -> Vec<String> {
    let value = value_at(line);
    let is_row = value.is_none() && line.trim().contains("  ");
    if line.chars().count() <= width || is_row {
        return vec![line.to_owned()];
    }
    let lead = line.len() - line.trim_start().len();
    let indent = value.filter(|at| *at <= width / 2).unwrap_or(lead + INDENT);
    let head = line.get(..value.unwrap_or(lead)).unwrap_or_default();
    let mut lines = vec![head.to_owned()];
    let mut is_fresh = true;
    for word in line.get(head.len()..).unwrap_or_default().split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if !is_fresh && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("{:indent$}{word}", ""));
        } else {
            let blank = if is_fresh { "" } else { " " };
            let _ = write!(last, "{blank}{word}");
        }
        is_fresh = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, terminal: Terminal) -> String {
        let mut out = Vec::new();
        let mut paper = Paper::new(&mut out, terminal);
        // In pieces, as formatting writes.
        for piece in text.as_bytes().chunks(3) {
            paper.write_all(piece).unwrap();
        }
        paper.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_file_gets_what_was_written_but_for_control_characters() {
        let text = "Cost:          $1/h\n\nNodes to launch\nNODE  PODS\na\u{1b}[31m  1\n";
        assert_eq!(written(text, Terminal::default()), text.replace('\u{1b}', "\u{fffd}"));
    }

    #[test]
    fn titles_heads_and_bad_news_are_coloured_and_the_text_stays_the_same() {
        let text =
            "Pods:          1 placed, 2 unschedulable\nCost:          $1/h\n\nNodes to launch\nNODE  PODS\nweb     1\n";
        let terminal = Terminal { width: None, has_colours: true };
        let coloured = written(text, terminal);
        assert!(
            coloured.contains("\u{1b}[1m\u{1b}[31m1 placed, 2 unschedulable") || coloured.contains("[31m"),
            "{coloured:?}"
        );
        assert!(coloured.contains("\u{1b}[1mNodes to launch\u{1b}[0m\n"), "{coloured:?}");
        assert!(coloured.contains("\u{1b}[2mNODE  PODS\u{1b}[0m\nweb     1\n"), "{coloured:?}");
        let mut plain = String::new();
        for (at, part) in coloured.split('\u{1b}').enumerate() {
            plain.push_str(if at == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(plain, text);
    }

    #[test]
    fn prose_is_broken_at_the_width_and_rows_of_tables_are_whole() {
        let terminal = Terminal { width: Some(40), has_colours: false };
        let prose = "  NodePool default: 225 didn't match Pod's node affinity/selector, 3 Insufficient cpu\n";
        let lines = written(prose, terminal);
        assert!(lines.lines().count() > 1 && lines.lines().all(|line| line.chars().count() <= 40), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("      ")), "{lines}");
        let note = "Note:          prices are list prices of the first of the month, without discounts\n";
        assert!(written(note, terminal).lines().skip(1).all(|line| line.starts_with(&" ".repeat(15))));
        let row = "NODEPOOL  INSTANCE TYPE  ZONE     CAPACITY  NODES  PODS  CPU  MEMORY\n";
        assert_eq!(written(row, terminal), row);
        // No width is too small to be survived.
        for width in 0..60 {
            let terminal = Terminal { width: Some(width), has_colours: true };
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&written(prose, Terminal { has_colours: false, ..terminal })), words(prose));
        }
    }
}
