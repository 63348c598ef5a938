//! ResourceQuotas: what is used is counted as objects come, change and go, and never exceeds what a quota has.

mod ledger;
#[cfg(test)]
mod tests;
mod usage;

use std::borrow::Cow;

use berth_quantity::Quantity;
use serde_json::Value;

use crate::meta::{self, list_at, text_at};
use crate::status::{ApiError, Result};
use crate::store::Object;
use crate::verbs::Scope;

pub(crate) use ledger::Ledger;
use ledger::{Quota, Usage};
pub(crate) use usage::Charge;
pub(crate) use usage::pod_total;

/// Refuses a new object, or the change of one, that its namespace has no quota left for. `charge` is what its draft takes. The
/// caller holds the ledger's lock until the object is stored.
pub(crate) fn check(
    scope: &Scope<'_>,
    ledger: &mut Ledger,
    object: &Value,
    charge: Option<&Charge>,
    old: Option<&Object>,
) -> Result<()> {
    let server = scope.server;
    if !server.inner.config.admission.resource_quota || !scope.resource.namespaced {
        return Ok(());
    }
    let quotas = ledger.quotas(server, &scope.namespace);
    if quotas.is_empty() {
        return Ok(());
    }
    let taken = charge.map_or_else(|| Cow::Owned(Charge::of_each(&scope.resource)), Cow::Borrowed);
    for quota in quotas {
        if !quota.holds(&taken) {
            continue;
        }
        if scope.resource.is("pods") && old.is_none() {
            require_amounts(scope, quota, object)?;
        }
        let before = old.and_then(|old| old.charge.as_deref()).filter(|before| quota.holds(before));
        // What a change leaves or gives back asks for nothing.
        let delta: Usage = quota
            .hard
            .keys()
            .filter_map(|name| {
                let was = before.and_then(|before| before.get(name)).unwrap_or_default();
                let more = taken.get(name)?.checked_sub(was)?;
                (more > Quantity::default()).then(|| (name.clone(), more))
            })
            .collect();
        let exceeded: Vec<&String> = quota
            .hard
            .iter()
            .filter(|(name, limit)| {
                let Some(more) = delta.get(*name) else { return false };
                let now = quota.used.get(*name).copied().unwrap_or_default();
                now.checked_add(*more).is_none_or(|sum| sum > **limit)
            })
            .map(|(name, _)| name)
            .collect();
        if !exceeded.is_empty() {
            return Err(exceeds(scope, quota, &exceeded, &delta, object));
        }
    }
    Ok(())
}

/// Whether changes of an object of a kind can take more than it took.
pub(crate) fn may_grow(scope: &Scope<'_>) -> bool {
    let resource = &scope.resource;
    let is_whole = scope.subresource.is_empty();
    (resource.is("pods") && (is_whole || scope.subresource == "resize"))
        || (is_whole && (resource.is("services") || resource.is("persistentvolumeclaims")))
}

fn exceeds(scope: &Scope<'_>, quota: &Quota, exceeded: &[&String], delta: &Usage, object: &Value) -> ApiError {
    let show = |of: &Usage| {
        let parts = exceeded.iter().map(|name| format!("{name}={}", of.get(*name).copied().unwrap_or_default()));
        parts.collect::<Vec<_>>().join(",")
    };
    let why = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        show(delta),
        show(&quota.used),
        show(&quota.hard)
    );
    ApiError::forbidden(&scope.resource.group, &scope.resource.plural, meta::name(object), &why)
}

/// Amounts that each container states where a quota counts them.
const STATED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// Refuses a pod of which a container does not state what a quota counts, unless the pod states resources itself.
fn require_amounts(scope: &Scope<'_>, quota: &Quota, pod: &Value) -> Result<()> {
    let is_stated = |of: &str| meta::at(pod, &["spec", "resources", of]).is_some_and(|all| !all.is_null());
    if is_stated("requests") || is_stated("limits") {
        return Ok(());
    }
    let containers = ["containers", "initContainers"].into_iter().flat_map(|field| list_at(pod, &["spec", field]));
    let containers: Vec<&Value> = containers.collect();
    let without = |name: &str| {
        let (of, resource) = name.split_once('.').unwrap_or(("requests", name));
        let lacks = |container: &&&Value| meta::at(container, &["resources", of, resource]).is_none();
        let mut names: Vec<&str> = containers.iter().filter(lacks).map(|c| text_at(c, &["name"])).collect();
        names.sort_unstable();
        names
    };
    let counted = STATED.into_iter().filter(|name| quota.hard.contains_key(*name));
    let missing = counted.map(|name| (name, without(name))).filter(|(_, names)| !names.is_empty());
    let missing: Vec<String> = missing.map(|(name, names)| format!("{name} for: {}", names.join(","))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("failed quota: {}: must specify {}", quota.name, missing.join("; "));
    Err(ApiError::forbidden("", &scope.resource.plural, meta::name(pod), &why))
}
