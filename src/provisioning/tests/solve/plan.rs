//! Plans in words.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, Sym, Universe};
use berth_provisioning::{Claims, NodePlan, Solution};

use crate::mk::MILLI_DOLLAR;

/// A plan, and what it was made from.
pub(crate) struct Plan {
    pub(crate) cluster: Cluster,
    pub(crate) universe: Universe,
    pub(crate) solution: Solution,
}

impl Plan {
    fn text(&self, sym: Sym) -> &str {
        self.cluster.symbols.text(sym)
    }

    pub(crate) fn class_name(&self, class: ClassId) -> String {
        let class = self.universe.class(class).unwrap();
        self.cluster.pending[class.rows[0].index()].members[0].name.to_string()
    }

    fn contents(&self, contents: &[(ClassId, u32)]) -> String {
        let mut names: Vec<String> = contents.iter().map(|(id, n)| format!("{}:{n}", self.class_name(*id))).collect();
        names.sort();
        names.join(" ")
    }

    /// The planned nodes: `2 × large on-demand a: web:3`, alike ones together, sorted.
    pub(crate) fn claims(&self) -> Vec<String> {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for claims in &self.solution.claims {
            let known = &self.cluster.instance_types[claims.instance_type as usize];
            let capacity = match claims.slots.map(|slot| &self.cluster.slots[slot.index()]) {
                Some(slots) if slots.is_reservation => self.text(slots.id).to_owned(),
                _ => claims.capacity_type.name().to_owned(),
            };
            let zone = claims.zone.map_or("", |zone| self.text(zone));
            let line = format!("{} {capacity} {zone}: {}", self.text(known.name), self.contents(&claims.contents));
            *counts.entry(line).or_default() += claims.count;
        }
        counts.into_iter().map(|(line, count)| format!("{count} × {line}")).collect()
    }

    /// The planned nodes by NodePool.
    pub(crate) fn pools(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for claims in &self.solution.claims {
            let pool = &self.cluster.node_pools[claims.node_pool];
            *counts.entry(self.text(pool.name).to_owned()).or_default() += claims.count;
        }
        counts
    }

    /// Pods on planned and existing nodes, by zone.
    pub(crate) fn pods_by_zone(&self) -> BTreeMap<String, u32> {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let pods = |contents: &[(ClassId, u32)]| contents.iter().map(|(_, n)| n).sum::<u32>();
        for claims in &self.solution.claims {
            let zone = claims.zone.map_or("", |zone| self.text(zone)).to_owned();
            *counts.entry(zone).or_default() += pods(&claims.contents) * claims.count;
        }
        for bound in &self.solution.nodes {
            let zone = self.cluster.nodes[bound.node].labels.get(self.cluster.well_known.zone);
            *counts.entry(zone.map_or("", |zone| self.text(zone)).to_owned()).or_default() += pods(&bound.contents);
        }
        counts
    }

    /// What existing nodes get: `n1: web:2`.
    pub(crate) fn bound(&self) -> Vec<String> {
        let line = |plan: &NodePlan| {
            format!("{}: {}", self.text(self.cluster.nodes[plan.node].name), self.contents(&plan.contents))
        };
        self.solution.nodes.iter().map(line).collect()
    }

    /// What is left over: `3 × web`.
    pub(crate) fn left(&self) -> Vec<String> {
        let left = self.solution.unschedulable.iter();
        left.map(|left| format!("{} × {}", left.count, self.class_name(left.class))).collect()
    }

    /// Why the first class that is left over is so: `2 × Insufficient cpu`.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let reasons = self.solution.unschedulable.first().map_or(&[][..], |left| &left.reasons);
        reasons.iter().map(|refusal| format!("{} × {}", refusal.count, refusal.reason)).collect()
    }

    /// What is paid an hour, in milli-dollars.
    pub(crate) fn cost(&self) -> i128 {
        let of = |claims: &Claims| claims.price.times(u64::from(claims.count)).pico();
        self.solution.claims.iter().map(of).sum::<i128>() / MILLI_DOLLAR
    }

    /// The types that each claim lists, of claims in order.
    pub(crate) fn listed(&self) -> Vec<Vec<&str>> {
        let name = |&at: &u32| self.text(self.cluster.instance_types[at as usize].name);
        self.solution.claims.iter().map(|claims| claims.instance_types.iter().map(name).collect()).collect()
    }

    /// What holds for every plan: pods are placed once or left over, types hold them, no supply is overdrawn.
    pub(crate) fn check(&self) {
        let mut placed = vec![0_u32; self.universe.classes.len()];
        let mut used = vec![0_u32; self.cluster.slots.len()];
        for claims in &self.solution.claims {
            for (class, pods) in &claims.contents {
                placed[class.index()] += pods * claims.count;
            }
            if let Some(slot) = claims.slots {
                used[slot.index()] += claims.count;
            }
            let room = &self.cluster.instance_types[claims.instance_type as usize].resources;
            assert!(claims.requests.fits(room), "a planned type holds what is planned on it");
        }
        for bound in &self.solution.nodes {
            bound.contents.iter().for_each(|(class, pods)| placed[class.index()] += pods);
        }
        for left in &self.solution.unschedulable {
            placed[left.class.index()] += left.count;
        }
        for (class, placed) in self.universe.classes.iter().zip(placed) {
            assert_eq!(class.count, placed, "each pod is placed once or left over");
        }
        assert_eq!(used, self.solution.slots_used);
        for (slots, used) in self.cluster.slots.iter().zip(used) {
            assert!(used <= slots.free, "{} is overdrawn", self.text(slots.id));
        }
    }
}
