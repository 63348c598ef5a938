//! Nodes of a proposal whose pods need new nodes: these are planned once for all, and cut into commands.
//!
//! A whole decision plans the new nodes. Nodes that go for the sake of the same new node belong together; each such group
//! pays by itself or stays. Groups become commands, the largest saving for what is disrupted first.

use std::collections::BTreeMap;

use berth_decisions::{DecideError, Launch};
use berth_model::Money;
use berth_state::{Key, ObjectRef};

use super::Search;
use super::proposed::{COMMANDS, Step};
use crate::candidate::Candidate;
use crate::command::Method;
use crate::pods;
use crate::pods::disrupted;
use crate::simulate::{Baseline, Replacement, Verdict};
use crate::worth::{saved_on_nodes, worth};

/// Nodes that go together, by their index among the steps, and what is launched for their pods.
#[derive(Default)]
pub(super) struct Group {
    pub(super) gone: Vec<usize>,
    launches: Vec<Launch>,
    /// What it saves an hour, less the price of what it disrupts, and that as a share of what it disrupts.
    pub(super) net: Money,
    by_cost: i128,
}

impl Search<'_> {
    /// Removes nodes whose pods need new ones, as far as that pays. Where a decision about all of them fails, parts are
    /// asked about; where some of them stay, the others are decided anew beside these.
    pub(super) fn leave_for_new(&mut self, steps: &[Step]) -> Result<(), DecideError> {
        let mut left = steps.to_vec();
        // Each time at least one of them goes or is put back.
        while !left.is_empty() && !self.is_spent() {
            let known = |step: &Step| self.survey.of_node(&step.0);
            let may_go = |known: &&Candidate| known.blocked.is_empty();
            let gone: Option<Vec<Candidate>> = left.iter().map(|step| known(step).filter(may_go).cloned()).collect();
            let verdict = match &gone {
                Some(gone) => {
                    self.send(&left);
                    let verdict = self.try_out(&gone.iter().collect::<Vec<_>>());
                    self.moves.clear();
                    verdict?
                }
                None => None,
            };
            let is_bare = self.baseline.as_ref().is_some_and(Baseline::launches_nothing);
            match (gone, verdict) {
                (Some(gone), Some(Verdict::Fits(replacement))) if is_bare => {
                    left = self.carry_out_groups(&left, &gone, replacement)?;
                }
                // What is launched is for others, too, and theirs is launched in any case.
                (Some(_), Some(Verdict::Fits(_))) => return Ok(()),
                _ if left.len() > 1 => {
                    let (first, second) = left.split_at(left.len() / 2);
                    self.leave_for_new(first)?;
                    return self.leave_for_new(second);
                }
                _ => {
                    self.put_back(&left);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Carries out what a decision about these nodes says, and returns those that have to be decided anew: where a group
    /// stays, the others may use its room, and its share of limits is not free.
    fn carry_out_groups(
        &mut self,
        steps: &[Step],
        gone: &[Candidate],
        replacement: Replacement,
    ) -> Result<Vec<Step>, DecideError> {
        // No group takes the room that the decision has for another.
        let places = replacement.places();
        let as_decided = |(node, _): &Step| (node.clone(), self.expected_by(node, &places));
        let steps: Vec<Step> = steps.iter().map(as_decided).collect();
        let (groups, stays) = self.cut(&gone.iter().collect::<Vec<_>>(), replacement.launches);
        if !stays.is_empty() {
            let stays: Vec<usize> = stays.into_iter().flat_map(|group| group.gone).collect();
            self.put_back(&of(&steps, &stays));
            let goes: Vec<usize> = groups.into_iter().flat_map(|group| group.gone).collect();
            return Ok(of(&steps, &goes));
        }
        let mut groups = groups.into_iter();
        for group in groups.by_ref() {
            let of_group = of(&steps, &group.gone);
            if !self.carry_out_group(&of_group, gone, &group)? {
                self.put_back(&of_group);
            }
            if of_group.iter().any(|(node, _)| self.is_put_back(node)) {
                break;
            }
        }
        let left: Vec<usize> = groups.flat_map(|group| group.gone).collect();
        Ok(of(&steps, &left))
    }

    /// Cuts what a decision launches for these nodes into commands, the largest saving for what is disrupted first; and those
    /// for which that would not pay.
    pub(super) fn cut(&self, gone: &[&Candidate], launches: Vec<Launch>) -> (Vec<Group>, Vec<Group>) {
        let groups = self.groups(gone, launches);
        let (mut groups, idle): (Vec<Group>, Vec<Group>) =
            groups.into_iter().partition(|group| group.net > Money::ZERO);
        groups.sort_by(|a, b| b.by_cost.cmp(&a.by_cost).then_with(|| a.gone.cmp(&b.gone)));
        let most = groups.iter().map(|group| group.gone.len()).sum::<usize>().div_ceil(COMMANDS);
        let mut groups = groups.into_iter().peekable();
        let mut commands: Vec<Group> = Vec::new();
        while let Some(mut together) = groups.next() {
            while let Some(next) = groups.next_if(|next| {
                let all = together.gone.iter().chain(&next.gone).filter_map(|at| gone.get(*at).copied());
                together.gone.len() + next.gone.len() <= most
                    && self.has_budget_for(&all.collect::<Vec<_>>(), Method::MultiNodeConsolidation)
            }) {
                together.gone.extend(next.gone);
                together.launches.extend(next.launches);
                together.net += next.net;
            }
            commands.push(together);
        }
        let pays = |group: &Group| {
            let of_group: Vec<&Candidate> = group.gone.iter().filter_map(|at| gone.get(*at).copied()).collect();
            worth(&of_group, &mut self.replacement(group), self.options, (&self.prices, &self.survey)).is_ok()
        };
        let (commands, refused): (Vec<Group>, Vec<Group>) = commands.into_iter().partition(pays);
        (commands, idle.into_iter().chain(refused).collect())
    }

    /// What is launched for a group, as the replacement of its nodes.
    fn replacement(&self, group: &Group) -> Replacement {
        let launches = group.launches.clone();
        let price = launches.iter().map(|launch| self.prices.of_offering(&launch.offering)).sum();
        Replacement { n_more: launches.len(), launches, price, ..Replacement::default() }
    }

    /// Removes the nodes of a group, or as many of them as budgets let go; whether what was decided for them came true.
    fn carry_out_group(&mut self, steps: &[Step], gone: &[Candidate], group: &Group) -> Result<bool, DecideError> {
        let of_group: Vec<&Candidate> = group.gone.iter().filter_map(|at| gone.get(*at)).collect();
        let method = if of_group.len() == 1 { Method::SingleNodeConsolidation } else { Method::MultiNodeConsolidation };
        if !self.has_budget_for(&of_group, method) {
            return self.leave_in_parts(steps).map(|()| true);
        }
        let mut replacement = self.replacement(group);
        if worth(&of_group, &mut replacement, self.options, (&self.prices, &self.survey)).is_err() {
            return Ok(false);
        }
        self.send(steps);
        let is_done = self.carry_out(method, &of_group, &replacement);
        self.moves.clear();
        is_done
    }

    /// Lets pods come to nodes again that stay.
    fn put_back(&mut self, steps: &[Step]) {
        for (node, _) in steps {
            self.let_pods_come(node);
        }
    }

    /// Whether pods may come to a node that was to go.
    fn is_put_back(&self, node: &ObjectRef) -> bool {
        !self.leaving.contains_key(node) && self.state.node(&node.key.name).is_some()
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
    fn groups(&self, gone: &[&Candidate], launches: Vec<Launch>) -> Vec<Group> {
        let mut node_of: BTreeMap<Key, usize> = BTreeMap::new();
        for (at, candidate) in gone.iter().enumerate() {
            let moved = self.state.pods_on(&candidate.node.key.name).filter(|pod| pods::is_moved(pod));
            node_of.extend(moved.map(|pod| (pod.reference().key, at)));
            node_of.extend(candidate.held.iter().map(|room| (room.key.clone(), at)));
        }
        let mut joined = Joined((0..gone.len()).collect());
        let mut first_of: Vec<(Option<usize>, Launch)> = Vec::with_capacity(launches.len());
        for launch in launches {
            let moved = launch.pods.iter().chain(&launch.reservations);
            let mut nodes = moved.filter_map(|moved| node_of.get(&moved.key).copied());
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

/// Those steps of these indices.
fn of(steps: &[Step], indices: &[usize]) -> Vec<Step> {
    indices.iter().filter_map(|at| steps.get(*at)).cloned().collect()
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

#[cfg(test)]
mod tests {
    use berth_decisions::Decider;
    use berth_state::Object;
    use serde_json::json;

    use super::*;
    use crate::Options;
    use crate::pending::Planned;
    use crate::search::Surveyed;
    use crate::tests::{ON_DEMAND, free_pool, node, now, state_of};

    /// The regression: it was of no group, and its node seemed to save all that it costs.
    #[test]
    fn what_is_launched_for_a_room_alone_is_of_its_nodes_group() {
        let room = json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": {"name": "room", "uid": "r"}, "spec": {"allocateOnce": false,
                "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}], "template": {"spec": {"containers": [
                    {"name": "a", "image": "a", "resources": {"requests": {"cpu": "3"}}}]}}},
            "status": {"phase": "Available", "nodeName": "a", "allocatable": {"cpu": "3"}}});
        let room = Object::from(serde_json::from_value::<berth_api::Reservation>(room).unwrap());
        let mut state = state_of(&[free_pool(ON_DEMAND), node("a", "huge", "on-demand"), room], &[]);
        let (mut decider, options) = (Decider::new(), Options::default().for_what_ifs());
        let surveyed = Surveyed::of(&mut state, &options, now()).unwrap();
        let gone = surveyed.survey.candidates.clone();
        let gone: Vec<&Candidate> = gone.iter().collect();
        let mut search = Search::new(&mut state, &mut decider, &options, (surveyed, Planned::default()), now());
        let Some(Verdict::Fits(replacement)) = search.try_out(&gone).unwrap() else { panic!("the room has a place") };
        assert_eq!(replacement.launches.len(), 1, "nothing else is there");
        let groups = search.groups(&gone, replacement.launches);
        assert_eq!(groups.iter().map(|group| group.launches.len()).collect::<Vec<_>>(), [1]);
        let saved = groups[0].net + disrupted(options.eviction_price, gone[0].cost);
        assert_eq!(saved.to_string(), "1.2", "$1.60 less a medium node");
    }
}
