//! Quantities in requests, limits, overhead and capacity.

use std::collections::BTreeMap;

use berth_quantity::Quantity;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Wire;

use super::{Problems, syntax};
use crate::error::Problem;
use crate::nearest::nearest;
use crate::path::{push_key, shorten};

type Amounts = BTreeMap<String, Wire>;

/// Resources that may be promised twice; of all others requests and limits are equal.
fn is_overcommitted(name: &str) -> bool {
    !name.starts_with("hugepages-")
        && (!name.contains('/') || name.starts_with("kubernetes.io/") || name.contains(".kubernetes.io/"))
}

/// Requests and limits of a container or of a pod as a whole.
pub(super) fn check_requirements(path: &str, resources: &ResourceRequirements, problems: &mut Problems) {
    let (requests_path, limits_path) = (format!("{path}.requests"), format!("{path}.limits"));
    for (path, amounts) in [(&requests_path, &resources.requests), (&limits_path, &resources.limits)] {
        if let Some(amounts) = amounts {
            check_amounts(path, amounts, problems);
            check_whole(path, amounts, problems);
            check_names(path, amounts, problems);
        }
    }
    let limit_of = |name: &str| resources.limits.as_ref().and_then(|limits| limits.get(name));
    for (name, request) in resources.requests.iter().flatten() {
        let Some(limit) = limit_of(name) else {
            if !is_overcommitted(name) {
                let message = "found without a limit, expected an equal one, as this resource cannot be overcommitted";
                problems.push(Problem::new(key_path(&requests_path, name), message));
            }
            continue;
        };
        let amount = |text: &Wire| text.0.parse::<Quantity>().ok();
        let (Some(asked), Some(most)) = (amount(request), amount(limit)) else { continue };
        let expected = if asked > most {
            "at most the limit"
        } else if asked != most && !is_overcommitted(name) {
            "exactly the limit, as this resource cannot be overcommitted:"
        } else {
            continue;
        };
        let message = format!("found {}, expected {expected} {}", shorten(&request.0), shorten(&limit.0));
        problems.push(Problem::new(key_path(&requests_path, name), message));
    }
}

/// What a container may ask for: what Kubernetes knows, or something with a domain of its own.
fn check_names(path: &str, amounts: &Amounts, problems: &mut Problems) {
    const KNOWN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    for name in amounts.keys() {
        // What is no name at all is told elsewhere.
        let is_known = name.contains('/') || KNOWN.contains(&name.as_str()) || name.starts_with("hugepages-");
        if is_known || !syntax::is_qualified_name(name) {
            continue;
        }
        let hint = nearest(name, KNOWN).map_or_else(String::new, |near| format!(": did you mean {near}?"));
        let expected = "expected cpu, memory, ephemeral-storage, hugepages-SIZE or DOMAIN/NAME";
        problems.push(Problem::new(key_path(path, name), format!("is no resource, {expected}{hint}")));
    }
}

/// Extended resources are counted: devices, addresses, licences.
fn check_whole(path: &str, amounts: &Amounts, problems: &mut Problems) {
    let is_extended = |name: &str| !is_overcommitted(name) && name.contains('/');
    for (name, amount) in amounts.iter().filter(|(name, _)| is_extended(name)) {
        let is_fraction = |quantity: Quantity| quantity.value_ceil() != quantity.value_floor();
        if amount.0.parse::<Quantity>().is_ok_and(is_fraction) {
            let message = format!("found {}, expected a whole number, as devices are counted", shorten(&amount.0));
            problems.push(Problem::new(key_path(path, name), message));
        }
    }
}

/// Each amount is a quantity of zero or more that fits 64 bits.
pub(super) fn check_amounts(path: &str, amounts: &Amounts, problems: &mut Problems) {
    for (name, amount) in amounts {
        if !syntax::is_qualified_name(name) {
            syntax::check_key(path, name, problems);
        }
        let found = &amount.0;
        let message = match found.parse::<Quantity>() {
            Err(error) => error.to_string(),
            Ok(quantity) if quantity.is_negative() => {
                format!("found {}, expected 0 or more", shorten(found))
            }
            Ok(quantity) if is_absurd(name, quantity) => {
                format!("found {}, more than any machine has", shorten(found))
            }
            Ok(_) => continue,
        };
        problems.push(Problem::new(key_path(path, name), message));
    }
}

/// Beyond what the arithmetic of nodes takes: 2⁶³-1 units, thousandths for cpu.
fn is_absurd(name: &str, quantity: Quantity) -> bool {
    let most = if name == "cpu" { quantity.milli_ceil() } else { quantity.value_ceil() };
    most.is_none_or(|most| most == i64::MAX)
}

fn key_path(path: &str, name: &str) -> String {
    let mut path = path.to_owned();
    push_key(&mut path, name);
    path
}
