//! The order in which classes are packed, and with which of their preferences.

use berth_model::{ClassId, Constraint, MemberKind, Money, Requirement, ResourceId};
use berth_scheduling::demands;
use rustc_hash::FxHashMap;

use crate::caches::Caches;
use crate::ledger::{Ledger, PlacedAs};
use crate::packing::Packing;
use crate::prepared::Prepared;

impl<'a> Packing<'_, 'a> {
    /// Packs every class: those of higher priority first, then Reservations before pods, then those that only
    /// reserved capacity can take, then by size. What fails for want of another class's pods is tried again.
    pub(crate) fn pack_all(&self, ledger: &mut Ledger, caches: &mut Caches<'a>) {
        let mut order: Vec<ClassId> = self.tables.pending().map(|(id, _)| id).collect();
        for (id, class) in self.tables.pending().collect::<Vec<_>>() {
            let spec = self.tables.spec(class);
            ledger.remaining.add_times(&spec.requests, i64::from(class.count));
            if spec.refusal.is_some() {
                order.retain(|&other| other != id);
                ledger.tally.left.push((id, class.count));
            }
        }
        self.pack_in_order(
            ledger,
            caches,
            order.into_iter().map(|id| (id, self.tables.universe.class(id).map_or(0, |class| class.count))).collect(),
        );
    }

    /// Packs what was left over, where it finds room now.
    pub(crate) fn pack_left(&self, ledger: &mut Ledger, caches: &mut Caches<'a>) {
        let left = std::mem::take(&mut ledger.tally.left);
        let (refused, waiting): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|&(id, _)| !self.tables.may_be_placed(id));
        ledger.tally.left = refused;
        self.pack_in_order(ledger, caches, waiting);
    }

    pub(crate) fn pack_in_order(&self, ledger: &mut Ledger, caches: &mut Caches<'a>, mut waiting: Vec<(ClassId, u32)>) {
        let keys: FxHashMap<ClassId, _> = waiting.iter().map(|&(id, _)| (id, self.order_key(ledger, id))).collect();
        loop {
            waiting.sort_by(|(a, _), (b, _)| keys.get(a).cmp(&keys.get(b)));
            let (mut failed, mut progressed) = (Vec::new(), false);
            let is_one_level = |&(a, _): &_, &(b, _): &_| self.priority_of(a) == self.priority_of(b);
            let levels: Vec<Vec<_>> = waiting.chunk_by(is_one_level).map(<[_]>::to_vec).collect();
            for level in levels {
                progressed |= self.pack_level(ledger, caches, level, &mut failed);
            }
            if failed.is_empty() || !progressed {
                ledger.tally.left.extend(failed);
                ledger.tally.left.sort_unstable();
                return;
            }
            waiting = failed;
        }
    }

    // Classes of one priority. Those that want another's pods are tried again before a lower priority takes the room that
    // is left. Whether any pod was placed.
    fn pack_level(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'a>,
        mut level: Vec<(ClassId, u32)>,
        failed: &mut Vec<(ClassId, u32)>,
    ) -> bool {
        let mut progressed = false;
        loop {
            let (mut again, mut progressed_now) = (Vec::new(), false);
            for (id, count) in level {
                let placed = self.place_class(ledger, caches, id, count);
                progressed_now |= placed > 0;
                let Some(class) = self.tables.universe.class(id) else { continue };
                ledger.remaining.add_times(&self.tables.spec(class).requests, -i64::from(placed));
                if placed < count {
                    let wants_others = class.required.iter().any(|one| !matches!(one, Constraint::AntiAffinity { .. }));
                    if wants_others { &mut again } else { &mut *failed }.push((id, count - placed));
                }
            }
            progressed |= progressed_now;
            if again.is_empty() || !progressed_now {
                failed.append(&mut again);
                return progressed;
            }
            level = again;
        }
    }

    fn priority_of(&self, id: ClassId) -> i32 {
        let spec = self.tables.universe.class(id).map(|class| self.tables.spec(class));
        spec.filter(|_| !self.strategy.ignores_priority).map_or(0, |spec| spec.priority)
    }

    // Places as many as possible with all preferences, the rest with ever fewer.
    fn place_class(&self, ledger: &mut Ledger, caches: &mut Caches<'a>, id: ClassId, count: u32) -> u32 {
        let mut placed = 0;
        let all = caches.askings(self.tables, id);
        let first = if self.strategy.drops_preferences { all.len().saturating_sub(1) } else { 0 };
        for asking in all.iter().skip(first) {
            for (way, prepared) in asking.ways(self.tables).iter().enumerate() {
                let more = self.place(ledger, caches, prepared, count - placed);
                if more > 0 {
                    let placed_as = PlacedAs { relaxed: prepared.demand.relaxed, way };
                    let known = ledger.tally.placed_as.entry(id).or_insert(Some(placed_as));
                    *known = known.filter(|known| *known == placed_as);
                }
                placed += more;
                ledger.tally.relaxations += u64::from(more) * prepared.demand.relaxed as u64;
                if placed == count {
                    return placed;
                }
            }
        }
        placed
    }

    fn order_key(&self, ledger: &Ledger, id: ClassId) -> impl Ord + use<> {
        use std::cmp::Reverse;
        let Some(class) = self.tables.universe.class(id) else {
            return (Reverse(0), MemberKind::Pod, (false, false), (false, Money::ZERO, 0), false, Reverse((0, 0)), id);
        };
        let spec = self.tables.spec(class);
        let reserved = Requirement::value(self.tables.cluster.well_known.reserved);
        let asks_reserved = |terms: &berth_model::Requirements| {
            terms.get(self.tables.cluster.well_known.capacity_type).is_some_and(|r| *r == reserved)
        };
        let only_reserved = asks_reserved(&spec.node_selector)
            || (!spec.required_terms.is_empty() && spec.required_terms.iter().all(asks_reserved));
        let size = if self.strategy.by_share {
            let of = |(resource, amount): (ResourceId, i64)| {
                i128::from(amount) * 1_000_000_000 / i128::from(ledger.remaining.get(resource).max(1))
            };
            (spec.requests.iter().map(of).max().unwrap_or(0), 0)
        } else {
            (i128::from(spec.requests.get(ResourceId::CPU)), spec.requests.get(ResourceId::MEMORY))
        };
        let has_devices = spec.requests.amounts().len() > 3;
        let priority = self.priority_of(id);
        let admitting = if self.strategy.constrained_first { self.n_admitting(ledger, id) } else { 0 };
        let counts_self = |constraint: &Constraint| match *constraint {
            Constraint::Spread { counts_self, .. } | Constraint::Affinity { counts_self, .. } => counts_self,
            Constraint::AntiAffinity { .. } => false,
        };
        let is_free = self.strategy.topology_first && !class.required.iter().any(counts_self);
        let only_reserved = only_reserved && !self.strategy.topology_first;
        // Who must be in every zone finds none that has its share.
        let is_spread = |constraint: &Constraint| {
            let key = self.tables.universe.counter(constraint.counter()).map(|counter| counter.key);
            matches!(constraint, Constraint::Spread { .. }) && key != Some(self.tables.cluster.well_known.hostname)
        };
        let admitting = match (self.strategy.topology_first, self.tables.shares.is_empty()) {
            (true, false) => usize::from(!class.required.iter().any(is_spread)),
            _ => admitting,
        };
        let of_limits = if self.strategy.spares_limits {
            self.world(ledger).least_of_limits(id, self.strategy.frugal_first)
        } else {
            Money::ZERO
        };
        let first = (is_free, of_limits, admitting);
        // An even split needs the smallest pods last, whatever else they ask for.
        let by_size = self.strategy.splits_evenly && !self.strategy.topology_first;
        let (only_reserved, has_devices) = (only_reserved || by_size, has_devices || by_size);
        // Room was made for those that are nominated: it is theirs before equals come.
        let is_free_to_choose = spec.nominated_node.is_none();
        let held = (is_free_to_choose, !only_reserved);
        (Reverse(priority), class.kind, held, first, !has_devices, Reverse(size), id)
    }

    // How many columns and nodes admit a class, resources of an empty node included; for an even split, how many values
    // of shares.
    fn n_admitting(&self, ledger: &Ledger, id: ClassId) -> usize {
        let Some(demand) = demands(self.tables.cluster, self.tables.universe, id).into_iter().next() else { return 0 };
        let prepared = Prepared::new(self.tables, &demand);
        if self.strategy.splits_evenly {
            return self.world(ledger).n_combinations(&prepared);
        }
        let columns = prepared.admissions.iter().zip(&*self.tables.columns).map(|(admission, table)| {
            let Some(mut columns) = admission.as_ref().map(|admission| admission.columns.clone()) else { return 0 };
            table.keep_fitting(&mut columns, prepared.requests);
            columns.count_ones(..)
        });
        columns.sum::<usize>() + prepared.nodes(self.tables).len()
    }
}
