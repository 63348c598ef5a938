//! Facts of the domain, on small clusters built by hand and planned whole.

#![allow(clippy::unwrap_used, reason = "a builder that fails is a test that fails")]

mod accelerators;
mod again;
mod considered;
mod cost;
mod limits;
mod mk;
mod nodes;
mod plan;
mod pools;
mod refusals;
mod reserved;
mod shares;
mod topology;
