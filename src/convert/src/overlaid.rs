//! A catalogue as NodeOverlays make it: what nodes of it cost, and what they have.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{NodeOverlay, NodePool};
use berth_catalogue::{Availability, CapacityType, Catalogue, InstanceTypeEntry};
use berth_model::{InstanceType, ResourceId};
use berth_quantity::{Money, Quantity};

use crate::overlay::OverlayFault;
use crate::{Builder, Options};

/// What NodeOverlays make of a catalogue.
#[derive(Debug, Clone)]
pub struct Overlaid {
    /// The catalogue with the prices that they make of its own, also of what is sold out, and the resources that they add. All else
    /// stays as it is.
    pub catalogue: Catalogue,
    /// What is wrong with them, by name. Those that are not listed change what they select.
    pub faults: BTreeMap<String, OverlayFault>,
}

/// The catalogue that some NodePools launch from, as NodeOverlays make it, whether the feature gate is on or not. An overlay or
/// a NodePool that cannot be used changes nothing.
pub fn overlaid<'o>(
    catalogue: &Catalogue,
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
) -> Overlaid {
    let mut types = catalogue.clone().into_types();
    let mut faults = BTreeMap::new();
    if let Some(mut changes) = by_type(&types, pools, overlays, &mut faults) {
        for entry in &mut types {
            let Some(OfType { prices, resources }) = changes.remove(&entry.name) else { continue };
            for (offering, price) in entry.offerings.iter_mut().zip(prices) {
                offering.price = price;
            }
            entry.resources.extend(resources);
        }
    }
    // Only prices and amounts have changed, so it is a catalogue as before.
    Overlaid { catalogue: Catalogue::new(types).unwrap_or_else(|_| catalogue.clone()), faults }
}

/// An instance type's own.
struct OfType {
    /// What its offerings cost, or are worth where they are reserved.
    prices: Vec<Money>,
    /// What overlays name: whole numbers of something.
    resources: Vec<(String, Quantity)>,
}

fn by_type<'o>(
    types: &[InstanceTypeEntry],
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
    faults: &mut BTreeMap<String, OverlayFault>,
) -> Option<BTreeMap<String, OfType>> {
    let mut all = types.to_vec();
    for offering in all.iter_mut().flat_map(|entry| &mut entry.offerings) {
        // What has run out has a price, too.
        if offering.capacity_type() != Some(CapacityType::Reserved) {
            offering.availability = Availability::Unlimited;
        }
    }
    let options = Options { node_overlay: true, static_capacity: true, ..Options::default() };
    let mut builder = Builder::new(options);
    builder.set_catalogue(&Catalogue::new(all).ok()?).ok()?;
    for pool in pools {
        // One that is refused launches nothing.
        drop(builder.add_node_pool(pool));
    }
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for overlay in overlays {
        match builder.add_node_overlay(overlay) {
            Ok(()) => named.extend(overlay.spec.capacity.keys().map(String::as_str)),
            Err(error) => {
                let name = overlay.metadata.name.clone().unwrap_or_default();
                faults.insert(name, OverlayFault::Unreadable(error.to_string()));
            }
        }
    }
    for (name, fault) in builder.overlay_faults() {
        faults.entry(name).or_insert(fault);
    }
    let cluster = builder.cluster;
    let id = |name| Some((name, cluster.resource_names.get(cluster.symbols.get(name)?)?));
    let named: Vec<(&str, ResourceId)> = named.into_iter().filter_map(id).collect();
    let of_type = |known: &InstanceType| {
        let reserved = berth_model::CapacityType::Reserved;
        let price =
            |own: &berth_model::Offering| if own.capacity_type == reserved { own.list_price } else { own.price };
        let amounts =
            named.iter().map(|(name, id)| (*name, known.resources.get(*id))).filter(|(_, amount)| *amount > 0);
        let resources = amounts.map(|(name, amount)| (name.to_owned(), Quantity::from_value(amount)));
        let of_type = OfType { prices: known.offerings.iter().map(price).collect(), resources: resources.collect() };
        (cluster.symbols.text(known.name).to_owned(), of_type)
    };
    Some(cluster.instance_types.iter().map(of_type).collect())
}
