//! Traces: what happened to a cluster, or could have, one thing a line.

mod generate;
mod lines;
mod openb;
mod write;

pub use generate::{GenerateOptions, generate};
pub(crate) use lines::read;
pub use openb::{OpenbOptions, OpenbSummary, openb};
