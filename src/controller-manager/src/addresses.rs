//! What is kept of Endpoints and EndpointSlices: they repeat every pod, so what they say is kept as digests.

use std::hash::Hasher as _;
use std::io;

use k8s_openapi::api::core::v1::{EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Endpoints with a digest of their subsets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Endpoints")]
pub(crate) struct KnownEndpoints {
    pub(crate) metadata: ObjectMeta,
    pub(crate) subsets: u64,
}

/// An EndpointSlice with a digest of each endpoint.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "EndpointSlice")]
pub(crate) struct KnownSlice {
    pub(crate) metadata: ObjectMeta,
    pub(crate) ports: Vec<EndpointPort>,
    pub(crate) endpoints: Vec<KnownEndpoint>,
}

/// The pod of an endpoint, and a digest of all that is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownEndpoint {
    pub(crate) uid: Box<str>,
    digest: u64,
}

impl From<Endpoints> for KnownEndpoints {
    fn from(endpoints: Endpoints) -> Self {
        let subsets = digest_of_subsets(endpoints.subsets.as_deref());
        Self { metadata: lean(endpoints.metadata), subsets }
    }
}

impl From<EndpointSlice> for KnownSlice {
    fn from(slice: EndpointSlice) -> Self {
        Self {
            metadata: lean(slice.metadata),
            ports: slice.ports.unwrap_or_default(),
            endpoints: slice.endpoints.iter().map(KnownEndpoint::from).collect(),
        }
    }
}

impl From<&Endpoint> for KnownEndpoint {
    fn from(endpoint: &Endpoint) -> Self {
        let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref());
        Self { uid: uid.unwrap_or_default().into(), digest: digest(endpoint) }
    }
}

/// A digest of subsets; absent and empty ones are the same.
pub(crate) fn digest_of_subsets(subsets: Option<&[EndpointSubset]>) -> u64 {
    digest(&subsets.unwrap_or_default())
}

/// Who owns which field is the server's matter.
fn lean(mut metadata: ObjectMeta) -> ObjectMeta {
    metadata.managed_fields = None;
    metadata
}

/// 64 bits: that two states share them by chance is far less likely than a fault of the machine.
fn digest(value: &impl Serialize) -> u64 {
    struct Sink(std::hash::DefaultHasher);
    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(std::hash::DefaultHasher::new());
    // Writing these to memory cannot fail.
    let _ = serde_json::to_writer(&mut sink, value);
    sink.0.finish()
}
