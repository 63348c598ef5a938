//! The slot ledger's matching: which planned nodes take which capacity reservations.
//!
//! Nodes with the same contents are a group; a reservation is open to a group whose pods, as a set, fit one of its
//! columns. Which nodes are saved from being paid for is a maximum-weight independent set of a transversal matroid:
//! taking groups by falling savings, each with augmenting paths, is optimal. Which slots serve them is then chosen
//! from the side of the slots, by rising list price, so that large and GPU slots go last.

use std::collections::VecDeque;

/// A bipartite b-matching of groups (left) to finite supplies (right).
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    /// By group: the supplies open to it.
    open: Vec<Vec<usize>>,
    /// By supply: the groups that it is open to.
    open_to: Vec<Vec<usize>>,
    /// By group: (supply, nodes).
    taken: Vec<Vec<(usize, u32)>>,
    /// By supply: what is free.
    free: Vec<u32>,
    /// By group: the nodes that still want a slot.
    wanting: Vec<u32>,
}

impl Matching {
    /// `open[group]` lists the supplies open to a group.
    pub(crate) fn new(open: Vec<Vec<usize>>, free: Vec<u32>) -> Self {
        let mut open_to = vec![Vec::new(); free.len()];
        for (group, supplies) in open.iter().enumerate() {
            for &supply in supplies {
                if let Some(groups) = open_to.get_mut(supply) {
                    groups.push(group);
                }
            }
        }
        Matching { taken: vec![Vec::new(); open.len()], wanting: vec![0; open.len()], open, open_to, free }
    }

    /// Matches groups in the given order, most worthwhile first; `nodes[group]` want a slot. Returns how many nodes of
    /// each group got one.
    pub(crate) fn match_groups(&mut self, order: &[usize], nodes: &[u32]) -> Vec<u32> {
        let mut got = vec![0; self.open.len()];
        // Supplies from which no augmenting path can ever start again.
        let mut dead = vec![false; self.free.len()];
        for &group in order {
            let mut wanted = nodes.get(group).copied().unwrap_or(0);
            while wanted > 0 {
                let augmented = self.augment_from_group(group, wanted, &mut dead);
                if augmented == 0 {
                    break;
                }
                wanted -= augmented;
                if let Some(got) = got.get_mut(group) {
                    *got += augmented;
                }
            }
        }
        got
    }

    /// Chooses anew which supplies serve the groups, `got` nodes of each, taking supplies in the given order as far as
    /// they can be used. Every group keeps its number.
    pub(crate) fn prefer_supplies(&mut self, order: &[usize], got: &[u32]) {
        for taken in &mut self.taken {
            for (supply, nodes) in taken.drain(..) {
                if let Some(free) = self.free.get_mut(supply) {
                    *free += nodes;
                }
            }
        }
        self.wanting = got.to_vec();
        let mut dead = vec![false; self.open.len()];
        for &supply in order {
            while self.free.get(supply).is_some_and(|free| *free > 0) && self.augment_from_supply(supply, &mut dead) {}
        }
    }

    /// The supplies that serve a group: (supply, nodes), in order of supply.
    pub(crate) fn of(&self, group: usize) -> Vec<(usize, u32)> {
        let mut taken = self.taken.get(group).cloned().unwrap_or_default();
        taken.sort_unstable();
        taken
    }

    fn shift(&mut self, group: usize, supply: usize, more: u32, less: u32) {
        let Some(taken) = self.taken.get_mut(group) else { return };
        match taken.iter_mut().find(|(known, _)| *known == supply) {
            Some((_, nodes)) => *nodes = nodes.saturating_add(more).saturating_sub(less),
            None => taken.push((supply, more.saturating_sub(less))),
        }
        taken.retain(|(_, nodes)| *nodes > 0);
    }

    fn taken(&self, group: usize, supply: usize) -> u32 {
        let taken = self.taken.get(group).and_then(|t| t.iter().find(|(known, _)| *known == supply));
        taken.map_or(0, |(_, nodes)| *nodes)
    }

    // One augmenting path, breadth first: group → open supply → group that holds it → …
    fn augment_from_group(&mut self, start: usize, wanted: u32, dead: &mut [bool]) -> u32 {
        let mut holder_via: Vec<Option<usize>> = vec![None; self.open.len()];
        let mut reached_from: Vec<Option<usize>> = vec![None; self.free.len()];
        let mut queue = VecDeque::from([start]);
        let mut seen = vec![false; self.open.len()];
        if let Some(seen) = seen.get_mut(start) {
            *seen = true;
        }
        while let Some(group) = queue.pop_front() {
            for &supply in self.open.get(group).map_or(&[][..], |open| open) {
                if dead.get(supply) != Some(&false) || reached_from.get(supply) != Some(&None) {
                    continue;
                }
                if let Some(from) = reached_from.get_mut(supply) {
                    *from = Some(group);
                }
                if self.free.get(supply).is_some_and(|free| *free > 0) {
                    return self.apply(start, supply, wanted, &reached_from, &holder_via);
                }
                for &holder in self.open_to.get(supply).map_or(&[][..], |groups| groups) {
                    if seen.get(holder) == Some(&false) && self.taken(holder, supply) > 0 {
                        if let (Some(seen), Some(via)) = (seen.get_mut(holder), holder_via.get_mut(holder)) {
                            (*seen, *via) = (true, Some(supply));
                        }
                        queue.push_back(holder);
                    }
                }
            }
        }
        for (dead, from) in dead.iter_mut().zip(&reached_from) {
            *dead |= from.is_some();
        }
        0
    }

    fn apply(
        &mut self,
        start: usize,
        end: usize,
        wanted: u32,
        reached_from: &[Option<usize>],
        holder_via: &[Option<usize>],
    ) -> u32 {
        let mut path: Vec<(usize, usize)> = Vec::new(); // (group, supply it takes), from the end
        let mut supply = end;
        while let Some(Some(group)) = reached_from.get(supply).copied() {
            path.push((group, supply));
            match holder_via.get(group).copied().flatten() {
                Some(before) if group != start => supply = before,
                _ => break,
            }
        }
        let mut amount = wanted.min(self.free.get(end).copied().unwrap_or(0));
        for (group, _) in path.iter().filter(|(group, _)| *group != start) {
            if let Some(Some(held)) = holder_via.get(*group) {
                amount = amount.min(self.taken(*group, *held));
            }
        }
        for &(group, supply) in &path {
            self.shift(group, supply, amount, 0);
            if group != start
                && let Some(Some(held)) = holder_via.get(group).copied()
            {
                self.shift(group, held, 0, amount);
            }
        }
        if let Some(free) = self.free.get_mut(end) {
            *free -= amount;
        }
        amount
    }

    // One unit of a supply, through groups that are served already, to a group that wants a slot.
    fn augment_from_supply(&mut self, start: usize, dead: &mut [bool]) -> bool {
        let mut reached_from: Vec<Option<usize>> = vec![None; self.open.len()]; // group ← supply
        let mut given_up_by: Vec<Option<usize>> = vec![None; self.free.len()]; // supply ← group that leaves it
        let mut queue = VecDeque::from([start]);
        while let Some(supply) = queue.pop_front() {
            for &group in self.open_to.get(supply).map_or(&[][..], |groups| groups) {
                if dead.get(group) != Some(&false) || reached_from.get(group) != Some(&None) {
                    continue;
                }
                if let Some(from) = reached_from.get_mut(group) {
                    *from = Some(supply);
                }
                if self.wanting.get(group).is_some_and(|wanting| *wanting > 0) {
                    self.apply_from_supply(start, group, &reached_from, &given_up_by);
                    return true;
                }
                let held: Vec<usize> =
                    self.taken.get(group).map_or(&[][..], |t| t).iter().map(|(supply, _)| *supply).collect();
                for other in held {
                    if other != start && given_up_by.get(other) == Some(&None) {
                        if let Some(by) = given_up_by.get_mut(other) {
                            *by = Some(group);
                        }
                        queue.push_back(other);
                    }
                }
            }
        }
        for (dead, from) in dead.iter_mut().zip(&reached_from) {
            *dead |= from.is_some();
        }
        false
    }

    fn apply_from_supply(
        &mut self,
        start: usize,
        end: usize,
        reached_from: &[Option<usize>],
        given_up_by: &[Option<usize>],
    ) {
        if let Some(wanting) = self.wanting.get_mut(end) {
            *wanting -= 1;
        }
        let mut group = end;
        while let Some(Some(supply)) = reached_from.get(group).copied() {
            self.shift(group, supply, 1, 0);
            if supply == start {
                break;
            }
            let Some(Some(leaving)) = given_up_by.get(supply).copied() else { break };
            self.shift(leaving, supply, 0, 1);
            group = leaving;
        }
        if let Some(free) = self.free.get_mut(start) {
            *free -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_augmenting_path_frees_the_only_slot_that_fits() {
        // Group 0 may take either supply, group 1 only the first; taken greedily, group 0 would block it.
        let mut matching = Matching::new(vec![vec![0, 1], vec![0]], vec![1, 1]);
        assert_eq!(matching.match_groups(&[0, 1], &[1, 1]), [1, 1]);
        assert_eq!((matching.of(0), matching.of(1)), (vec![(1, 1)], vec![(0, 1)]));
    }

    #[test]
    fn a_path_leads_over_groups_that_have_what_they_give() {
        // Group 1 may take supply 0, but has none of it: group 2 makes way.
        let mut matching = Matching::new(vec![vec![0], vec![0, 1], vec![0, 2]], vec![1, 1, 1]);
        assert_eq!(matching.match_groups(&[2, 1, 0], &[1, 0, 1]), [1, 0, 1]);
        assert_eq!((matching.of(0), matching.of(2)), (vec![(0, 1)], vec![(2, 1)]));
    }

    #[test]
    fn groups_that_save_more_are_served_first() {
        let mut matching = Matching::new(vec![vec![0], vec![0]], vec![1]);
        assert_eq!(matching.match_groups(&[1, 0], &[1, 1]), [0, 1]);
    }

    #[test]
    fn cheaper_slots_are_preferred_and_no_group_loses_its_slot() {
        let mut matching = Matching::new(vec![vec![0, 1, 2], vec![0]], vec![2, 5, 1]);
        let got = matching.match_groups(&[0, 1], &[2, 1]);
        assert_eq!(got, [2, 1]);
        matching.prefer_supplies(&[0, 2, 1], &got);
        assert_eq!(matching.of(1), [(0, 1)]);
        assert_eq!(matching.of(0), [(0, 1), (2, 1)], "supply 1 is the dearest and stays free");
    }

    #[test]
    fn slots_are_never_overdrawn() {
        let mut matching = Matching::new(vec![vec![0, 1], vec![1, 2], vec![0, 2]], vec![3, 2, 4]);
        let got = matching.match_groups(&[2, 0, 1], &[5, 5, 5]);
        assert_eq!(got.iter().sum::<u32>(), 9);
        matching.prefer_supplies(&[2, 1, 0], &got);
        let mut used = [0; 3];
        for (group, &want) in got.iter().enumerate() {
            assert_eq!(matching.of(group).iter().map(|(_, n)| n).sum::<u32>(), want);
            for (supply, nodes) in matching.of(group) {
                used[supply] += nodes;
            }
        }
        assert_eq!(used, [3, 2, 4]);
    }
}
