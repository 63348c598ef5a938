//! The instance catalogue, in the shape of Karpenter's KWOK provider.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::quantity::{self, Resources};
use crate::selectors::{Labels, admits};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub(crate) const ARCH: &str = "kubernetes.io/arch";
pub(crate) const OS: &str = "kubernetes.io/os";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const RESERVED: &str = "reserved";
pub(crate) const RESERVATION_IDS: [&str; 3] =
    ["berth.sh/capacity-reservation-id", "karpenter.sh/reservation-id", "karpenter.k8s.aws/capacity-reservation-id"];
/// 4294967295: the proposal's way to write "unlimited".
const UNLIMITED: u64 = u32::MAX as u64;

/// What one type offers in one zone under one capacity type.
#[derive(Clone, Debug)]
pub(crate) struct Offering {
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    /// The reservation's id; one without an id is named after its type and zone.
    pub(crate) reservation: Option<String>,
    pub(crate) price: f64,
    /// How many can still be had; None is any number.
    pub(crate) available: Option<u64>,
}

impl Offering {
    pub(crate) fn is_available(&self) -> bool {
        self.available != Some(0)
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.capacity_type == RESERVED
    }
}

/// A node that the catalogue can deliver: one offering under one operating system.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) offering: usize,
    pub(crate) labels: Labels,
}

/// One instance type.
#[derive(Clone, Debug)]
pub(crate) struct InstanceType {
    pub(crate) name: String,
    /// What pods may use.
    pub(crate) resources: Resources,
    pub(crate) offerings: Vec<Offering>,
    /// Every offering under every operating system, with the labels of such a node.
    pub(crate) candidates: Vec<Candidate>,
}

/// All types by name, and how many instances each reservation id still has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) types: BTreeMap<String, InstanceType>,
    pub(crate) slots: BTreeMap<String, u64>,
    /// Label keys whose value the catalogue decides; absent on a candidate means absent on the node.
    pub(crate) known_keys: BTreeSet<String>,
}

/// A field whose name may start with a capital letter or not.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    let wanted = |key: &&String| {
        key.get(1..) == name.get(1..)
            && key.get(..1).is_some_and(|c| name.get(..1).is_some_and(|d| c.eq_ignore_ascii_case(d)))
    };
    object.keys().find(wanted).and_then(|key| object.get(key))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn read_offering(value: &Value, type_name: &str) -> (Offering, Labels) {
    let mut labels = Labels::new();
    for requirement in field(value, "requirements").and_then(Value::as_array).into_iter().flatten() {
        let key = field(requirement, "key").and_then(Value::as_str);
        let operator = field(requirement, "operator").and_then(Value::as_str);
        if let (Some(key), Some("In")) = (key, operator)
            && let [only] = strings(field(requirement, "values")).as_slice()
        {
            labels.insert(key.to_owned(), only.clone());
        }
    }
    let zone = labels.get(ZONE).cloned().unwrap_or_default();
    let capacity_type = labels.get(CAPACITY_TYPE).cloned().unwrap_or_default();
    let reserved = capacity_type == RESERVED;
    let reservation = reserved.then(|| {
        let named = RESERVATION_IDS.iter().find_map(|key| labels.get(*key)).cloned();
        named.unwrap_or_else(|| format!("{type_name}/{zone}"))
    });
    if let Some(id) = &reservation {
        labels.entry(RESERVATION_IDS[0].to_owned()).or_insert_with(|| id.clone());
    }
    let written = field(value, "available");
    let count = written.and_then(Value::as_u64).filter(|n| *n < UNLIMITED);
    let available = match (written.and_then(Value::as_bool), count) {
        (Some(false), _) => Some(0),
        _ if reserved => Some(field(value, "reservationCapacity").and_then(Value::as_u64).or(count).unwrap_or(0)),
        (_, count) => count,
    };
    let price = field(value, "price").and_then(Value::as_f64).unwrap_or_default();
    (Offering { zone, capacity_type, reservation, price, available }, labels)
}

/// The labels by which older manifests ask for the same things.
const ALIASES: [(&str, &str); 4] = [
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
];

fn read_type(value: &Value) -> Option<(InstanceType, BTreeSet<String>)> {
    let name = field(value, "name")?.as_str()?.to_owned();
    let arch = field(value, "architecture").and_then(Value::as_str).unwrap_or("amd64").to_owned();
    let mut systems = strings(field(value, "operatingSystems"));
    if systems.is_empty() {
        systems.push("linux".to_owned());
    }
    let mut offerings = Vec::new();
    let mut candidates = Vec::new();
    let mut keys = BTreeSet::new();
    for (index, offering) in field(value, "offerings").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let (offering, labels) = read_offering(offering, &name);
        for system in &systems {
            let mut labels = labels.clone();
            labels.insert(INSTANCE_TYPE.to_owned(), name.clone());
            labels.insert(ARCH.to_owned(), arch.clone());
            labels.insert(OS.to_owned(), system.clone());
            for (old, new) in ALIASES {
                if let Some(value) = labels.get(new).cloned() {
                    labels.insert(old.to_owned(), value);
                }
            }
            keys.extend(labels.keys().cloned());
            candidates.push(Candidate { offering: index, labels });
        }
        offerings.push(offering);
    }
    let resources = quantity::from_json(field(value, "resources"));
    Some((InstanceType { name, resources, offerings, candidates }, keys))
}

impl Catalogue {
    /// Reads a catalogue; types that cannot be read are left out.
    pub(crate) fn read(value: &Value) -> Self {
        let mut catalogue = Self::default();
        catalogue.known_keys.extend(RESERVATION_IDS.map(str::to_owned));
        for (instance_type, keys) in value.as_array().into_iter().flatten().filter_map(read_type) {
            catalogue.known_keys.extend(keys);
            for offering in &instance_type.offerings {
                if let (Some(id), Some(count)) = (&offering.reservation, offering.available) {
                    let slots = catalogue.slots.entry(id.clone()).or_insert(count);
                    *slots = (*slots).min(count);
                }
            }
            catalogue.types.insert(instance_type.name.clone(), instance_type);
        }
        catalogue
    }

    /// The list price of an offering: for reserved the on-demand price of the same type and zone, where there is one.
    pub(crate) fn list_price(instance_type: &InstanceType, offering: &Offering) -> f64 {
        if !offering.is_reserved() {
            return offering.price;
        }
        let same_zone = |o: &&Offering| o.capacity_type == "on-demand" && o.zone == offering.zone;
        instance_type.offerings.iter().find(same_zone).map_or(offering.price, |o| o.price)
    }
}

/// One requirement of a NodePool or a NodeClaim.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(default)]
    pub(crate) values: Vec<String>,
    #[serde(default)]
    pub(crate) min_values: Option<usize>,
}

impl Requirement {
    pub(crate) fn admits(&self, value: Option<&str>) -> bool {
        admits(&self.operator, &self.values, value)
    }

    /// Present labels only: these operators make no sense of an absent one, or forbid it.
    pub(crate) fn needs_presence(&self) -> bool {
        self.operator != "DoesNotExist"
    }
}
