//! Why there is no plan.

use std::io;
use std::path::PathBuf;

use berth_catalogue::CatalogueError;
use berth_convert::ConvertError;
use berth_manifests::ManifestError;

use crate::max_share::UnkeepableShares;

/// The input cannot be planned. Names the file, the document and the field, as far as there are any.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A manifest cannot be read, or the API server would refuse it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The objects make no sense together.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The instance catalogue cannot be opened.
    #[error("unable to read the instance catalogue {}", file.display())]
    ReadCatalogue {
        /// The file as it was given.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The instance catalogue is malformed.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// No plan can keep the shares.
    #[error(transparent)]
    Shares(#[from] UnkeepableShares),
    /// What would be disrupted cannot be decided; none that is known, of objects that were checked.
    #[error(transparent)]
    Decide(#[from] berth_disruption::DecideError),
    /// A document cannot be written as JSON; none that is a JSON value.
    #[error("unable to encode the input")]
    Encode(#[from] serde_json::Error),
}
