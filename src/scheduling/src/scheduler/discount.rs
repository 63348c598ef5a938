//! What is counted and does not count for a class.

use berth_model::{CounterId, Sym};
use rustc_hash::FxHashMap;

/// Pods that stand in for Reservations and do not count for a class that may draw from them.
#[derive(Clone, Debug, Default)]
pub(super) struct Discount {
    pub(super) by_domain: FxHashMap<(CounterId, Sym), u32>,
    pub(super) total: FxHashMap<CounterId, u32>,
}
