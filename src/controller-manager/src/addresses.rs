//! What is kept of Endpoints and EndpointSlices: they repeat every pod, so what they say is kept as digests, and objects are
//! neither made nor read whole: their texts are.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::EndpointPort as SubsetPort;
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

/// Endpoints with a digest of their subsets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownEndpoints {
    pub(crate) metadata: ObjectMeta,
    /// `None` where they say what is never written here.
    pub(crate) subsets: Option<u64>,
}

/// An EndpointSlice with a digest of each endpoint.
#[derive(Debug, Clone, PartialEq)]
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

// What is written, as text: the fields that are ours of Endpoints, of EndpointSlices and of what they consist of.

/// Endpoints as they are written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointsText<'p> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'p ObjectMeta,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subsets: Vec<SubsetText<'p>>,
}

/// An EndpointSlice as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SliceText<'p> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'p ObjectMeta,
    address_type: &'static str,
    endpoints: Vec<EndpointText<'p>>,
    ports: &'p [EndpointPort],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubsetText<'p> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<AddressText<'p>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_ready_addresses: Vec<AddressText<'p>>,
    #[serde(skip_serializing_if = "<[SubsetPort]>::is_empty")]
    ports: &'p [SubsetPort],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressText<'p> {
    ip: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'p str>,
    target_ref: TargetText<'p>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointText<'p> {
    addresses: [&'p str; 1],
    conditions: ConditionsText,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'p str>,
    target_ref: TargetText<'p>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'p str>,
}

#[derive(Serialize)]
struct ConditionsText {
    ready: bool,
    serving: bool,
    terminating: bool,
}

#[derive(Serialize)]
struct TargetText<'p> {
    kind: &'static str,
    namespace: &'p str,
    name: &'p str,
    uid: &'p str,
}

// What is read. Texts are borrowed from the answer or event; fields that are never written here are only seen to be there.

/// A text, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
struct ReadText<'t>(#[serde(borrow)] Cow<'t, str>);

#[derive(Deserialize)]
struct ReadEndpoints<'t> {
    metadata: ReadMeta,
    #[serde(borrow, default)]
    subsets: Option<Vec<ReadSubset<'t>>>,
}

#[derive(Deserialize)]
struct ReadSlice<'t> {
    metadata: ReadMeta,
    #[serde(default)]
    ports: Option<Vec<EndpointPort>>,
    #[serde(borrow, default)]
    endpoints: Option<Vec<ReadEndpoint<'t>>>,
}

/// Metadata without who owns which field: that is the server's matter.
#[derive(Deserialize)]
#[serde(transparent)]
struct ReadMeta(#[serde(deserialize_with = "lean")] ObjectMeta);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadSubset<'t> {
    #[serde(borrow, default)]
    addresses: Option<Vec<ReadAddress<'t>>>,
    #[serde(borrow, default)]
    not_ready_addresses: Option<Vec<ReadAddress<'t>>>,
    #[serde(default)]
    ports: Option<Vec<SubsetPort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadAddress<'t> {
    #[serde(borrow)]
    ip: Cow<'t, str>,
    #[serde(borrow, default)]
    hostname: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    node_name: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    target_ref: Option<ReadTarget<'t>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadEndpoint<'t> {
    #[serde(borrow, default)]
    addresses: Option<Vec<ReadText<'t>>>,
    #[serde(default)]
    conditions: Option<ReadConditions>,
    #[serde(borrow, default)]
    hostname: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    node_name: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    target_ref: Option<ReadTarget<'t>>,
    #[serde(borrow, default)]
    zone: Option<ReadText<'t>>,
    #[serde(default)]
    deprecated_topology: Option<IgnoredAny>,
    #[serde(default)]
    hints: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ReadConditions {
    #[serde(default)]
    ready: Option<bool>,
    #[serde(default)]
    serving: Option<bool>,
    #[serde(default)]
    terminating: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadTarget<'t> {
    #[serde(borrow, default)]
    kind: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    namespace: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    name: Option<ReadText<'t>>,
    #[serde(borrow, default)]
    uid: Option<ReadText<'t>>,
    #[serde(default)]
    api_version: Option<IgnoredAny>,
    #[serde(default)]
    field_path: Option<IgnoredAny>,
    #[serde(default)]
    resource_version: Option<IgnoredAny>,
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn lean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(deserializer)?;
    metadata.managed_fields = None;
    Ok(metadata)
}

fn text<'r>(read: Option<&'r ReadText<'_>>) -> Option<&'r str> {
    read.map(|text| &*text.0)
}

// === impl PodAddress ===

impl<'p> PodAddress<'p> {
    fn read(
        ip: &'p str,
        hostname: Option<&'p ReadText<'_>>,
        node: Option<&'p ReadText<'_>>,
        target: Option<&'p ReadTarget<'_>>,
    ) -> Option<Self> {
        let ReadTarget { kind, namespace, name, uid, api_version: None, field_path: None, resource_version: None } =
            target?
        else {
            return None;
        };
        (text(kind.as_ref()) == Some("Pod")).then_some(())?;
        Some(Self {
            ip,
            hostname: text(hostname),
            node: text(node),
            namespace: text(namespace.as_ref())?,
            name: text(name.as_ref())?,
            uid: text(uid.as_ref())?,
        })
    }

    const fn target(&self) -> TargetText<'p> {
        TargetText { kind: "Pod", namespace: self.namespace, name: self.name, uid: self.uid }
    }

    fn written(&self) -> AddressText<'p> {
        AddressText { ip: self.ip, hostname: self.hostname, node_name: self.node, target_ref: self.target() }
    }
}

// === impl PodEndpoint ===

impl<'p> PodEndpoint<'p> {
    fn read(endpoint: &'p ReadEndpoint<'_>) -> Option<Self> {
        let ReadEndpoint { addresses, conditions, deprecated_topology: None, hints: None, .. } = endpoint else {
            return None;
        };
        let [ip] = addresses.as_deref()? else { return None };
        let conditions = conditions.as_ref()?;
        let (hostname, node) = (endpoint.hostname.as_ref(), endpoint.node_name.as_ref());
        Some(Self {
            address: PodAddress::read(&ip.0, hostname, node, endpoint.target_ref.as_ref())?,
            zone: text(endpoint.zone.as_ref()),
            ready: conditions.ready?,
            serving: conditions.serving?,
            terminating: conditions.terminating?,
        })
    }

    const fn written(&self) -> EndpointText<'p> {
        let Self { address, zone, ready, serving, terminating } = *self;
        EndpointText {
            addresses: [address.ip],
            conditions: ConditionsText { ready, serving, terminating },
            hostname: address.hostname,
            node_name: address.node,
            target_ref: address.target(),
            zone,
        }
    }
}

// === impl PodSubset ===

impl<'p> PodSubset<'p> {
    /// A digest of subsets; absent and empty ones are the same.
    pub(crate) fn digest(subsets: &[Self]) -> u64 {
        let port = |port: &SubsetPort| (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone());
        let all =
            subsets.iter().map(|one| (one.ports.iter().map(port).collect::<Vec<_>>(), &one.ready, &one.not_ready));
        digest(all.collect::<Vec<_>>())
    }

    fn read(subset: &'p ReadSubset<'_>) -> Option<Self> {
        Some(Self {
            ports: subset.ports.clone().unwrap_or_default(),
            ready: read_addresses(subset.addresses.as_deref())?,
            not_ready: read_addresses(subset.not_ready_addresses.as_deref())?,
        })
    }

    fn written(&'p self) -> SubsetText<'p> {
        SubsetText {
            addresses: self.ready.iter().map(PodAddress::written).collect(),
            not_ready_addresses: self.not_ready.iter().map(PodAddress::written).collect(),
            ports: &self.ports,
        }
    }
}

fn read_addresses<'p>(addresses: Option<&'p [ReadAddress<'_>]>) -> Option<Vec<PodAddress<'p>>> {
    let one = |one: &'p ReadAddress<'_>| {
        PodAddress::read(&one.ip, one.hostname.as_ref(), one.node_name.as_ref(), one.target_ref.as_ref())
    };
    addresses.unwrap_or_default().iter().map(one).collect()
}

// === impl EndpointsText, SliceText ===

impl<'p> EndpointsText<'p> {
    pub(crate) fn new(metadata: &'p ObjectMeta, subsets: &'p [PodSubset<'p>]) -> Self {
        let subsets = subsets.iter().map(PodSubset::written).collect();
        Self { api_version: "v1", kind: "Endpoints", metadata, subsets }
    }
}

impl<'p> SliceText<'p> {
    pub(crate) fn new(
        metadata: &'p ObjectMeta,
        ports: &'p [EndpointPort],
        endpoints: impl Iterator<Item = &'p PodEndpoint<'p>>,
    ) -> Self {
        Self {
            api_version: "discovery.k8s.io/v1",
            kind: "EndpointSlice",
            metadata,
            address_type: "IPv4",
            endpoints: endpoints.map(PodEndpoint::written).collect(),
            ports,
        }
    }
}

// === impl KnownEndpoint, KnownEndpoints, KnownSlice ===

impl From<&PodEndpoint<'_>> for KnownEndpoint {
    fn from(endpoint: &PodEndpoint<'_>) -> Self {
        Self { uid: endpoint.address.uid.into(), digest: Some(digest(endpoint)) }
    }
}

impl From<&ReadEndpoint<'_>> for KnownEndpoint {
    fn from(endpoint: &ReadEndpoint<'_>) -> Self {
        let uid = endpoint.target_ref.as_ref().and_then(|target| text(target.uid.as_ref()));
        Self { uid: uid.unwrap_or_default().into(), digest: PodEndpoint::read(endpoint).map(digest) }
    }
}

impl<'de> Deserialize<'de> for KnownEndpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = ReadEndpoints::deserialize(deserializer)?;
        let subsets: Option<Vec<PodSubset<'_>>> = read.subsets.iter().flatten().map(PodSubset::read).collect();
        Ok(Self { subsets: subsets.map(|subsets| PodSubset::digest(&subsets)), metadata: read.metadata.0 })
    }
}

impl<'de> Deserialize<'de> for KnownSlice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = ReadSlice::deserialize(deserializer)?;
        Ok(Self {
            endpoints: read.endpoints.iter().flatten().map(KnownEndpoint::from).collect(),
            ports: read.ports.unwrap_or_default(),
            metadata: read.metadata.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Endpoints;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use serde_json::{Value, json};

    use super::*;

    const ADDRESS: PodAddress<'_> =
        PodAddress { ip: "10.0.0.1", hostname: None, node: Some("n"), namespace: "a", name: "web-1", uid: "1" };
    const ENDPOINT: PodEndpoint<'_> =
        PodEndpoint { address: ADDRESS, zone: Some("z"), ready: true, serving: true, terminating: false };

    fn slice(endpoint: &PodEndpoint<'_>) -> Value {
        json!(SliceText::new(&ObjectMeta::default(), &[EndpointPort::default()], [endpoint].into_iter()))
    }

    /// What is known of the one endpoint of a slice.
    fn known(slice: &Value) -> KnownEndpoint {
        let mut slice: KnownSlice = serde_json::from_str(&slice.to_string()).unwrap();
        slice.endpoints.remove(0)
    }

    #[test]
    fn what_is_written_is_known_again() {
        assert_eq!(known(&slice(&ENDPOINT)), KnownEndpoint::from(&ENDPOINT));
        // A quotation mark is escaped in the text.
        let ready = PodAddress { hostname: Some("h\"h"), ..ADDRESS };
        let subsets = [PodSubset { ports: vec![SubsetPort::default()], ready: vec![ready], not_ready: vec![ADDRESS] }];
        let text = json!(EndpointsText::new(&ObjectMeta::default(), &subsets)).to_string();
        let known: KnownEndpoints = serde_json::from_str(&text).unwrap();
        assert_eq!(known.subsets, Some(PodSubset::digest(&subsets)));
        let none: KnownEndpoints = serde_json::from_value(json!({"metadata": {}, "subsets": null})).unwrap();
        assert_eq!(none.subsets, Some(PodSubset::digest(&[])));
    }

    #[test]
    fn texts_are_those_of_the_api() {
        let metadata = ObjectMeta { name: Some("web".to_owned()), ..ObjectMeta::default() };
        let all = PodAddress { hostname: Some("h"), ..ADDRESS };
        let port = SubsetPort { name: None, port: 80, protocol: Some("TCP".to_owned()), app_protocol: None };
        let full = PodSubset { ports: vec![port], ready: vec![all], not_ready: vec![ADDRESS] };
        let bare = PodSubset { ports: Vec::new(), ready: Vec::new(), not_ready: Vec::new() };
        for subsets in [vec![full], vec![bare], Vec::new()] {
            let written = json!(EndpointsText::new(&metadata, &subsets));
            let read: Endpoints = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(json!(read), written);
        }
        let endpoint = PodEndpoint { address: all, ..ENDPOINT };
        let written = json!(SliceText::new(&metadata, &[EndpointPort::default()], [&endpoint, &ENDPOINT].into_iter()));
        let read: EndpointSlice = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(json!(read), written);
    }

    #[test]
    fn whatever_differs_is_seen() {
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
        assert!(others.iter().all(|other| known(&slice(other)) != KnownEndpoint::from(&ENDPOINT)));
        // Somebody else wrote what is never written here.
        for (place, foreign) in [
            ("/endpoints/0/hints", json!({})),
            ("/endpoints/0/deprecatedTopology", json!({"a": "b"})),
            ("/endpoints/0/addresses", json!(["10.0.0.1", "10.0.0.2"])),
            ("/endpoints/0/targetRef/fieldPath", json!("f")),
            ("/endpoints/0/targetRef/kind", json!("Node")),
            ("/endpoints/0/conditions", Value::Null),
        ] {
            let mut changed = slice(&ENDPOINT);
            let (around, field) = place.rsplit_once('/').unwrap();
            changed.pointer_mut(around).unwrap()[field] = foreign;
            assert_ne!(known(&changed), KnownEndpoint::from(&ENDPOINT), "{place}");
        }
    }
}
