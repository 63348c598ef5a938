//! What a node lacks of CPUs, devices and NUMA nodes.

use berth_model::{NumaPolicy, ResourceId, ResourceNames, Sym, Symbols};

/// What a node lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitsLack {
    /// The node does not say which CPUs it has, as others do.
    Topology,
    /// The number is no multiple of the threads of a core, as it must be.
    Alignment,
    /// CPUs.
    Cpus,
    /// Devices of a kind.
    Devices(Sym),
    /// The pod asks for another NUMA policy than the node has.
    NumaPolicy,
    /// The node does not say what its NUMA nodes have.
    NumaNodes,
    /// NUMA nodes that have so much of these resources together.
    NumaAmounts(Vec<ResourceId>),
    /// As few NUMA nodes as the policy asks for: how each resource could lie.
    NumaAlignment(Vec<(ResourceId, NumaChoice)>, NumaPolicy),
}

/// On which NUMA nodes a resource could lie: sets of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaChoice {
    /// The smallest.
    pub preferred: Vec<u64>,
    /// All.
    pub possible: Vec<u64>,
}

impl UnitsLack {
    /// Koordinator's words.
    pub fn in_words(&self, names: &ResourceNames, symbols: &Symbols) -> Vec<String> {
        let name = |id: &ResourceId| names.name(*id).map_or("", |name| symbols.text(name));
        let text = match self {
            UnitsLack::Topology => "node(s) invalid CPU Topology".to_owned(),
            UnitsLack::Alignment => "node(s) requested cpus not multiple cpus per core".to_owned(),
            UnitsLack::Cpus => "not enough cpus available to satisfy request".to_owned(),
            UnitsLack::Devices(kind) => format!("Insufficient {} devices", symbols.text(*kind)),
            UnitsLack::NumaPolicy => "node(s) NUMA Topology policy not match".to_owned(),
            UnitsLack::NumaNodes => "node(s) missing NUMA resources".to_owned(),
            UnitsLack::NumaAmounts(short) => {
                let mut reasons: Vec<String> =
                    short.iter().map(|id| format!("Unsatisfied NUMA {}", name(id))).collect();
                reasons.sort();
                return reasons;
            }
            UnitsLack::NumaAlignment(choices, policy) => {
                let sets = |sets: &[u64]| sets.iter().map(|set| format!("{set:02b}")).collect::<Vec<_>>().join(" ");
                let said = choices.iter().map(|(id, choice)| {
                    format!("{} prefer [{}] among [{}]", name(id), sets(&choice.preferred), sets(&choice.possible))
                });
                let mut said: Vec<String> = said.collect();
                said.sort();
                let between = if *policy == NumaPolicy::SingleNode { "," } else { " & " };
                format!("Unaligned NUMA Hint cause {}", said.join(between))
            }
        };
        vec![text]
    }

    /// Whether pods that leave the node may help.
    pub fn may_be_preempted(&self) -> bool {
        !matches!(self, UnitsLack::Topology | UnitsLack::Alignment | UnitsLack::NumaPolicy | UnitsLack::NumaNodes)
    }
}
