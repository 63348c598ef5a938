//! A linear program with few rows and many short columns, by a primal-dual interior point method.
//!
//! Mehrotra's predictor and corrector over the normal equations, which are as small as the rows are few: a dense
//! factorisation of them takes a fraction of what a general solver spends on ordering and on sparse bookkeeping. Stopped
//! early it leaves prices in the middle of those that are nearly as good. A program that is another's with a few columns
//! more begins where that one was still well inside, which saves most of the way.

use crate::master::normal::{Normal, add, dot};
use crate::master::program::Program;
use crate::tuning::interior::{
    CENTRALITY, CORRECTIONS, FARTHER, ITERATIONS, NEW_AMOUNT, STEP, WARM_GAP, WARM_ITERATIONS, WORTHWHILE,
};

/// An answer: amounts by column, prices by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) amounts: Vec<f64>,
    pub(crate) prices: Vec<f64>,
    /// Where to begin when the program has changed a little.
    pub(crate) near: Near,
}

/// A point well inside, not far from the best.
#[derive(Clone, Debug, Default)]
pub(crate) struct Near {
    /// By column, 0 where nothing is known.
    pub(crate) amounts: Vec<f64>,
    /// By row.
    pub(crate) prices: Vec<f64>,
    /// What an amount times its reduced cost is about.
    pub(crate) product: f64,
}

/// Amounts, prices, and reduced costs.
type Point = (Vec<f64>, Vec<f64>, Vec<f64>);

impl Program {
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

    /// Solves it to a relative `tolerance`, if possible from a point that is near; `None` where that is not reached.
    pub(crate) fn solve(&self, tolerance: f64, near: Option<&Near>) -> Option<Answer> {
        let (n, m) = (self.costs.len(), self.rhs.len());
        if n == 0 || m == 0 {
            return None;
        }
        let mut normal = Normal::new(self);
        let from_near = near
            .map(|near| self.inside(near))
            .and_then(|start| self.solve_from(start, &mut normal, tolerance, WARM_ITERATIONS));
        from_near.or_else(|| {
            let start = self.start(&mut normal)?;
            self.solve_from(start, &mut normal, tolerance, ITERATIONS)
        })
    }

    #[expect(clippy::many_single_char_names, reason = "the field's own: amounts x, prices y, reduced costs z")]
    fn solve_from(
        &self,
        (mut x, mut y, mut z): Point,
        normal: &mut Normal,
        tolerance: f64,
        iterations: usize,
    ) -> Option<Answer> {
        let (n, m) = (self.costs.len(), self.rhs.len());
        let mut near: Option<Near> = None;
        let scale_of = |numbers: &[f64]| 1.0 + numbers.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
        let (rhs_scale, cost_scale) = (scale_of(&self.rhs), scale_of(&self.costs));
        let mut primal = vec![0.0; m];
        let mut dual = vec![0.0; n];
        let mut weights = vec![0.0; n];
        let mut complement = vec![0.0; n];
        let mut step = Step::new(n, m);
        let mut foreseen = Step::new(n, m);
        for _ in 0..iterations {
            self.times(&x, &mut primal);
            primal.iter_mut().zip(&self.rhs).for_each(|(have, rhs)| *have = rhs - *have);
            for at in 0..n {
                dual[at] = self.costs[at] - self.priced(at, &y) - z[at];
            }
            let cost = dot(&self.costs, &x);
            let earned = dot(&self.rhs, &y);
            let gap = (cost - earned).abs() / (1.0 + earned.abs());
            let most = |numbers: &[f64]| numbers.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
            let feasible = tolerance.clamp(1e-9, 1e-3);
            let mu = dot(&x, &z) / float(n);
            let is_feasible = most(&primal) <= feasible * rhs_scale && most(&dual) <= feasible * cost_scale;
            if near.is_none() || gap >= WARM_GAP {
                near = Some(Near { amounts: x.clone(), prices: y.clone(), product: mu });
            }
            if gap <= tolerance && is_feasible {
                return Some(Answer { amounts: x, prices: y, near: near.unwrap_or_default() });
            }
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
            self.direction(normal, &primal, &dual, &complement, (&x, &z, &weights), &mut foreseen);
            let (ahead, dual_ahead) = (reach(&x, &foreseen.x), reach(&z, &foreseen.z));
            let after: f64 =
                (0..n).map(|at| (x[at] + ahead * foreseen.x[at]) * (z[at] + dual_ahead * foreseen.z[at])).sum::<f64>()
                    / float(n);
            let centring = (after / mu).powi(3).clamp(0.0, 1.0);
            for at in 0..n {
                complement[at] = centring * mu - x[at] * z[at] - foreseen.x[at] * foreseen.z[at];
            }
            self.direction(normal, &primal, &dual, &complement, (&x, &z, &weights), &mut step);
            let (mut forward, mut dual_forward) = (reach(&x, &step.x), reach(&z, &step.z));
            // Solving again is cheap beside factoring: whatever is far from the centre is brought nearer, as long as that
            // lets a step go farther.
            for _ in 0..CORRECTIONS {
                let (ahead, dual_ahead) = ((forward + FARTHER).min(1.0), (dual_forward + FARTHER).min(1.0));
                let goal = centring * mu;
                for at in 0..n {
                    let product = (x[at] + ahead * step.x[at]) * (z[at] + dual_ahead * step.z[at]);
                    let near = product.clamp(goal * CENTRALITY, goal / CENTRALITY);
                    complement[at] += (near - product).max(-goal / CENTRALITY);
                }
                self.direction(normal, &primal, &dual, &complement, (&x, &z, &weights), &mut foreseen);
                let (next, dual_next) = (reach(&x, &foreseen.x), reach(&z, &foreseen.z));
                if next < forward + FARTHER * WORTHWHILE || dual_next < dual_forward + FARTHER * WORTHWHILE {
                    break;
                }
                std::mem::swap(&mut step, &mut foreseen);
                (forward, dual_forward) = (next, dual_next);
            }
            let (forward, dual_forward) = ((STEP * forward).min(1.0), (STEP * dual_forward).min(1.0));
            add(&mut x, forward, &step.x);
            add(&mut y, dual_forward, &step.y);
            add(&mut z, dual_forward, &step.z);
        }
        None
    }

    // A point that is inside and has the prices of one that was near.
    fn inside(&self, near: &Near) -> Point {
        let mut x = near.amounts.clone();
        let y = near.prices.clone();
        x.resize(self.costs.len(), 0.0);
        let mut z = vec![0.0; x.len()];
        let product = near.product.max(f64::MIN_POSITIVE);
        for (at, (x, z)) in x.iter_mut().zip(&mut z).enumerate() {
            let over = self.costs[at] - self.priced(at, &y);
            // What is new is used a little, so that it does not upset the rest.
            let most = if *x > 0.0 { *x } else { NEW_AMOUNT };
            *z = if *x > 0.0 { over } else { over.abs() }.max(product / most * CENTRALITY);
            *x = x.max((product / *z).min(most));
        }
        (x, y, z)
    }

    // Mehrotra's starting point: least squares, moved inside.
    #[expect(clippy::many_single_char_names, reason = "the field's own: amounts x, prices y, reduced costs z")]
    fn start(&self, normal: &mut Normal) -> Option<Point> {
        let (n, m) = (self.costs.len(), self.rhs.len());
        normal.factor(self, &vec![1.0; n]);
        let mut prices = self.rhs.clone();
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

// How far one can go before something is negative.
fn reach(numbers: &[f64], step: &[f64]) -> f64 {
    let ways = numbers.iter().zip(step).filter(|(_, by)| **by < 0.0).map(|(number, by)| -number / by);
    ways.fold(1.0 / STEP, f64::min)
}

#[expect(clippy::cast_precision_loss, reason = "a count of columns")]
fn float(n: usize) -> f64 {
    n as f64
}
