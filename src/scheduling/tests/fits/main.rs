//! Facts of admission, relaxation, topology and reasons, on clusters built by hand.

#![allow(clippy::unwrap_used, reason = "a builder that fails is a test that fails")]

mod admission;
mod domains;
mod mk;
mod reasons;
mod relaxation;
