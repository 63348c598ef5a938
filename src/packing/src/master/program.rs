//! A linear program with few rows and many short columns.

/// `minimise costs · x` where `rows · x = rhs`, `x >= 0`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) costs: Vec<f64>,
    pub(crate) rhs: Vec<f64>,
    /// Where each column's entries begin; one more than there are columns.
    starts: Vec<usize>,
    /// Rows, ascending within a column, and amounts.
    entries: Vec<(u32, f64)>,
}

impl Program {
    pub(crate) fn new(rhs: Vec<f64>) -> Self {
        Program { costs: Vec::new(), rhs, starts: vec![0], entries: Vec::new() }
    }

    /// Adds a column; its entries ascend by row.
    pub(crate) fn push(&mut self, cost: f64, entries: impl IntoIterator<Item = (u32, f64)>) {
        self.costs.push(cost);
        self.entries.extend(entries);
        self.starts.push(self.entries.len());
    }

    pub(crate) fn column(&self, at: usize) -> &[(u32, f64)] {
        let from = self.starts.get(at).copied().unwrap_or(0);
        let to = self.starts.get(at + 1).copied().unwrap_or(from);
        self.entries.get(from..to).unwrap_or_default()
    }
}
