//! The model's facts, seen through its public interface.

#![allow(clippy::unwrap_used, reason = "a builder that fails is a test that fails")]

mod columns;
mod disks;
mod labels;
mod mk;
mod requirements;
mod resources;
mod snapshot;
mod taints;
mod universe;
