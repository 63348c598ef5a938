//! Generic ephemeral volumes: a pod's claims are created for it, and go with it.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::core::{Core, controlled_by};
use crate::key::NamespacedName;
use crate::resource::{CLAIMS, PODS};
use crate::write::{Effect, Write};

/// Creates the claims that a pod's ephemeral volumes lack. One of that name that is another's stays as it is: the pod waits.
pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(pod) = core.caches.pods.get(key).filter(|pod| !pod.is_terminating() && !pod.has_ended()) else {
        return Effect::Done;
    };
    let claims = pod.ephemeral_claims().filter_map(|(name, template)| {
        let claim = key.beside(&name);
        if core.caches.claims.get(&claim).is_some() {
            return None;
        }
        let mut metadata = template.metadata.clone().unwrap_or_default();
        metadata.name = Some(name);
        metadata.namespace = Some(key.namespace.to_string());
        metadata.owner_references = Some(vec![controlled_by(&PODS, pod.view())]);
        let object = PersistentVolumeClaim { metadata, spec: Some(template.spec.clone()), status: None };
        Some(Write::ensure(&CLAIMS, &claim, &object))
    });
    Effect::of(claims.collect())
}
