//! What the fields of a catalogue must hold, and an offering of several zones taken apart.

use berth_quantity::{Format, Quantity};

use crate::error::Context;
use crate::{
    Availability, CapacityType, CatalogueError, InstanceTypeEntry, Money, OfferingEntry, Operator, RequirementEntry,
    Warning, label,
};

type Result<T> = std::result::Result<T, CatalogueError>;

/// No instance has a million cores, and milli-CPU summed over a large cluster must stay in 64 bits.
const MAX_CPU: i128 = 1_000_000;
/// An exbibyte, of bytes or of anything else.
const MAX_RESOURCE: i128 = 1 << 60;
/// The highest price an hour that is taken. Far above any real one, and leaves a price in picodollars within 63 bits.
pub const MAX_PRICE: Money = Money::from_dollars(1_000_000);
const DEFAULT_PODS: i64 = 110;

/// An offering taken apart into one for each zone and capacity type.
pub(crate) enum Split {
    Paid(Vec<OfferingEntry>),
    Reserved { id: Option<String>, instances: u32, split: Vec<OfferingEntry> },
}

/// Checks all of a type but its offerings, and sets what it leaves out.
pub(crate) fn instance_type(cx: Context<'_>, entry: &mut InstanceTypeEntry) -> Result<()> {
    label_value(cx, "name", &entry.name)?;
    label_value(cx, "architecture", &entry.architecture)?;
    if entry.operating_systems.is_empty() {
        return Err(cx.error("operatingSystems", "at least one operating system", "none"));
    }
    for (i, name) in entry.operating_systems.iter().enumerate() {
        label_value(cx, &format!("operatingSystems[{i}]"), name)?;
    }
    for (name, quantity) in &entry.resources {
        let limit = if name == "cpu" { MAX_CPU } else { MAX_RESOURCE };
        let in_nanos = Quantity::from_nanos(limit * 1_000_000_000, Format::DecimalSI);
        if quantity.is_negative() || *quantity > in_nanos {
            return Err(cx.error(&format!("resources.{name}"), format!("a quantity from 0 to {limit}"), quantity));
        }
        if name.is_empty() {
            return Err(cx.error("resources", "the name of a resource", "an empty one"));
        }
    }
    for name in ["cpu", "memory"] {
        match entry.resources.get(name) {
            None => return Err(cx.error(&format!("resources.{name}"), "a quantity", "nothing")),
            Some(quantity) if quantity.is_zero() => {
                return Err(cx.error(&format!("resources.{name}"), "more than 0", quantity));
            }
            Some(_) => {}
        }
    }
    for (key, value) in &entry.labels {
        if key.is_empty() {
            return Err(cx.error("labels", "the name of a label", "an empty one"));
        }
        // Labels may be empty, as the hypervisor of a machine without one.
        if !value.is_empty() {
            label_value(cx, &format!("labels[{key}]"), value)?;
        }
    }
    entry.resources.entry("pods".to_owned()).or_insert(Quantity::from_value(DEFAULT_PODS));
    Ok(())
}

/// Checks an offering and takes it apart.
pub(crate) fn offering(cx: Context<'_>, mut entry: OfferingEntry, warnings: &mut Vec<Warning>) -> Result<Split> {
    if entry.price.is_negative() || entry.price > MAX_PRICE {
        return Err(cx.error("Price", format!("0 to {MAX_PRICE} dollars an hour"), entry.price));
    }
    for (i, r) in entry.requirements.iter().enumerate() {
        requirement(Context { requirement: Some(i), ..cx }, r)?;
    }
    let zones = alternatives(cx, &entry, label::ZONE)?;
    let capacity_types = capacity_types(cx, &entry)?;
    let id = reservation_id(cx, &entry)?;
    if capacity_types.contains(&CapacityType::Reserved) {
        if capacity_types.len() > 1 {
            return Err(cx.error(
                "Requirements",
                "reserved as the only capacity type of its offering",
                "others with it",
            ));
        }
        let Availability::Count(instances) = entry.launchable() else {
            let found = "neither";
            return Err(cx.error(
                "ReservationCapacity",
                "a count of instances, as the offering is reserved, here or as Available",
                found,
            ));
        };
        // One place for the count, so that offerings which share it are alike.
        entry.availability = Availability::Unlimited;
        entry.reservation_capacity = Some(instances);
        return Ok(Split::Reserved { id, instances, split: split(entry, zones.as_deref(), &capacity_types) });
    }
    if entry.reservation.is_some() {
        return Err(cx.error("Reservation", "nothing, as the offering is not reserved", "a reservation"));
    }
    if let Some(id) = id {
        let found = format!("{id:?} on an offering that is not");
        return Err(cx.error("Requirements", "a reservation id on reserved offerings only", found));
    }
    if let Some(capacity) = entry.reservation_capacity.take().filter(|capacity| *capacity > 0) {
        let message = format!("{capacity} is ignored, as the offering is not reserved");
        warnings.push(cx.warning("ReservationCapacity", message));
    }
    let n_offerings = zones.as_ref().map_or(1, Vec::len) * capacity_types.len();
    if n_offerings > 1
        && let Some(count @ 1..) = entry.availability.count()
    {
        let found = format!("{count} for {n_offerings} offerings");
        return Err(cx.error("Available", "a count only where there is one zone and one capacity type", found));
    }
    Ok(Split::Paid(split(entry, zones.as_deref(), &capacity_types)))
}

fn split(entry: OfferingEntry, zones: Option<&[String]>, capacity_types: &[CapacityType]) -> Vec<OfferingEntry> {
    if zones.is_none_or(|zones| zones.len() == 1) && capacity_types.len() == 1 {
        return vec![entry];
    }
    let of = |capacity_type: CapacityType, zone: Option<&String>| {
        let mut offering = entry.clone();
        set(&mut offering, label::CAPACITY_TYPE, capacity_type.as_str());
        if let Some(zone) = zone {
            set(&mut offering, label::ZONE, zone);
        }
        offering
    };
    let zones: Vec<Option<&String>> = zones.map_or_else(|| vec![None], |zones| zones.iter().map(Some).collect());
    zones.into_iter().flat_map(|zone| capacity_types.iter().map(move |&c| (c, zone))).map(|(c, z)| of(c, z)).collect()
}

fn set(offering: &mut OfferingEntry, key: &str, value: &str) {
    for requirement in offering.requirements.iter_mut().filter(|r| r.key == key) {
        requirement.values = vec![value.to_owned()];
    }
}

// === requirements ===

fn requirement(cx: Context<'_>, requirement: &RequirementEntry) -> Result<()> {
    if requirement.key.is_empty() {
        return Err(cx.error("key", "the name of a label", "an empty one"));
    }
    let values = requirement.values.as_slice();
    let operator = requirement.operator.as_str();
    match (requirement.operator, values) {
        (Operator::In | Operator::NotIn, []) => Err(cx.error("values", format!("at least one for {operator}"), "none")),
        (Operator::In | Operator::NotIn, _) | (Operator::Exists | Operator::DoesNotExist, []) => Ok(()),
        (Operator::Exists | Operator::DoesNotExist, [value, ..]) => {
            Err(cx.error("values", format!("none for {operator}"), format!("{value:?}")))
        }
        (Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte, _) => match values {
            [value] if value.parse::<u64>().is_ok() => Ok(()),
            _ => Err(cx.error("values", format!("one whole number for {operator}"), format!("{values:?}"))),
        },
    }
}

/// The values of the one requirement on `key`, which must be `In`; `None` without such a requirement.
fn alternatives(cx: Context<'_>, entry: &OfferingEntry, key: &str) -> Result<Option<Vec<String>>> {
    let mut values: Option<&[String]> = None;
    for (i, r) in entry.requirements.iter().enumerate().filter(|(_, r)| r.key == key) {
        let cx = Context { requirement: Some(i), ..cx };
        if r.operator != Operator::In {
            return Err(cx.error("operator", format!("In for {key}"), r.operator.as_str()));
        }
        if values.is_some() {
            return Err(cx.error("key", format!("one requirement on {key}"), "another"));
        }
        for (j, value) in r.values.iter().enumerate() {
            let field = format_args!("values[{j}]").to_string();
            label_value(cx, &field, value)?;
            if r.values.iter().take(j).any(|earlier| earlier == value) {
                return Err(cx.error(&field, "every value once", format!("{value:?} again")));
            }
        }
        values = Some(&r.values);
    }
    Ok(values.map(<[String]>::to_vec))
}

fn capacity_types(cx: Context<'_>, entry: &OfferingEntry) -> Result<Vec<CapacityType>> {
    let expected = format!("{} In on-demand, spot or reserved", label::CAPACITY_TYPE);
    let Some(names) = alternatives(cx, entry, label::CAPACITY_TYPE)? else {
        return Err(cx.error("Requirements", expected, "no requirement on it"));
    };
    let parse =
        |name: &String| name.parse().map_err(|()| cx.error("Requirements", expected.as_str(), format!("{name:?}")));
    names.iter().map(parse).collect()
}

/// The one id that the offering names. Karpenter's AWS provider marks offerings that are not reserved by
/// `DoesNotExist`, which names none.
fn reservation_id(cx: Context<'_>, entry: &OfferingEntry) -> Result<Option<String>> {
    let mut id: Option<&String> = None;
    for (i, r) in entry.requirements.iter().enumerate() {
        if !label::RESERVATION_IDS.contains(&r.key.as_str()) || r.operator == Operator::DoesNotExist {
            continue;
        }
        let cx = Context { requirement: Some(i), ..cx };
        let (Operator::In, [value]) = (r.operator, r.values.as_slice()) else {
            let found = format!("{} {:?}", r.operator.as_str(), r.values);
            return Err(cx.error("values", format!("{} In one id", r.key), found));
        };
        label_value(cx, "values[0]", value)?;
        if let Some(id) = id.filter(|id| *id != value) {
            return Err(cx.error("values[0]", format!("the reservation named before, {id:?}"), format!("{value:?}")));
        }
        id = Some(value);
    }
    Ok(id.cloned())
}

/// Whether a node can be labelled with it.
fn label_value(cx: Context<'_>, field: &str, value: &str) -> Result<()> {
    const MAX_LEN: usize = 63;
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = value.as_bytes();
    let ends_well = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    if bytes.len() <= MAX_LEN
        && bytes.iter().all(|&b| is_inner(b))
        && ends_well(bytes.first())
        && ends_well(bytes.last())
    {
        return Ok(());
    }
    let expected = "a label value (1 to 63 letters, digits, '-', '_' and '.', a letter or digit at either end)";
    Err(cx.error(field, expected, format!("{value:?}")))
}
