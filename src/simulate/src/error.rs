//! Why a simulation did not start, or had to end.

use std::path::PathBuf;

use berth_catalogue::CatalogueError;
use berth_manifests::ManifestError;
use berth_sandbox::SandboxError;

/// Why a simulation did not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// The scenario, or a manifest, cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The catalogue cannot be used.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The cluster did not start.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A file cannot be read.
    #[error("unable to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something of a trace, or of a report, cannot be used.
    #[error("{file}: {place}: {message}")]
    Trace {
        /// The file.
        file: String,
        /// Where in it, such as `line 3`.
        place: String,
        /// What was found and what was expected.
        message: String,
    },
    /// What the scenario says cannot be done when its time comes.
    #[error("{place}: {message}")]
    Step {
        /// Where the scenario says it.
        place: String,
        /// Why it cannot be done.
        message: String,
    },
    /// A variation cannot be used.
    #[error("--vary {text}: {message}")]
    Vary {
        /// As it was given.
        text: String,
        /// What was found and what was expected.
        message: String,
    },
    /// The system gives no thread or timer.
    #[error("unable to start the simulation")]
    Runtime(#[source] std::io::Error),
}

/// A number as it was meant: not with three hundred zeros.
pub(crate) fn shown(number: f64) -> String {
    if number.abs() < 1e15 { number.to_string() } else { format!("{number:e}") }
}
