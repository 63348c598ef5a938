//! Traces: what happened to a cluster, or could have, one thing a line; those of SimKube, too.

mod generate;
mod line;
mod lines;
mod objects;
mod openb;
mod simkube;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use serde_json::Value;

use crate::error::SimulateError;
use crate::scenario::Scenario;
use crate::step::Step;

pub use generate::{GenerateOptions, LEAST_SERVICE_PODS, generate};
pub(crate) use objects::end_for_good;
pub use openb::{OpenbOptions, OpenbSummary, openb};
pub(crate) use write::Lines;

/// The largest trace of SimKube, which is in memory as a whole.
const LARGEST: u64 = 512 * 1024 * 1024;

/// What a trace says beside its steps.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Milliseconds from its start to the last thing that happens, or to what it calls its end.
    pub(crate) end: u64,
    /// What the clock showed at the start, of a trace that was recorded.
    pub(crate) start: Option<Timestamp>,
    /// What a recorder knew of the cluster beside its objects.
    pub(crate) recorded: Option<Box<Recorded>>,
    /// What was passed over.
    pub(crate) warnings: Vec<String>,
}

/// What a recorder knew of the cluster beside its objects.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Seed, settings and cloud.
    pub(crate) scenario: Scenario,
    /// The instance catalogue.
    pub(crate) catalogue: Option<Value>,
}

/// Why a trace cannot be used.
#[derive(Debug)]
enum Fault {
    Io(std::io::Error),
    /// Where in the file, or nothing, and what was expected.
    Place(String, String),
}

impl Fault {
    fn line(number: usize, message: impl Into<String>) -> Self {
        Self::Place(format!("line {number}"), message.into())
    }
}

/// Reads a trace, which is the file with this index among those of the scenario, and adds what happens to the steps.
pub(crate) fn read(path: &Path, file: usize, steps: &mut Vec<Step>) -> Result<Read, SimulateError> {
    read_any(path, file, steps).map_err(|error| match error {
        Fault::Io(source) => SimulateError::Read { path: path.to_owned(), source },
        Fault::Place(place, message) => SimulateError::Trace { file: path.display().to_string(), place, message },
    })
}

fn read_any(path: &Path, file: usize, steps: &mut Vec<Step>) -> Result<Read, Fault> {
    let mut reader = open(path).map_err(Fault::Io)?;
    let first = reader.fill_buf().map_err(Fault::Io)?.first().copied();
    if !first.is_some_and(simkube::is_one) {
        return lines::read(reader, &path.display().to_string(), file, steps);
    }
    let mut bytes = Vec::new();
    reader.take(LARGEST + 1).read_to_end(&mut bytes).map_err(Fault::Io)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Fault::Place("the whole file".to_owned(), format!("expected at most {LARGEST} bytes")));
    }
    simkube::read(&bytes, file, steps)
}

/// A file, unpacked where it is packed with gzip.
///
/// # Errors
/// It is not there, or is no file.
pub fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let mut reader = BufReader::new(file);
    if reader.fill_buf()?.starts_with(&GZIP) {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// Whether a file is a trace, so that it can be simulated without a scenario.
pub(crate) fn is_one(path: &Path) -> bool {
    // Its name says so: what is wrong with it is told of a trace.
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    let unpacked = if is_packed { path.with_extension("") } else { path.to_owned() };
    let is_called_so = unpacked.extension().is_some_and(|extension| extension == "jsonl" || extension == "sktrace");
    if is_called_so && path.is_file() {
        return true;
    }
    let mut head = Vec::new();
    let Ok(reader) = open(path) else { return false };
    if reader.take(256).read_to_end(&mut head).is_err() {
        return false;
    }
    // The first line of a trace has its kind; that of a scenario in JSON has another.
    let is_lines = || {
        let text = String::from_utf8_lossy(head.split(|byte| *byte == b'\n').next().unwrap_or_default());
        text.trim_start_matches('\u{feff}').starts_with('{') && text.replace(' ', "").contains("\"kind\":\"Trace\"")
    };
    head.first().copied().is_some_and(simkube::is_one) || is_lines()
}

/// What a pod may be called.
const NAME: &str = "a name of a-z 0-9 - . beginning and ending with a letter or digit, at most 253 characters";

/// Whether a pod may be called so.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_in = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_in) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// The sentence about kinds that were passed over.
fn passed_over(skipped: BTreeSet<String>) -> Vec<String> {
    skipped.into_iter().map(|kind| format!("objects of kind {kind} are passed over: nothing here needs them")).collect()
}
