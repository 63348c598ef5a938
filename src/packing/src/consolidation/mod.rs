//! Which bins to empty, so that what is in them fits into the others: consolidation of bins that stand already.
//!
//! [`consolidate`] knows bins with items in them, what each costs, and what emptying it disrupts. It looks for the set of
//! bins to empty that leaves the cheapest rest at a price of disruption, and says where the items of emptied bins go. No
//! item that has been moved is in a bin that is emptied, so nothing moves twice.
//!
//! 1. `placement` keeps the state of a search: which bins are empty, which items are moved where, and what room is left.
//!    An item goes where it leaves least room (best fit, resources weighted by how scarce they are); where there is no
//!    room, one item that was moved before makes way for it. `shelves` keeps bins by their room.
//! 2. `search` empties bins greedily, the largest cost for a unit of disruption first, and improves on that: it puts a few
//!    bins back and empties others (ruin and recreate: Schrimpf et al., 2000), and takes what is worse for a while, less
//!    so towards its end (simulated annealing).
//!
//! `bound` says what no consolidation costs less than, by the dual prices of a program (`relaxed`); `patterns` betters these
//! prices.
//!
//! Work is counted, never timed, and random numbers come from a fixed seed: the same problem has the same answer.

mod bound;
mod patterns;
mod placement;
mod problem;
mod relaxed;
mod search;
mod shelves;
#[cfg(test)]
mod tests;

pub use bound::lower_bound;
pub use problem::{Consolidated, Consolidation, ExistingNode, Movable, Stop};
pub use relaxed::Offer;
pub use search::consolidate;
