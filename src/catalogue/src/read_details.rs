//! The fields beyond KWOK's: labels, the machine, and what is known of a reservation.

use std::collections::BTreeMap;

use crate::error::Context;
use crate::read::{count, fields, required, string};
use crate::syntax::Value;
use crate::{CatalogueError, Machine, ReservationDetails};

type Result<T> = std::result::Result<T, CatalogueError>;

/// A map of strings, as labels and tags are.
pub(crate) fn read_labels(cx: Context<'_>, field: &str, value: &Value<'_>) -> Result<BTreeMap<String, String>> {
    let Value::Map(entries) = value else {
        return Err(cx.error(field, "a map of strings", value));
    };
    let mut labels = BTreeMap::new();
    for (key, value) in entries {
        let text = string(cx, &format!("{field}[{key}]"), value)?;
        if labels.insert(key.as_ref().to_owned(), text).is_some() {
            return Err(cx.error(&format!("{field}[{key}]"), "each key once", "it again"));
        }
    }
    Ok(labels)
}

pub(crate) fn read_machine(cx: Context<'_>, value: &Value<'_>) -> Result<Machine> {
    const FIELDS: [&str; 7] =
        ["vCPUs", "memoryMiB", "usableMemoryMiB", "networkInterfaces", "ipv4PerInterface", "maxPods", "localStorageGB"];
    let [vcpus, memory, usable, interfaces, ipv4, max_pods, storage] = fields(cx, value, FIELDS)?;
    let number = |name: &str, value: Option<&Value<'_>>| {
        let expected = "a count from 0 to 4294967295";
        required(cx, value, &format!("machine.{name}"), expected)
            .and_then(|v| count(cx, &format!("machine.{name}"), expected, v))
    };
    let machine = Machine {
        vcpus: number("vCPUs", vcpus)?,
        memory_mib: number("memoryMiB", memory)?.into(),
        usable_memory_mib: number("usableMemoryMiB", usable)?.into(),
        network_interfaces: number("networkInterfaces", interfaces)?,
        ipv4_per_interface: number("ipv4PerInterface", ipv4)?,
        max_pods: number("maxPods", max_pods)?,
        local_storage_gb: number("localStorageGB", storage)?.into(),
    };
    if machine.vcpus == 0 {
        return Err(cx.error("machine.vCPUs", "more than 0", "0"));
    }
    if machine.usable_memory_mib > machine.memory_mib {
        let expected = format!("at most memoryMiB, {}", machine.memory_mib);
        return Err(cx.error("machine.usableMemoryMiB", expected, machine.usable_memory_mib));
    }
    Ok(machine)
}

pub(crate) fn read_reservation(cx: Context<'_>, value: &Value<'_>) -> Result<ReservationDetails> {
    const FIELDS: [&str; 8] =
        ["TotalInstances", "OwnerID", "SharedWith", "InstanceMatchCriteria", "State", "Start", "End", "Tags"];
    let [total, owner, shared_with, criteria, state, start, end, tags] = fields(cx, value, FIELDS)?;
    let text = |name: &str, value: Option<&Value<'_>>| {
        value.map_or(Ok(String::new()), |value| string(cx, &format!("Reservation.{name}"), value))
    };
    let total = total.map(|v| count(cx, "Reservation.TotalInstances", "a count from 0 to 4294967295", v));
    let details = ReservationDetails {
        total_instances: total.transpose()?,
        owner_id: text("OwnerID", owner)?,
        shared_with: text("SharedWith", shared_with)?,
        instance_match_criteria: text("InstanceMatchCriteria", criteria)?,
        state: text("State", state)?,
        start: text("Start", start)?,
        end: text("End", end)?,
        tags: tags.map_or(Ok(BTreeMap::new()), |v| read_labels(cx, "Reservation.Tags", v))?,
    };
    if !["", "open", "targeted"].contains(&details.instance_match_criteria.as_str()) {
        let found = format!("{:?}", details.instance_match_criteria);
        return Err(cx.error("Reservation.InstanceMatchCriteria", "open or targeted", found));
    }
    Ok(details)
}
