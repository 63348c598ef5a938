//! A line on standard error while something takes long, where a person is there to read it.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nothing is said, and how often it is said anew.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says what is going on, until it is dropped; then the line is gone.
pub(crate) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Begins to wait. Nothing is ever said where standard error is no terminal.
    pub(crate) fn start(what: &'static str) -> Self {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let (end, ended) = channel();
        let spawned = std::thread::Builder::new().spawn(move || tell(what, &ended, PATIENCE, &mut io::stderr()));
        Progress(spawned.ok().map(|thread| (end, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn tell(what: &str, ended: &Receiver<()>, patience: Duration, out: &mut impl Write) {
    let start = Instant::now();
    let mut is_shown = false;
    while ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
        // What is left of a longer line is erased.
        let _ = write!(out, "\r{what}: {} s\x1b[K", start.elapsed().as_secs());
        let _ = out.flush();
        is_shown = true;
    }
    if is_shown {
        let _ = write!(out, "\r\x1b[K");
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends what is waited for once something is said.
    struct Reader(Option<Sender<()>>, Vec<u8>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = None;
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_has_ended_says_nothing() {
        let (end, ended) = channel();
        drop(end);
        let mut out = Vec::new();
        tell("planning", &ended, PATIENCE, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn a_line_is_shown_and_erased() {
        let (end, ended) = channel::<()>();
        let mut out = Reader(Some(end), Vec::new());
        tell("planning", &ended, Duration::from_millis(1), &mut out);
        let text = String::from_utf8(out.1).unwrap();
        assert!(text.starts_with("\rplanning: ") && text.ends_with("\r\x1b[K"), "{text:?}");
    }
}
