//! The objects that count, for what converts them and what follows them.

use berth_api::{Device, NodeClaim, NodeResourceTopology};
use berth_convert::{Objects, PodParts};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;

use crate::chunked::Chunked;
use crate::entry::Entry;
use crate::kept::Kept;
use crate::object::{Name, Named};
use crate::slots::Cloud;
use crate::{Key, Kind, Whole};

/// The objects that count.
#[derive(Clone, Copy)]
pub(crate) struct Counted<'s> {
    pub(crate) entries: &'s Chunked<Key, Entry>,
    pub(crate) cloud: &'s Cloud,
}

// === impl Counted ===

impl<'s> Counted<'s> {
    fn get<T: Whole>(&self, namespace: &str, name: &str) -> Option<&'s T> {
        let entry = self.entries.get(&Name::new(T::KIND, namespace, name) as &dyn Named)?;
        entry.counted()?.whole::<T>().map(|object| &**object)
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&'s Key, &'s Kept)> + use<'s> {
        let from = Key { kind, namespace: "".into(), name: "".into() };
        let of_kind = self.entries.from(&from).take_while(move |(key, _)| key.kind == kind);
        of_kind.filter_map(|(key, entry)| Some((key, entry.counted()?)))
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &'s NodeClaim> + use<'s> {
        self.of_kind(Kind::NodeClaim).filter_map(|(_, object)| object.whole::<NodeClaim>()).map(|claim| &**claim)
    }

    /// How many of a kind come before it.
    pub(crate) fn position(&self, key: &Key) -> usize {
        self.of_kind(key.kind).take_while(|(known, _)| *known < key).count()
    }
}

impl Objects for Counted<'_> {
    fn pod(&self, namespace: &str, name: &str) -> Option<PodParts<'_>> {
        let entry = self.entries.get(&Name::new(Kind::Pod, namespace, name) as &dyn Named)?;
        Some(entry.counted()?.pod()?.parts())
    }

    fn node(&self, name: &str) -> Option<Node> {
        let entry = self.entries.get(&Name::new(Kind::Node, "", name) as &dyn Named)?;
        Some(entry.counted()?.node()?.to_node())
    }

    fn node_claim(&self, name: &str) -> Option<&NodeClaim> {
        self.get("", name)
    }

    fn csi_node(&self, name: &str) -> Option<&CSINode> {
        self.get("", name)
    }

    fn device(&self, name: &str) -> Option<&Device> {
        self.get("", name)
    }

    fn node_resource_topology(&self, name: &str) -> Option<&NodeResourceTopology> {
        self.get("", name)
    }

    fn nodes_with_image(&self, image: &str) -> Vec<String> {
        let nodes = self.of_kind(Kind::Node).filter_map(|(_, object)| object.node());
        nodes.filter(|node| node.has_image(image)).map(|node| node.name().to_string()).collect()
    }

    fn free_slots(&self, id: &str, counted: u32) -> u32 {
        let on_slot = |name: &str| self.entries.get(&Name::new(Kind::NodeClaim, "", name) as &dyn Named)?.on_slot();
        let claims = self.cloud.claims_on(id).filter_map(|name| Some(&**on_slot(name)?.whole::<NodeClaim>()?));
        self.cloud.free(id, counted, claims)
    }

    fn counts_launch(&self, id: &str, claim: &str) -> bool {
        self.cloud.counts_launch(id, claim)
    }
}
