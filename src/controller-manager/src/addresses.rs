//! What is kept of Endpoints and EndpointSlices: they repeat every pod, so what they say is kept as digests, and objects are
//! made only of what is written.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as SubsetPort, EndpointSubset, Endpoints, ObjectReference,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// Endpoints with a digest of their subsets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Endpoints")]
pub(crate) struct KnownEndpoints {
    pub(crate) metadata: ObjectMeta,
    /// `None` where they say what is never written here.
    pub(crate) subsets: Option<u64>,
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
    /// `None` where it says what is never written here.
    digest: Option<u64>,
}

/// A pod as an address. 64 bits of what these say: that two states share them by chance is less likely than a fault of the
/// machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PodAddress<'p> {
    pub(crate) ip: &'p str,
    pub(crate) hostname: Option<&'p str>,
    pub(crate) node: Option<&'p str>,
    pub(crate) namespace: &'p str,
    pub(crate) name: &'p str,
    pub(crate) uid: &'p str,
}

/// A pod as an endpoint of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PodEndpoint<'p> {
    pub(crate) address: PodAddress<'p>,
    pub(crate) zone: Option<&'p str>,
    pub(crate) ready: bool,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
}

/// Addresses that serve on the same ports.
pub(crate) struct PodSubset<'p> {
    pub(crate) ports: Vec<SubsetPort>,
    pub(crate) ready: Vec<PodAddress<'p>>,
    pub(crate) not_ready: Vec<PodAddress<'p>>,
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Who owns which field is the server's matter.
fn lean(mut metadata: ObjectMeta) -> ObjectMeta {
    metadata.managed_fields = None;
    metadata
}

// === impl PodAddress ===

impl<'p> PodAddress<'p> {
    fn read(
        ip: &'p str,
        hostname: Option<&'p str>,
        node: Option<&'p str>,
        target: &'p ObjectReference,
    ) -> Option<Self> {
        let ObjectReference { api_version: None, field_path: None, kind, name, namespace, resource_version: None, uid } =
            target
        else {
            return None;
        };
        (kind.as_deref() == Some("Pod")).then_some(())?;
        let (namespace, name) = (namespace.as_deref()?, name.as_deref()?);
        Some(Self { ip, hostname, node, namespace, name, uid: uid.as_deref()? })
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(self.namespace.to_owned()),
            name: Some(self.name.to_owned()),
            uid: Some(self.uid.to_owned()),
            ..ObjectReference::default()
        }
    }
}

impl From<&PodAddress<'_>> for EndpointAddress {
    fn from(address: &PodAddress<'_>) -> Self {
        Self {
            ip: address.ip.to_owned(),
            hostname: address.hostname.map(str::to_owned),
            node_name: address.node.map(str::to_owned),
            target_ref: Some(address.reference()),
        }
    }
}

// === impl PodEndpoint ===

impl<'p> PodEndpoint<'p> {
    fn read(endpoint: &'p Endpoint) -> Option<Self> {
        let Endpoint { addresses, conditions, deprecated_topology: None, hints: None, .. } = endpoint else {
            return None;
        };
        let [ip] = addresses.as_slice() else { return None };
        let conditions = conditions.as_ref()?;
        let (hostname, node) = (endpoint.hostname.as_deref(), endpoint.node_name.as_deref());
        Some(Self {
            address: PodAddress::read(ip, hostname, node, endpoint.target_ref.as_ref()?)?,
            zone: endpoint.zone.as_deref(),
            ready: conditions.ready?,
            serving: conditions.serving?,
            terminating: conditions.terminating?,
        })
    }
}

impl From<&PodEndpoint<'_>> for Endpoint {
    fn from(endpoint: &PodEndpoint<'_>) -> Self {
        Self {
            addresses: vec![endpoint.address.ip.to_owned()],
            conditions: Some(EndpointConditions {
                ready: Some(endpoint.ready),
                serving: Some(endpoint.serving),
                terminating: Some(endpoint.terminating),
            }),
            hostname: endpoint.address.hostname.map(str::to_owned),
            node_name: endpoint.address.node.map(str::to_owned),
            target_ref: Some(endpoint.address.reference()),
            zone: endpoint.zone.map(str::to_owned),
            ..Self::default()
        }
    }
}

// === impl PodSubset ===

impl PodSubset<'_> {
    /// A digest of subsets; absent and empty ones are the same.
    pub(crate) fn digest(subsets: &[Self]) -> u64 {
        let port = |port: &SubsetPort| (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone());
        let all =
            subsets.iter().map(|one| (one.ports.iter().map(port).collect::<Vec<_>>(), &one.ready, &one.not_ready));
        digest(all.collect::<Vec<_>>())
    }

    fn read(subset: &EndpointSubset) -> Option<PodSubset<'_>> {
        Some(PodSubset {
            ports: subset.ports.clone().unwrap_or_default(),
            ready: read_addresses(subset.addresses.as_deref())?,
            not_ready: read_addresses(subset.not_ready_addresses.as_deref())?,
        })
    }
}

fn read_addresses(addresses: Option<&[EndpointAddress]>) -> Option<Vec<PodAddress<'_>>> {
    let mut out = Vec::new();
    for one in addresses.unwrap_or_default() {
        let (hostname, node) = (one.hostname.as_deref(), one.node_name.as_deref());
        out.push(PodAddress::read(&one.ip, hostname, node, one.target_ref.as_ref()?)?);
    }
    Some(out)
}

impl From<&PodSubset<'_>> for EndpointSubset {
    fn from(subset: &PodSubset<'_>) -> Self {
        let made = |addresses: &[PodAddress<'_>]| {
            Some(addresses.iter().map(EndpointAddress::from).collect::<Vec<_>>()).filter(|made| !made.is_empty())
        };
        Self {
            addresses: made(&subset.ready),
            not_ready_addresses: made(&subset.not_ready),
            ports: Some(subset.ports.clone()).filter(|ports| !ports.is_empty()),
        }
    }
}

// === impl KnownEndpoint, KnownEndpoints, KnownSlice ===

impl From<&PodEndpoint<'_>> for KnownEndpoint {
    fn from(endpoint: &PodEndpoint<'_>) -> Self {
        Self { uid: endpoint.address.uid.into(), digest: Some(digest(endpoint)) }
    }
}

impl From<&Endpoint> for KnownEndpoint {
    fn from(endpoint: &Endpoint) -> Self {
        let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref());
        Self { uid: uid.unwrap_or_default().into(), digest: PodEndpoint::read(endpoint).map(digest) }
    }
}

impl From<Endpoints> for KnownEndpoints {
    fn from(endpoints: Endpoints) -> Self {
        let subsets: Option<Vec<PodSubset<'_>>> = endpoints.subsets.iter().flatten().map(PodSubset::read).collect();
        let subsets = subsets.map(|subsets| PodSubset::digest(&subsets));
        Self { subsets, metadata: lean(endpoints.metadata) }
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointHints;

    use super::*;

    const ADDRESS: PodAddress<'_> =
        PodAddress { ip: "10.0.0.1", hostname: None, node: Some("n"), namespace: "a", name: "web-1", uid: "1" };
    const ENDPOINT: PodEndpoint<'_> =
        PodEndpoint { address: ADDRESS, zone: Some("z"), ready: true, serving: true, terminating: false };

    #[test]
    fn what_is_written_is_known_again() {
        let written = Endpoint::from(&ENDPOINT);
        assert_eq!(KnownEndpoint::from(&written), KnownEndpoint::from(&ENDPOINT));
        let subsets = [PodSubset { ports: vec![SubsetPort::default()], ready: vec![ADDRESS], not_ready: Vec::new() }];
        let written = subsets.iter().map(EndpointSubset::from).collect();
        let known = KnownEndpoints::from(Endpoints { metadata: ObjectMeta::default(), subsets: Some(written) });
        assert_eq!(known.subsets, Some(PodSubset::digest(&subsets)));
    }

    #[test]
    fn whatever_differs_is_seen() {
        let known = KnownEndpoint::from(&Endpoint::from(&ENDPOINT));
        let address = |change: fn(&mut PodAddress<'_>)| {
            let mut address = ADDRESS;
            change(&mut address);
            PodEndpoint { address, ..ENDPOINT }
        };
        let others = [
            PodEndpoint { ready: false, ..ENDPOINT },
            PodEndpoint { serving: false, ..ENDPOINT },
            PodEndpoint { terminating: true, ..ENDPOINT },
            PodEndpoint { zone: None, ..ENDPOINT },
            address(|address| address.ip = "10.0.0.2"),
            address(|address| address.node = None),
            address(|address| address.hostname = Some("h")),
            address(|address| address.name = "web-2"),
        ];
        assert!(others.iter().all(|other| KnownEndpoint::from(other) != known));
        // Somebody else wrote what is never written here.
        let foreign = Endpoint { hints: Some(EndpointHints::default()), ..Endpoint::from(&ENDPOINT) };
        assert_ne!(KnownEndpoint::from(&foreign), known);
    }
}
