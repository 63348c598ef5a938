//! Alibaba's trace of GPU pods (openb), with their arrivals and ends, laid over itself to a larger cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};

use super::write::{Lines, pod};
use super::{NAME, is_name};
use crate::chance;
use crate::error::SimulateError;

/// The columns that are read.
const COLUMNS: [&str; 6] = ["name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time"];
/// The namespace of the pods.
const NAMESPACE: &str = "default";
/// The most copies that are laid over each other.
const MOST_COPIES: u64 = 20_000;

/// Counts and seconds are less: some hundred years.
const LARGEST: u64 = 1 << 32;

/// How the trace is laid over itself.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenbOptions {
    /// Decides by how much each copy is shifted.
    pub seed: u64,
    /// How many pods there are to be at a time, on average.
    pub concurrency: u64,
    /// How many days are cut out; at most as long as the trace is.
    pub days: f64,
    /// Leave out pods that ask for GPUs.
    pub without_gpus: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenbSummary {
    /// Copies that were laid over each other, each shifted by an amount of its own.
    pub copies: u64,
    /// Pods of the result.
    pub pods: u64,
    /// Pods at a time, on average over the days.
    pub concurrency: f64,
    /// The lines of pods that end as they come, and so are left out.
    pub without_length: Vec<usize>,
}

/// A pod of the trace: what it asks for, when it came and when it went, in seconds.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    shape: [u64; 3],
    from: u64,
    to: u64,
}

/// Converts the trace: copies of it, each shifted by chance around its whole time, are laid over each other until so many
/// pods are there at a time, and its first days are written. What ran before the start comes at the start, with the time
/// that it had left.
///
/// # Errors
/// A row that cannot be read, with its line: an end before its arrival, a negative count, a missing column; or the writer
/// fails.
pub fn openb(
    reader: impl BufRead,
    file: &str,
    options: &OpenbOptions,
    writer: impl Write,
) -> Result<OpenbSummary, SimulateError> {
    let wrong = |place: String, message: String| SimulateError::Trace { file: file.to_owned(), place, message };
    let (rows, without_length) =
        read(reader, options.without_gpus).map_err(|(line, message)| wrong(format!("line {line}"), message))?;
    let span = rows.iter().map(|row| row.to).max().unwrap_or(0);
    let held: u64 = rows.iter().map(|row| row.to - row.from).sum();
    if span == 0 || held == 0 {
        return Err(wrong("the whole file".to_owned(), "found no pod that runs, expected some".to_owned()));
    }
    let copies = (u128::from(options.concurrency) * u128::from(span)).div_ceil(u128::from(held));
    let copies = u64::try_from(copies).unwrap_or(u64::MAX).max(1);
    if copies > MOST_COPIES {
        let message = format!(
            "found that {copies} copies give {} pods at a time, expected at most {MOST_COPIES}",
            options.concurrency
        );
        return Err(wrong("the whole file".to_owned(), message));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let end = (options.days.clamp(0.0, 400.0) * 86_400.0) as u64;
    let laid = lay(&rows, span, copies, end.min(span), options.seed, writer)
        .map_err(|source| SimulateError::Read { path: file.into(), source })?;
    Ok(OpenbSummary { without_length, ..laid })
}

/// Lays copies over each other and writes what is there before `end`.
fn lay(rows: &[Row], span: u64, copies: u64, end: u64, seed: u64, writer: impl Write) -> io::Result<OpenbSummary> {
    let mut lines = Lines::begin(writer)?;
    let shapes: BTreeSet<[u64; 3]> = rows.iter().map(|row| row.shape).collect();
    let names: BTreeMap<[u64; 3], String> =
        shapes.iter().enumerate().map(|(index, shape)| (*shape, format!("shape-{index:03}"))).collect();
    for (shape, name) in &names {
        let [milli_cpu, mebibytes, gpus] = *shape;
        lines.template(name, &pod(NAMESPACE, name, milli_cpu, mebibytes, gpus))?;
    }
    let mut state = seed;
    let mut coming: Vec<(u64, u64, usize, u64)> = Vec::new();
    for copy in 0..copies {
        let shift = chance::next(&mut state) % span;
        for (index, row) in rows.iter().enumerate() {
            let (from, to) = (row.from + shift, row.to + shift);
            // Around the end of the trace's time: what sticks out is there at its beginning.
            for (from, to) in [(from, to), (from.wrapping_sub(span), to.wrapping_sub(span))] {
                let is_before = from > to || from > 2 * span;
                let from = if is_before { 0 } else { from };
                let is_there = to > from && from < end && to <= 2 * span;
                if is_there {
                    coming.push((from, to - from, index, copy));
                }
            }
        }
    }
    coming.sort_unstable();
    let mut held = 0_u128;
    for (from, length, index, copy) in &coming {
        let Some(row) = rows.get(*index) else { continue };
        held += u128::from((*length).min(end - from));
        let name = format!("{}-{copy}", row.name);
        let (at, runs_for) = (seconds(*from), seconds(*length));
        lines.create(at, names.get(&row.shape).map_or("", String::as_str), &name, runs_for)?;
    }
    lines.end(seconds(end))?;
    #[allow(clippy::cast_precision_loss)]
    let concurrency = held as f64 / seconds(end.max(1));
    Ok(OpenbSummary { copies, pods: coming.len() as u64, concurrency, without_length: Vec::new() })
}

#[allow(clippy::cast_precision_loss)]
const fn seconds(whole: u64) -> f64 {
    whole as f64
}

/// The rows of pods that run, and the lines of those that end as they come; or the line of a row that cannot be used, and
/// why.
fn read(reader: impl BufRead, without_gpus: bool) -> Result<(Vec<Row>, Vec<usize>), (usize, String)> {
    let mut lines = reader.lines().enumerate().map(|(index, line)| (index + 1, line));
    let head = lines.next().ok_or((1, "found an empty file, expected a head and rows".to_owned()))?;
    let head = head.1.map_err(|error| (1, error.to_string()))?;
    let heads: Vec<&str> = head.trim_start_matches('\u{feff}').trim().split(',').collect();
    let mut columns = [0; COLUMNS.len()];
    for (column, name) in columns.iter_mut().zip(COLUMNS) {
        *column = heads
            .iter()
            .position(|head| *head == name)
            .ok_or_else(|| (1, format!("expected a column {name}, found {}", heads.join(", "))))?;
    }
    let (mut rows, mut without_length) = (Vec::new(), Vec::new());
    let mut names = BTreeMap::new();
    for (number, line) in lines {
        let line = line.map_err(|error| (number, error.to_string()))?;
        let cells: Vec<&str> = line.trim().split(',').collect();
        if line.trim().is_empty() {
            continue;
        }
        if cells.len() != heads.len() {
            return Err((number, format!("found {} columns, expected {}", cells.len(), heads.len())));
        }
        let [name, cpu, memory, gpus, from, to] = columns.map(|column| cells.get(column).copied().unwrap_or_default());
        let count = |column: &str, text: &str| {
            let parsed = text.parse::<u64>().ok().filter(|value| *value < LARGEST);
            parsed.ok_or_else(|| {
                let expected = format!("expected a whole number, 0 or more and less than {LARGEST}");
                (number, format!("{column}: found {text:?}, {expected}"))
            })
        };
        if !is_name(name) {
            return Err((number, format!("name: found {name:?}, expected {NAME}")));
        }
        if let Some(before) = names.insert(name.to_owned(), number) {
            return Err((number, format!("name: found {name:?}, expected another name: line {before} has it")));
        }
        let shape = [count("cpu_milli", cpu)?, count("memory_mib", memory)?, count("num_gpu", gpus)?];
        let (from, to) = (count("creation_time", from)?, count("deletion_time", to)?);
        if to < from {
            return Err((number, format!("deletion_time: found {to}, expected a time after creation_time, {from}")));
        }
        if without_gpus && shape[2] > 0 {
            continue;
        }
        if to == from {
            without_length.push(number);
        } else {
            rows.push(Row { name: name.to_owned(), shape, from, to });
        }
    }
    Ok((rows, without_length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\n";

    fn convert(rows: &str, concurrency: u64) -> Result<(OpenbSummary, String), String> {
        let options = OpenbOptions { seed: 1, concurrency, days: 1.0, without_gpus: false };
        let mut out = Vec::new();
        let summary =
            openb(format!("{HEAD}{rows}").as_bytes(), "t.csv", &options, &mut out).map_err(|e| e.to_string())?;
        Ok((summary, String::from_utf8(out).unwrap()))
    }

    #[test]
    fn copies_give_the_concurrency_that_was_asked_for() {
        // One pod half of the time, over ten days.
        let (summary, text) =
            convert("a,1000,1024,0,0,432000\nb,500,512,1,864000,864000\nc,500,512,1,431999,864000\n", 100).unwrap();
        assert_eq!(summary.copies, 100);
        assert!((summary.concurrency - 100.0).abs() < 2.0, "{summary:?}");
        assert_eq!(text.lines().count() as u64, 1 + 2 + summary.pods + 1);
        // Pods run for longer, but alone it lasts as long as was asked for.
        assert_eq!(text.lines().last(), Some("{\"at\":86400.0,\"end\":true}"));
        let (again, same) =
            convert("a,1000,1024,0,0,432000\nb,500,512,1,864000,864000\nc,500,512,1,431999,864000\n", 100).unwrap();
        assert_eq!((summary, text), (again, same));
    }

    #[test]
    fn pods_that_end_as_they_come_are_left_out_and_told() {
        let (with, text) = convert("a,1,1,0,0,5\nb,1,1,0,5,5\nc,1,1,0,3,3\n", 1).unwrap();
        assert_eq!(with.without_length, [3, 4]);
        let (without, same) = convert("a,1,1,0,0,5\n", 1).unwrap();
        assert_eq!((without.without_length, text), (Vec::new(), same));
    }

    #[test]
    fn rows_that_make_no_sense_are_refused_with_their_line() {
        for (rows, expected) in [
            ("a,1,1,0,10,5\n", "t.csv: line 2: deletion_time: found 5, expected a time after creation_time, 10"),
            (
                "a,1,1,0,0,5\nb,-1,1,0,0,5\n",
                "t.csv: line 3: cpu_milli: found \"-1\", expected a whole number, 0 or more and less than 4294967296",
            ),
            (
                "A b,1,1,0,0,5\n",
                "t.csv: line 2: name: found \"A b\", expected a name of a-z 0-9 - . beginning and ending with a letter or digit, at most 253 characters",
            ),
            ("a,1,1,0,0,5\na,1,1,0,0,5\n", "t.csv: line 3: name: found \"a\", expected another name: line 2 has it"),
            (
                "a,1,1,0,0,4294967296\n",
                "t.csv: line 2: deletion_time: found \"4294967296\", expected a whole number, 0 or more and less than 4294967296",
            ),
            ("a,1,1,0,0\n", "t.csv: line 2: found 5 columns, expected 6"),
            ("a,1,1,0,5,5\n", "t.csv: the whole file: found no pod that runs, expected some"),
        ] {
            assert_eq!(convert(rows, 1).unwrap_err(), expected);
        }
    }
}
