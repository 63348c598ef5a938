//! LimitRanges, as the API server's LimitRanger applies them to pods that are created.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, LimitRange, LimitRangeItem};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::shape::AdmissionSpec;
use crate::Problem;
use crate::quantities::{Amounts, parse};
use berth_model::{Cluster, ResourceId};

const NANOS: i128 = 1_000_000_000;

type List = BTreeMap<String, Quantity>;

/// The items of a LimitRange, with the defaults that the API server sets in it.
///
/// Problems are relative to the object.
pub(crate) fn read(object: &LimitRange) -> Result<Vec<LimitRangeItem>, Problem> {
    let Some(spec) = &object.spec else { return Ok(Vec::new()) };
    let mut items = spec.limits.clone();
    for (at, item) in items.iter_mut().enumerate() {
        let lists = [
            ("default", &item.default),
            ("defaultRequest", &item.default_request),
            ("max", &item.max),
            ("min", &item.min),
            ("maxLimitRequestRatio", &item.max_limit_request_ratio),
        ];
        for (field, list) in lists {
            for (name, quantity) in list.iter().flatten() {
                parse(&quantity.0).map_err(|problem| problem.under(format!("spec.limits[{at}].{field}[{name}]")))?;
            }
        }
        set_defaults(item);
    }
    Ok(items)
}

// A maximum is the default limit, that the default request, and a minimum is, where there is neither.
fn set_defaults(item: &mut LimitRangeItem) {
    if item.type_ != "Container" {
        return;
    }
    let limits = item.default.get_or_insert_default();
    let requests = item.default_request.get_or_insert_default();
    for (name, quantity) in item.max.iter().flatten() {
        limits.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
    for (name, quantity) in limits.iter().chain(item.min.iter().flatten()) {
        requests.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

/// Sets the defaults of an item in all containers; whether that changed any.
pub(super) fn apply_defaults(item: &LimitRangeItem, shape: &mut AdmissionSpec) -> bool {
    let mut is_changed = false;
    if item.type_ != "Container" {
        return is_changed;
    }
    let mut fill = |list: &mut List, defaults: &Option<List>| {
        for (name, quantity) in
            defaults.iter().flatten().filter(|(name, _)| !list.contains_key(*name)).collect::<Vec<_>>()
        {
            list.insert(name.clone(), quantity.clone());
            is_changed = true;
        }
    };
    for container in shape.containers_mut() {
        let resources = container.resources.get_or_insert_default();
        fill(resources.limits.get_or_insert_default(), &item.default);
        fill(resources.requests.get_or_insert_default(), &item.default_request);
    }
    is_changed
}

/// Why the API server takes no pod of the shape once defaults are set: a default limit below what a container requests.
pub(super) fn contradiction(shape: &AdmissionSpec) -> Option<String> {
    shape.containers().find_map(|container| {
        let resources = container.resources.as_ref()?;
        let limits = resources.limits.as_ref()?;
        resources.requests.iter().flatten().find_map(|(name, request)| {
            let limit = limits.get(name)?;
            let is_less = parse(&limit.0).ok()? < parse(&request.0).ok()?;
            is_less.then(|| {
                format!(
                    "default {name} limit {} is less than the request {} (container {})",
                    limit.0, request.0, container.name
                )
            })
        })
    })
}

/// Why an item lets no pod of the shape in, if so.
pub(super) fn violation(
    item: &LimitRangeItem,
    shape: &AdmissionSpec,
    cluster: &mut Cluster,
) -> Result<Option<String>, Problem> {
    let violated = match item.type_.as_str() {
        "Container" => {
            let of_container = |container: &Container| {
                let resources = container.resources.as_ref();
                let amount = |list: Option<&List>, name: &str| parse(&list?.get(name)?.0).ok();
                first_violated(item, |name| {
                    (
                        amount(resources.and_then(|all| all.requests.as_ref()), name),
                        amount(resources.and_then(|all| all.limits.as_ref()), name),
                    )
                })
                .map(|says| format!("{says} (container {})", container.name))
            };
            shape.containers().find_map(of_container)
        }
        "Pod" => {
            let (requests, limits) = (shape.requests(cluster)?, shape.limits(cluster)?);
            let amount = |amounts: &Amounts, name: &str| amounts.get(id_of(name, cluster)?);
            first_violated(item, |name| (amount(&requests, name), amount(&limits, name)))
        }
        _ => None,
    };
    Ok(violated)
}

fn id_of(name: &str, cluster: &Cluster) -> Option<ResourceId> {
    cluster.resource_names.get(cluster.symbols.get(name)?)
}

// `amounts` are the request and the limit of a resource.
fn first_violated(item: &LimitRangeItem, amounts: impl Fn(&str) -> (Option<i128>, Option<i128>)) -> Option<String> {
    let of = &item.type_;
    let least = item.min.iter().flatten().find_map(|(name, least)| {
        let (bound, (request, limit)) = (parse(&least.0).ok()?, amounts(name));
        let what = match (request, limit) {
            (None, _) => "no request is specified",
            (Some(request), _) if request < bound => "the request is less",
            (_, Some(limit)) if limit < bound => "the limit is less",
            _ => return None,
        };
        Some(format!("minimum {name} usage per {of} is {}, but {what}", least.0))
    });
    let most = || {
        item.max.iter().flatten().find_map(|(name, most)| {
            let (bound, (request, limit)) = (parse(&most.0).ok()?, amounts(name));
            let what = match (request, limit) {
                (_, None) => "no limit is specified",
                (_, Some(limit)) if limit > bound => "the limit is more",
                (Some(request), _) if request > bound => "the request is more",
                _ => return None,
            };
            Some(format!("maximum {name} usage per {of} is {}, but {what}", most.0))
        })
    };
    let ratio = || {
        item.max_limit_request_ratio.iter().flatten().find_map(|(name, ratio)| {
            let (bound, (request, limit)) = (parse(&ratio.0).ok()?, amounts(name));
            let is_more = match (request, limit) {
                (None | Some(0), _) | (_, None | Some(0)) => true,
                (Some(request), Some(limit)) => {
                    // Beyond what can be multiplied the bound is further than any limit.
                    let most = bound.checked_mul(request);
                    most.is_some_and(|most| limit.checked_mul(NANOS).is_none_or(|limit| limit > most))
                }
            };
            let says =
                || format!("{name} max limit to request ratio per {of} is {}, but the pod's is more or unset", ratio.0);
            is_more.then(says)
        })
    };
    least.or_else(most).or_else(ratio)
}
