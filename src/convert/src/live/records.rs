//! What was read of nodes and NodeClaims.

use berth_model::Sym;
use rustc_hash::FxHashMap;

use crate::node_record::{NodeClaimRecord, NodeRecord};

/// Nodes and NodeClaims as they were read last, those that changed since everything was converted or that a change was about.
#[derive(Clone, Default)]
pub(super) struct Records {
    pub(super) nodes: FxHashMap<Sym, NodeRecord>,
    pub(super) claims: FxHashMap<Sym, NodeClaimRecord>,
}
