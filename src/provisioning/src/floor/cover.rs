//! Whether whole nodes that cost less than a price have room, in sum, for what pods ask for. A bound by weights counts parts of
//! nodes; where a node is nearly full, it is whole ones that make the difference.

use std::rc::Rc;

use berth_model::{ClassId, Money, ResourceId};
use fixedbitset::FixedBitSet;

use super::Floor;
use super::choices::{Choice, Choices, Search, Weights, float};

/// Sets of nodes that are looked at for one price; with more of them it is left open.
const STEPS: u32 = 4_000;

/// Of a price: so little less is no saving of note.
const NOTE: f64 = 1e-5;

impl Floor<'_> {
    /// Whether new nodes that cost less than this may have as much as these pods ask for, a hundred-thousandth less being no
    /// less. False is certain; true also where that takes too long to tell.
    pub fn may_cost_less(&mut self, pods: &[(ClassId, u32)], below: Money) -> bool {
        let Some(asked) = self.asked(pods) else { return false };
        let amounts = || asked.sum.iter().filter(|(_, amount)| *amount > 0);
        let resources: Vec<ResourceId> = amounts().map(|(resource, _)| resource).collect();
        let mut left: Vec<f64> = amounts().map(|(_, amount)| float(amount)).collect();
        let choices = self.choices(&asked.groups, &resources);
        if choices.nodes.last().is_some_and(|cheapest| cheapest.cost <= 0.0) {
            return true;
        }
        let by_position = |weights: &Weights| -> Vec<f64> {
            let of = |resource: &ResourceId| weights.iter().find(|(known, _)| known == resource);
            resources.iter().map(|resource| of(resource).map_or(0.0, |(_, weight)| *weight)).collect()
        };
        let weights: Vec<Vec<f64>> = self.weights_of(&asked.groups).iter().map(by_position).collect();
        let mut search = Search { choices: &choices.nodes, weights: &weights, steps: STEPS };
        search.holds(&mut left, below.dollars() * (1.0 - NOTE), 0)
    }

    fn choices(&mut self, groups: &[u32], resources: &[ResourceId]) -> Rc<Choices> {
        let key = (groups.to_vec(), resources.to_vec());
        if let Some(known) = self.choices.get(&key) {
            return Rc::clone(known);
        }
        let mut all: Vec<Choice> = Vec::new();
        for (pool, table) in self.tables.iter().enumerate() {
            let mut any = FixedBitSet::with_capacity(table.columns.len());
            for &group in groups {
                if let Some(admitted) = self.groups.get(group as usize).and_then(|by_pool| by_pool.get(pool)) {
                    any.union_with(admitted);
                }
            }
            all.extend(any.ones().filter_map(|at| table.columns.get(at)).map(|column| Choice {
                cost: self.price(column).dollars(),
                room: resources.iter().map(|resource| float(column.room.get(*resource).max(0))).collect(),
            }));
        }
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut nodes: Vec<Choice> = Vec::new();
        for choice in all {
            let has_as_much = |known: &Choice| known.room.iter().zip(&choice.room).all(|(a, b)| a >= b);
            if !nodes.iter().any(has_as_much) {
                nodes.push(choice);
            }
        }
        nodes.reverse();
        let choices = Rc::new(Choices { nodes });
        self.choices.insert(key, Rc::clone(&choices));
        choices
    }
}
