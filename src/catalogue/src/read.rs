//! A tree of values to entries: which fields there are and what type each has. What the values mean together is for
//! [`Catalogue::new`](crate::Catalogue::new) to check.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_quantity::Quantity;

use crate::error::Context;
use crate::read_details::{read_labels, read_machine, read_reservation};
use crate::syntax::{Value, parse};
use crate::{
    Availability, Catalogue, CatalogueError, InstanceTypeEntry, Money, OfferingEntry, Operator, RequirementEntry, label,
};

type Result<T> = std::result::Result<T, CatalogueError>;

/// Reads a catalogue. `file` is its name for messages; one that ends in `.json` is read as strict JSON only.
///
/// # Errors
/// [`CatalogueError`] says where: text that is no JSON or YAML; unknown, repeated or missing fields; values of the wrong
/// type; and whatever [`Catalogue::new`] refuses.
pub fn read(text: &[u8], file: &str) -> Result<Catalogue> {
    let cx = Context::new(file);
    let types = match parse(text, file)? {
        Value::List(entries) => entries
            .iter()
            .enumerate()
            .map(|(i, entry)| read_instance_type(Context { entry: Some(i), ..cx }, entry))
            .collect::<Result<Vec<_>>>()?,
        other => return Err(cx.error("", "a list of instance types", other)),
    };
    crate::catalogue::assemble(types, file)
}

fn read_instance_type(cx: Context<'_>, value: &Value<'_>) -> Result<InstanceTypeEntry> {
    const FIELDS: [&str; 8] =
        ["name", "architecture", "operatingSystems", "resources", "labels", "machine", "notes", "offerings"];
    let cx = Context { instance_type: name_of(value), ..cx };
    let [name, architecture, operating_systems, resources, labels, machine, notes, offerings] =
        fields(cx, value, FIELDS)?;
    Ok(InstanceTypeEntry {
        name: required(cx, name, "name", "the name of an instance type").and_then(|v| string(cx, "name", v))?,
        architecture: match architecture {
            Some(v) => string(cx, "architecture", v)?,
            None => "amd64".to_owned(),
        },
        operating_systems: match operating_systems {
            Some(v) => strings(cx, "operatingSystems", v)?,
            None => vec!["linux".to_owned()],
        },
        resources: required(cx, resources, "resources", "what pods may use of a node")
            .and_then(|v| read_resources(cx, v))?,
        labels: labels.map_or(Ok(BTreeMap::new()), |v| read_labels(cx, "labels", v))?,
        machine: machine.map(|v| read_machine(cx, v).map(Box::new)).transpose()?,
        notes: notes.map_or(Ok(Vec::new()), |v| strings(cx, "notes", v))?,
        offerings: match offerings {
            Some(Value::List(offerings)) => offerings
                .iter()
                .enumerate()
                .map(|(i, v)| read_offering(Context { offering: Some(i), ..cx }, v))
                .collect::<Result<_>>()?,
            Some(other) => return Err(cx.error("offerings", "a list of offerings", other)),
            None => Vec::new(),
        },
    })
}

/// The name, for messages about the fields before it.
fn name_of<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    let Value::Map(entries) = value else {
        return None;
    };
    entries.iter().find_map(|(key, value)| match value {
        Value::String(name) if is_field(key, "name") => Some(name.as_ref()),
        _ => None,
    })
}

fn read_resources(cx: Context<'_>, value: &Value<'_>) -> Result<BTreeMap<String, Quantity>> {
    let Value::Map(entries) = value else {
        return Err(cx.error("resources", "a map of resource names to quantities", value));
    };
    let mut resources = BTreeMap::new();
    for (name, value) in entries {
        let text = match value {
            Value::String(text) => Cow::Borrowed(text.as_ref()),
            Value::Integer(_) | Value::Float(_) => Cow::Owned(value.to_string()),
            _ => return Err(cx.error(&format!("resources.{name}"), "a quantity", value)),
        };
        let quantity: Quantity = text
            .parse()
            .map_err(|error| cx.error(&format!("resources.{name}"), "a quantity", format!("{value} ({error})")))?;
        if resources.insert(name.as_ref().to_owned(), quantity).is_some() {
            return Err(cx.error(&format!("resources.{name}"), "each resource once", "it again"));
        }
    }
    Ok(resources)
}

fn read_offering(cx: Context<'_>, value: &Value<'_>) -> Result<OfferingEntry> {
    const FIELDS: [&str; 9] = [
        "Price",
        "Available",
        "ReservationCapacity",
        "Requirements",
        "Reservation",
        // Karpenter before v1.
        "CapacityType",
        "Zone",
        // Karpenter writes these, empty.
        "CapacityOverride",
        "OverheadOverride",
    ];
    let [
        price,
        available,
        capacity,
        requirements,
        reservation,
        capacity_type,
        zone,
        capacity_override,
        overhead_override,
    ] = fields(cx, value, FIELDS)?;
    for (field, value) in [("CapacityOverride", capacity_override), ("OverheadOverride", overhead_override)] {
        if let Some(value) = value {
            return Err(cx.error(field, "none, as every offering of a type has the type's resources", value));
        }
    }
    let mut requirements = match requirements {
        Some(Value::List(requirements)) => requirements
            .iter()
            .enumerate()
            .map(|(i, v)| read_requirement(Context { requirement: Some(i), ..cx }, v))
            .collect::<Result<_>>()?,
        Some(other) => return Err(cx.error("Requirements", "a list of requirements", other)),
        None => Vec::new(),
    };
    for (field, key, value) in [("CapacityType", label::CAPACITY_TYPE, capacity_type), ("Zone", label::ZONE, zone)] {
        if let Some(value) = value {
            requirements.push(RequirementEntry::is(key, string(cx, field, value)?));
        }
    }
    Ok(OfferingEntry {
        price: required(cx, price, "Price", "dollars an hour").and_then(|v| read_price(cx, v))?,
        availability: match available {
            None | Some(Value::Bool(true)) => Availability::Unlimited,
            Some(Value::Bool(false)) => Availability::Count(0),
            Some(value) => {
                let expected = "true, false or a count from 0 to 4294967295";
                Availability::from(count(cx, "Available", expected, value)?)
            }
        },
        reservation_capacity: capacity
            .map(|v| count(cx, "ReservationCapacity", "a count from 0 to 4294967295", v))
            .transpose()?,
        requirements,
        reservation: reservation.map(|v| read_reservation(cx, v).map(Box::new)).transpose()?,
    })
}

fn read_price(cx: Context<'_>, value: &Value<'_>) -> Result<Money> {
    match value {
        Value::Integer(dollars) => dollars.to_string().parse().ok(),
        Value::Float(dollars) => Money::from_f64(*dollars),
        _ => None,
    }
    .ok_or_else(|| cx.error("Price", "a number of dollars an hour", value))
}

fn read_requirement(cx: Context<'_>, value: &Value<'_>) -> Result<RequirementEntry> {
    let [key, operator, values] = fields(cx, value, ["key", "operator", "values"])?;
    let operator = required(cx, operator, "operator", "an operator")?;
    Ok(RequirementEntry {
        key: required(cx, key, "key", "the name of a label").and_then(|v| string(cx, "key", v))?,
        operator: match operator {
            Value::String(name) => name.parse::<Operator>().ok(),
            _ => None,
        }
        .ok_or_else(|| {
            cx.error("operator", format!("one of {}", Operator::ALL.map(Operator::as_str).join(", ")), operator)
        })?,
        values: values.map_or(Ok(Vec::new()), |v| strings(cx, "values", v))?,
    })
}

// === fields ===

/// The values of the `known` fields of a map, `None` where absent or null. No other field may be there.
pub(crate) fn fields<'v, 't, const N: usize>(
    cx: Context<'_>,
    value: &'v Value<'t>,
    known: [&str; N],
) -> Result<[Option<&'v Value<'t>>; N]> {
    let Value::Map(entries) = value else {
        return Err(cx.error("", format!("a map of {}", known.join(", ")), value));
    };
    let mut found = [None; N];
    for (key, value) in entries {
        let Some((slot, name)) = found.iter_mut().zip(known).find(|(_, name)| is_field(key, name)) else {
            return Err(cx.error(key, format!("one of {}", known.join(", ")), "an unknown field"));
        };
        if slot.is_some() {
            return Err(cx.error(key, format!("{name} once"), "it again"));
        }
        *slot = Some(value);
    }
    Ok(found.map(|value| value.filter(|v| **v != Value::Null)))
}

/// Whether `key` is `name` but for the case of its first letter.
fn is_field(key: &str, name: &str) -> bool {
    match (key.as_bytes(), name.as_bytes()) {
        ([k, key @ ..], [n, name @ ..]) => k.eq_ignore_ascii_case(n) && key == name,
        _ => false,
    }
}

pub(crate) fn required<'v, 't>(
    cx: Context<'_>,
    value: Option<&'v Value<'t>>,
    field: &str,
    expected: &str,
) -> Result<&'v Value<'t>> {
    value.ok_or_else(|| cx.error(field, expected, "nothing"))
}

pub(crate) fn string(cx: Context<'_>, field: &str, value: &Value<'_>) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.as_ref().to_owned()),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            Err(cx.error(field, "a string", format!("{value} without quotes")))
        }
        _ => Err(cx.error(field, "a string", value)),
    }
}

fn strings(cx: Context<'_>, field: &str, value: &Value<'_>) -> Result<Vec<String>> {
    let Value::List(values) = value else {
        return Err(cx.error(field, "a list of strings", value));
    };
    let element = |(i, value): (usize, &Value<'_>)| match value {
        Value::String(text) => Ok(text.as_ref().to_owned()),
        _ => string(cx, &format!("{field}[{i}]"), value),
    };
    values.iter().enumerate().map(element).collect()
}

pub(crate) fn count(cx: Context<'_>, field: &str, expected: &str, value: &Value<'_>) -> Result<u32> {
    match value {
        Value::Integer(count) => u32::try_from(*count).ok(),
        _ => None,
    }
    .ok_or_else(|| cx.error(field, expected, value))
}

#[cfg(test)]
mod tests;
