//! Offers: the columns of all pools that are worth a look, those aside that another is no dearer than and holds as much.

use berth_model::{ColumnId, Money, PoolId, Resources, SlotId};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::rows::Row;

use crate::tables::{PoolColumn, Tables};
use crate::world::World;

/// A column of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) pool: PoolId,
    pub(crate) column: ColumnId,
    pub(crate) cost: Money,
    pub(crate) list_price: Money,
    pub(crate) slot: Option<SlotId>,
    pub(crate) room: Resources,
    /// Groups of rows that labels and weights admit.
    groups: FixedBitSet,
    /// The rows that it takes.
    pub(crate) admits: FixedBitSet,
}

/// The columns worth a look, cheapest first.
pub(crate) struct Offers {
    pub(crate) offers: Vec<Offer>,
    /// By pool and column: the offer that stands for it.
    pub(crate) of: FxHashMap<PoolColumn, u32>,
}

impl Offers {
    pub(crate) fn new(world: World<'_>, rows: &[Row]) -> Self {
        // Rows alike in what admits them are one group: there are few.
        let mut groups: FxHashMap<(&[FixedBitSet], u32), usize> = FxHashMap::default();
        let mut members: Vec<FixedBitSet> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let next = members.len();
            let group = *groups.entry((&row.columns, row.least_weight)).or_insert(next);
            if group == next {
                members.push(FixedBitSet::with_capacity(rows.len()));
            }
            if let Some(members) = members.get_mut(group) {
                members.insert(at);
            }
        }
        let mut groups: Vec<(usize, &[FixedBitSet], u32)> =
            groups.into_iter().map(|((columns, weight), group)| (group, columns, weight)).collect();
        groups.sort_unstable_by_key(|(group, ..)| *group);

        let mut found = all(world, &groups);
        // Without pods that ask for accelerators nobody may open what is kept for these.
        if !rows.iter().any(|row| world.tables.accelerators.are_in(&row.requests)) {
            found.retain(|offer| !world.tables.accelerators.is_kept(offer.pool, offer.column));
        }
        found.sort_by_key(|offer| (offer.cost, offer.list_price, offer.pool, offer.column));
        let mut kept = Offers { offers: Vec::new(), of: FxHashMap::default() };
        let limited: Vec<bool> = world.tables.pools().map(|pool| world.tables.is_limited(pool)).collect();
        let is_limited = |offer: &Offer| limited.get(offer.pool.index()) == Some(&true);
        for offer in found {
            let stands_for_it = |known: &Offer| {
                known.slot.is_none_or(|slot| offer.slot == Some(slot))
                    && (!is_limited(known)
                        || world
                            .tables
                            .capacity(known.pool, known.column)
                            .zip(world.tables.capacity(offer.pool, offer.column))
                            .is_some_and(|(known_capacity, capacity)| {
                                known.pool == offer.pool && known_capacity.fits(capacity)
                            }))
                    && world.tables.draws_no_more(known, &offer)
                    && (!world.tables.accelerators.is_kept(known.pool, known.column)
                        || world.tables.accelerators.is_kept(offer.pool, offer.column))
                    && offer.groups.is_subset(&known.groups)
                    && offer.room.fits(&known.room)
            };
            let stand_in = kept.offers.iter().position(stands_for_it).unwrap_or(kept.offers.len());
            let key = PoolColumn { pool: offer.pool, column: offer.column };
            if stand_in == kept.offers.len() {
                kept.offers.push(offer);
            }
            kept.of.insert(key, u32::try_from(stand_in).unwrap_or(u32::MAX));
        }
        for offer in &mut kept.offers {
            for group in offer.groups.ones() {
                if let Some(members) = members.get(group) {
                    offer.admits.union_with(members);
                }
            }
            for (at, row) in rows.iter().enumerate() {
                if offer.admits.contains(at) && !row.requests.fits(&offer.room) {
                    offer.admits.set(at, false);
                }
            }
        }
        kept
    }
}

impl Tables<'_> {
    // Whether an offer counts in no share that another does not count in.
    fn draws_no_more(&self, offer: &Offer, other: &Offer) -> bool {
        let of_other = self.shares.cells_of(other.pool, other.column);
        self.shares.cells_of(offer.pool, offer.column).iter().all(|cell| of_other.contains(cell))
    }
}

// Every column that may be had, with the groups that it may take.
fn all(world: World<'_>, groups: &[(usize, &[FixedBitSet], u32)]) -> Vec<Offer> {
    let mut out = Vec::new();
    for (pool, table) in world.tables.by_pool() {
        let Some(definition) = world.tables.definition(pool).filter(|pool| pool.refusal.is_none()) else {
            continue;
        };
        for (at, column) in table.with_ids() {
            if column.slots.is_some_and(|slot| world.ledger.state.free_slots(slot) == 0) {
                continue;
            }
            let is_reserved = table.is_reserved(at);
            let mut admitted = FixedBitSet::with_capacity(groups.len());
            for &(group, columns, least_weight) in groups {
                if (is_reserved || definition.weight >= least_weight)
                    && columns.get(pool.index()).is_some_and(|columns| columns.contains(at.index()))
                {
                    admitted.insert(group);
                }
            }
            if admitted.is_clear() {
                continue;
            }
            out.push(Offer {
                pool,
                column: at,
                cost: column.price + world.tables.options.node_cost,
                list_price: column.list_price,
                slot: column.slots,
                room: column.room.clone(),
                groups: admitted,
                admits: FixedBitSet::with_capacity(0),
            });
        }
    }
    out
}
