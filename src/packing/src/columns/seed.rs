//! Columns to begin with.

use super::Generator;
use crate::problem::{Item, Pattern, Problem};
use crate::tuning::generation::SEEDS_PER_ITEM;

impl Generator<'_> {
    // Adds for each item the cheapest ways to pack it alone: without stocks, and where there are none, with them.
    pub(super) fn seed(&mut self) {
        let problem = self.problem;
        for (item, index) in problem.items.iter().zip(0_u32..) {
            let mut ways: Vec<(bool, f64, u32, u32)> = Vec::new();
            for (bin, at) in problem.bins.iter().zip(0_u32..) {
                if !bin.admits.contains(index as usize) {
                    continue;
                }
                let n = alone(problem, index, item, at);
                if n > 0 {
                    ways.push((!bin.draws.is_empty(), (bin.cost + bin.bias) / f64::from(n), at, n));
                }
            }
            if ways.iter().any(|(draws, ..)| !draws) {
                ways.retain(|(draws, ..)| !draws);
            }
            ways.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2)));
            for &(_, _, bin, n) in ways.iter().take(SEEDS_PER_ITEM) {
                self.add(Pattern { bin, items: vec![(index, n)] });
            }
        }
    }
}

// How many of an item a bin holds with nothing else.
fn alone(problem: &Problem, index: u32, item: &Item, bin: u32) -> u32 {
    let mut n = item.count.min(item.at_most);
    let Some(bin) = problem.bins.get(bin as usize) else { return 0 };
    for (size, room) in item.size.iter().zip(&bin.room).filter(|(size, _)| **size > 0) {
        n = n.min(u32::try_from(room / size).unwrap_or(if *room < 0 { 0 } else { u32::MAX }));
    }
    for rule in &problem.rules {
        if rule.subjects.binary_search(&index).is_ok() && rule.counted.binary_search(&index).is_ok() {
            n = n.min(rule.at_most);
        }
    }
    n
}
