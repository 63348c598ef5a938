//! Reservations through the whole path: manifests are read and converted, and the scheduler decides.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod alike;
mod asking;
mod cases;
mod histories;
mod mk;
mod numa;
mod operating;
mod rows;
mod units;
mod walkthroughs;
