//! The log, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::json::{JsonFields, JsonLines};

pub use tracing_subscriber::filter::LevelFilter;

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: coloured on a terminal.
    Text,
    /// For programs: a JSON object a line.
    Json,
}

/// Writes the log to standard error from now on. What libraries below Berth say is written from warnings on, where
/// `level` admits warnings; what the client of the API server says, only from debug on. The first call counts.
pub fn log_to_stderr(level: LevelFilter, format: Format) {
    let libraries = level.min(LevelFilter::WARN);
    // A request that fails is told by who made it, with what it was for.
    let client = if level > LevelFilter::INFO { libraries } else { LevelFilter::OFF };
    // A prefix of all of Berth's crates.
    let targets = Targets::new().with_default(libraries).with_target("kube_client", client).with_target("berth", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Json => lines.fmt_fields(JsonFields).event_format(JsonLines).boxed(),
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    // Only a second call can fail.
    drop(tracing_subscriber::registry().with(lines.with_filter(targets)).try_init());
}
