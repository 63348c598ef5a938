//! Sets of whole nodes, and whether some set of them has room for what is asked.

use berth_model::ResourceId;

/// What a resource weighs, by position: dollars for each unit of it.
pub(super) type Weights = Vec<(ResourceId, f64)>;

/// Nodes that are no dearer than any with as much room of these resources, the dearest first.
#[derive(Debug)]
pub(super) struct Choices {
    pub(super) nodes: Vec<Choice>,
}

#[derive(Debug)]
pub(super) struct Choice {
    pub(super) cost: f64,
    /// By position of the resource.
    pub(super) room: Vec<f64>,
}

/// What choices depend on: which columns count, and by which resources.
pub(super) type Key = (Vec<u32>, Vec<ResourceId>);

#[expect(clippy::cast_precision_loss, reason = "a bound is rounded down by more than that")]
pub(super) fn float(amount: i64) -> f64 {
    amount as f64
}

/// A search for nodes that hold what is left.
pub(super) struct Search<'c> {
    pub(super) choices: &'c [Choice],
    /// Each under which no node is worth more than it costs.
    pub(super) weights: &'c [Vec<f64>],
    pub(super) steps: u32,
}

impl Search<'_> {
    /// Whether nodes of these choices, from one on, that cost less than the budget may have what is left.
    pub(super) fn holds(&mut self, left: &mut Vec<f64>, budget: f64, from: usize) -> bool {
        if left.iter().all(|left| *left <= 0.0) || self.steps == 0 {
            return true;
        }
        self.steps -= 1;
        let worth = |weights: &Vec<f64>| weights.iter().zip(&*left).map(|(a, b)| a * b.max(0.0)).sum::<f64>();
        if self.weights.iter().any(|weights| worth(weights) >= budget) {
            return false;
        }
        for (at, choice) in self.choices.iter().enumerate().skip(from) {
            if choice.cost >= budget {
                continue;
            }
            left.iter_mut().zip(&choice.room).for_each(|(left, room)| *left -= room);
            let holds = self.holds(left, budget - choice.cost, at);
            left.iter_mut().zip(&choice.room).for_each(|(left, room)| *left += room);
            if holds {
                return true;
            }
        }
        false
    }
}
