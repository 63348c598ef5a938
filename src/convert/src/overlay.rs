//! NodeOverlays: corrections to prices and capacities of instance types, behind the gate `NodeOverlay`.

use berth_api::{NodeOverlay, PriceAdjustment};
use berth_model::{CapacityType, Cluster, InstanceType, Labels, Money, Offering, Requirements, ResourceId, Sym};

use crate::Problem;
use crate::maps::{FxIndexMap, FxIndexSet, Texts};
use crate::pool::{PoolRecord, open_labels};
use crate::quantities::{Amounts, Named};
use crate::terms::{node_key, requirement};

/// A NodeOverlay.
#[derive(Clone, PartialEq)]
pub(crate) struct OverlayRecord {
    name: String,
    weight: i32,
    requirements: Requirements,
    price: Option<Price>,
    capacity: Vec<(ResourceId, i64)>,
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
    let capacity = Amounts::read_exact(&spec.capacity, Named::Offered, cluster)
        .map_err(|problem| problem.under("spec.capacity"))?
        .rounded_down();
    Ok(OverlayRecord {
        name: name.to_owned(),
        weight: spec.weight.unwrap_or(0),
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

/// What overlays select NodePools by.
#[derive(Clone)]
pub(crate) struct PoolLabels {
    /// By NodePool: its node class, where that has a catalogue of its own, and the labels that nodes have by it.
    pub(crate) pools: FxIndexMap<Sym, (Option<Sym>, Labels)>,
    /// Whether there are overlays.
    pub(crate) are_asked: bool,
}

// === impl PoolLabels ===

impl PoolLabels {
    pub(crate) fn of(pools: &FxIndexMap<Sym, PoolRecord>, class_catalogues: &FxIndexSet<Sym>, are_asked: bool) -> Self {
        let entry = |(name, record): (&Sym, &PoolRecord)| {
            let class = record.pool.node_class.filter(|class| class_catalogues.contains(class));
            (*name, (class, record.labels.clone()))
        };
        PoolLabels { pools: pools.iter().map(entry).collect(), are_asked }
    }

    /// The labels of those that types of a node class are for; where the input has no NodePools, those of the one that
    /// stands in.
    fn served_by<'a>(&'a self, class: Option<Sym>, open: &'a Labels) -> Vec<&'a Labels> {
        if self.pools.is_empty() {
            return vec![open];
        }
        self.pools.values().filter(|(own, _)| *own == class).map(|(_, labels)| labels).collect()
    }
}

/// What overlays make of one instance type.
#[derive(Clone, Default)]
struct Changes<'a> {
    /// By offering: whose price holds, and the last overlay that asked for one.
    prices: Vec<Option<(&'a OverlayRecord, &'a OverlayRecord)>>,
    capacity: Vec<(ResourceId, i64)>,
    /// The last overlay that asked for amounts.
    last: Option<&'a OverlayRecord>,
}

/// Why a NodeOverlay does not do what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayFault {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Another of its weight, of this name, changes the same.
    #[error("conflicts with NodeOverlay {0} of the same weight; ignored")]
    Conflict(String),
    /// NodePools that one instance type serves are not all selected.
    #[error("selects some NodePools and not others that the same instance types serve; ignored there")]
    SomeNodePools,
}

/// The faults of overlays, each with the overlay's name; none stands twice.
pub(crate) type Faults = Vec<(String, OverlayFault)>;

pub(crate) fn warn(faults: Faults, warnings: &mut Texts) {
    warnings.extend(faults.into_iter().map(|(name, fault)| format!("NodeOverlay {name}: {fault}")));
}

/// Applies the overlays to the types, the heaviest first and, of those of one weight, the last by name, as Karpenter does. One
/// that is about a price or an amount that another of its weight has changed already is left out as a whole: its fault.
pub(crate) fn apply(mut overlays: Vec<OverlayRecord>, pools: &PoolLabels, cluster: &mut Cluster) -> Faults {
    let mut faults = Faults::new();
    overlays.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    if overlays.is_empty() {
        return faults;
    }
    let open = open_labels(&mut cluster.symbols);
    let types = cluster.instance_types.iter();
    let mut changes: Vec<Changes<'_>> = types
        .map(|known| Changes { prices: vec![None; known.known_offerings().count()], ..Changes::default() })
        .collect();
    for overlay in &overlays {
        let selected = overlay.selected((pools, &open), cluster, &mut faults);
        let known = |at: &usize| changes.get(*at);
        let conflict = selected.iter().find_map(|(at, offerings)| known(at)?.conflict(overlay, offerings));
        if let Some(other) = conflict {
            faults.push((overlay.name.clone(), OverlayFault::Conflict(other.name.clone())));
            continue;
        }
        for (at, offerings) in selected {
            if let Some(changes) = changes.get_mut(at) {
                changes.take(overlay, &offerings);
            }
        }
    }
    for (instance_type, changes) in cluster.instance_types.iter_mut().zip(changes) {
        for (offering, winner) in instance_type.known_offerings_mut().zip(changes.prices) {
            if let Some(price) = winner.and_then(|(overlay, _)| overlay.price) {
                offering.list_price = price.apply(offering.list_price);
                // A reserved offering is paid for already, whatever it is worth.
                if offering.capacity_type != CapacityType::Reserved {
                    offering.price = price.apply(offering.price);
                }
            }
        }
        for (id, amount) in changes.capacity {
            instance_type.resources.set(id, amount);
        }
    }
    faults
}

impl<'a> Changes<'a> {
    /// The overlay of the same weight with which another is in conflict about these offerings or the type's amounts.
    fn conflict(&self, overlay: &OverlayRecord, offerings: &[usize]) -> Option<&'a OverlayRecord> {
        let is_equal = |other: &&OverlayRecord| other.weight == overlay.weight;
        let known =
            offerings.iter().filter(|_| overlay.price.is_some()).filter_map(|at| self.prices.get(*at)?.as_ref());
        let by_price = known.map(|(_, last)| *last).find(is_equal);
        by_price.or_else(|| {
            let changes = |id: ResourceId| overlay.capacity.iter().any(|(known, _)| *known == id);
            self.last.filter(is_equal).filter(|last| last.capacity.iter().any(|(id, _)| changes(*id)))
        })
    }

    /// What heavier ones have not changed already.
    fn take(&mut self, overlay: &'a OverlayRecord, offerings: &[usize]) {
        for at in offerings.iter().filter(|_| overlay.price.is_some()) {
            if let Some(price) = self.prices.get_mut(*at) {
                *price = Some((price.map_or(overlay, |(winner, _)| winner), overlay));
            }
        }
        if overlay.capacity.is_empty() {
            return;
        }
        for (id, amount) in &overlay.capacity {
            if !self.capacity.iter().any(|(known, _)| known == id) {
                self.capacity.push((*id, *amount));
            }
        }
        self.last = Some(overlay);
    }
}

impl OverlayRecord {
    /// The positions of the types that it selects, each with those of the offerings.
    fn selected(
        &self,
        (pools, open): (&PoolLabels, &Labels),
        cluster: &Cluster,
        faults: &mut Faults,
    ) -> Vec<(usize, Vec<usize>)> {
        let (mut selected, mut is_in_part) = (Vec::new(), false);
        for (at, instance_type) in cluster.instance_types.iter().enumerate() {
            let own = pools.served_by(instance_type.node_class, open);
            let mut offerings = Vec::new();
            for (position, offering) in instance_type.known_offerings().enumerate() {
                let selects = |labels: &&Labels| self.selects((instance_type, offering), labels, cluster);
                let count = own.iter().copied().filter(selects).count();
                if count > 0 && count == own.len() {
                    offerings.push(position);
                } else {
                    is_in_part |= count > 0;
                }
            }
            if !offerings.is_empty() {
                selected.push((at, offerings));
            }
        }
        if is_in_part {
            faults.push((self.name.clone(), OverlayFault::SomeNodePools));
        }
        selected
    }

    fn selects(&self, (known, offering): (&InstanceType, &Offering), pool: &Labels, cluster: &Cluster) -> bool {
        let symbols = &cluster.symbols;
        self.requirements.iter().all(|(key, requirement)| {
            if key == cluster.well_known.os {
                return known.operating_systems.iter().any(|os| requirement.has(*os, symbols));
            }
            match offering.labels.get(key).or_else(|| known.labels.get(key)).or_else(|| pool.get(key)) {
                Some(value) => requirement.has(value, symbols),
                None => requirement.allows_absent(),
            }
        })
    }
}
