//! From a quick search that was cut short to the exact one.

use super::cuts::Resource;
use super::exact::{Condition, Search};
use super::{Candidate, Pricer, merged};
use crate::problem::Rule;
use crate::tuning::pricing::RULES_TO_BRANCH_ON;

impl Pricer<'_> {
    // Goes on where the quick search gave up. What is in the bin from the start has the dual value `before`.
    pub(super) fn search_exactly(&mut self, nodes: u32, before: f64) {
        let candidates = &self.candidates;
        let columns = candidates.iter().map(|candidate| (candidate.price, candidate.at_most)).collect();
        let resource = |at: usize| Resource {
            sizes: candidates
                .iter()
                .map(|candidate| self.size_of(candidate.item).get(at).copied().unwrap_or(0))
                .collect(),
            room: self.room.get(at).copied().unwrap_or(0),
        };
        let resources: Vec<Resource> = (0..self.n_resources).map(resource).collect();
        let mut rules: Vec<u32> = candidates
            .iter()
            .map(|candidate| candidate.item)
            .chain(self.first)
            .filter_map(|item| self.subject_of.get(item as usize))
            .flat_map(|rules| rules.iter().copied())
            .collect();
        rules.sort_unstable();
        rules.dedup();
        let rules: Vec<&Rule> = rules.into_iter().filter_map(|rule| self.problem.rules.get(rule as usize)).collect();
        // What is in the bin from the start, `allows` minds.
        let first = self.first;
        let has_first = |items: &[u32]| first.is_some_and(|first| items.binary_search(&first).is_ok());
        let is_condition = |rule: &Rule| !rule.is_plain() && !has_first(&rule.subjects) && !has_first(&rule.counted);
        let conditions = rules.iter().filter(|rule| is_condition(rule)).take(RULES_TO_BRANCH_ON).map(|rule| {
            let is_in = |items: &[u32], candidate: &Candidate| items.binary_search(&candidate.item).is_ok();
            let subjects = candidates.iter().enumerate().filter(|(_, candidate)| is_in(&rule.subjects, candidate));
            // Less than one is none.
            let (room, each) = if rule.at_most == 0 { (1, 2) } else { (i64::from(rule.at_most), 1) };
            let sizes =
                candidates.iter().map(|candidate| if is_in(&rule.counted, candidate) { each } else { 0 }).collect();
            Condition { subjects: subjects.map(|(at, _)| at).collect(), limit: Resource { sizes, room } }
        });
        let conditions: Vec<Condition> = conditions.collect();
        let allows = |uses: &[u32]| {
            let each = |item: u32| {
                let at = candidates.iter().position(|candidate| candidate.item == item);
                at.and_then(|at| uses.get(at)).copied().unwrap_or(0) + u32::from(first == Some(item))
            };
            rules.iter().all(|rule| rule.holds(each))
        };
        let enough = (self.best.value - before).max(0.0);
        let found = Search::new(columns, resources, conditions, &allows).run(enough, self.slack, nodes);
        self.best.work = u64::from(found.solved) * candidates.len() as u64;
        for (value, uses) in found.patterns {
            let items =
                self.candidates.iter().zip(uses).filter(|(_, n)| *n > 0).map(|(candidate, n)| (candidate.item, n));
            let items = merged(items.chain(first.map(|item| (item, 1))).collect());
            self.keep(value + before, items);
        }
        self.best.at_most = found.at_most + before;
    }
}
