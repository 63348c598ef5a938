//! What the slot is of that a node is on.

use std::collections::BTreeMap;

use berth_api::labels;

/// What a slot is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotKind {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    /// `None` where the node does not say of which reservation it has one.
    pub(crate) reservation: Option<String>,
}

/// Of a node with these labels; `None` where it is on no slot.
pub(crate) fn slot_kind(node: &BTreeMap<String, String>) -> Option<SlotKind> {
    let label = |key: &str| node.get(key).cloned().unwrap_or_default();
    let reservation = labels::RESERVATION_IDS.iter().find_map(|key| node.get(*key)).cloned();
    (label(labels::CAPACITY_TYPE) == labels::RESERVED).then(|| SlotKind {
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        reservation,
    })
}
