//! The rules of Reservations, as facts of the domain.

#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect")]

mod accounting;
mod cases;
mod lifecycle;
mod matching;
mod mk;
mod pre_allocation;
mod rows;
