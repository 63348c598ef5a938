//! Standard output and standard error, which may be closed or full.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anyhow::{Context, Result};
use berth_plan::{Terminal, printable};
use clap::ValueEnum;

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

/// An error with its causes, but none that is said already: some messages name their cause themselves.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What is known of the terminal on standard output.
pub(crate) fn terminal(colour: Colour) -> Terminal {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| console::Term::stdout().size_checked()).flatten();
    let has_colours = match colour {
        Colour::Always => true,
        Colour::Never => false,
        // NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM, as clap for its own messages.
        Colour::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
    };
    Terminal { width: size.map(|(_, columns)| usize::from(columns)), has_colours }
}

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use berth_plan::printable;

    use super::with_causes;

    #[test]
    fn a_cause_that_the_message_names_is_told_once() {
        let named = anyhow!("no such file").context("unable to listen: no such file");
        assert_eq!(with_causes(&named), "unable to listen: no such file");
        let unnamed = anyhow!("no such file").context("unable to read a.yaml");
        assert_eq!(with_causes(&unnamed), "unable to read a.yaml: no such file");
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(printable("a\x1b[31m\r\u{9b}b\n"), "a\u{fffd}[31m\u{fffd}\u{fffd}b\n");
    }
}
