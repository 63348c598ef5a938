//! Normal equations by Cholesky's factors, dense, a block of rows at a time. Sums are always in the same order, so that
//! every machine has the same answer.

use crate::master::program::Program;
use crate::tuning::interior::{BLOCK, PANEL};

/// The normal equations, factored: the lower triangle by rows. What comes first in few columns together, as stocks do,
/// costs little.
pub(crate) struct Normal {
    m: usize,
    lower: Vec<f64>,
    /// By row: where what is not certainly 0 begins.
    first: Vec<usize>,
}

impl Normal {
    pub(crate) fn new(program: &Program) -> Self {
        let m = program.rhs.len();
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
    pub(crate) fn factor(&mut self, program: &Program, weights: &[f64]) {
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
        let mut packed: Vec<[f64; BLOCK]> = Vec::new();
        for row in (0..m).step_by(PANEL) {
            let (above, below) = self.lower.split_at_mut(row * m);
            let rows = PANEL.min(m - row);
            let panel = &mut below[..rows * m];
            let start = self.first[row..row + rows].iter().copied().min().unwrap_or(row);
            // Of rows above, some at a time, for all rows of the panel.
            for (others, column) in above.chunks(BLOCK * m).zip((0..).step_by(BLOCK)) {
                let n = others.len() / m;
                if column + n <= start {
                    continue;
                }
                let from = start.max(self.first[column..column + n].iter().copied().min().unwrap_or(0)).min(column);
                packed.clear();
                packed.extend((from..column).map(|at| others_at(others, m, at)));
                for here in panel.chunks_mut(BLOCK * m) {
                    let sums = products(here, m, from, &packed);
                    for (here, sums) in here.chunks_exact_mut(m).zip(sums) {
                        for (of, other) in others.chunks_exact(m).enumerate() {
                            let near = dot(&here[column..column + of], &other[column..column + of]);
                            here[column + of] = (here[column + of] - sums[of] - near) / other[column + of];
                        }
                    }
                }
            }
            for at in 0..rows {
                let (done, here) = panel.split_at_mut(at * m);
                let column = row + at;
                for (other, column) in done.chunks_exact(m).zip(row..) {
                    here[column] = (here[column] - dot(&here[start..column], &other[start..column])) / other[column];
                }
                let rest = here[column] - dot(&here[start..column], &here[start..column]);
                // A row that the others make up gets no price of its own.
                here[column] = if rest > largest * 1e-24 { rest.sqrt() } else { 1e64 };
            }
        }
    }

    pub(crate) fn solve(&self, rhs: &mut [f64]) {
        let m = self.m;
        for row in 0..m {
            let here = &self.lower[row * m..][..=row];
            let from = self.first[row];
            rhs[row] = (rhs[row] - dot(&here[from..row], &rhs[from..row])) / here[row];
        }
        for row in (0..m).rev() {
            let here = &self.lower[row * m..][..=row];
            rhs[row] /= here[row];
            let by = rhs[row];
            let from = self.first[row];
            add(&mut rhs[from..row], -by, &here[from..row]);
        }
    }
}

// A column of some rows.
fn others_at(others: &[f64], m: usize, column: usize) -> [f64; BLOCK] {
    let mut out = [0.0; BLOCK];
    for (out, other) in out.iter_mut().zip(others.chunks_exact(m)) {
        *out = other[column];
    }
    out
}

// The products of the rows of a block, from a column on, with parts of others.
fn products(here: &[f64], m: usize, from: usize, others: &[[f64; BLOCK]]) -> [[f64; BLOCK]; BLOCK] {
    let part = |at: usize| here.get(at * m + from..at * m + from + others.len()).unwrap_or_default();
    let parts = [part(0), part(1), part(2), part(3)];
    let mut sums = [[0.0; BLOCK]; BLOCK];
    if parts[3].len() < others.len() {
        for (at, sums) in sums.iter_mut().enumerate() {
            for (by, other) in parts[at].iter().zip(others) {
                add_scaled(sums, *by, other);
            }
        }
        return sums;
    }
    // Each by its name, which is what makes the compiler sum in lanes.
    let [mut first, mut second, mut third, mut fourth] = sums;
    let rows = parts[0].iter().zip(parts[1]).zip(parts[2].iter().zip(parts[3]));
    for (other, ((by_first, by_second), (by_third, by_fourth))) in others.iter().zip(rows) {
        add_scaled(&mut first, *by_first, other);
        add_scaled(&mut second, *by_second, other);
        add_scaled(&mut third, *by_third, other);
        add_scaled(&mut fourth, *by_fourth, other);
    }
    [first, second, third, fourth]
}

#[inline]
fn add_scaled(sums: &mut [f64; BLOCK], by: f64, others: &[f64; BLOCK]) {
    *sums = [sums[0] + by * others[0], sums[1] + by * others[1], sums[2] + by * others[2], sums[3] + by * others[3]];
}

pub(crate) fn add(numbers: &mut [f64], by: f64, others: &[f64]) {
    numbers.iter_mut().zip(others).for_each(|(number, other)| *number += by * other);
}

// In lanes, always in the same order.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
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
