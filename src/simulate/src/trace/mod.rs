//! Traces: what happened to a cluster, or could have, one thing a line.

mod lines;

pub(crate) use lines::read;
