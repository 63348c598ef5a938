//! Pods onto nodes that exist: scores worked out by hand, order, preemption.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a builder that fails is a test that fails")]

mod disks;
mod mk;
mod plain;
mod preemption;
mod queue;
mod racks;
mod scores;
mod shared;
mod stale;
