//! NodeOverlays, as the cloud's bill is to have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{NodeOverlay, NodePool};
use berth_cloudprovider_fake::cloud::{CatalogueOverlay, FakeCloud};
use berth_manifests::Object;
use futures::stream::{BoxStream, StreamExt};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};

use crate::cluster::watch;

/// What is known of NodeOverlays, and of NodePools by whose labels they select.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlays {
    overlays: BTreeMap<String, Arc<NodeOverlay>>,
    pools: BTreeMap<String, Arc<NodePool>>,
}

/// A change that decides what is paid for nodes: of a NodeOverlay or a NodePool.
#[derive(Debug)]
pub struct PriceSeen(Kind);

#[derive(Debug)]
enum Kind {
    Overlay(Box<Event<NodeOverlay>>),
    Pool(Box<Event<NodePool>>),
}

// === impl PriceSeen ===

impl PriceSeen {
    /// Watches all that decides what is paid beside the catalogues.
    pub fn watch(client: &Client) -> BoxStream<'static, Self> {
        let overlays = watch::<NodeOverlay, _>(client, |event| Self(Kind::Overlay(Box::new(event))));
        let pools = watch::<NodePool, _>(client, |event| Self(Kind::Pool(Box::new(event))));
        futures::stream::select(overlays, pools).boxed()
    }
}

// === impl Overlays ===

impl Overlays {
    /// Takes in objects. Whether something has changed.
    pub(crate) fn read(&mut self, objects: &[Object]) -> bool {
        let mut is_changed = false;
        for object in objects {
            is_changed |= match object {
                Object::NodeOverlay(own) => put(&mut self.overlays, (**own).clone(), is_same_overlay),
                Object::NodePool(own) => put(&mut self.pools, (**own).clone(), is_same_pool),
                _ => false,
            };
        }
        is_changed
    }

    /// Takes in a change. Whether something is different now.
    pub(crate) fn take(&mut self, seen: PriceSeen) -> bool {
        // The watches are of this process, or what they miss comes with the next change.
        match seen.0 {
            Kind::Overlay(event) => take(&mut self.overlays, *event, is_same_overlay),
            Kind::Pool(event) => take(&mut self.pools, *event, is_same_pool),
        }
    }

    /// Tells the cloud what is paid.
    pub(crate) fn tell(&self, cloud: &FakeCloud) {
        if self.overlays.is_empty() {
            return cloud.set_overlay(None);
        }
        let Self { overlays, pools } = self.clone();
        let overlay = move |class: Option<&str>, catalogue: &_| {
            let is_of_class = |pool: &&NodePool| {
                let own = pool.spec.template.spec.node_class_ref.as_ref();
                class.is_none_or(|class| own.is_some_and(|own| own.name == class))
            };
            let pools = pools.values().map(|pool| &**pool).filter(is_of_class);
            berth_convert::overlaid(catalogue, pools, overlays.values().map(|overlay| &**overlay)).catalogue
        };
        cloud.set_overlay(Some(CatalogueOverlay::new(overlay)));
    }
}

fn is_same_overlay(one: &NodeOverlay, other: &NodeOverlay) -> bool {
    one.spec == other.spec
}

fn is_same_pool(one: &NodePool, other: &NodePool) -> bool {
    one.spec == other.spec
}

/// Takes in what happened to objects of one kind. Whether something is different now.
fn take<K: ResourceExt>(known: &mut BTreeMap<String, Arc<K>>, event: Event<K>, is_same: fn(&K, &K) -> bool) -> bool {
    match event {
        Event::Apply(own) | Event::InitApply(own) => put(known, own, is_same),
        Event::Delete(own) => known.remove(&own.name_any()).is_some(),
        Event::Init | Event::InitDone => false,
    }
}

fn put<K: ResourceExt>(known: &mut BTreeMap<String, Arc<K>>, own: K, is_same: fn(&K, &K) -> bool) -> bool {
    let before = known.get(&own.name_any());
    if before.is_some_and(|before| is_same(before, &own)) {
        return false;
    }
    known.insert(own.name_any(), Arc::new(own));
    true
}
