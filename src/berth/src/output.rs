//! Standard output, which may be closed by its reader.

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
