//! A whole catalogue: types that were checked together, and the reservations that they share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::check::{self, Split};
use crate::error::Context;
use crate::{Availability, CatalogueError, InstanceTypeEntry, OfferingEntry, RequirementEntry, Warning, label};

/// The instance types that a cloud offers, in the order of the file.
///
/// Every offering has one capacity type and at most one zone. Every reserved offering names its reservation under
/// [`label::CAPACITY_RESERVATION_ID`] and carries its count.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    /// Shared with catalogues that differ in other types only.
    types: Vec<Arc<InstanceTypeEntry>>,
    reservations: BTreeMap<String, ReservationEntry>,
    warnings: Vec<Warning>,
}

/// A capacity reservation: one count, which all offerings that name it share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationEntry {
    /// How many instances it still has free, whichever offering they are launched from.
    pub instances: u32,
    /// The offerings that draw from it, in the order of the catalogue.
    pub offerings: Vec<OfferingIndex>,
}

/// Which offering of a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingIndex {
    /// Index into [`Catalogue::types`].
    pub instance_type: usize,
    /// Index into the type's offerings.
    pub offering: usize,
}

// === impl Catalogue ===

impl Catalogue {
    /// Checks `types` and makes a catalogue of them:
    ///
    /// - An offering of several zones or capacity types becomes one of each; one with a count of its own may not have
    ///   several, unless it is reserved: then its zones share the count.
    /// - A reserved offering has `reservation_capacity` or a finite availability, of which the smaller counts.
    /// - The same reservation id under several types or zones is one count; where they differ, the smallest is taken
    ///   and a warning says so.
    /// - A reserved offering without an id gets one of its own, `{type}.{zone}` or `{type}`, with `-2`, `-3` and so on
    ///   where that is taken. The id depends on nothing but the catalogue.
    /// - A type without `pods` among its resources gets 110, kubelet's default.
    ///
    /// # Errors
    /// [`CatalogueError::Field`], with an empty file name, for names that are no label values, repeated type names,
    /// resources that are missing, negative or absurd (over a million cores, or 2^60 of anything), prices that are
    /// negative or over a million dollars an hour, reserved offerings without a count or with several ids, unknown
    /// capacity types, and requirements whose values do not go with their operator.
    pub fn new(types: Vec<InstanceTypeEntry>) -> Result<Self, CatalogueError> {
        assemble(types, "")
    }

    /// The instance types.
    pub fn types(&self) -> &[Arc<InstanceTypeEntry>] {
        &self.types
    }

    /// The instance types, by value.
    pub fn into_types(self) -> Vec<InstanceTypeEntry> {
        self.types.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// The same catalogue with so many free instances of each of these reservations, by id. Ids that it does not have are
    /// passed over, and types of which nothing changes are shared.
    #[must_use]
    pub fn with_free_instances(mut self, free: &BTreeMap<&str, u32>) -> Self {
        for (id, reservation) in &mut self.reservations {
            let Some(instances) = free.get(id.as_str()).copied().filter(|now| *now != reservation.instances) else {
                continue;
            };
            reservation.instances = instances;
            for place in &reservation.offerings {
                if let Some(entry) = self.types.get_mut(place.instance_type)
                    && let Some(offering) = Arc::make_mut(entry).offerings.get_mut(place.offering)
                {
                    offering.reservation_capacity = Some(instances);
                }
            }
        }
        self
    }

    /// The reservations by id.
    pub fn reservations(&self) -> &BTreeMap<String, ReservationEntry> {
        &self.reservations
    }

    /// What was odd in the input, in its order.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The same catalogue without an instance left of some offerings; where one is reserved, nothing is left of its
    /// reservation. Types of which nothing changes are shared.
    #[must_use]
    pub fn without(mut self, is_gone: impl Fn(&InstanceTypeEntry, &OfferingEntry) -> bool) -> Self {
        let mut reservations = BTreeSet::new();
        for entry in &mut self.types {
            for at in 0..entry.offerings.len() {
                let Some(offering) = entry.offerings.get(at).filter(|offering| is_gone(entry, offering)) else {
                    continue;
                };
                if let Some(id) = offering.reservation_id() {
                    reservations.insert(id.to_owned());
                } else if let Some(offering) = Arc::make_mut(entry).offerings.get_mut(at) {
                    offering.availability = Availability::Count(0);
                }
            }
        }
        let free = reservations.iter().map(|id| (id.as_str(), 0)).collect();
        self.with_free_instances(&free)
    }

    /// The offering at `index`, with its type.
    pub fn offering(&self, index: OfferingIndex) -> Option<(&InstanceTypeEntry, &OfferingEntry)> {
        let instance_type = self.types.get(index.instance_type)?;
        Some((instance_type, instance_type.offerings.get(index.offering)?))
    }

    /// The file that [`read`](crate::read) makes an equal catalogue of (but for its warnings), and that Karpenter's
    /// KWOK provider reads, as long as only reserved offerings have counts.
    ///
    /// # Errors
    /// None that is known; serde_json's signature asks for it.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

impl Serialize for Catalogue {
    /// As the list of the types.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.types.iter().map(|entry| &**entry))
    }
}

pub(crate) fn assemble(mut types: Vec<InstanceTypeEntry>, file: &str) -> Result<Catalogue, CatalogueError> {
    let mut warnings = Vec::new();
    let mut ids = Ids::named_in(&types);
    let mut reservations = BTreeMap::new();
    let mut names = BTreeSet::new();
    for (i, instance_type) in types.iter_mut().enumerate() {
        let name = instance_type.name.clone();
        let cx = Context { entry: Some(i), instance_type: Some(&name), ..Context::new(file) };
        check::instance_type(cx, instance_type)?;
        let mut offerings = Vec::with_capacity(instance_type.offerings.len());
        for (j, offering) in std::mem::take(&mut instance_type.offerings).into_iter().enumerate() {
            let cx = Context { offering: Some(j), ..cx };
            let split = check::offering(cx, offering, &mut warnings)?;
            let first = offerings.len();
            match split {
                Split::Paid(split) => offerings.extend(split),
                Split::Reserved { id, instances, mut split } => {
                    let id = id.unwrap_or_else(|| ids.own(&name, split.first().and_then(OfferingEntry::zone)));
                    for offering in &mut split {
                        name_reservation(offering, &id);
                    }
                    offerings.extend(split);
                    let places = (first..offerings.len()).map(|offering| OfferingIndex { instance_type: i, offering });
                    book(cx, &mut reservations, id, instances, places, &mut warnings);
                }
            }
        }
        instance_type.offerings = offerings;
        if !names.insert(name.clone()) {
            return Err(cx.error("name", "every instance type once", format!("{name:?} again")));
        }
    }
    for reservation in reservations.values() {
        share_count(reservation, &mut types);
    }
    Ok(Catalogue { types: types.into_iter().map(Arc::new).collect(), reservations, warnings })
}

/// Adds offerings to their reservation, which has the smallest of the counts that were given.
fn book(
    cx: Context<'_>,
    reservations: &mut BTreeMap<String, ReservationEntry>,
    id: String,
    instances: u32,
    places: impl Iterator<Item = OfferingIndex>,
    warnings: &mut Vec<Warning>,
) {
    if let Some(known) = reservations.get(&id).filter(|known| known.instances != instances) {
        let smallest = known.instances.min(instances);
        warnings.push(cx.warning(
            "ReservationCapacity",
            format!(
                "reservation {id} has {instances} instances here and {} before, {smallest} are used",
                known.instances
            ),
        ));
    }
    let entry = reservations.entry(id).or_insert_with(|| ReservationEntry { instances, offerings: Vec::new() });
    entry.instances = entry.instances.min(instances);
    entry.offerings.extend(places);
}

fn share_count(reservation: &ReservationEntry, types: &mut [InstanceTypeEntry]) {
    for place in &reservation.offerings {
        let offering = types.get_mut(place.instance_type).and_then(|t| t.offerings.get_mut(place.offering));
        if let Some(offering) = offering {
            offering.reservation_capacity = Some(reservation.instances);
        }
    }
}

/// Puts the id under Berth's own key, besides any other that names it.
fn name_reservation(offering: &mut OfferingEntry, id: &str) {
    if offering.single_value(label::CAPACITY_RESERVATION_ID).is_none() {
        offering.requirements.push(RequirementEntry::is(label::CAPACITY_RESERVATION_ID, id));
    }
}

/// Reservation ids in use.
struct Ids(BTreeSet<String>);

impl Ids {
    fn named_in(types: &[InstanceTypeEntry]) -> Self {
        let reserved = types.iter().flat_map(|t| &t.offerings);
        Self(reserved.filter_map(OfferingEntry::reservation_id).map(str::to_owned).collect())
    }

    /// An id for an offering that names none, which no other offering has.
    fn own(&mut self, instance_type: &str, zone: Option<&str>) -> String {
        /// Leaves room in a label value's 63 characters for a number.
        const MAX_CHARS: usize = 54;
        let base = match zone {
            Some(zone) => format!("{instance_type}.{zone}"),
            None => instance_type.to_owned(),
        };
        let base: String = base.chars().take(MAX_CHARS).collect();
        let base = base.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let mut id = base.to_owned();
        let mut n = 2_u32;
        while self.0.contains(&id) {
            id = format!("{base}-{n}");
            n += 1;
        }
        self.0.insert(id.clone());
        id
    }
}
