//! The habits of a packing.

/// How classes are ordered and how room is bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits, each on or off")]
pub(crate) struct Strategy {
    /// Order classes by their largest share of all that is asked for, rather than by CPU and memory.
    pub(crate) by_share: bool,
    /// Never plan a larger type for a node that is planned already.
    pub(crate) never_grows: bool,
    /// Order classes by how few columns and nodes admit them, the fewest first.
    pub(crate) constrained_first: bool,
    /// Of slots, open the one that takes most pods, rather than the one with the least list price a pod.
    pub(crate) large_slots_first: bool,
    /// Open slots for those alone who find no room that is paid for. Tried only where nodes cost something beyond their price:
    /// then a slot is not free.
    pub(crate) slots_last: bool,
    /// Order classes without regard to priority. Kept only if no priority loses a pod by it.
    pub(crate) ignores_priority: bool,
    /// Give up all preferences from the start. Kept only if it places more pods.
    pub(crate) drops_preferences: bool,
    /// Order classes that have topology constraints on themselves before others, which may count for these.
    pub(crate) topology_first: bool,
    /// Open nodes that have room for pods which must join them, too.
    pub(crate) leaves_room: bool,
    /// Price a new node by all pods that may still come to share it, rather than by the class's own.
    pub(crate) shares_with_later: bool,
    /// Buy room by what it takes of NodePool limits, rather than by its price, and order classes by how much of them the
    /// smallest node takes that holds a pod. Tried only where limits leave pods out.
    pub(crate) spares_limits: bool,
    /// Where limits are spared, order classes by how much of them a pod takes, not a node.
    pub(crate) frugal_first: bool,
    /// Open no nodes: pods join those that exist and planned ones.
    pub(crate) only_joins: bool,
    /// Put pods that may be in any domain into those where volumes of spread pods can be. Tried only where another domain
    /// came to count for such a spread, and kept only if it places more pods.
    pub(crate) joins_volumes: bool,
    /// Share pods out evenly over the values that shares are of. Tried only where shares may leave pods out.
    pub(crate) splits_evenly: bool,
}
