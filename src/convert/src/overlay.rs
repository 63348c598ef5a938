//! NodeOverlays: corrections to prices and capacities of instance types, behind the gate `NodeOverlay`.

use berth_api::labels;
use berth_api::{NodeOverlay, PriceAdjustment};
use berth_model::{CapacityType, Cluster, InstanceType, Money, Offering, Requirements, ResourceId, Symbols, WellKnown};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::Problem;
use crate::quantities::Amounts;
use crate::terms::{node_key, requirement};

/// A NodeOverlay.
#[derive(Clone, PartialEq)]
pub(crate) struct OverlayRecord {
    name: String,
    weight: i32,
    requirements: Requirements,
    price: Option<Price>,
    capacity: Vec<(ResourceId, i64)>,
    selects_pool: bool,
}

/// What becomes of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Price {
    Set(i128),
    /// Pico-dollars to add.
    Add(i128),
    /// 10⁻¹² of a percent to add.
    Percent(i128),
}

pub(crate) fn read_overlay(name: &str, overlay: &NodeOverlay, cluster: &mut Cluster) -> Result<OverlayRecord, Problem> {
    let spec = &overlay.spec;
    let mut requirements = Requirements::new();
    for (i, entry) in spec.requirements.iter().enumerate() {
        let key = node_key(&entry.key, &mut cluster.symbols);
        let requirement = requirement(entry.operator.as_str(), &entry.values, &mut cluster.symbols)
            .map_err(|problem| problem.under(format!("spec.requirements[{i}]")))?;
        requirements.add(key, requirement, &cluster.symbols);
    }
    let pico = |text: &str, field: &str| {
        text.trim_start_matches('+')
            .parse::<Money>()
            .map(Money::pico)
            .map_err(|error| Problem::new(field, error.to_string()))
    };
    let price = match (&spec.price, &spec.price_adjustment) {
        (Some(price), _) => Some(Price::Set(pico(price, "spec.price")?)),
        (None, Some(adjustment)) => {
            const FIELD: &str = "spec.priceAdjustment";
            let parsed: PriceAdjustment =
                adjustment.parse().map_err(|error| Problem::new(FIELD, format!("found {adjustment:?}: {error}")))?;
            Some(match parsed {
                PriceAdjustment::Amount(text) => Price::Add(pico(&text, FIELD)?),
                PriceAdjustment::Percent(text) => Price::Percent(pico(&text, FIELD)?),
            })
        }
        (None, None) => None,
    };
    let capacity =
        Amounts::read_exact(&spec.capacity, cluster).map_err(|problem| problem.under("spec.capacity"))?.rounded_down();
    Ok(OverlayRecord {
        name: name.to_owned(),
        weight: spec.weight.unwrap_or(0),
        selects_pool: spec.requirements.iter().any(|requirement| requirement.key == labels::NODEPOOL),
        requirements,
        price,
        capacity: capacity.iter().collect(),
    })
}

impl Price {
    fn apply(self, price: Money) -> Money {
        const WHOLE: i128 = 100 * 1_000_000_000_000;
        let pico = match self {
            Price::Set(pico) => pico,
            Price::Add(pico) => price.pico().saturating_add(pico),
            Price::Percent(share) => price.pico().saturating_mul(WHOLE.saturating_add(share)) / WHOLE,
        };
        Money::from_pico(pico.max(0))
    }
}

/// Applies the overlays to the types: the heaviest that changes a price or an amount wins. Of two of one weight that
/// disagree about the same type, the later by name changes nothing there, and a warning says so.
pub(crate) fn apply(
    mut overlays: Vec<OverlayRecord>,
    cluster: &mut Cluster,
    warnings: &mut IndexSet<String, FxBuildHasher>,
) {
    overlays.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
    overlays.retain(|overlay| {
        if overlay.selects_pool {
            warnings.insert(format!(
                "NodeOverlay {}: selects NodePools, but a catalogue serves every NodePool; ignored",
                overlay.name
            ));
        }
        !overlay.selects_pool
    });
    let known = cluster.well_known.clone();
    for instance_type in &mut cluster.instance_types {
        let before = instance_type.clone();
        for (i, offering) in instance_type.offerings.iter_mut().enumerate() {
            let Some(original) = before.offerings.get(i) else { continue };
            let matching = overlays.iter().filter(|overlay| {
                overlay.price.is_some() && overlay.selects(&before, original, &known, &cluster.symbols)
            });
            let winner = first_of(matching, |a, b| a.price == b.price, warnings);
            if let Some(price) = winner.and_then(|overlay| overlay.price) {
                offering.list_price = price.apply(offering.list_price);
                // A reserved offering is paid for already, whatever it is worth.
                if offering.capacity_type != CapacityType::Reserved {
                    offering.price = price.apply(offering.price);
                }
            }
        }
        let all: IndexSet<ResourceId, FxBuildHasher> =
            overlays.iter().flat_map(|overlay| overlay.capacity.iter().map(|(id, _)| *id)).collect();
        for id in all {
            let amount = |overlay: &OverlayRecord| {
                overlay.capacity.iter().find(|(known, _)| *known == id).map(|(_, amount)| *amount)
            };
            let matching = overlays.iter().filter(|overlay| {
                let mut offerings = before.offerings.iter();
                amount(overlay).is_some() && offerings.any(|o| overlay.selects(&before, o, &known, &cluster.symbols))
            });
            let winner = first_of(matching, |a, b| amount(a) == amount(b), warnings);
            if let Some(amount) = winner.and_then(amount) {
                instance_type.resources.set(id, amount);
            }
        }
    }
}

fn first_of<'a>(
    mut matching: impl Iterator<Item = &'a OverlayRecord>,
    agree: impl Fn(&OverlayRecord, &OverlayRecord) -> bool,
    warnings: &mut IndexSet<String, FxBuildHasher>,
) -> Option<&'a OverlayRecord> {
    let first = matching.next()?;
    for other in matching.take_while(|other| other.weight == first.weight) {
        if !agree(first, other) {
            warnings.insert(format!(
                "NodeOverlay {}: disagrees with NodeOverlay {} of the same weight; ignored where they overlap",
                other.name, first.name
            ));
        }
    }
    Some(first)
}

impl OverlayRecord {
    fn selects(&self, instance_type: &InstanceType, offering: &Offering, known: &WellKnown, symbols: &Symbols) -> bool {
        self.requirements.iter().all(|(key, requirement)| {
            if key == known.os {
                return instance_type.operating_systems.iter().any(|os| requirement.has(*os, symbols));
            }
            match offering.labels.get(key).or_else(|| instance_type.labels.get(key)) {
                Some(value) => requirement.has(value, symbols),
                None => requirement.allows_absent(),
            }
        })
    }
}
