//! What plans are compared by.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::ClassId;

use crate::ledger::Ledger;
use crate::tables::Tables;
use crate::world::World;

/// What plans are compared by, the first difference deciding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// Pods left over, by priority.
    pub(crate) left: BTreeMap<Reverse<i32>, u64>,
    /// Pods in lighter pools, by how much lighter.
    lighter: u64,
    /// Preferences given up.
    relaxations: u64,
    cost: i128,
    /// Of the slots used.
    list_price: i128,
    nodes: u64,
}

impl World<'_> {
    /// What the planned nodes cost an hour, reserved ones nothing, in pico-dollars.
    pub(crate) fn marginal_cost(self) -> i128 {
        self.ledger
            .state
            .bins()
            .iter()
            .map(|bin| {
                let column = self.tables.table(bin.pool).column(bin.planned);
                (column.price + self.tables.options.node_cost).times(u64::from(bin.nodes)).pico()
            })
            .sum()
    }
}

/// The score of what is planned now.
pub(crate) fn score(tables: &Tables<'_>, ledger: &Ledger) -> Score {
    // Every priority is there, so that plans compare count by count.
    let pending = tables.universe.classes.iter().filter(|class| class.count > 0);
    let mut left: BTreeMap<Reverse<i32>, u64> =
        pending.map(|class| (Reverse(tables.spec(class).priority), 0)).collect();
    for (id, count) in &ledger.tally.left {
        if let Some(class) = tables.universe.class(*id) {
            *left.entry(Reverse(tables.spec(class).priority)).or_default() += u64::from(*count);
        }
    }
    let has_weights = tables.has_weights();
    let mut on_paid: BTreeMap<(ClassId, u32), u64> = BTreeMap::new();
    let (mut lighter, mut list_price, mut nodes) = (0_u64, 0_i128, 0_u64);
    for bin in ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
        nodes += u64::from(bin.nodes);
        let table = tables.table(bin.pool);
        if table.is_reserved(bin.planned) {
            let list = table.column(bin.planned).list_price.pico();
            list_price += list.saturating_mul(i128::from(bin.nodes));
        } else if has_weights {
            let weight = tables.definition(bin.pool).map_or(0, |pool| pool.weight);
            for &(class, pods) in &bin.contents {
                *on_paid.entry((class, weight)).or_default() += u64::from(pods) * u64::from(bin.nodes);
            }
        }
    }
    // A weight chooses among the pools that may take a pod: who has no choice weighs nothing, on paid nodes or off.
    for ((class, weight), pods) in on_paid {
        lighter += u64::from(tables.heaviest(class).saturating_sub(weight)) * pods;
    }
    Score {
        left,
        lighter,
        relaxations: ledger.tally.relaxations,
        cost: World::new(tables, ledger).marginal_cost(),
        list_price,
        nodes,
    }
}
