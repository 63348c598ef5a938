//! Type tables: everything that one NodePool may launch, as columns over which sets are bits.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::offers::{self, Offer};
use crate::{
    CapacityType, Cluster, Money, NodePool, Requirement, Requirements, ResourceId, Resources, SlotId, Sym, Symbols,
    first_untolerated,
};

/// An index into [`Cluster::node_pools`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

impl PoolId {
    /// By index.
    pub fn new(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "more NodePools than ids");
        PoolId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An index into [`ColumnTable::columns`] of one NodePool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

impl ColumnId {
    /// By index.
    pub fn new(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "more columns than ids");
        ColumnId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Those of a set, cheapest first.
    pub fn of(set: &FixedBitSet) -> impl Iterator<Item = ColumnId> + '_ {
        set.ones().map(ColumnId::new)
    }
}

/// One thing a NodePool may launch: instance type × operating system × offering.
#[derive(Clone, Debug)]
pub struct Column {
    /// Index into [`Cluster::instance_types`].
    pub instance_type: u32,
    /// The operating system.
    pub os: Option<Sym>,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// The zone.
    pub zone: Option<Sym>,
    /// The finite supply a launch draws from.
    pub slots: Option<SlotId>,
    /// What choosing it costs; zero for reserved.
    pub price: Money,
    /// What it costs by the price list.
    pub list_price: Money,
    /// What pods may use: the type's resources less what the pool's nodes keep and the daemons that would run there.
    pub room: Resources,
    /// The requests of those daemons.
    pub daemons: Resources,
}

impl Column {
    /// The column of a NodePool that keeps nothing and has no daemons.
    fn of(offer: &Offer<'_>) -> Self {
        Column {
            instance_type: offer.index,
            os: offer.os,
            capacity_type: offer.offering.capacity_type,
            zone: offer.offering.zone,
            slots: offer.offering.slots,
            price: offer.offering.price,
            list_price: offer.offering.list_price,
            room: offer.instance_type.resources.clone(),
            daemons: Resources::new(),
        }
    }

    // Nothing that could be launched: dearer than all else, and without room.
    fn none() -> Self {
        let dearest = Money::from_pico(i128::MAX / 4);
        Column {
            instance_type: u32::MAX,
            os: None,
            capacity_type: CapacityType::OnDemand,
            zone: None,
            slots: None,
            price: dearest,
            list_price: dearest,
            room: Resources::new(),
            daemons: Resources::new(),
        }
    }
}

/// The columns of one NodePool, cheapest first (price, list price, then names), with the sets that placement
/// intersects.
#[derive(Clone, Debug, Default)]
pub struct ColumnTable {
    /// The columns.
    pub columns: Vec<Column>,
    /// Whether there would be columns if not all of them were sold out.
    pub is_sold_out: bool,
    /// The columns of reserved capacity.
    pub reserved: FixedBitSet,
    /// What the pool asks of labels that no column decides: a node's value is chosen among these.
    pub open: Requirements,
    /// The pool's minValues by key.
    pub min_values: Vec<(Sym, u32)>,
    /// By daemon: where it would run.
    pub daemon_columns: Vec<(u32, FixedBitSet)>,
    values: FxHashMap<Sym, Vec<(Sym, FixedBitSet)>>,
    amounts: Vec<Amounts>,
}

/// Whether something that cannot be had now meets what a NodePool requires.
fn is_sold_out(cluster: &Cluster, pool: &NodePool) -> bool {
    let mut offers = offers::of_class(cluster, pool.node_class, |known| &known.sold_out);
    let decided = offers::keys(cluster, &offers);
    let asked: Vec<_> = pool.requirements.iter().filter(|(key, _)| decided.contains(key)).collect();
    offers::retain_meeting(cluster, &mut offers, &asked);
    !offers.is_empty()
}

/// Columns by their room of one resource: `holds[i]` are those with at least `steps[i]`, of which `firsts[i]` is the
/// first.
#[derive(Clone, Debug, Default)]
struct Amounts {
    steps: Vec<i64>,
    holds: Vec<FixedBitSet>,
    firsts: Vec<usize>,
}

impl ColumnTable {
    /// The table of a NodePool.
    pub fn new(cluster: &Cluster, pool: &NodePool) -> Self {
        let mut offers = offers::of_class(cluster, pool.node_class, |known| &known.offerings);
        let decided = offers::keys(cluster, &offers);
        let (mut open, mut fixed) = (Requirements::new(), Vec::new());
        for (key, requirement) in pool.requirements.iter().filter(|(key, _)| !decided.contains(key)) {
            match requirement.single() {
                Some(value) => fixed.push((key, value)),
                None => open.add(key, requirement.clone(), &cluster.symbols),
            }
        }
        let asked: Vec<_> = pool.requirements.iter().filter(|(key, _)| decided.contains(key)).collect();
        offers::retain_meeting(cluster, &mut offers, &asked);
        offers::sort(cluster, &mut offers);
        let n = offers.len();
        let mut table = ColumnTable {
            reserved: FixedBitSet::with_capacity(n),
            columns: offers.iter().map(Column::of).collect(),
            is_sold_out: offers.is_empty() && is_sold_out(cluster, pool),
            open,
            min_values: pool.requirements.iter().filter_map(|(k, r)| r.min_values().map(|n| (k, n))).collect(),
            daemon_columns: Vec::new(),
            values: FxHashMap::default(),
            amounts: Vec::new(),
        };
        let mut places: FxHashMap<(Sym, Sym), usize> = FxHashMap::default();
        for (index, offer) in offers.iter().enumerate() {
            table.reserved.set(index, offer.offering.capacity_type == CapacityType::Reserved);
            for (key, value) in offer.labels(cluster).chain(fixed.iter().copied()) {
                let values = table.values.entry(key).or_default();
                let at = *places.entry((key, value)).or_insert_with(|| {
                    values.push((value, FixedBitSet::with_capacity(n)));
                    values.len() - 1
                });
                if let Some((_, set)) = values.get_mut(at) {
                    set.insert(index);
                }
            }
        }
        for column in &mut table.columns {
            column.room.subtract(&pool.reserved);
            column.room.floor_at_zero();
        }
        table.subtract_daemons(cluster, pool);
        table.index_amounts();
        table
    }

    fn subtract_daemons(&mut self, cluster: &Cluster, pool: &NodePool) {
        for (index, daemon) in cluster.daemons.iter().enumerate() {
            let Some(spec) = cluster.spec(daemon.spec) else {
                continue;
            };
            if first_untolerated(&pool.taints, &spec.tolerations, false, &cluster.symbols).is_some() {
                continue;
            }
            let mut set = FixedBitSet::with_capacity(self.columns.len());
            for terms in terms_or_one(&spec.required_terms) {
                let mut both = spec.node_selector.clone();
                both.add_all(terms, &cluster.symbols);
                if self.open_with(&both, &cluster.symbols).is_some() {
                    set.union_with(&self.admitting(&both, &cluster.symbols));
                }
            }
            for column in set.ones() {
                if let Some(column) = self.columns.get_mut(column) {
                    column.room.subtract(&spec.requests);
                    column.daemons.add(&spec.requests);
                }
            }
            self.daemon_columns.push((u32::try_from(index).unwrap_or(u32::MAX), set));
        }
    }

    fn index_amounts(&mut self) {
        let n = self.columns.len();
        // What pods name beyond these no column has.
        let n_resources = self.columns.iter().map(|column| column.room.amounts().len()).max().unwrap_or(0).max(1);
        for resource in 0..n_resources {
            let id = ResourceId(u16::try_from(resource).unwrap_or(u16::MAX));
            let mut order: Vec<(i64, usize)> =
                self.columns.iter().enumerate().map(|(index, column)| (column.room.get(id), index)).collect();
            order.sort_unstable_by(|a, b| b.cmp(a));
            let mut amounts = Amounts::default();
            let mut set = FixedBitSet::with_capacity(n);
            let mut first = usize::MAX;
            for (position, &(amount, index)) in order.iter().enumerate() {
                set.insert(index);
                first = first.min(index);
                if order.get(position + 1).is_none_or(|&(next, _)| next != amount) {
                    amounts.steps.push(amount);
                    amounts.holds.push(set.clone());
                    amounts.firsts.push(first);
                }
            }
            amounts.firsts.reverse();
            amounts.steps.reverse();
            amounts.holds.reverse();
            self.amounts.push(amounts);
        }
    }

    /// The values that columns have for a key, with the columns of each; empty where no column decides it.
    pub fn values(&self, key: Sym) -> &[(Sym, FixedBitSet)] {
        self.values.get(&key).map_or(&[], |values| values)
    }

    /// Whether the columns (or the pool, with one value) decide the label.
    pub fn decides(&self, key: Sym) -> bool {
        self.values.contains_key(&key)
    }

    /// The columns whose labels satisfy the requirements, as far as columns decide them.
    pub fn admitting(&self, requirements: &Requirements, symbols: &Symbols) -> FixedBitSet {
        let mut out = self.all();
        for (key, requirement) in requirements.iter() {
            if self.open.get(key).is_some() && !self.decides(key) {
                continue;
            }
            out.intersect_with(&self.with_label(key, requirement, symbols));
        }
        out
    }

    fn with_label(&self, key: Sym, requirement: &Requirement, symbols: &Symbols) -> FixedBitSet {
        let mut set = FixedBitSet::with_capacity(self.columns.len());
        let mut labelled = FixedBitSet::with_capacity(self.columns.len());
        for (value, columns) in self.values(key) {
            labelled.union_with(columns);
            if requirement.has(*value, symbols) {
                set.union_with(columns);
            }
        }
        if requirement.allows_absent() {
            labelled.toggle_range(..);
            set.union_with(&labelled);
        }
        set
    }

    /// What remains open of the pool's undecided labels under `requirements`; `None` if they contradict it.
    pub fn open_with(&self, requirements: &Requirements, symbols: &Symbols) -> Option<Requirements> {
        let mut open = self.open.clone();
        for (key, requirement) in requirements.iter().filter(|(key, _)| self.open.get(*key).is_some()) {
            open.add(key, requirement.clone(), symbols);
        }
        (!open.is_contradiction()).then_some(open)
    }

    /// A column. One that is not in the table has no room.
    pub fn column(&self, id: ColumnId) -> &Column {
        static NONE: std::sync::OnceLock<Column> = std::sync::OnceLock::new();
        let column = self.columns.get(id.index());
        debug_assert!(column.is_some(), "{id:?} of another table");
        column.unwrap_or_else(|| NONE.get_or_init(Column::none))
    }

    /// The columns with their ids, cheapest first.
    pub fn with_ids(&self) -> impl Iterator<Item = (ColumnId, &Column)> {
        self.columns.iter().enumerate().map(|(index, column)| (ColumnId::new(index), column))
    }

    /// Whether a column is reserved capacity.
    pub fn is_reserved(&self, id: ColumnId) -> bool {
        self.reserved.contains(id.index())
    }

    /// All columns.
    pub fn all(&self) -> FixedBitSet {
        let mut all = FixedBitSet::with_capacity(self.columns.len());
        all.insert_range(..);
        all
    }

    /// The columns with at least so much room of a resource; `None` if none has.
    pub fn holding(&self, resource: ResourceId, amount: i64) -> Option<&FixedBitSet> {
        let Some(amounts) = self.amounts.get(resource.index()) else {
            // No column has any of it, so that all have nothing or more: the first step of the first resource.
            return self.amounts.first().filter(|_| amount <= 0)?.holds.first();
        };
        let step = amounts.steps.partition_point(|&step| step < amount);
        amounts.holds.get(step)
    }

    /// Keeps of `set` the columns with room for `requests`.
    pub fn keep_fitting(&self, set: &mut FixedBitSet, requests: &Resources) {
        for (resource, amount) in requests.iter().filter(|(_, amount)| *amount > 0) {
            match self.holding(resource, amount) {
                Some(holding) => set.intersect_with(holding),
                None => set.clear(),
            }
        }
    }

    /// The cheapest paid column that is in both sets and has room for `requests` beside `used`.
    pub fn cheapest_paid(
        &self,
        a: &FixedBitSet,
        b: &FixedBitSet,
        requests: &Resources,
        used: &Resources,
    ) -> Option<ColumnId> {
        const BITS: usize = usize::BITS as usize;
        let mut masks: smallvec::SmallVec<[&[usize]; 6]> = smallvec::SmallVec::new();
        let mut first = 0;
        let (asked, taken) = (requests.amounts(), used.amounts());
        for resource in 0..asked.len().max(taken.len()) {
            let of = |amounts: &[i64]| amounts.get(resource).copied().unwrap_or(0);
            let amount = of(asked).saturating_add(of(taken));
            if amount > 0 {
                let amounts = self.amounts.get(resource)?;
                let step = amounts.steps.partition_point(|&step| step < amount);
                masks.push(amounts.holds.get(step)?.as_slice());
                first = first.max(amounts.firsts.get(step).copied().unwrap_or(0));
            }
        }
        let sets = a.as_slice().iter().zip(b.as_slice()).zip(self.reserved.as_slice());
        for (at, ((&a, &b), &reserved)) in sets.enumerate().skip(first / BITS) {
            let both = masks.iter().fold(a & b & !reserved, |both, mask| both & mask.get(at).copied().unwrap_or(0));
            if both != 0 {
                return Some(ColumnId::new(at * BITS + both.trailing_zeros() as usize));
            }
        }
        None
    }
}

/// The terms, or one empty term where there is none: an OR over nothing would never hold.
fn terms_or_one(terms: &[Requirements]) -> impl Iterator<Item = &Requirements> {
    static ANY: std::sync::OnceLock<Requirements> = std::sync::OnceLock::new();
    terms.iter().chain(terms.is_empty().then(|| ANY.get_or_init(Requirements::new)))
}
