//! Whether a removal pays: what it saves against what it disrupts.

use berth_decisions::Launch;
use berth_model::Money;

use crate::candidate::Candidate;
use crate::pods::{DisruptionCost, disrupted};
use crate::prices::{Price, Prices};
use crate::reason::Reason;
use crate::simulate::{ForPlaced, Replacement};
use crate::survey::Survey;
use crate::{Methods, Options, labels};

/// Karpenter's: spot replaces spot only where so many cheaper types are left to choose from.
const SPOT_TYPES: usize = 15;
/// Of Balanced: the share of what a pool costs that is saved must be this part of the share of its disruption.
const BALANCED_PART: i128 = 2;

/// Why a node on a slot stays whose pods have another place.
pub(crate) const SAVES_NOTHING: &str = "its slot costs nothing, and no paid node or pod that waits would come to it";

/// What a removal is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Worth {
    /// What it saves an hour, less the price of its disruption; by the list price between slots. What a node costs beyond
    /// its price counts.
    pub(crate) net: Money,
    pub(crate) savings: Money,
    pub(crate) list_savings: Money,
    pub(crate) cost: DisruptionCost,
}

/// What it is worth to replace the nodes so, which narrows what the replacements may be launched as. Where it is not
/// worth it, why.
pub(crate) fn worth(
    gone: &[&Candidate],
    replacement: &mut Replacement,
    options: &Options,
    (prices, survey): (&Prices, &Survey),
) -> Result<Worth, Reason> {
    let mut now = Price::default();
    for candidate in gone {
        now += candidate.price.unwrap_or_default();
    }
    let n_pods = gone.iter().map(|candidate| candidate.n_evictions).sum();
    let cost: DisruptionCost = gone.iter().map(|candidate| candidate.cost).sum();
    // Nodes for those who would wait for good without the removal, as for a limit, are no reason against it.
    let for_placed = match options.methods {
        Methods::Berth => replacement.for_placed,
        Methods::Karpenter => ForPlaced::default(),
    };
    let price = replacement.price - for_placed.price;
    let savings = now.marginal - price.marginal;
    let list_savings = now.list - price.list;
    let disrupted = disrupted(options.eviction_price, cost);
    let all_of = |capacity_type: &str| gone.iter().all(|candidate| candidate.capacity_type == capacity_type);
    // Between slots, whose rent is paid, the smaller one is the cheaper one: then the larger is free for others.
    let is_among_slots = savings == Money::ZERO && all_of(labels::RESERVED);
    if is_among_slots
        && list_savings > Money::ZERO
        && for_placed.count == 0
        && !gone.iter().any(|candidate| survey.wants_slot_of(candidate, options))
    {
        return Err(Reason::of_pods(SAVES_NOTHING, n_pods));
    }
    let n_more = replacement.n_more.saturating_sub(for_placed.count);
    let on_nodes = saved_on_nodes(gone.len(), n_more, options);
    let saved = if is_among_slots { list_savings } else { savings + on_nodes };
    if saved <= Money::ZERO {
        let text = if replacement.launches.is_empty() {
            "removing it saves nothing"
        } else {
            "can't replace with a cheaper node"
        };
        return Err(Reason::of_pods(text, n_pods));
    }
    let net = saved - disrupted;
    if net <= Money::ZERO {
        let text = format!("saves ${saved:.4}/h, and disrupting it is priced at ${disrupted:.4}/h");
        return Err(Reason::of_pods(text, n_pods));
    }
    let onto_spot = |launch: &Launch| launch.offering.capacity_type == labels::SPOT;
    // A node that costs nothing beside them is no reason to launch spot.
    let is_paid = |candidate: &&&Candidate| candidate.price.unwrap_or_default().marginal > Money::ZERO;
    let mut paid = gone.iter().filter(is_paid);
    if paid.all(|candidate| candidate.capacity_type == labels::SPOT) && replacement.launches.iter().any(onto_spot) {
        if !options.spot_to_spot {
            return Err(Reason::of_pods(
                "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
                n_pods,
            ));
        }
        spare(gone, replacement, prices, n_pods)?;
    }
    for launch in &mut replacement.launches {
        keep_cheaper(launch, saved, prices);
    }
    if let Some(pool) = unbalanced(gone, savings, list_savings, survey) {
        let text = format!(
            "NodePool {pool:?} is Balanced: the share of its cost that is saved is too small for the disruption"
        );
        return Err(Reason::of_pods(text, n_pods));
    }
    Ok(Worth { net, savings, list_savings, cost })
}

/// Dollars an hour that a node's replacement must cost less than for it to pay, as far as marginal prices tell.
pub(crate) fn below(candidate: &Candidate, options: &Options) -> Money {
    cost_of(candidate, options) - disrupted(options.eviction_price, candidate.cost)
}

/// Whether any new nodes that cost less will do in its place. Spot makes way for spot under conditions, and between slots list
/// prices count.
pub(crate) fn takes_any_launch(candidate: &Candidate) -> bool {
    let is_paid = candidate.price.unwrap_or_default().marginal > Money::ZERO;
    is_paid && candidate.capacity_type != labels::SPOT
}

/// What a node costs an hour, and beyond its price. One on a reservation costs nothing: between slots list prices count.
pub(crate) fn cost_of(candidate: &Candidate, options: &Options) -> Money {
    let price = candidate.price.unwrap_or_default().marginal;
    if price > Money::ZERO { price + options.decisions.solve.node_cost } else { price }
}

/// What is saved beyond prices where so many nodes go and so many come, as by licences: less than zero where more come.
pub(crate) fn saved_on_nodes(n_gone: usize, n_launched: usize, options: &Options) -> Money {
    let all = |count: usize| options.decisions.solve.node_cost.times(count as u64);
    all(n_gone) - all(n_launched)
}

/// What is saved by nodes that go, all that comes of it counted: between slots by the price list, as [`worth`] has it.
pub(crate) fn total_saved(gone: &[&Candidate], saved: Price, on_nodes: Money) -> Money {
    let is_among_slots = gone.iter().all(|candidate| candidate.capacity_type == labels::RESERVED);
    if is_among_slots && saved.marginal == Money::ZERO { saved.list } else { saved.marginal + on_nodes }
}

/// Of a node on a slot that another could use: what free slots must cost less than by the price list.
pub(crate) fn below_on_slots(candidate: &Candidate, options: &Options, survey: &Survey) -> Option<Money> {
    let list = candidate.price.unwrap_or_default().list;
    let is_wanted = candidate.is_reserved() && survey.wants_slot_of(candidate, options);
    is_wanted.then(|| list - disrupted(options.eviction_price, candidate.cost))
}

/// Of a launch on paid capacity: the types that keep the saving, whichever of them the cloud has.
fn keep_cheaper(launch: &mut Launch, saved: Money, prices: &Prices) {
    if launch.offering.reservation_id.is_some() {
        return;
    }
    let most = launch.offering.price + saved;
    let planned = launch.offering.instance_type.clone();
    let capacity_type = launch.offering.capacity_type.clone();
    launch
        .instance_types
        .retain(|name| *name == planned || prices.paid(name, &capacity_type).is_some_and(|price| price < most));
    let kept = &launch.instance_types;
    for requirement in launch.requirements.iter_mut().filter(|known| known.key == labels::INSTANCE_TYPE) {
        requirement.values.retain(|name| kept.contains(name));
    }
}

/// A spot node makes way for spot only where there is a choice, or it would go from one interruption to the next.
fn spare(gone: &[&Candidate], replacement: &mut Replacement, prices: &Prices, n_pods: usize) -> Result<(), Reason> {
    let [only] = gone else { return Ok(()) };
    let now = only.price.unwrap_or_default().marginal;
    for launch in replacement.launches.iter_mut().filter(|launch| launch.offering.capacity_type == labels::SPOT) {
        launch.instance_types.retain(|name| prices.paid(name, labels::SPOT).is_some_and(|price| price < now));
        let found = launch.instance_types.len();
        if found < SPOT_TYPES {
            let text = format!(
                "SpotToSpotConsolidation requires {SPOT_TYPES} cheaper instance type options than the current candidate to \
                 consolidate, got {found}"
            );
            return Err(Reason::of_pods(text, n_pods));
        }
        launch.instance_types.truncate(SPOT_TYPES);
    }
    Ok(())
}

/// A Balanced pool of which too little is saved for what is disrupted: (savings / cost) / (disruption / all disruption)
/// must be a half at least, lifetimes aside, as in Karpenter. Pools on slots alone are compared by list prices.
fn unbalanced<'c>(gone: &[&'c Candidate], savings: Money, list_savings: Money, survey: &Survey) -> Option<&'c str> {
    let pools: std::collections::BTreeSet<&str> = gone.iter().map(|candidate| candidate.pool.as_str()).collect();
    pools.into_iter().find(|name| {
        let Some(pool) = survey.pools.get(*name).filter(|pool| pool.is_balanced) else { return false };
        let of_pool = gone.iter().filter(|candidate| candidate.pool == **name);
        let cost: DisruptionCost = of_pool.map(|candidate| candidate.full_cost).sum();
        let (saved, all) = if pool.price.marginal == Money::ZERO {
            (list_savings, pool.price.list)
        } else {
            (savings, pool.price.marginal)
        };
        // Over one denominator; micro-dollars keep it in range.
        let micro = |money: Money| money.pico() / 1_000_000;
        let left = micro(saved).saturating_mul(i128::from(pool.cost.parts())).saturating_mul(BALANCED_PART);
        let right = micro(all).saturating_mul(i128::from(cost.parts()));
        left < right
    })
}
