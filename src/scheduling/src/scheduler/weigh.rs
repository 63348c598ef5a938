//! What cells and nodes are worth to a class: raw scores, normalised over those that are feasible.

use berth_model::CounterId;
use rustc_hash::FxHashSet;

use super::cell::{Cell, CellKey};
use super::index::Index;
use super::shape::{ABSENT, CountedBy, Counts, Shape};
use super::values::{Beside, Values};
use super::world::World;
use crate::{reservation, score};

/// The normalised scores that all nodes of a cell share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) taints: i64,
    pub(super) affinity: i64,
    pub(super) spread: i64,
    pub(super) pods: i64,
    pub(super) reservation: i64,
}

impl Shared {
    fn total(self) -> i64 {
        score::TAINT_TOLERATION * self.taints
            + score::NODE_AFFINITY * self.affinity
            + score::POD_TOPOLOGY_SPREAD * self.spread
            + score::INTER_POD_AFFINITY * self.pods
            + reservation::WEIGHT * self.reservation
    }
}

/// Nodes between which the scores of a class differ by what is their own alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot<'c> {
    pub(super) key: &'c CellKey,
    pub(super) nodes: u64,
}

impl<'c> From<&'c Cell> for Lot<'c> {
    fn from(cell: &'c Cell) -> Self {
        Lot { key: &cell.key, nodes: cell.nodes }
    }
}

impl World<'_> {
    /// The best node of all, where it is known which is the best of each lot: its own score, and its rank.
    pub(super) fn best_of(
        &self,
        shape: &Shape,
        lots: &[Lot<'_>],
        counts: Option<&Counts>,
        best: impl Iterator<Item = Option<(i64, u64)>>,
    ) -> Option<usize> {
        let totals = best.zip(self.scores(shape, lots, counts)).filter_map(|(best, shared)| {
            let (own, rank) = best?;
            Some((std::cmp::Reverse(shared.total() + own), rank))
        });
        totals.min().and_then(|(_, rank)| self.ledger.groups.at_rank(rank))
    }

    /// The values of an index's rules now.
    pub(super) fn values(&self, index: &Index) -> Values {
        index.shape.values(self.state, &Beside::default(), |rule| index.least_on_hosts(rule, |_| None))
    }

    /// The cells with nodes that topology admits.
    pub(super) fn feasible<'i>(&self, index: &'i Index) -> Vec<&'i Cell> {
        let values = self.values(index);
        let admits = |cell: &&Cell| {
            let on_host = |counter| on_host(&index.shape, &cell.key, counter);
            match cell.key.alone {
                None => cell.nodes > 0 && index.shape.obstacle(&values, &cell.key.domains, on_host).is_none(),
                Some(node) => cell.nodes > 0 && self.obstacle(index, &values, node as usize).is_none(),
            }
        };
        index.cells.iter().filter(admits).collect()
    }

    /// The scores that the nodes of each lot share, normalised over all of the lots. Pods by domain are read where they are not
    /// known.
    pub(super) fn scores(&self, shape: &Shape, cells: &[Lot<'_>], counts: Option<&Counts>) -> Vec<Shared> {
        let most_taints = cells.iter().map(|cell| cell.key.taints).max().unwrap_or(0);
        let most_affinity = cells.iter().map(|cell| cell.key.affinity).max().unwrap_or(0);
        let spread = self.spread(shape, cells, counts);
        let pods = self.drawn(shape, cells, counts);
        let has_preferences = !shape.spec.preferred_terms.is_empty();
        let offers: Vec<_> = cells.iter().map(|cell| cell.key.offer.unwrap_or_default()).collect();
        let reservations = reservation::normalized(&reservation::raw_scores(&offers));
        cells
            .iter()
            .zip(spread.into_iter().zip(pods).zip(reservations))
            .map(|(cell, ((spread, pods), reservation))| Shared {
                reservation,
                taints: score::normalize(cell.key.taints, most_taints, true),
                affinity: if has_preferences { score::normalize(cell.key.affinity, most_affinity, false) } else { 0 },
                spread,
                pods,
            })
            .collect()
    }

    // PodTopologySpread of `ScheduleAnyway` constraints.
    #[expect(clippy::cast_possible_truncation, reason = "kube-scheduler's own arithmetic")]
    fn spread(&self, shape: &Shape, cells: &[Lot<'_>], counts: Option<&Counts>) -> Vec<i64> {
        if shape.soft.is_empty() {
            return vec![0; cells.len()];
        }
        let domain = |cell: &Lot<'_>, place: CountedBy| match place {
            CountedBy::Host => Some(0),
            CountedBy::Key(at) => cell.key.domains.get(at).copied().filter(|domain| *domain != ABSENT),
        };
        let has_all = |cell: &Lot<'_>| {
            !shape.soft_needs_all_keys || shape.soft.iter().all(|soft| domain(cell, soft.rule.place).is_some())
        };
        let counted: Vec<bool> = cells.iter().map(has_all).collect();
        let scored = || cells.iter().zip(&counted).filter(|(_, counted)| **counted).map(|(cell, _)| cell);
        let mut raw = vec![0.0; cells.len()];
        for soft in &shape.soft {
            let place = soft.rule.place;
            let domains = match place {
                CountedBy::Host => scored().map(|cell| cell.nodes).sum(),
                // That no label is a domain, too, where such nodes are not left out.
                CountedBy::Key(_) => {
                    scored().map(|cell| domain(cell, place)).collect::<FxHashSet<Option<u32>>>().len() as u64
                }
            };
            let weight = score::spread_weight(domains);
            let count_in = self.count_in(shape, counts, soft.rule.counter, place);
            for (raw, cell) in raw.iter_mut().zip(cells) {
                let Some(domain) = domain(cell, place) else { continue };
                let pods = match place {
                    CountedBy::Host => on_host(shape, cell.key, soft.rule.counter),
                    CountedBy::Key(_) => count_in(domain),
                };
                *raw += score::spread_cost(pods, soft.max_skew, weight);
            }
        }
        let raw: Vec<Option<i64>> =
            raw.into_iter().zip(&counted).map(|(raw, counted)| counted.then_some(raw.round() as i64)).collect();
        let least = raw.iter().flatten().copied().min().unwrap_or(0);
        let most = raw.iter().flatten().copied().max().unwrap_or(0);
        raw.into_iter().map(|raw| score::normalize_spread(raw, least, most)).collect()
    }

    // How many pods of a counter there are in a domain.
    fn count_in<'c>(
        &self,
        shape: &Shape,
        counts: Option<&'c Counts>,
        counter: CounterId,
        place: CountedBy,
    ) -> impl Fn(u32) -> u32 + 'c {
        let all = if counts.is_none() { shape.by_domain(self.state, counter, place) } else { Vec::new() };
        move |domain| match (counts, place) {
            (Some(counts), CountedBy::Key(key)) => counts.of(counter, key, domain),
            _ => all.get(domain as usize).copied().unwrap_or(0),
        }
    }

    // InterPodAffinity.
    fn drawn(&self, shape: &Shape, cells: &[Lot<'_>], counts: Option<&Counts>) -> Vec<i64> {
        let mut raw = vec![0_i64; cells.len()];
        for &(counter, place, weight) in &shape.drawn {
            if shape.total(self.state, counter) == 0 {
                continue;
            }
            let count_in = self.count_in(shape, counts, counter, place);
            for (raw, cell) in raw.iter_mut().zip(cells) {
                let pods = match place {
                    CountedBy::Host => on_host(shape, cell.key, counter),
                    CountedBy::Key(at) => count_in(cell.key.domains.get(at).copied().unwrap_or(ABSENT)),
                };
                *raw = raw.saturating_add(weight.saturating_mul(i64::from(pods)));
            }
        }
        let (least, most) = (raw.iter().copied().min().unwrap_or(0), raw.iter().copied().max().unwrap_or(0));
        raw.into_iter().map(|raw| score::normalize_affinity(raw, least, most)).collect()
    }
}

/// Pods of a counter on each node of a cell. Counters that only keep apart are 0: nodes with any are in no cell.
pub(super) fn on_host(shape: &Shape, cell: &CellKey, counter: CounterId) -> u32 {
    let at = shape.hosts.iter().position(|(known, _)| *known == counter);
    at.and_then(|at| cell.hosts.get(at)).copied().unwrap_or(0)
}
