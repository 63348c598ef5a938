//! Where limits leave pods out, packings that spare them: room is bought by what it takes of limits, not by its price.

use berth_model::{ClassId, ColumnId, Money, PoolId};
use berth_scheduling::demands;

use crate::prepared::Prepared;
use crate::strategy::Strategy;
use crate::tables::Tables;
use crate::world::World;

/// All that is left of a limit, in dollars: more than any node costs, so that prices decide between equals only.
const ALL: i128 = 1_000_000_000;

impl Tables<'_> {
    /// The packings to be tried where limits leave pods out, as many as the budget of packed classes allows.
    pub(crate) fn sparing_strategies(&self, budget: usize, n_classes: usize) -> Vec<Strategy> {
        if budget == 0 || !self.pools().any(|pool| self.is_limited(pool)) {
            return Vec::new();
        }
        let base = Strategy { spares_limits: true, ..Strategy::default() };
        let flat = Strategy { ignores_priority: true, ..base };
        let mut strategies = vec![
            base,
            Strategy { frugal_first: true, ..base },
            Strategy { constrained_first: true, ..base },
            Strategy { by_share: true, ..base },
            flat,
            Strategy { drops_preferences: true, ..base },
            Strategy { topology_first: true, ..base },
            Strategy { leaves_room: true, ..base },
            Strategy { topology_first: true, leaves_room: true, ..flat },
        ];
        strategies.truncate((budget / n_classes).max(1));
        strategies
    }

    // The columns of a pool that hold a pod.
    fn fitting(&self, way: &Prepared<'_>, pool: PoolId) -> Vec<ColumnId> {
        let Some(Some(admission)) = way.admissions.get(pool.index()) else { return Vec::new() };
        let table = self.table(pool);
        let mut columns = admission.columns.clone();
        table.keep_fitting(&mut columns, way.requests);
        ColumnId::of(&columns).collect()
    }

    // Whether some column that holds a pod is such.
    fn may_fit(&self, id: ClassId, is_such: impl Fn(PoolId, ColumnId) -> bool) -> bool {
        let Some(demand) = demands(self.cluster, self.universe, id).pop() else { return false };
        let ways = Prepared::alternatives(self, &demand);
        ways.iter().filter(|way| way.spec.refusal.is_none()).any(|way| {
            let mut pools = self.pools();
            pools.any(|pool| self.fitting(way, pool).into_iter().any(|at| is_such(pool, at)))
        })
    }

    /// Whether a pod that was left out might be on a node within limits and supplies, had others not used them up.
    pub(crate) fn may_want_what_others_took(&self, id: ClassId) -> bool {
        self.may_fit(id, |pool, at| {
            let column = self.table(pool).column(at);
            self.fits_alone(pool, at) && (self.is_limited(pool) || column.slots.is_some())
        })
    }
}

impl World<'_> {
    /// Whether a pod was left out that some node within limits might hold, had others not used them up.
    pub(crate) fn limits_leave_out(self) -> bool {
        let is_within = |pool, at| self.tables.is_limited(pool) && self.tables.fits_alone(pool, at);
        self.ledger.tally.left.iter().any(|&(class, _)| self.tables.may_fit(class, is_within))
    }

    /// Whether a pod was left out that some node, new or existing, might hold, had shares, limits and other pods let it.
    pub(crate) fn leaves_what_may_fit(self) -> bool {
        let may_be_on_existing = |class| {
            let demand = demands(self.tables.cluster, self.tables.universe, class).pop();
            demand.is_some_and(|demand| {
                Prepared::alternatives(self.tables, &demand).iter().any(|way| !way.nodes(self.tables).is_empty())
            })
        };
        self.ledger
            .tally
            .left
            .iter()
            .any(|&(class, _)| self.tables.may_fit(class, |_, _| true) || may_be_on_existing(class))
    }

    /// What a node of a column takes of what its pool's limits leave, in place of another where that is given.
    pub(crate) fn taken_of_limits(self, pool: PoolId, column: ColumnId, instead: Option<ColumnId>) -> Money {
        let (Some(definition), Some((used, nodes)), Some(capacity)) =
            (self.tables.definition(pool), self.ledger.state.pool_use(pool), self.tables.capacity(pool, column))
        else {
            return Money::ZERO;
        };
        let given_up = instead.and_then(|column| self.tables.capacity(pool, column));
        let mut most = 0;
        for &(resource, limit) in &definition.limits {
            let each = capacity.get(resource) - given_up.map_or(0, |capacity| capacity.get(resource));
            let left = limit.saturating_sub(used.get(resource)).max(1);
            most = most.max(share(i128::from(each.max(0)), i128::from(left)));
        }
        if let (Some(limit), None) = (definition.node_limit, instead) {
            most = most.max(share(1, i128::from(u64::from(limit).saturating_sub(nodes).max(1))));
        }
        Money::from_pico(most)
    }

    /// What the least node that holds a pod of a class takes of limits, or what a pod takes of a node full of them:
    /// nothing where one is to be had without. `by_pod` says which.
    pub(crate) fn least_of_limits(self, id: ClassId, by_pod: bool) -> Money {
        let Some(demand) = demands(self.tables.cluster, self.tables.universe, id).into_iter().next() else {
            return Money::ZERO;
        };
        let way = Prepared::new(self.tables, &demand);
        let count = self.tables.universe.class(id).map_or(1, |class| class.count);
        let of_pool = |pool| self.tables.fitting(&way, pool).into_iter().map(move |at| (pool, at));
        let all = self.tables.pools().flat_map(of_pool).map(|(pool, at)| {
            let taken = self.taken_of_limits(pool, at, None);
            let column = self.tables.table(pool).column(at);
            let pods = way.requests.times_in(&column.room, count).max(1);
            if by_pod { Money::from_pico(taken.pico() / i128::from(pods)) } else { taken }
        });
        all.min().unwrap_or(Money::ZERO)
    }
}

// Of what is left, in pico-dollars of `ALL`; more than all of it counts as all.
fn share(each: i128, left: i128) -> i128 {
    const PICO: i128 = 1_000_000_000_000;
    each.min(left) * 1_000_000_000 / left * (ALL * PICO / 1_000_000_000)
}
