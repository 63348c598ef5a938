//! Static NodePools: which of their nodes go where they have too many, and what takes the place of one that has drifted.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use berth_api::{NodeClaim, NodePool};
use berth_decisions::{DecideError, pool_of, replicas};
use berth_state::{Key, Kind, ObjectRef, State, Time};

use crate::Options;
use crate::candidate::Candidate;
use crate::prices::Prices;
use crate::reason::reason;
use crate::simulate::{Replacement, Verdict};
use crate::survey::Survey;

/// The NodeClaims of a static NodePool that go next where it has more than `wanted`, as many as are too many: drifted nodes,
/// then those that are not launched, then nodes without pods, then those that are cheap to disrupt; last those that something
/// protects. Of alike ones the dearest goes first, so those on reservations stay. A drifted node stays while fewer than
/// `wanted` would be up without it and others come: they take its place, whoever launched them.
pub fn surplus(state: &mut State, pool: &str, wanted: usize, options: &Options, now: Time) -> Vec<ObjectRef> {
    let prices = Prices::of(state.cluster(now));
    let survey = Survey::of(state, &prices, options, now);
    let of_pool = survey.candidates.iter().filter(|candidate| candidate.pool == pool);
    let mut with_node: Vec<&Candidate> = of_pool.filter(|candidate| candidate.claim.is_some()).collect();
    let has_node: BTreeSet<&ObjectRef> = with_node.iter().filter_map(|candidate| candidate.claim.as_ref()).collect();
    let mut without_node: Vec<(bool, ObjectRef)> = Vec::new();
    for claim in state.all::<NodeClaim>().filter(|claim| pool_of(&claim.metadata) == Some(pool)) {
        let key = Key::new(Kind::NodeClaim, "", claim.metadata.name.as_deref().unwrap_or_default());
        let claim_ref = key.with_uid(claim.metadata.uid.as_deref());
        if claim.metadata.deletion_timestamp.is_none() && !has_node.contains(&claim_ref) {
            let is_launched = claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
            without_node.push((is_launched, claim_ref));
        }
    }
    without_node.sort();
    with_node.retain(|candidate| !candidate.is_going);
    with_node.sort_by_key(|candidate| {
        let is_in_use = !candidate.is_empty;
        let price = candidate.price.unwrap_or_default();
        let by_price = (Reverse(price.marginal), Reverse(price.list));
        (is_protected(candidate), is_in_use, candidate.full_cost.parts(), by_price, &candidate.node)
    });
    let n_surplus = (with_node.len() + without_node.len()).saturating_sub(wanted);
    let mut n_up = with_node.iter().filter(|candidate| candidate.is_initialized).count();
    let mut n_coming = with_node.len() - n_up + without_node.len();
    let is_old = |candidate: &&Candidate| candidate.drift.is_some() && !is_protected(candidate);
    let (old, others): (Vec<&Candidate>, Vec<&Candidate>) = with_node.into_iter().partition(is_old);
    let mut gone = Vec::new();
    for candidate in old.into_iter().take(n_surplus) {
        if candidate.is_initialized && n_up <= wanted && n_coming > 0 {
            return gone;
        }
        *(if candidate.is_initialized { &mut n_up } else { &mut n_coming }) -= 1;
        gone.extend(candidate.claim.clone());
    }
    let left = without_node.into_iter().map(|(_, claim)| claim);
    let left = left.chain(others.into_iter().filter_map(|candidate| candidate.claim.clone()));
    let n_left = n_surplus - gone.len();
    gone.extend(left.take(n_left));
    gone
}

/// Whether something keeps a node that is in use.
fn is_protected(candidate: &Candidate) -> bool {
    !candidate.is_empty && !candidate.blocked.is_empty()
}

/// What takes the place of a drifted node of a static NodePool: one more of it. So many of its nodes that the state does not
/// have any more are there yet, and count against its limits.
pub(crate) fn static_replacement(
    state: &mut State,
    candidate: &Candidate,
    options: &Options,
    (prices, survey): (&Prices, &Survey),
    n_leaving: u32,
    now: Time,
) -> Result<Verdict, DecideError> {
    let fails = |text: String| Ok(Verdict::Fails(vec![reason(text)]));
    let wanted = state.get_as::<NodePool>("", &candidate.pool).and_then(|pool| pool.spec.replicas);
    let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(0);
    let of_pool = survey.candidates.iter().filter(|other| other.pool == candidate.pool);
    let n_there = of_pool.filter(|other| !other.is_going || other.node == candidate.node).count();
    if n_there > wanted {
        return fails(format!("NodePool {:?} has {n_there} nodes, and is to have {wanted}", candidate.pool));
    }
    let launches = replicas(state, &candidate.pool, (1, n_leaving), &options.decisions, now)?;
    let Some(launch) = launches.first() else {
        return fails(format!("NodePool {:?} may have no node more, or none is on offer", candidate.pool));
    };
    let price = prices.of_offering(&launch.offering);
    Ok(Verdict::Fits(Replacement { launches, price, n_more: 1, ..Replacement::default() }))
}
