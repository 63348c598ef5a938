//! What came of a scenario, or of several variants of it, side by side.

mod html;
mod plot;
mod provenance;
mod table;
mod text;

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::SimulateError;

use crate::outcome::Outcome;
pub use provenance::Provenance;

/// What came of one or more variants. The first is what the others are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The scenario's file.
    pub scenario: String,
    /// What it was made of; reports of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// What came of each variant.
    pub variants: Vec<Outcome>,
    /// What each variant costs more than the first, in dollars; empty where there is only one.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

/// What a variant costs more than the first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The variant.
    pub variant: String,
    /// Dollars over the whole time; negative where it is cheaper.
    pub total: f64,
}

// === impl Report ===

impl Report {
    /// The outcomes of a scenario's variants, in their order.
    pub fn new(scenario: &str, variants: Vec<Outcome>) -> Self {
        let first = variants.first().map_or(0.0, |first| first.cost.total);
        let difference = |outcome: &Outcome| Difference {
            variant: outcome.variant.clone(),
            total: ((outcome.cost.total - first) * 1e6).round() / 1e6,
        };
        let differences = variants.iter().skip(1).map(difference).collect();
        Self { scenario: scenario.to_owned(), provenance: None, variants, differences }
    }

    /// The same, with what it was made of.
    #[must_use]
    pub fn made_of(self, provenance: Option<Provenance>) -> Self {
        Self { provenance, ..self }
    }

    /// A report that was written as JSON before, its differences counted anew; `None` where the file is something else.
    ///
    /// # Errors
    /// The file begins as a report, and is none.
    pub fn read(path: &Path) -> Result<Option<Self>, SimulateError> {
        let Ok(text) = berth_manifests::read_text(path) else { return Ok(None) };
        let is_report =
            serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|read| read.get("variants").is_some());
        if !is_report {
            return Ok(None);
        }
        match serde_json::from_str::<Report>(&text) {
            Ok(report) => {
                let Report { scenario, provenance, variants, .. } = report;
                Ok(Some(Report::new(&scenario, variants).made_of(provenance)))
            }
            Err(error) => Err(SimulateError::Trace {
                file: path.display().to_string(),
                place: format!("line {}", error.line()),
                message: error.to_string(),
            }),
        }
    }

    /// Whether in every variant every pod has a node at the end.
    pub fn is_complete(&self) -> bool {
        self.variants.iter().all(Outcome::is_complete)
    }

    /// Writes tables for a person.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_tables(&self, writer: &mut impl Write) -> io::Result<()> {
        table::write(self, writer)
    }

    /// Writes JSON: this report's fields.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_json(&self, writer: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *writer, self)?;
        writeln!(writer)
    }

    /// Writes one page that needs nothing else: figures, plots and tables.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_html(&self, writer: &mut impl Write) -> io::Result<()> {
        html::write(self, writer)
    }
}

#[cfg(test)]
mod tests;
