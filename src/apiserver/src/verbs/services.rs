//! Addresses and node ports of Services: what one asks for, or the first that is free, held by no two.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use parking_lot::MutexGuard;
use serde_json::{Value, json};

use super::Scope;
use crate::defaults::service::{self, has_address, has_health_port, has_node_ports, is_external};
use crate::meta::{self, int_at, list_at, object_mut, text_at};
use crate::status::{ApiError, Cause, Result};
use crate::validation;

/// Node ports.
const NODE_PORTS: Range<i64> = 30_000..32_768;
/// The first node port that is given to who asks for none: below it are those that users choose.
const FIRST_GIVEN_PORT: i64 = 30_086;
/// Addresses: 10.96.0.0/12.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const NETWORK_BITS: u32 = 20;
/// Addresses from the network's first on that are given only to who asks for them.
const CHOSEN_ADDRESSES: u32 = 256;

/// Gives a Service what it needs, beside what it keeps of an older self, and lets nobody else have it: to be held until it is
/// stored.
pub(super) fn allocate<'a>(
    scope: &'a Scope<'_>,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<Option<MutexGuard<'a, ()>>> {
    if !scope.resource.is("services") || !scope.subresource.is_empty() {
        return Ok(None);
    }
    match old {
        Some(old) => service::keep(service, old),
        None => service::say_address(service),
    }
    let held = scope.server.inner.services.lock();
    let own = (meta::namespace(service).to_owned(), meta::name(service).to_owned());
    // Most changes ask for nothing new.
    let others: Others<'_> = LazyCell::new(Box::new(move || Held::by_others(scope, &own)));
    let given = validation::service_addresses(service)
        .err()
        .map_or_else(|| give(scope, service, old, &others), |cause| Err(vec![cause]));
    given.map(|()| Some(held)).map_err(|causes| {
        let resource = &scope.resource;
        ApiError::invalid(resource.group_of_errors(), &resource.kind, meta::name(service), &causes)
    })
}

/// Gives a Service its families, its address and its ports, in this order: the first that cannot be is told.
fn give(scope: &Scope<'_>, service: &mut Value, old: Option<&Value>, others: &Others<'_>) -> Result<(), Vec<Cause>> {
    families(service)?;
    let tried = scope.call.options.dry_run;
    address(scope, service, old, others).or_else(|cause| if tried { Ok(()) } else { Err(vec![cause]) })?;
    ports(service, old, Numbers { others, own: BTreeSet::new(), tried: tried.then_some(NODE_PORTS.end) })
        .map_err(|cause| vec![cause])
}

/// What other Services have, once somebody asks.
type Others<'a> = LazyCell<Held, Box<dyn FnOnce() -> Held + 'a>>;

/// What other Services have.
struct Held {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Held {
    fn by_others(scope: &Scope<'_>, own: &(String, String)) -> Self {
        let mut held = Self { addresses: BTreeSet::new(), ports: BTreeSet::new() };
        for other in scope.server.values("services", "") {
            if (meta::namespace(&other), meta::name(&other)) == (&*own.0, &*own.1) {
                continue;
            }
            let addresses = list_at(&other, &["spec", "clusterIPs"]).iter().filter_map(Value::as_str);
            held.addresses.extend(addresses.map(ToOwned::to_owned));
            held.ports.extend(node_ports(&other));
        }
        held
    }
}

/// The numbers that a Service has on every node.
fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    let ports = list_at(service, &["spec", "ports"]).iter().filter_map(|port| int_at(port, &["nodePort"]));
    ports.chain(int_at(service, &["spec", "healthCheckNodePort"])).filter(|number| *number != 0)
}

/// Address families: of this network there is one. Fills in those that are not said, and tells those that cannot be.
fn families(service: &mut Value) -> Result<(), Vec<Cause>> {
    let mut causes = Vec::new();
    if !has_address(service) {
        return Ok(());
    }
    for (index, address) in list_at(service, &["spec", "clusterIPs"]).iter().enumerate() {
        if address.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6())) {
            let why = "IPv6 is not configured on this cluster";
            let all = service.pointer("/spec/clusterIPs").unwrap_or(&Value::Null);
            causes.push(Cause::invalid(format!("spec.clusterIPs[{index}]"), all, why));
        }
    }
    let headless = text_at(service, &["spec", "clusterIP"]) == "None";
    let selects =
        meta::at(service, &["spec", "selector"]).and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    // Who has neither address nor selector may have endpoints of both families.
    let of_both = headless && !selects;
    let listed = list_at(service, &["spec", "ipFamilies"]);
    for (index, family) in listed.iter().enumerate().filter(|(_, family)| *family == "IPv6" && !of_both) {
        causes.push(Cause::invalid(format!("spec.ipFamilies[{index}]"), family, "not configured on this cluster"));
    }
    if text_at(service, &["spec", "ipFamilyPolicy"]) == "RequireDualStack" && !of_both {
        let why = "this cluster is not configured for dual-stack services";
        causes.push(Cause::invalid("spec.ipFamilyPolicy", &"RequireDualStack".into(), why));
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    if let Some(spec) = object_mut(service, &["spec"]) {
        meta::fill(spec, "ipFamilyPolicy", if of_both { "RequireDualStack" } else { "SingleStack" });
        if spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let is_single = spec.get("ipFamilyPolicy").is_some_and(|policy| policy == "SingleStack");
            let families = if of_both && !is_single { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
            spec.insert("ipFamilies".to_owned(), families);
        }
    }
    Ok(())
}

/// An address of the network: the one that is asked for, or the first free one from a point that the seed decides.
fn address(scope: &Scope<'_>, service: &mut Value, old: Option<&Value>, others: &Others<'_>) -> Result<(), Cause> {
    let given = text_at(service, &["spec", "clusterIP"]).to_owned();
    // One that has an address keeps it: that a change asks for another is told with the rest of what is wrong.
    let has_one = old.is_some_and(|old| has_address(old) && !text_at(old, &["spec", "clusterIP"]).is_empty());
    if !has_address(service) || given == "None" || has_one {
        return Ok(());
    }
    let refused = |why: String| {
        let all = service.pointer("/spec/clusterIPs").cloned().unwrap_or_default();
        Err(Cause::invalid("spec.clusterIPs", &all, &why))
    };
    let size = 1_u32 << NETWORK_BITS;
    let address = if given.is_empty() {
        let start = scope.server.inner.entropy.next() % u64::from(size);
        let start = u32::try_from(start).unwrap_or_default();
        // Those that users choose come last, the network's own address and its last are nobody's.
        let usable = (0..size).map(|n| (start + n) % size).filter(|n| (CHOSEN_ADDRESSES..size - 1).contains(n));
        let mut candidates =
            usable.chain(1..CHOSEN_ADDRESSES).map(|n| Ipv4Addr::from(u32::from(NETWORK) + n).to_string());
        match candidates.find(|address| !others.addresses.contains(address)) {
            Some(address) => address,
            None => return refused("failed to allocate a serviceIP: range is full".to_owned()),
        }
    } else {
        let number = given.parse::<Ipv4Addr>().map_or(0, u32::from);
        let offset = number.wrapping_sub(u32::from(NETWORK));
        if !(1..size - 1).contains(&offset) {
            return refused(format!(
                "failed to allocate IP {given}: the provided network does not match the current range"
            ));
        }
        if others.addresses.contains(&given) {
            return refused(format!("failed to allocate IP {given}: provided IP is already allocated"));
        }
        given
    };
    if let Some(spec) = object_mut(service, &["spec"]) {
        spec.insert("clusterIPs".to_owned(), json!([address]));
        spec.insert("clusterIP".to_owned(), address.into());
    }
    Ok(())
}

/// Node ports, and the port of health checks.
fn ports(service: &mut Value, old: Option<&Value>, mut numbers: Numbers<'_, '_>) -> Result<(), Cause> {
    let had: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    // Its own are its own, and given to no second port of it.
    numbers.own.extend(&had);
    let gives = has_node_ports(service);
    let asked: Vec<(i64, i64)> = list_at(service, &["spec", "ports"])
        .iter()
        .map(|port| (int_at(port, &["port"]).unwrap_or(0), int_at(port, &["nodePort"]).unwrap_or(0)))
        .collect();
    if is_external(service) {
        // Ports of one number share theirs, too, if their protocols differ: DNS has both.
        let mut of_port: BTreeMap<i64, i64> = BTreeMap::new();
        for (index, (port, wanted)) in asked.iter().enumerate() {
            let mut wanted = *wanted;
            if wanted == 0 && old.is_none() {
                let later = || asked.iter().find(|(other, number)| other == port && *number != 0);
                let shared = of_port.get(port).copied().or_else(|| later().map(|(_, number)| *number));
                wanted = shared.unwrap_or(0);
            }
            if wanted == 0 && !gives {
                continue;
            }
            let field = format!("spec.ports[{index}].nodePort");
            let is_own = had.contains(&wanted)
                || of_port.get(port) == Some(&wanted)
                || (old.is_some() && of_port.values().any(|number| *number == wanted));
            let number = if is_own { wanted } else { numbers.take(wanted, &field)? };
            numbers.own.insert(number);
            of_port.entry(*port).or_insert(number);
            if let Some(port) = object_mut_of_port(service, index) {
                port.insert("nodePort".to_owned(), number.into());
            }
        }
    }
    if has_health_port(service) {
        let wanted = int_at(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
        if !had.contains(&wanted) && !old.is_some_and(has_health_port) {
            let number = numbers.take(wanted, "spec.healthCheckNodePort")?;
            if let Some(spec) = object_mut(service, &["spec"]) {
                spec.insert("healthCheckNodePort".to_owned(), number.into());
            }
        }
    }
    Ok(())
}

fn object_mut_of_port(service: &mut Value, index: usize) -> Option<&mut serde_json::Map<String, Value>> {
    service.pointer_mut("/spec/ports")?.as_array_mut()?.get_mut(index)?.as_object_mut()
}

/// Numbers on the nodes.
struct Numbers<'a, 'b> {
    others: &'a Others<'b>,
    /// What the Service has itself.
    own: BTreeSet<i64>,
    /// The last that was named, where a request only tries: it is given the next, which nobody holds for it.
    tried: Option<i64>,
}

impl Numbers<'_, '_> {
    fn is_taken(&self, number: i64) -> bool {
        self.own.contains(&number) || self.others.ports.contains(&number)
    }

    /// The number that is asked for, or a free one where that is 0.
    fn take(&mut self, wanted: i64, field: &str) -> Result<i64, Cause> {
        let refused = |why: &str| Err(Cause::invalid(field, &wanted.into(), why));
        let number = if wanted != 0 {
            if self.is_taken(wanted) {
                return refused("provided port is already allocated");
            }
            if self.tried.is_none() && !NODE_PORTS.contains(&wanted) {
                return refused("provided port is not in the valid range. The range of valid ports is 30000-32767");
            }
            wanted
        } else if let Some(last) = self.tried {
            last.saturating_add(1)
        } else {
            let mut free = (FIRST_GIVEN_PORT..NODE_PORTS.end).chain(NODE_PORTS.start..FIRST_GIVEN_PORT);
            match free.find(|number| !self.is_taken(*number)) {
                Some(number) => number,
                None => return refused("range is full"),
            }
        };
        self.tried = self.tried.map(|_| number);
        self.own.insert(number);
        Ok(number)
    }
}
