//! What a change of an object means for the controllers: indexes are kept, and work is added.

pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod volume;
pub(crate) mod workload;

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::Selector;

use crate::addresses::{KnownEndpoints, KnownSlice};
use crate::cache::ServiceAccount;
use crate::controllers::autoscalers::scaled_by;
use crate::core::Core;
use crate::index::{SelectorIndex, selector};
use crate::key::NamespacedName;
use crate::store::{Delta, Kept};
use crate::work::Work;

pub(crate) fn namespace(core: &mut Core, delta: &Delta<Namespace>) {
    core.add(Work::Namespace(delta.key.name.clone()));
    core.add(Work::ServiceAccount(delta.key.name.clone()));
}

pub(crate) fn service_account(core: &mut Core, delta: &Delta<ServiceAccount>) {
    if delta.new.is_none() && &*delta.key.name == "default" {
        core.add(Work::ServiceAccount(delta.key.namespace.clone()));
    }
}

pub(crate) fn service(core: &mut Core, delta: &Delta<Service>) {
    let slices = Work::EndpointSlices(delta.key.clone());
    let selects = delta.new.as_ref().and_then(|service| {
        let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
        let labels = spec.selector.clone().filter(|labels| !labels.is_empty())?;
        Some(labels.into_iter().collect::<Selector>())
    });
    select_pods(core, &slices, &delta.key, selects);
    core.add(slices);
    core.add(Work::Endpoints(delta.key.clone()));
}

pub(crate) fn endpoints(core: &mut Core, delta: &Delta<KnownEndpoints>) {
    if !core.is_own_write {
        core.add(Work::Endpoints(delta.key.clone()));
    }
}

pub(crate) fn slice(core: &mut Core, delta: &Delta<KnownSlice>) {
    for (slice, is_new) in [(&delta.old, false), (&delta.new, true)] {
        let Some(slice) = slice else { continue };
        let view = slice.view();
        if let Some(owner) = view.controller() {
            if is_new {
                core.caches.indexes.slices_of.insert(owner.uid.as_str().into(), &delta.key);
            } else {
                core.caches.indexes.slices_of.remove(owner.uid.as_str(), &delta.key);
            }
        }
        let service = view.labels.get("kubernetes.io/service-name");
        if let Some(service) = service.filter(|_| !core.is_own_write) {
            core.add(Work::EndpointSlices(delta.key.beside(service)));
        }
    }
}

pub(crate) fn autoscaler(core: &mut Core, delta: &Delta<HorizontalPodAutoscaler>) {
    for (object, is_new) in [(&delta.old, false), (&delta.new, true)] {
        let Some(scaled) = object.as_ref().and_then(|object| scaled_by(&delta.key, object)) else { continue };
        let index = &mut core.caches.indexes.autoscalers_of;
        if is_new {
            index.insert(scaled.clone(), &delta.key);
        } else {
            index.remove(&scaled, &delta.key);
        }
        // To others that scale the same it matters whether they are alone.
        workload::autoscale(core, &scaled);
    }
    core.add(Work::Autoscaler(delta.key.clone()));
}

pub(crate) fn budget(core: &mut Core, delta: &Delta<PodDisruptionBudget>) {
    let work = Work::Budget(delta.key.clone());
    let given = delta.new.as_ref().and_then(|budget| selector(budget.spec.as_ref()?.selector.as_ref()));
    select_pods(core, &work, &delta.key, given);
    core.add(work);
}

pub(crate) fn quota(core: &mut Core, delta: &Delta<ResourceQuota>) {
    let spec = |quota: &Option<Arc<ResourceQuota>>| quota.as_ref().and_then(|quota| quota.spec.clone());
    if spec(&delta.old) != spec(&delta.new) {
        crate::controllers::quotas::recount(core, &delta.key, delta.new.as_deref());
    }
    core.add(Work::Quota(delta.key.clone()));
}

/// Notes which pods a Service or a budget selects now.
fn select_pods(core: &mut Core, work: &Work, key: &NamespacedName, selector: Option<Selector>) {
    let pods = core.caches.pods.namespace(&key.namespace);
    let pods = pods.map(|(key, pod)| (key, &*pod.metadata.labels));
    set_selector(&mut core.caches.indexes.selected, work, key, selector, pods);
}

/// Sets or ends a selector; one that stays as it is costs nothing.
fn set_selector<'o>(
    index: &mut SelectorIndex,
    work: &Work,
    key: &NamespacedName,
    selector: Option<Selector>,
    objects: impl Iterator<Item = (&'o NamespacedName, &'o crate::objects::Labels)>,
) {
    match selector {
        Some(selector) if index.is(work, &selector) => {}
        Some(selector) => index.set(work, &key.namespace, selector, objects),
        None => index.unset(work, &key.namespace),
    }
}
