//! The columns worth a look when a new node is opened, and a quick search among them.

use berth_model::{ColumnId, ColumnTable, Resources};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Columns looked at together.
const BLOCK: usize = 32;

/// Of a set of columns, cheapest first, those that no cheaper one matches in room: the best by cost is among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frontier {
    pub(crate) columns: Vec<ColumnId>,
    prices: Vec<f64>,
    /// By resource, each column's room.
    rooms: Vec<Vec<f64>>,
}

impl Frontier {
    /// `keeps_all` leaves dominated columns in, where limits or minValues may rule out what dominates them; `keeps_places`
    /// also a type's dearer zones and capacity types, where shares may rule out the cheapest.
    pub(crate) fn new(table: &ColumnTable, columns: &FixedBitSet, keeps_all: bool, keeps_places: bool) -> Self {
        let mut kept: Vec<ColumnId> = Vec::new();
        let mut seen: FxHashSet<(u32, &Resources)> = FxHashSet::default();
        for at in ColumnId::of(columns) {
            let column = table.column(at);
            // A finite supply may run out, so it stands in for nothing else.
            let is_finite = column.slots.is_some();
            if !is_finite && !keeps_places && !seen.insert((column.instance_type, &column.room)) {
                continue;
            }
            let is_dominated = !keeps_all
                && kept
                    .iter()
                    .map(|&known| table.column(known))
                    .any(|known| known.slots.is_none() && column.room.fits(&known.room));
            if !is_dominated {
                kept.push(at);
            }
        }
        let of = |at: &ColumnId| table.column(*at);
        let n_resources = kept.iter().map(of).map(|column| column.room.amounts().len()).max().unwrap_or(0);
        let room = |resource: usize| {
            let amounts = kept.iter().map(of);
            amounts.map(|column| float(column.room.amounts().get(resource).copied().unwrap_or(0))).collect()
        };
        Frontier {
            prices: kept.iter().map(of).map(|column| column.price.dollars()).collect(),
            rooms: (0..n_resources).map(room).collect(),
            columns: kept,
        }
    }

    /// The columns that may be the best for pods of these requests, at most `at_most` of them on a node: all whose
    /// cost a pod, with fractional pods, is no more than the least with whole ones. Fractions only rule out; whoever
    /// asks compares the rest exactly.
    pub(crate) fn candidates(
        &self,
        requests: &Resources,
        at_most: u32,
        node_cost: f64,
        pods: &mut Vec<f64>,
        out: &mut Vec<ColumnId>,
    ) {
        pods.clear();
        pods.resize(self.columns.len(), f64::from(at_most));
        let needs: SmallVec<[(&[f64], f64); 4]> = {
            let mut needs = SmallVec::new();
            for (resource, need) in requests.iter().filter(|(_, need)| *need > 0) {
                let Some(rooms) = self.rooms.get(resource.index()) else { return };
                needs.push((&rooms[..], 1.0 / float(need)));
            }
            needs
        };
        // No node holds more than `at_most`, so what costs more than that many times the least is out of the question,
        // and so is all after it.
        let (mut least, mut end) = (f64::INFINITY, self.columns.len());
        let mut start = 0;
        while start < end {
            let block = start..(start + BLOCK).min(self.columns.len());
            let (Some(pods), Some(prices)) = (pods.get_mut(block.clone()), self.prices.get(block.clone())) else {
                break;
            };
            for (rooms, inverse) in &needs {
                for (pods, room) in pods.iter_mut().zip(rooms.get(block.clone()).unwrap_or_default()) {
                    *pods = pods.min(room * inverse);
                }
            }
            for (pods, price) in pods.iter().zip(prices) {
                // Rounded down with care: one pod less if the quotient is a hair under a whole number.
                let whole = floor(pods - 1e-6).max(if *pods >= 1.0 { 1.0 } else { 0.0 });
                if whole > 0.0 {
                    least = least.min((price + node_cost) / whole);
                }
            }
            start = block.end;
            if least.is_finite() {
                let most = least * f64::from(at_most) * (1.0 + 2e-6) - node_cost;
                end = start + self.prices.get(start..).map_or(0, |rest| rest.partition_point(|price| *price <= most));
            }
        }
        let bound = least * (1.0 + 1e-9);
        for ((at, pods), price) in self.columns.iter().zip(&*pods).zip(&self.prices).take(end) {
            if pods + 1e-6 >= 1.0 && (price + node_cost) <= bound * (pods + 1e-6) {
                out.push(*at);
            }
        }
    }
}

// Of what is neither negative by more than one nor huge; the library's is a call on plain x86-64.
fn floor(value: f64) -> f64 {
    const SHIFT: f64 = 4_503_599_627_370_496.0;
    let rounded = (value + SHIFT) - SHIFT;
    if rounded > value { rounded - 1.0 } else { rounded }
}

#[expect(clippy::cast_precision_loss, reason = "a filter with a margin; the comparison that decides is exact")]
fn float(amount: i64) -> f64 {
    amount as f64
}
