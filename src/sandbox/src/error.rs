//! Why a sandbox did not start.

use std::path::PathBuf;

use berth_apiserver::listener::ListenerError;
use berth_catalogue::CatalogueError;
use berth_manifests::ManifestError;

/// Why a sandbox did not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The catalogue cannot be used.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A file cannot be read.
    #[error("unable to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kubeconfig cannot be written.
    #[error("unable to write the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// kubectl cannot be served.
    #[error(transparent)]
    Listen(#[from] ListenerError),
    /// The objects ask for more pods than a sandbox can hold.
    #[error(
        "{object}: {field}: expected at most {most} pods in a sandbox, found {asked} beside {others} of objects before it"
    )]
    TooManyPods {
        /// The kind and name of the object with which they are too many.
        object: String,
        /// Its field.
        field: &'static str,
        /// How many pods it asks for.
        asked: u64,
        /// How many those before it ask for.
        others: u64,
        /// How many pods a sandbox can hold.
        most: u64,
    },
    /// The API server refused an object.
    #[error("unable to apply {object}: {message}")]
    Apply {
        /// Its kind and name.
        object: String,
        /// What the API server says.
        message: String,
    },
}
