//! What each restriction costs: the plan is made again without it, all others kept.

use berth_model::{Cluster, Money, NodePool, Requirement, Requirements, Sym, Universe};

use crate::max_share::ValueShare;
use crate::options::Options;
use crate::planner::Planner;
use crate::restrictions::{Restricted, Restriction, RestrictionCost};
use crate::world::World;

/// What plans are compared by here.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    left: u64,
    prices: Money,
    nodes: u64,
}

impl Figures {
    fn of(world: World<'_>) -> Self {
        let mut figures =
            Figures { left: world.ledger.tally.left.iter().map(|(_, left)| u64::from(*left)).sum(), ..Self::default() };
        for bin in world.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            let column = world.tables.table(bin.pool).column(bin.planned);
            figures.nodes += u64::from(bin.nodes);
            figures.prices += column.price.times(u64::from(bin.nodes));
        }
        figures
    }

    fn without(cluster: &Cluster, universe: &Universe, options: &Options) -> Self {
        let options = Options { bound: false, proves: false, what_restrictions_cost: false, ..options.clone() };
        let mut planner = Planner::new(cluster, universe, &options);
        planner.pack_best(options.effort);
        Figures::of(planner.world())
    }
}

/// A plan as it was made, to be compared with.
pub(crate) struct Made {
    figures: Figures,
    values: Vec<Vec<ValueShare>>,
}

impl Made {
    pub(crate) fn of(world: World<'_>) -> Self {
        Made { figures: Figures::of(world), values: world.shares_of_values() }
    }
}

/// The restrictions of a plan; all that there are, with what each costs, if that was asked for, else the shares alone.
pub(crate) fn restricted(
    cluster: &mut Cluster,
    universe: &Universe,
    options: &Options,
    made: &Made,
) -> Vec<Restricted> {
    let shares = made.values.iter().enumerate().map(|(index, values)| Restricted {
        restriction: Restriction::MaxShare(index),
        values: values.clone(),
        cost: None,
    });
    let mut all: Vec<Restricted> = shares.collect();
    if !options.what_restrictions_cost {
        return all;
    }
    let others = others(cluster, universe, options).into_iter();
    all.extend(others.map(|restriction| Restricted { restriction, values: Vec::new(), cost: None }));
    for entry in &mut all {
        entry.cost = Some(cost(cluster, universe, options, &made.figures, entry.restriction));
    }
    all
}

fn others(cluster: &Cluster, universe: &Universe, options: &Options) -> Vec<Restriction> {
    let mut found = Vec::new();
    if Planner::new(cluster, universe, options).tables.accelerators.keep_any(universe) {
        found.push(Restriction::GpuTypes);
    }
    if options.node_cost > Money::ZERO {
        found.push(Restriction::NodeCost);
    }
    let keys = &cluster.well_known;
    for (index, pool) in cluster.node_pools.iter().enumerate().filter(|(_, pool)| pool.refusal.is_none()) {
        let asks = |key: Sym| pool.requirements.get(key).is_some();
        if !pool.limits.is_empty() || pool.node_limit.is_some() {
            found.push(Restriction::Limits(index));
        }
        if pool.requirements.iter().any(|(_, requirement)| requirement.min_values().is_some()) {
            found.push(Restriction::MinValues(index));
        }
        if asks(keys.capacity_type) {
            found.push(Restriction::CapacityType(index));
        }
        if asks(keys.zone) {
            found.push(Restriction::Zone(index));
        }
    }
    found
}

fn cost(
    cluster: &mut Cluster,
    universe: &Universe,
    options: &Options,
    made: &Figures,
    restriction: Restriction,
) -> RestrictionCost {
    let mut freed = options.clone();
    let keys = cluster.well_known.clone();
    let without = match restriction {
        Restriction::MaxShare(index) => {
            if index < freed.max_shares.len() {
                freed.max_shares.remove(index);
            }
            Figures::without(cluster, universe, &freed)
        }
        Restriction::GpuTypes => {
            freed.gpu_types_for_any_pod = true;
            Figures::without(cluster, universe, &freed)
        }
        Restriction::NodeCost => {
            freed.node_cost = Money::ZERO;
            Figures::without(cluster, universe, &freed)
        }
        Restriction::Limits(index) => without_in(cluster, universe, options, index, |_, pool| {
            pool.limits.clear();
            pool.node_limit = None;
        }),
        Restriction::MinValues(index) => without_in(cluster, universe, options, index, |symbols, pool| {
            pool.requirements =
                rebuilt(symbols, &pool.requirements, |_, known| Some(known.clone().with_min_values(None)));
        }),
        Restriction::CapacityType(index) => without_in(cluster, universe, options, index, |symbols, pool| {
            let others = |key, known: &Requirement| (key != keys.capacity_type).then(|| known.clone());
            pool.requirements = rebuilt(symbols, &pool.requirements, others);
        }),
        Restriction::Zone(index) => without_in(cluster, universe, options, index, |symbols, pool| {
            let others = |key, known: &Requirement| (key != keys.zone).then(|| known.clone());
            pool.requirements = rebuilt(symbols, &pool.requirements, others);
        }),
    };
    // Node cost is left out where it is what is asked about: nobody would pay it.
    let node_cost = if restriction == Restriction::NodeCost { Money::ZERO } else { options.node_cost };
    let total = |figures: &Figures| figures.prices + node_cost.times(figures.nodes);
    let unplaced = made.left.saturating_sub(without.left);
    let hourly = total(made) - total(&without);
    // The plan is one without the restriction, too: if none better was found, it costs nothing.
    let is_better = unplaced > 0 || (without.left == made.left && hourly > Money::ZERO);
    if is_better { RestrictionCost { hourly, unplaced } } else { RestrictionCost::default() }
}

// A plan with one NodePool changed, which is put back.
fn without_in(
    cluster: &mut Cluster,
    universe: &Universe,
    options: &Options,
    index: usize,
    change: impl FnOnce(&berth_model::Symbols, &mut NodePool),
) -> Figures {
    let Some(pool) = cluster.node_pools.get_mut(index) else { return Figures::default() };
    let kept = pool.clone();
    change(&cluster.symbols, pool);
    let figures = Figures::without(cluster, universe, options);
    if let Some(pool) = cluster.node_pools.get_mut(index) {
        *pool = kept;
    }
    figures
}

fn rebuilt(
    symbols: &berth_model::Symbols,
    requirements: &Requirements,
    keep: impl Fn(Sym, &Requirement) -> Option<Requirement>,
) -> Requirements {
    let mut out = Requirements::new();
    for (key, requirement) in requirements.iter() {
        if let Some(requirement) = keep(key, requirement) {
            out.add(key, requirement, symbols);
        }
    }
    out
}
