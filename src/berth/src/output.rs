//! Standard output and standard error, which may be closed or full.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::{Context, Result};

/// Writes to standard output. A reader that has seen enough, as `head` does, is no error.
pub(crate) fn to_stdout(write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::with_capacity(256 * 1024, io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // What is left in the buffer has no reader; dropping the writer would try again.
            drop(out.into_parts());
            Ok(())
        }
        other => other.context("unable to write to standard output"),
    }
}

/// Writes a line to standard error. Where that is closed or full there is nobody to tell, and nothing else to do.
pub(crate) fn to_stderr(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(&line.to_string()));
}

/// Text without control characters, which may be in names of files and objects and move a terminal's cursor.
fn printable(text: &str) -> String {
    let shown = |char: char| if char.is_control() && char != '\n' { char::REPLACEMENT_CHARACTER } else { char };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(printable("a\x1b[31m\r\u{9b}b\n"), "a\u{fffd}[31m\u{fffd}\u{fffd}b\n");
    }
}
