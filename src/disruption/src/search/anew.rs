//! Nodes of a proposal whose pods need new nodes: these are planned once for all, and cut into commands.
//!
//! A whole decision plans the new nodes. Nodes that go for the sake of the same new node belong together; each such group
//! pays by itself or stays. Groups become commands, the largest saving for what is disrupted first.

use std::collections::BTreeMap;

use berth_decisions::{DecideError, Launch};
use berth_model::Money;
use berth_state::Key;

use super::Search;
use super::proposed::{COMMANDS, Step};
use crate::candidate::Candidate;
use crate::command::Method;
use crate::pods;
use crate::pods::disrupted;
use crate::prices::Price;
use crate::simulate::{Baseline, Replacement, Verdict};
use crate::worth::{saved_on_nodes, worth};

/// Nodes that go together, by their index among the steps, and what is launched for their pods.
#[derive(Default)]
struct Group {
    gone: Vec<usize>,
    launches: Vec<Launch>,
    /// What it saves an hour, less the price of what it disrupts, and that as a share of what it disrupts.
    net: Money,
    by_cost: i128,
}

impl Search<'_> {
    /// Removes nodes whose pods need new ones, as far as that pays. Where a decision about all of them fails, parts are
    /// asked about.
    pub(super) fn leave_for_new(&mut self, steps: &[Step]) -> Result<(), DecideError> {
        if steps.is_empty() || self.is_spent() {
            return Ok(());
        }
        let known = |step: &Step| self.survey.of_node(&step.0);
        let may_go = |known: &&Candidate| known.blocked.is_empty();
        let gone: Option<Vec<Candidate>> = steps.iter().map(|step| known(step).filter(may_go).cloned()).collect();
        let verdict = match &gone {
            Some(gone) => {
                self.send(steps);
                let verdict = self.try_out(&gone.iter().collect::<Vec<_>>());
                self.moves.clear();
                verdict?
            }
            None => None,
        };
        let is_bare = self.baseline.as_ref().is_some_and(Baseline::launches_nothing);
        match (gone, verdict) {
            (Some(gone), Some(Verdict::Fits(replacement))) if is_bare => {
                self.carry_out_groups(steps, &gone, replacement)
            }
            // What is launched is for others, too, and theirs is launched in any case.
            (Some(_), Some(Verdict::Fits(_))) => Ok(()),
            _ if steps.len() > 1 => {
                let (first, second) = steps.split_at(steps.len() / 2);
                self.leave_for_new(first)?;
                self.leave_for_new(second)
            }
            _ => Ok(()),
        }
    }

    fn carry_out_groups(
        &mut self,
        steps: &[Step],
        gone: &[Candidate],
        replacement: Replacement,
    ) -> Result<(), DecideError> {
        // No group takes the room that the decision has for another.
        let places = replacement.places();
        let as_decided = |(node, _): &Step| (node.clone(), self.expected_by(node, &places));
        let steps: Vec<Step> = steps.iter().map(as_decided).collect();
        let mut groups = self.groups(gone, replacement.launches);
        groups.retain(|group| group.net > Money::ZERO);
        groups.sort_by(|a, b| b.by_cost.cmp(&a.by_cost).then_with(|| a.gone.cmp(&b.gone)));
        let most = groups.iter().map(|group| group.gone.len()).sum::<usize>().div_ceil(COMMANDS);
        let mut groups = groups.into_iter().peekable();
        while let Some(mut together) = groups.next() {
            while let Some(next) = groups.next_if(|next| {
                let all = together.gone.iter().chain(&next.gone).filter_map(|at| gone.get(*at));
                together.gone.len() + next.gone.len() <= most
                    && self.has_budget_for(&all.collect::<Vec<_>>(), Method::MultiNodeConsolidation)
            }) {
                together.gone.extend(next.gone);
                together.launches.extend(next.launches);
            }
            self.carry_out_group(&steps, gone, together)?;
        }
        Ok(())
    }

    fn carry_out_group(&mut self, steps: &[Step], gone: &[Candidate], group: Group) -> Result<(), DecideError> {
        let of_group: Vec<&Candidate> = group.gone.iter().filter_map(|at| gone.get(*at)).collect();
        let steps: Vec<Step> = group.gone.iter().filter_map(|at| steps.get(*at)).cloned().collect();
        let method = if of_group.len() == 1 { Method::SingleNodeConsolidation } else { Method::MultiNodeConsolidation };
        if !self.has_budget_for(&of_group, method) {
            return self.leave_in_parts(&steps);
        }
        let mut price = Price::default();
        for launch in &group.launches {
            price += self.prices.of_offering(&launch.offering);
        }
        let mut replacement =
            Replacement { n_more: group.launches.len(), launches: group.launches, price, ..Replacement::default() };
        if worth(&of_group, &mut replacement, self.options, (&self.prices, &self.survey)).is_err() {
            return Ok(());
        }
        self.send(&steps);
        let is_done = self.carry_out(method, &of_group, &replacement);
        self.moves.clear();
        is_done.map(|_| ())
    }

    /// Removes nodes of a group that is too large for budgets, as many at a time as these let go, as far as that pays.
    fn leave_in_parts(&mut self, steps: &[Step]) -> Result<(), DecideError> {
        let mut left = steps;
        while left.len() > 1 {
            let (now, later) = left.split_at(self.together(left, left.len()));
            let gone = now.iter().filter_map(|(node, _)| self.survey.of_node(node));
            if !self.has_budget_for(&gone.collect::<Vec<_>>(), Method::SingleNodeConsolidation) {
                return Ok(());
            }
            self.leave_for_new(now)?;
            left = later;
        }
        Ok(())
    }

    /// Nodes that go for the sake of the same new nodes, and what that is worth.
    fn groups(&self, gone: &[Candidate], launches: Vec<Launch>) -> Vec<Group> {
        let mut node_of: BTreeMap<Key, usize> = BTreeMap::new();
        for (at, candidate) in gone.iter().enumerate() {
            let moved = self.state.pods_on(&candidate.node.key.name).filter(|pod| pods::is_moved(pod));
            node_of.extend(moved.map(|pod| (pod.reference().key, at)));
        }
        let mut joined = Joined((0..gone.len()).collect());
        let mut first_of: Vec<(Option<usize>, Launch)> = Vec::with_capacity(launches.len());
        for launch in launches {
            let mut nodes = launch.pods.iter().filter_map(|pod| node_of.get(&pod.key).copied());
            let first = nodes.next();
            if let Some(first) = first {
                nodes.for_each(|other| joined.join(first, other));
            }
            first_of.push((first, launch));
        }
        let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
        for at in 0..gone.len() {
            groups.entry(joined.of(at)).or_default().gone.push(at);
        }
        for (first, launch) in first_of {
            if let Some(group) = first.and_then(|first| groups.get_mut(&joined.of(first))) {
                group.launches.push(launch);
            }
        }
        let worth = |mut group: Group| {
            let of_group = || group.gone.iter().filter_map(|at| gone.get(*at));
            let cost = of_group().map(|candidate| candidate.cost).sum();
            let before: Money = of_group().map(|candidate| candidate.price.unwrap_or_default().marginal).sum();
            let after: Money =
                group.launches.iter().map(|launch| self.prices.of_offering(&launch.offering).marginal).sum();
            let saved = before - after + saved_on_nodes(group.gone.len(), group.launches.len(), self.options);
            group.net = saved - disrupted(self.options.eviction_price, cost);
            group.by_cost = saved.pico() / i128::from(cost.parts().max(1));
            group
        };
        groups.into_values().map(worth).collect()
    }
}

/// Which of a number of things belong together: each points to another of its group, or is the first of it.
struct Joined(Vec<usize>);

impl Joined {
    fn of(&self, mut at: usize) -> usize {
        while let Some(next) = self.0.get(at).copied().filter(|next| *next != at) {
            at = next;
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        if let Some(known) = self.0.get_mut(a.max(b)) {
            *known = a.min(b);
        }
    }
}
