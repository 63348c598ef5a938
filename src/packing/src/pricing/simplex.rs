//! The linear relaxation of one bin: few rows, many bounded columns, solved again and again with other bounds.
//! A bounded dual simplex whose basis is so small that it is inverted afresh each time.

use crate::tuning::exact::{FEASIBLE, PIVOTS};

/// Where a variable is that is not basic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Lower,
    Upper,
    Basic,
}

/// A basis to start from again.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    basic: Vec<usize>,
    at: Vec<At>,
}

/// Maximise the profit of columns, within rows whose right-hand sides are 1 unless told otherwise: sizes are shares of the room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relaxation {
    n_rows: usize,
    n_columns: usize,
    /// By column and row.
    sizes: Vec<f64>,
    /// By column.
    profits: Vec<f64>,
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
    /// Right-hand sides, by row.
    pub(crate) rhs: Vec<f64>,
    /// Variables that are basic, by row; columns first, then what is left of each row.
    basic: Vec<usize>,
    at: Vec<At>,
    /// By row: the value of the basic variable.
    values: Vec<f64>,
    inverse: Vec<f64>,
    breaks: Vec<(f64, usize, f64)>,
    scratch: Vec<f64>,
}

impl Relaxation {
    /// Starts anew, with no columns.
    pub(crate) fn reset(&mut self, n_rows: usize) {
        self.n_rows = n_rows;
        self.n_columns = 0;
        self.rhs.clear();
        self.rhs.resize(n_rows, 1.0);
        for numbers in [&mut self.sizes, &mut self.profits, &mut self.lower, &mut self.upper] {
            numbers.clear();
        }
    }

    /// Adds a column that may be used up to `at_most` times.
    pub(crate) fn push(&mut self, profit: f64, at_most: f64, sizes: impl Iterator<Item = f64>) {
        self.n_columns += 1;
        self.profits.push(profit);
        self.lower.push(0.0);
        self.upper.push(at_most);
        self.sizes.extend(sizes.chain(std::iter::repeat(0.0)).take(self.n_rows));
    }

    /// Begins with all columns in full, and all rows to be made good.
    pub(crate) fn begin(&mut self) {
        self.at.clear();
        self.at.resize(self.n_columns, At::Upper);
        self.at.resize(self.n_columns + self.n_rows, At::Basic);
        self.basic.clear();
        self.basic.extend(self.n_columns..self.n_columns + self.n_rows);
    }

    pub(crate) fn basis(&self) -> Basis {
        Basis { basic: self.basic.clone(), at: self.at.clone() }
    }

    pub(crate) fn restore(&mut self, basis: &Basis) {
        self.basic.clone_from(&basis.basic);
        self.at.clone_from(&basis.at);
    }

    fn size(&self, variable: usize, row: usize) -> f64 {
        if variable < self.n_columns {
            self.sizes.get(variable * self.n_rows + row).copied().unwrap_or(0.0)
        } else if variable - self.n_columns == row {
            1.0
        } else {
            0.0
        }
    }

    fn profit(&self, variable: usize) -> f64 {
        self.profits.get(variable).copied().unwrap_or(0.0)
    }

    /// Between what a column's use must be.
    pub(crate) fn bounds_of(&self, column: usize) -> (f64, f64) {
        self.bounds(column)
    }

    pub(crate) fn set_bounds(&mut self, column: usize, (from, to): (f64, f64)) {
        if let (Some(lower), Some(upper)) = (self.lower.get_mut(column), self.upper.get_mut(column)) {
            (*lower, *upper) = (from, to);
        }
    }

    fn bounds(&self, variable: usize) -> (f64, f64) {
        match (self.lower.get(variable), self.upper.get(variable)) {
            (Some(&lower), Some(&upper)) => (lower, upper),
            _ => (0.0, f64::INFINITY),
        }
    }

    /// Solves it from the basis that is there. Returns dual prices by row: any such prices bound the
    /// relaxation, whether or not they are the best. `None` where nothing fits.
    pub(crate) fn solve(&mut self) -> Option<Vec<f64>> {
        let m = self.n_rows;
        for _ in 0..PIVOTS {
            if !self.invert() {
                self.begin();
                self.invert();
            }
            self.set_values();
            // The basic variable that is furthest outside its bounds leaves.
            let mut leaving: Option<(f64, usize, bool)> = None;
            for (row, (&variable, &value)) in self.basic.iter().zip(&self.values).enumerate() {
                let (lower, upper) = self.bounds(variable);
                for (outside, is_below) in [(lower - value, true), (value - upper, false)] {
                    if outside > FEASIBLE && leaving.is_none_or(|(most, ..)| outside > most) {
                        leaving = Some((outside, row, is_below));
                    }
                }
            }
            let prices = self.prices();
            let Some((outside, row, is_below)) = leaving else { return Some(prices) };
            let sign = if is_below { -1.0 } else { 1.0 };
            self.breaks.clear();
            for variable in 0..self.n_columns + m {
                let at = self.at.get(variable).copied().unwrap_or(At::Basic);
                if at == At::Basic {
                    continue;
                }
                let (lower, upper) = self.bounds(variable);
                let mut slope = 0.0;
                let mut reduced = self.profit(variable);
                for other in 0..m {
                    let size = self.size(variable, other);
                    if size != 0.0 {
                        slope += self.inverse.get(row * m + other).copied().unwrap_or(0.0) * size;
                        reduced -= prices.get(other).copied().unwrap_or(0.0) * size;
                    }
                }
                // Moving off its bound must move the leaving variable back to its own.
                let moves = match at {
                    At::Lower => slope * sign,
                    _ => -slope * sign,
                };
                if moves > 1e-12 {
                    self.breaks.push((reduced.abs() / moves, variable, moves * (upper - lower)));
                }
            }
            self.breaks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let mut left = outside;
            let mut entering = None;
            let breaks = std::mem::take(&mut self.breaks);
            for &(_, variable, range) in &breaks {
                // As floats tell: what is missing by no more than that is not missing.
                if left - range <= FEASIBLE {
                    entering = Some(variable);
                    break;
                }
                // It goes to its other bound, and that is not enough.
                left -= range;
                if let Some(at) = self.at.get_mut(variable) {
                    *at = if *at == At::Lower { At::Upper } else { At::Lower };
                }
            }
            self.breaks = breaks;
            let entering = entering?;
            let Some(basic) = self.basic.get_mut(row) else { return Some(prices) };
            let left = std::mem::replace(basic, entering);
            if let Some(at) = self.at.get_mut(left) {
                *at = if is_below { At::Lower } else { At::Upper };
            }
            if let Some(at) = self.at.get_mut(entering) {
                *at = At::Basic;
            }
        }
        // Whatever the prices are, they bound it.
        Some(if self.invert() { self.prices() } else { vec![0.0; m] })
    }

    /// The profit that no solution exceeds, from dual prices of the rows: whatever these are.
    pub(crate) fn bound(&self, prices: &[f64]) -> f64 {
        let mut bound: f64 = prices.iter().zip(&self.rhs).map(|(price, room)| price.max(0.0) * room).sum();
        for column in 0..self.n_columns {
            let (lower, upper) = self.bounds(column);
            let mut reduced = self.profit(column);
            for (row, price) in prices.iter().enumerate() {
                reduced -= price.max(0.0) * self.size(column, row);
            }
            bound += if reduced > 0.0 { reduced * upper } else { reduced * lower };
        }
        bound
    }

    /// Columns that are used in part, and how much.
    pub(crate) fn fractions(&self) -> impl Iterator<Item = (usize, f64)> {
        self.basic
            .iter()
            .copied()
            .zip(self.values.iter().copied())
            .filter(|(column, value)| *column < self.n_columns && (value - value.round()).abs() > 1e-7)
    }

    /// How often each column is used.
    pub(crate) fn uses(&self) -> Vec<f64> {
        let mut uses: Vec<f64> = (0..self.n_columns)
            .map(|column| match self.at.get(column) {
                Some(At::Upper) => self.bounds(column).1,
                _ => self.bounds(column).0,
            })
            .collect();
        for (&column, &value) in self.basic.iter().zip(&self.values) {
            if let Some(uses) = uses.get_mut(column) {
                *uses = value;
            }
        }
        uses
    }

    // Dual prices by row.
    fn prices(&self) -> Vec<f64> {
        let m = self.n_rows;
        let price = |row: usize| {
            let basic = self.basic.iter().enumerate();
            basic.map(|(at, &basic)| self.profit(basic) * self.inverse.get(at * m + row).copied().unwrap_or(0.0)).sum()
        };
        (0..m).map(price).collect()
    }

    fn set_values(&mut self) {
        let m = self.n_rows;
        let mut room = self.rhs.clone();
        for variable in 0..self.n_columns {
            let (lower, upper) = self.bounds(variable);
            let value = match self.at.get(variable) {
                Some(At::Lower) => lower,
                Some(At::Upper) => upper,
                _ => continue,
            };
            if value == 0.0 {
                continue;
            }
            for (row, room) in room.iter_mut().enumerate() {
                *room -= value * self.size(variable, row);
            }
        }
        self.values.clear();
        for at in 0..m {
            let inverse = self.inverse.get(at * m..(at + 1) * m).unwrap_or_default();
            self.values.push(inverse.iter().zip(&room).map(|(by, room)| by * room).sum());
        }
    }

    // Gauss and Jordan, with pivots; false if the basis is singular.
    fn invert(&mut self) -> bool {
        let m = self.n_rows;
        let width = 2 * m;
        let mut matrix = std::mem::take(&mut self.scratch);
        matrix.clear();
        matrix.resize(m * width, 0.0);
        for (column, &variable) in self.basic.iter().enumerate() {
            for row in 0..m {
                if let Some(cell) = matrix.get_mut(row * width + column) {
                    *cell = self.size(variable, row);
                }
            }
        }
        for row in 0..m {
            if let Some(cell) = matrix.get_mut(row * width + m + row) {
                *cell = 1.0;
            }
        }
        let get = |matrix: &[f64], row: usize, column: usize| matrix.get(row * width + column).copied().unwrap_or(0.0);
        let mut is_regular = true;
        for column in 0..m {
            let pivot = (column..m).max_by(|&a, &b| {
                get(&matrix, a, column).abs().total_cmp(&get(&matrix, b, column).abs()).then(b.cmp(&a))
            });
            let Some(pivot) = pivot.filter(|&pivot| get(&matrix, pivot, column).abs() > 1e-11) else {
                is_regular = false;
                break;
            };
            for at in 0..width {
                matrix.swap(pivot * width + at, column * width + at);
            }
            let by = 1.0 / get(&matrix, column, column);
            for at in 0..width {
                if let Some(cell) = matrix.get_mut(column * width + at) {
                    *cell *= by;
                }
            }
            for row in (0..m).filter(|row| *row != column) {
                let by = get(&matrix, row, column);
                if by != 0.0 {
                    for at in 0..width {
                        let change = by * get(&matrix, column, at);
                        if let Some(cell) = matrix.get_mut(row * width + at) {
                            *cell -= change;
                        }
                    }
                }
            }
        }
        self.inverse.clear();
        for row in 0..m {
            self.inverse.extend_from_slice(matrix.get(row * width + m..(row + 1) * width).unwrap_or_default());
        }
        self.scratch = matrix;
        is_regular
    }
}
