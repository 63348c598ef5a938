//! What is said over the wire: a call a request, and its answer, as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_cloudprovider::{
    CapacityReservation, InstanceTypes, LaunchRequest, ProviderId, RepairPolicy, ReservationAdoption,
};
use serde::{Deserialize, Serialize};

/// Where calls are sent to.
pub(crate) const PATH: &str = "/v1";
/// The largest request: a launch may list some thousand offerings.
pub(crate) const MAX_REQUEST: usize = 8 << 20;
/// The largest answer: every type of a large cloud.
pub(crate) const MAX_ANSWER: usize = 256 << 20;

/// A call of the trait.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    About,
    Create(Box<LaunchRequest>),
    Delete(ProviderId),
    Get(ProviderId),
    List(BTreeMap<String, String>),
    /// Those that the cloud has said it will take back.
    Interrupted,
    InstanceTypes(NodeClassRef),
    Reservations(NodeClassRef),
    NodeClassStatus(NodeClassRef),
    Drift(Box<NodeClaim>),
}

/// What a provider says of itself, and what never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) name: String,
    /// Group and kind of the node classes that it serves.
    pub(crate) serves: Vec<(String, String)>,
    pub(crate) repair_policies: Vec<RepairPolicy>,
    pub(crate) adoption: ReservationAdoption,
    pub(crate) consistency_lag: Duration,
}

/// [`InstanceTypes`] with the catalogue as its file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offered {
    catalogue: String,
    reservations: Vec<CapacityReservation>,
}

// === impl Call ===

impl Call {
    /// Whether something may have been done where no answer comes.
    pub(crate) const fn is_write(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Delete(_))
    }
}

// === impl Offered ===

impl Offered {
    /// # Errors
    /// None that is known; serde_json's signature asks for it.
    pub(crate) fn of(types: &InstanceTypes) -> Result<Self, String> {
        let catalogue = types.catalogue.to_json().map_err(|error| error.to_string())?;
        Ok(Self { catalogue, reservations: types.reservations.clone() })
    }

    /// # Errors
    /// The catalogue cannot be read.
    pub(crate) fn read(self) -> Result<InstanceTypes, String> {
        let catalogue = berth_catalogue::read(self.catalogue.as_bytes(), "the cloud's catalogue");
        let catalogue = catalogue.map_err(|error| error.to_string())?;
        Ok(InstanceTypes { catalogue: catalogue.into(), reservations: self.reservations })
    }
}
