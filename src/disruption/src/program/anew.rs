//! New nodes in the program: free slots are bins that cost nothing, and what is paid for is a price of each pod.
//!
//! A pod that comes to a new node costs what one more of it adds to the cheapest packing of all pods that could move: the
//! dual price of that packing program. Shared nodes are in that price, so that whole sets of nodes are replaced by whole
//! sets of others; which nodes these are, the provisioner decides.

use std::collections::BTreeMap;

use berth_packing::{BinType, Budget, Consolidation, ExistingNode, Item, Offer, Problem, prices};

use super::{MOST_CELLS, Program};
use crate::Options;

/// How exact the prices are: they choose what a whole decision is asked about.
const BUDGET: Budget = Budget {
    whole: 0,
    ruins: 0,
    guide_items: 0,
    work: 30_000,
    rounds: 60,
    dive_rounds: 0,
    types: 24,
    fills: 0,
    exact_fills: false,
    dives: 0,
    share: 0.1,
    repairs: 0,
    branches: 0,
    steps: 200,
    deep_steps: 20_000,
    nodes: 0,
    proof_nodes: 0,
    provable: 0.0,
    proofs: 0,
    prices: 200,
    gap: 5e-3,
};

impl Program {
    /// Lets pods come to new nodes.
    pub(super) fn add_new_nodes(&mut self, offers: Vec<Offer>, options: &Options) {
        let (free, paid): (Vec<Offer>, Vec<Offer>) = offers.into_iter().partition(|offer| offer.cost <= 0.0);
        self.price_pods(&paid, options.decisions.solve.node_cost.dollars());
        self.add_slots(&free);
    }

    fn price_pods(&mut self, offers: &[Offer], node_cost: f64) {
        let problem = &mut self.problem;
        let mut counts = vec![0_u32; problem.items.len()];
        for &(item, count) in problem.bins.iter().filter(|bin| bin.pool.is_some()).flat_map(|bin| &bin.holds) {
            counts.get_mut(item as usize).into_iter().for_each(|all| *all = all.saturating_add(count));
        }
        let offers: Vec<&Offer> = offers.iter().filter(|offer| offer.stock.is_none()).collect();
        let takes = |offer: &Offer, item: usize, size: &[i64]| {
            let mut needs = size.iter().enumerate().filter(|(_, need)| **need > 0);
            offer.admits.contains(item) && needs.all(|(at, need)| offer.room.get(at).is_some_and(|room| need <= room))
        };
        let has_any =
            |(at, item): (usize, &berth_packing::Movable)| offers.iter().any(|offer| takes(offer, at, &item.size));
        let has_any: Vec<bool> = problem.items.iter().enumerate().map(has_any).collect();
        let item = |((item, count), has_any): ((&berth_packing::Movable, &u32), &bool)| Item {
            count: if *has_any { *count } else { 0 },
            size: item.size.clone(),
            at_most: item.at_most,
            load: 0.0,
        };
        let items = problem.items.iter().zip(&counts).zip(&has_any).map(item).collect();
        let bin = |offer: &&Offer| BinType {
            cost: offer.cost + node_cost,
            bias: 0.0,
            room: offer.room.clone(),
            admits: offer.admits.clone(),
            draws: Vec::new(),
            loads: Vec::new(),
        };
        let packing = Problem { items, bins: offers.iter().map(bin).collect(), ..Problem::default() };
        let Some(prices) = prices(&packing, BUDGET) else { return };
        for (((item, price), count), has_any) in problem.items.iter_mut().zip(prices).zip(counts).zip(has_any) {
            item.anew = (has_any && count > 0 && price.is_finite()).then_some(price.max(0.0));
        }
        self.packing = packing;
    }

    /// The same program where pods cost on new nodes what they cost there if only so many of each sort come: pods that are few
    /// share nodes less well than all that could move. `None` where that changes nothing.
    pub(super) fn priced_for(&self, anew: &[u32]) -> Option<Consolidation> {
        let mut packing = self.packing.clone();
        for (item, count) in packing.items.iter_mut().zip(anew) {
            item.count = *count;
        }
        let prices = prices(&packing, BUDGET)?;
        let mut problem = self.problem.clone();
        let mut has_changed = false;
        for ((item, price), count) in problem.items.iter_mut().zip(prices).zip(anew) {
            if let Some(known) = item.anew.as_mut().filter(|_| *count > 0 && price.is_finite()) {
                has_changed |= (*known - price).abs() > f64::EPSILON * known.abs();
                *known = price.max(0.0);
            }
        }
        has_changed.then_some(problem)
    }

    /// Free slots are bins that stand, cost nothing, and stay. A slot that may be launched in several ways, as by several
    /// NodePools, is a bin for each, of which as many are used as there are slots.
    fn add_slots(&mut self, offers: &[Offer]) {
        let problem = &mut self.problem;
        let n_pods: u32 =
            problem.bins.iter().filter(|bin| bin.pool.is_some()).flat_map(|bin| &bin.holds).map(|held| held.1).sum();
        let mut by_supply: BTreeMap<u32, u32> = BTreeMap::new();
        for offer in offers {
            let stock = offer.stock.unwrap_or(0).min(n_pods);
            let next = problem.stocks.len();
            let taken_from = u32::try_from(next).ok().map(|next| match offer.supply {
                Some(supply) => *by_supply.entry(supply).or_insert(next),
                None => next,
            });
            if taken_from.is_some_and(|stock| stock as usize == next) {
                problem.stocks.push(stock);
            }
            for _ in 0..stock {
                let at = problem.bins.len();
                if at.saturating_mul(problem.items.len()) >= MOST_CELLS {
                    return;
                }
                for item in offer.admits.ones() {
                    problem.items.get_mut(item).into_iter().for_each(|item| item.admitted_by.grow_and_insert(at));
                }
                problem.bins.push(ExistingNode { free: offer.room.clone(), taken_from, ..ExistingNode::default() });
            }
        }
    }
}
