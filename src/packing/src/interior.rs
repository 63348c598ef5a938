//! A linear program with few rows and many short columns, by a primal-dual interior point method.
//!
//! Mehrotra's predictor and corrector over the normal equations, which are as small as the rows are few: a dense
//! factorisation of them takes a fraction of what a general solver spends on ordering and on sparse bookkeeping. Stopped
//! early it leaves prices in the middle of those that are nearly as good.

/// `minimise costs · x` where `rows · x = sides`, `x >= 0`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) costs: Vec<f64>,
    pub(crate) sides: Vec<f64>,
    /// Where each column's entries begin; one more than there are columns.
    starts: Vec<usize>,
    /// Rows, ascending within a column, and amounts.
    entries: Vec<(u32, f64)>,
}

/// An answer: amounts by column, prices by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) amounts: Vec<f64>,
    pub(crate) prices: Vec<f64>,
}

const ITERATIONS: usize = 100;

/// How far a step goes of the way to where something becomes negative.
const STEP: f64 = 0.995;

impl Program {
    pub(crate) fn new(sides: Vec<f64>) -> Self {
        Program { costs: Vec::new(), sides, starts: vec![0], entries: Vec::new() }
    }

    /// Adds a column; its entries ascend by row.
    pub(crate) fn push(&mut self, cost: f64, entries: impl IntoIterator<Item = (u32, f64)>) {
        self.costs.push(cost);
        self.entries.extend(entries);
        self.starts.push(self.entries.len());
    }

    fn column(&self, at: usize) -> &[(u32, f64)] {
        let from = self.starts.get(at).copied().unwrap_or(0);
        let to = self.starts.get(at + 1).copied().unwrap_or(from);
        self.entries.get(from..to).unwrap_or_default()
    }

    // rows · x
    fn times(&self, amounts: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (at, amount) in amounts.iter().enumerate() {
            for &(row, entry) in self.column(at) {
                if let Some(out) = out.get_mut(row as usize) {
                    *out += entry * amount;
                }
            }
        }
    }

    // What the rows of a column add up to at these prices.
    fn priced(&self, at: usize, prices: &[f64]) -> f64 {
        self.column(at).iter().map(|&(row, entry)| entry * prices.get(row as usize).copied().unwrap_or(0.0)).sum()
    }

    #[expect(clippy::many_single_char_names, reason = "the field's own: amounts x, prices y, reduced costs z")]
    /// Solves it to a relative `tolerance`; `None` where that is not reached.
    pub(crate) fn solve(&self, tolerance: f64) -> Option<Answer> {
        let (n, m) = (self.costs.len(), self.sides.len());
        if n == 0 || m == 0 {
            return None;
        }
        let mut normal = Normal::new(self);
        let (mut x, mut y, mut z) = self.start(&mut normal)?;
        let scale_of = |numbers: &[f64]| 1.0 + numbers.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
        let (side_scale, cost_scale) = (scale_of(&self.sides), scale_of(&self.costs));
        let mut primal = vec![0.0; m];
        let mut dual = vec![0.0; n];
        let mut weights = vec![0.0; n];
        let mut complement = vec![0.0; n];
        let mut step = Step::new(n, m);
        let mut foreseen = Step::new(n, m);
        for _ in 0..ITERATIONS {
            self.times(&x, &mut primal);
            primal.iter_mut().zip(&self.sides).for_each(|(have, side)| *have = side - *have);
            for at in 0..n {
                dual[at] = self.costs[at] - self.priced(at, &y) - z[at];
            }
            let cost = dot(&self.costs, &x);
            let earned = dot(&self.sides, &y);
            let gap = (cost - earned).abs() / (1.0 + earned.abs());
            let most = |numbers: &[f64]| numbers.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
            let feasible = tolerance.clamp(1e-9, 1e-3);
            if gap <= tolerance && most(&primal) <= feasible * side_scale && most(&dual) <= feasible * cost_scale {
                return Some(Answer { amounts: x, prices: y });
            }
            let mu = dot(&x, &z) / float(n);
            if !mu.is_finite() || !gap.is_finite() {
                return None;
            }
            for at in 0..n {
                weights[at] = x[at] / z[at];
            }
            normal.factor(self, &weights);
            // As if nothing curved; then with a correction for what did.
            for at in 0..n {
                complement[at] = -x[at] * z[at];
            }
            self.direction(&normal, &primal, &dual, &complement, (&x, &z, &weights), &mut foreseen);
            let (ahead, dual_ahead) = (reach(&x, &foreseen.x), reach(&z, &foreseen.z));
            let after: f64 =
                (0..n).map(|at| (x[at] + ahead * foreseen.x[at]) * (z[at] + dual_ahead * foreseen.z[at])).sum::<f64>()
                    / float(n);
            let centring = (after / mu).powi(3).clamp(0.0, 1.0);
            for at in 0..n {
                complement[at] = centring * mu - x[at] * z[at] - foreseen.x[at] * foreseen.z[at];
            }
            self.direction(&normal, &primal, &dual, &complement, (&x, &z, &weights), &mut step);
            let (forward, dual_forward) = ((STEP * reach(&x, &step.x)).min(1.0), (STEP * reach(&z, &step.z)).min(1.0));
            add(&mut x, forward, &step.x);
            add(&mut y, dual_forward, &step.y);
            add(&mut z, dual_forward, &step.z);
        }
        None
    }

    // Mehrotra's starting point: least squares, moved inside.
    #[expect(clippy::many_single_char_names, reason = "the field's own: amounts x, prices y, reduced costs z")]
    fn start(&self, normal: &mut Normal) -> Option<(Vec<f64>, Vec<f64>, Vec<f64>)> {
        let (n, m) = (self.costs.len(), self.sides.len());
        normal.factor(self, &vec![1.0; n]);
        let mut prices = self.sides.clone();
        normal.solve(&mut prices);
        let mut x: Vec<f64> = (0..n).map(|at| self.priced(at, &prices)).collect();
        let mut y = vec![0.0; m];
        self.times(&self.costs, &mut y);
        normal.solve(&mut y);
        let mut z: Vec<f64> = (0..n).map(|at| self.costs[at] - self.priced(at, &y)).collect();
        let inside = |numbers: &mut [f64]| {
            let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let by = (-1.5 * least).max(0.0);
            for number in numbers.iter_mut() {
                *number += by;
            }
        };
        inside(&mut x);
        inside(&mut z);
        let (product, sum_x, sum_z) = (dot(&x, &z), x.iter().sum::<f64>(), z.iter().sum::<f64>());
        let (by_x, by_z) = ((0.5 * product / sum_z).max(1e-3), (0.5 * product / sum_x).max(1e-3));
        for number in &mut x {
            *number += by_x;
        }
        for number in &mut z {
            *number += by_z;
        }
        x.iter().chain(&y).chain(&z).all(|number| number.is_finite()).then_some((x, y, z))
    }

    fn direction(
        &self,
        normal: &Normal,
        primal: &[f64],
        dual: &[f64],
        complement: &[f64],
        (x, z, weights): (&[f64], &[f64], &[f64]),
        out: &mut Step,
    ) {
        // M D Mᵀ dy = primal + M (D dual - complement / z)
        for at in 0..x.len() {
            out.x[at] = weights[at] * dual[at] - complement[at] / z[at];
        }
        self.times(&out.x, &mut out.y);
        add(&mut out.y, 1.0, primal);
        normal.solve(&mut out.y);
        for at in 0..x.len() {
            out.z[at] = dual[at] - self.priced(at, &out.y);
            out.x[at] = (complement[at] - x[at] * out.z[at]) / z[at];
        }
    }
}

struct Step {
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

impl Step {
    fn new(n: usize, m: usize) -> Self {
        Step { x: vec![0.0; n], y: vec![0.0; m], z: vec![0.0; n] }
    }
}

/// The normal equations, factored: the lower triangle by rows. What comes first in few columns together, as stocks do,
/// costs little.
struct Normal {
    m: usize,
    lower: Vec<f64>,
    /// By row: where what is not certainly 0 begins.
    first: Vec<usize>,
}

impl Normal {
    fn new(program: &Program) -> Self {
        let m = program.sides.len();
        let mut first: Vec<usize> = (0..m).collect();
        for at in 0..program.costs.len() {
            let column = program.column(at);
            let Some(&(lowest, _)) = column.first() else { continue };
            for &(row, _) in column {
                first[row as usize] = first[row as usize].min(lowest as usize);
            }
        }
        Normal { m, lower: vec![0.0; m * m], first }
    }

    // Cholesky's factor of rows · weights · rowsᵀ.
    fn factor(&mut self, program: &Program, weights: &[f64]) {
        let m = self.m;
        self.lower.fill(0.0);
        for (at, weight) in weights.iter().enumerate() {
            let column = program.column(at);
            for (of, &(row, entry)) in column.iter().enumerate() {
                let by = weight * entry;
                let Some(into) = self.lower.get_mut(row as usize * m..) else { continue };
                for &(other, entry) in &column[..=of] {
                    into[other as usize] += by * entry;
                }
            }
        }
        let largest = (0..m).map(|at| self.lower[at * m + at]).fold(0.0, f64::max);
        let mut row = 0;
        while row < m {
            let (above, below) = self.lower.split_at_mut(row * m);
            let rows = BLOCK.min(m - row);
            let block = &mut below[..rows * m];
            let starts = &self.first[row..row + rows];
            let start = starts.iter().copied().min().unwrap_or(row);
            // Rows together, so that each of those above is read once for all of them.
            for (column, other) in above.chunks_exact(m).enumerate().skip(start) {
                let from = start.max(self.first[column]);
                if rows == BLOCK {
                    let sums = dots(block, m, from, &other[from..column]);
                    for (at, sum) in sums.into_iter().enumerate() {
                        let entry = &mut block[at * m + column];
                        *entry = (*entry - sum) / other[column];
                    }
                } else {
                    for here in block.chunks_exact_mut(m) {
                        here[column] = (here[column] - dot(&here[from..column], &other[from..column])) / other[column];
                    }
                }
            }
            for at in 0..rows {
                let (done, here) = block.split_at_mut(at * m);
                for (other, column) in done.chunks_exact(m).zip(row..) {
                    here[column] = (here[column] - dot(&here[start..column], &other[start..column])) / other[column];
                }
                let column = row + at;
                let rest = here[column] - dot(&here[start..column], &here[start..column]);
                // A row that the others make up gets no price of its own.
                here[column] = if rest > largest * 1e-24 { rest.sqrt() } else { 1e64 };
            }
            row += rows;
        }
    }

    fn solve(&self, side: &mut [f64]) {
        let m = self.m;
        for row in 0..m {
            let here = &self.lower[row * m..][..=row];
            let from = self.first[row];
            side[row] = (side[row] - dot(&here[from..row], &side[from..row])) / here[row];
        }
        for row in (0..m).rev() {
            let here = &self.lower[row * m..][..=row];
            side[row] /= here[row];
            let by = side[row];
            let from = self.first[row];
            add(&mut side[from..row], -by, &here[from..row]);
        }
    }
}

// How far one can go before something is negative.
fn reach(numbers: &[f64], step: &[f64]) -> f64 {
    let ways = numbers.iter().zip(step).filter(|(_, by)| **by < 0.0).map(|(number, by)| -number / by);
    ways.fold(1.0 / STEP, f64::min)
}

fn add(numbers: &mut [f64], by: f64, others: &[f64]) {
    numbers.iter_mut().zip(others).for_each(|(number, other)| *number += by * other);
}

/// Rows that are factored together.
const BLOCK: usize = 4;

// The products of the rows of a block, from a column on, with part of another row.
fn dots(block: &[f64], m: usize, from: usize, other: &[f64]) -> [f64; BLOCK] {
    let n = other.len();
    let row = |at: usize| &block[at * m + from..at * m + from + n];
    let rows = [row(0), row(1), row(2), row(3)];
    let mut lanes = [[0.0; 4]; BLOCK];
    let whole = n - n % 4;
    let mut at = 0;
    while at < whole {
        let others = &other[at..at + 4];
        for (lanes, row) in lanes.iter_mut().zip(&rows) {
            let here = &row[at..at + 4];
            for lane in 0..4 {
                lanes[lane] += here[lane] * others[lane];
            }
        }
        at += 4;
    }
    let mut sums = [0.0; BLOCK];
    for ((sum, lanes), row) in sums.iter_mut().zip(&lanes).zip(&rows) {
        *sum = lanes.iter().sum::<f64>() + row[whole..].iter().zip(&other[whole..]).map(|(a, b)| a * b).sum::<f64>();
    }
    sums
}

// In lanes, always in the same order.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a_whole, b_whole) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_whole.remainder().iter().zip(b_whole.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_whole.zip(b_whole) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[expect(clippy::cast_precision_loss, reason = "a count of columns")]
fn float(n: usize) -> f64 {
    n as f64
}
