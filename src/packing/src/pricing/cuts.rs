//! Inequalities that every whole pattern keeps and fractional ones break: mixed-integer rounding of one resource, in
//! steps of a part of some item's size (Nemhauser and Wolsey, 1990), or of several resources taken together.

use crate::numbers::float;
use crate::tuning::exact::{AGGREGATE_ROOM, BROKEN, PARTS, SHARES};

/// A row over columns, and how much of it there is; whole numbers.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) sizes: Vec<i64>,
    pub(crate) room: i64,
}

/// A row that holds one: by column.
pub(crate) type Row = Vec<f64>;

/// The cuts that `uses` breaks most, at most `n` of them, the most broken first.
pub(crate) fn broken_by(uses: &[f64], resources: &[Resource], n: usize) -> Vec<Row> {
    let mut found: Vec<(f64, usize, (i64, i64))> = Vec::new();
    let support: Vec<usize> =
        uses.iter().enumerate().filter(|(_, uses)| **uses > 1e-9).map(|(column, _)| column).collect();
    for (at, resource) in resources.iter().enumerate() {
        let mut steps: Vec<(i64, i64)> = Vec::new();
        for &column in &support {
            let size = resource.sizes.get(column).copied().unwrap_or(0);
            if size > 0 {
                steps.extend((1..=PARTS).map(|part| (size, part)));
            }
        }
        steps.extend((2..=SHARES).map(|share| (resource.room / share + 1, 1)));
        steps.sort_unstable();
        steps.dedup();
        for step in steps {
            let Some(rounding) = Rounding::new(resource.room, step) else { continue };
            let sum: f64 = support
                .iter()
                .map(|&column| {
                    rounding.of(resource.sizes.get(column).copied().unwrap_or(0))
                        * uses.get(column).copied().unwrap_or(0.0)
                })
                .sum();
            if sum > 1.0 + BROKEN {
                found.push((sum, at, step));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    // Cuts that are broken by as much are mostly the same one.
    found.dedup_by(|a, b| a.1 == b.1 && (a.0 - b.0).abs() < 1e-9);
    let cut = |&(_, at, step): &(f64, usize, (i64, i64))| {
        let resource = resources.get(at)?;
        let rounding = Rounding::new(resource.room, step)?;
        Some(resource.sizes.iter().map(|&size| rounding.of(size)).collect())
    };
    found.iter().take(n).filter_map(cut).collect()
}

/// Several resources as one, each weighted by a dual price for a share of its room.
pub(crate) fn aggregate(prices: &[f64], resources: &[Resource]) -> Option<Resource> {
    let total: f64 = prices.iter().zip(resources).map(|(price, _)| price.max(0.0)).sum();
    let first = resources.first()?;
    if total <= 0.0 {
        return None;
    }
    let mut sizes = vec![0.0; first.sizes.len()];
    for (price, resource) in prices.iter().zip(resources).filter(|(price, resource)| **price > 0.0 && resource.room > 0)
    {
        let by = price / total * AGGREGATE_ROOM / float(resource.room);
        for (sum, size) in sizes.iter_mut().zip(&resource.sizes) {
            *sum += by * float(*size);
        }
    }
    // Rounded down, with some room more for what floats lose.
    let sizes = sizes.into_iter().map(|size| floor(size * (1.0 - 1e-12)));
    Some(Resource { sizes: sizes.collect(), room: floor(AGGREGATE_ROOM) })
}

/// The function that rounds amounts to steps.
struct Rounding {
    step: i128,
    parts: i128,
    /// What is left of the room beyond whole steps, and whole steps.
    rest: i128,
    steps: f64,
}

impl Rounding {
    fn new(room: i64, (size, parts): (i64, i64)) -> Option<Rounding> {
        let (step, parts) = (i128::from(size), i128::from(parts));
        let all = i128::from(room) * parts;
        let steps = all / step;
        (steps > 0).then(|| Rounding { step, parts, rest: all % step, steps: ratio(steps, 1) })
    }

    // The share of the cut's room that an amount takes.
    fn of(&self, amount: i64) -> f64 {
        let all = i128::from(amount) * self.parts;
        let rest = all % self.step;
        let over = if rest > self.rest { ratio(rest - self.rest, self.step - self.rest) } else { 0.0 };
        (ratio(all / self.step, 1) + over) / self.steps
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share; bounds carry a margin")]
fn ratio(number: i128, by: i128) -> f64 {
    number as f64 / by as f64
}

#[expect(clippy::cast_possible_truncation, reason = "at most a billion")]
fn floor(number: f64) -> i64 {
    number.floor() as i64
}
