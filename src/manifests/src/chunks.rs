//! A reader's bytes with their line and column.

use std::io::{self, Read};

const CHUNK_BYTES: usize = 128 * 1024;

/// Buffered bytes that can be looked at before they are consumed, and put back.
pub(crate) struct Chunks<R> {
    reader: R,
    buffer: Vec<u8>,
    at: usize,
    line: u64,
    column: u64,
    is_at_end: bool,
}

impl<R: Read> Chunks<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), at: 0, line: 1, column: 1, is_at_end: false }
    }

    /// Line and column (in bytes) of the next byte, from 1.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.line, self.column)
    }

    /// What is buffered; empty only at the end of the input.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.buffer.len() {
            self.more()?;
        }
        Ok(self.buffer.get(self.at..).unwrap_or_default())
    }

    /// As [`Self::peek`], with at least `n` bytes unless the input ends before.
    pub(crate) fn peek_at_least(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.at < n && !self.is_at_end {
            self.more()?;
        }
        Ok(self.buffer.get(self.at..).unwrap_or_default())
    }

    /// Reads one more chunk behind what is buffered.
    fn more(&mut self) -> io::Result<()> {
        if self.is_at_end {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let len = self.buffer.len();
        self.buffer.resize(len + CHUNK_BYTES, 0);
        let n_read = loop {
            match self.reader.read(self.buffer.get_mut(len..).unwrap_or_default()) {
                Ok(n_read) => break n_read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.truncate(len);
                    return Err(error);
                }
            }
        };
        self.buffer.truncate(len + n_read);
        self.is_at_end = n_read == 0;
        Ok(())
    }

    /// Marks the first `n` buffered bytes as read.
    pub(crate) fn consume(&mut self, n: usize) {
        let end = self.at.saturating_add(n).min(self.buffer.len());
        let bytes = self.buffer.get(self.at..end).unwrap_or_default();
        match memchr::memrchr(b'\n', bytes) {
            Some(last) => {
                self.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
                self.column = (bytes.len() - last) as u64;
            }
            None => self.column += bytes.len() as u64,
        }
        self.at = end;
    }

    /// Puts `bytes`, which began at `line`, before what is buffered.
    pub(crate) fn put_back(&mut self, mut bytes: Vec<u8>, line: u64) {
        bytes.extend_from_slice(self.buffer.get(self.at..).unwrap_or_default());
        self.buffer = bytes;
        self.at = 0;
        self.line = line;
        self.column = 1;
    }
}
