//! The instance catalogue: types, offerings and their finite supplies.

use berth_api::labels;
use berth_catalogue::{Availability, Catalogue, InstanceTypeEntry, OfferingEntry, Operator};
use berth_model::{CapacityType, Cluster, InstanceType, Labels, Offering, SlotId, Slots, Sym, Symbols};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::Problem;
use crate::maps::Texts;
use crate::names::{derived_labels, region_of};
use crate::quantities::{Amounts, Named};
use crate::terms::node_key;

/// Adds the types of a catalogue to the cluster's, for one node class or for pools without one. Slots are those of
/// `supplies`: catalogues share them.
pub(crate) fn convert(
    catalogue: &Catalogue,
    node_class: Option<Sym>,
    with_reserved: bool,
    supplies: &mut Supplies,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> Result<(), Problem> {
    warnings.extend(catalogue.warnings().iter().map(ToString::to_string));
    supplies.named.clear();
    for entry in catalogue.types() {
        let resources = Amounts::read_exact(&entry.resources, Named::Offered, cluster)
            .map_err(|problem| problem.under(format!("{}.resources", entry.name)))?
            .rounded_down();
        let (mut offerings, mut sold_out) = (Vec::with_capacity(entry.offerings.len()), Vec::new());
        let common: Vec<&str> = common_requirements(entry).map(|(key, _)| key).collect();
        for offering in &entry.offerings {
            let reserved = offering.reservation_id().filter(|_| is_reserved(offering));
            let free = match reserved {
                Some(_) if !with_reserved => continue,
                Some(id) => catalogue
                    .reservations()
                    .get(id)
                    .map(|reservation| reservation.instances)
                    .or(offering.launchable().count()),
                None => match offering.launchable() {
                    Availability::Count(0) => {
                        sold_out.push(convert_offering((entry, &common), offering, None, cluster, supplies, warnings));
                        continue;
                    }
                    launchable => launchable.count(),
                },
            };
            offerings.push(convert_offering((entry, &common), offering, free, cluster, supplies, warnings));
        }
        let operating_systems = entry.operating_systems.iter();
        let converted = InstanceType {
            name: cluster.symbols.intern(&entry.name),
            labels: type_labels(entry, &mut cluster.symbols),
            operating_systems: operating_systems.map(|os| cluster.symbols.intern(os)).collect(),
            resources,
            node_class,
            offerings,
            sold_out,
        };
        cluster.instance_types.push(converted);
    }
    cluster.slots = supplies.slots.values().cloned().collect();
    Ok(())
}

/// Finite supplies by whether they are reservations and id: the same reservation under several types or zones is one.
#[derive(Clone, Default)]
pub(crate) struct Supplies {
    slots: IndexMap<(bool, Sym), Slots, FxBuildHasher>,
    /// Names of finite paid supplies that the catalogue at hand has had: the like in another catalogue are the same.
    named: FxHashSet<Sym>,
}

impl Supplies {
    fn slot(&mut self, id: Sym, is_reservation: bool, free: u32) -> SlotId {
        let slots = Slots { id, is_reservation, free };
        let entry = self.slots.entry((is_reservation, id));
        let index = entry.index();
        let known = entry.or_insert(slots);
        known.free = known.free.min(free);
        SlotId(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

fn is_reserved(offering: &OfferingEntry) -> bool {
    offering.capacity_type() == Some(berth_catalogue::CapacityType::Reserved)
}

fn convert_offering(
    (entry, common): (&InstanceTypeEntry, &[&str]),
    offering: &OfferingEntry,
    free: Option<u32>,
    cluster: &mut Cluster,
    supplies: &mut Supplies,
    warnings: &mut Texts,
) -> Offering {
    let symbols = &mut cluster.symbols;
    let capacity_type = match offering.capacity_type() {
        Some(berth_catalogue::CapacityType::Reserved) => CapacityType::Reserved,
        Some(berth_catalogue::CapacityType::Spot) => CapacityType::Spot,
        Some(berth_catalogue::CapacityType::OnDemand) | None => CapacityType::OnDemand,
    };
    let zone = offering.zone();
    let mut pairs: Vec<(Sym, Sym)> = Vec::new();
    if let Some(region) = zone.and_then(region_of) {
        pairs.push((symbols.intern(labels::REGION), symbols.intern(&region)));
    }
    for requirement in offering.other_requirements() {
        let key = requirement.key.as_str();
        if common.contains(&key) {
            continue;
        }
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::In, [value]) => {
                pairs.push((node_key(&requirement.key, symbols), symbols.intern(value)));
            }
            _ => {
                warnings.insert(format!(
                    "instance type {}: an offering's requirement on {} is no single value, so its nodes do not get \
                     that label",
                    entry.name, requirement.key
                ));
            }
        }
    }
    pairs.push((symbols.intern(labels::CAPACITY_TYPE), symbols.intern(capacity_type.name())));
    pairs.extend(zone.map(|zone| (symbols.intern(labels::ZONE), symbols.intern(zone))));
    let reservation = offering.reservation_id().filter(|_| capacity_type == CapacityType::Reserved);
    if let Some(id) = reservation {
        // Pods may select a reservation under any of its known names.
        let id = symbols.intern(id);
        pairs.extend(labels::RESERVATION_IDS.map(|key| (symbols.intern(key), id)));
    }
    let slots = free.map(|free| {
        let id = match reservation {
            Some(id) => symbols.intern(id),
            None => finite_name(entry, zone, capacity_type, supplies, symbols),
        };
        supplies.slot(id, reservation.is_some(), free)
    });
    Offering {
        capacity_type,
        zone: zone.map(|zone| symbols.intern(zone)),
        price: entry.marginal_price(offering),
        list_price: entry.list_price(offering),
        slots,
        labels: Labels::new(pairs),
    }
}

/// A name for the supply of a paid offering with a count, unique though the catalogue may list the like twice.
fn finite_name(
    entry: &InstanceTypeEntry,
    zone: Option<&str>,
    capacity_type: CapacityType,
    supplies: &mut Supplies,
    symbols: &mut Symbols,
) -> Sym {
    let name = [&entry.name, zone.unwrap_or_default(), capacity_type.name()].join("/");
    let mut id = symbols.intern(&name);
    let mut n = 2;
    while !supplies.named.insert(id) {
        id = symbols.intern(&format!("{name}-{n}"));
        n += 1;
    }
    id
}

fn type_labels(entry: &InstanceTypeEntry, symbols: &mut Symbols) -> Labels {
    let mut pairs = vec![
        (labels::INSTANCE_TYPE.to_owned(), entry.name.clone()),
        (labels::ARCH.to_owned(), entry.architecture.clone()),
    ];
    // What the catalogue says of a label beats what the name suggests.
    let said: Vec<&str> =
        entry.offerings.iter().flat_map(|offering| offering.requirements.iter().map(|r| r.key.as_str())).collect();
    pairs.extend(entry.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    // What all offerings say is said of the type.
    pairs.extend(common_requirements(entry).map(|(key, value)| (key.to_owned(), value.to_owned())));
    let derived = derived_labels(entry);
    pairs.extend(
        derived.into_iter().filter(|(key, _)| !said.contains(&key.as_str()) && !entry.labels.contains_key(key)),
    );
    Labels::new(pairs.iter().map(|(key, value)| (symbols.intern(key), symbols.intern(value))))
}

/// Requirements of one value that all offerings of the type share, where they live and how they are bought aside.
fn common_requirements(entry: &InstanceTypeEntry) -> impl Iterator<Item = (&str, &str)> {
    let first = entry.offerings.first().into_iter();
    first.flat_map(OfferingEntry::other_requirements).filter_map(|requirement| {
        let key = requirement.key.as_str();
        let value = entry.offerings.first()?.single_value(key)?;
        let is_common = entry.offerings.iter().all(|o| o.single_value(key) == Some(value));
        (is_common && labels::normalized(key) == key && key != labels::REGION).then_some((key, value))
    })
}
