//! GPUs and their like: types that have them are launched only for pods that ask for them, slots that are free aside.
//!
//! Where such a type is the cheapest for a pod that needs none, it is cheap by accident or for a moment, and taken from
//! those that can use nothing else. Pods that ask for none may still use the room that is left on such nodes.

use berth_model::{Bin, ClassId, Cluster, ColumnId, ColumnTable, PoolId, ResourceId, Resources, Universe};
use fixedbitset::FixedBitSet;

use crate::options::Options;

/// Vendors of device plugins, and how the names of their accelerators begin.
const VENDORS: [(&str, &[&str]); 10] = [
    ("nvidia.com", &["gpu", "mig-"]),
    ("amd.com", &["gpu"]),
    ("gpu.intel.com", &[""]),
    ("habana.ai", &["gaudi", "goya"]),
    ("aws.amazon.com", &["neuron"]),
    ("google.com", &["tpu"]),
    ("koordinator.sh", &["gpu", "fpga"]),
    ("huawei.com", &["Ascend", "npu"]),
    ("cambricon.com", &["mlu", "vmlu"]),
    ("xilinx.com", &["fpga"]),
];

/// Words that say so in other vendors' names.
const WORDS: [&str; 4] = ["gpu", "npu", "tpu", "vgpu"];

/// Whether a resource is an accelerator: `nvidia.com/gpu`, `aws.amazon.com/neuroncore`; not `vpc.amazonaws.com/efa`.
fn is_accelerator(name: &str) -> bool {
    let Some((vendor, device)) = name.split_once('/') else { return false };
    match VENDORS.iter().find(|(known, _)| *known == vendor) {
        Some((_, beginnings)) => beginnings.iter().any(|beginning| device.starts_with(beginning)),
        None => device.split(['-', '.', '_']).any(|word| WORDS.contains(&word)),
    }
}

/// What a solve knows of accelerators.
#[derive(Debug, Default)]
pub(crate) struct Accelerators {
    resources: Vec<ResourceId>,
    /// By class: whether it asks for any.
    asks: Vec<bool>,
    /// By NodePool: the paid columns that have some.
    kept: Vec<FixedBitSet>,
}

impl Accelerators {
    pub(crate) fn new(cluster: &Cluster, universe: &Universe, tables: &[ColumnTable], options: &Options) -> Self {
        if options.gpu_types_for_any_pod {
            return Accelerators::default();
        }
        let names = cluster.resource_names.iter();
        let mut accelerators = Accelerators {
            resources: names
                .filter(|(_, name)| is_accelerator(cluster.symbols.text(*name)))
                .map(|(id, _)| id)
                .collect(),
            ..Accelerators::default()
        };
        let of_class = |class: &berth_model::PodClass| {
            cluster.spec(class.spec).is_some_and(|spec| accelerators.are_in(&spec.requests))
        };
        let asks = universe.classes.iter().map(of_class).collect();
        let of_pool = |table: &ColumnTable| {
            let mut kept = FixedBitSet::with_capacity(table.columns.len());
            for (at, column) in table.with_ids() {
                let of_type = cluster.instance_types.get(column.instance_type as usize);
                let has_any = of_type.is_some_and(|known| accelerators.are_in(&known.resources));
                kept.set(at.index(), has_any && !table.is_reserved(at));
            }
            kept
        };
        let kept = tables.iter().map(of_pool).collect();
        (accelerators.asks, accelerators.kept) = (asks, kept);
        accelerators
    }

    /// Whether any of these amounts is of an accelerator.
    pub(crate) fn are_in(&self, amounts: &Resources) -> bool {
        self.resources.iter().any(|&resource| amounts.get(resource) > 0)
    }

    /// The paid columns of a pool that are kept for pods which ask for accelerators; `None` where a class asks for some.
    pub(crate) fn kept_from(&self, class: ClassId, pool: PoolId) -> Option<&FixedBitSet> {
        let asks = self.asks.get(class.0 as usize) == Some(&true);
        self.kept.get(pool.index()).filter(|kept| !asks && !kept.is_clear())
    }

    /// The same for a node: where no pod on it asks for any.
    pub(crate) fn kept_from_bin(&self, bin: &Bin, joining: Option<ClassId>) -> Option<&FixedBitSet> {
        let mut classes = bin.contents.iter().map(|(class, _)| *class).chain(joining);
        let kept = self.kept.get(bin.pool.index()).filter(|kept| !kept.is_clear())?;
        (!classes.any(|class| self.asks.get(class.0 as usize) == Some(&true))).then_some(kept)
    }

    /// Whether there are columns that are kept from a class that is pending.
    pub(crate) fn keep_any(&self, universe: &Universe) -> bool {
        let classes = universe.classes.iter().zip(&self.asks);
        self.kept.iter().any(|kept| !kept.is_clear())
            && classes.into_iter().any(|(class, asks)| !asks && class.count > 0)
    }

    /// Whether a column is kept for pods that ask for accelerators.
    pub(crate) fn is_kept(&self, pool: PoolId, column: ColumnId) -> bool {
        self.kept.get(pool.index()).is_some_and(|kept| kept.contains(column.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_known_by_name() {
        for name in [
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.5gb",
            "amd.com/gpu",
            "gpu.intel.com/i915",
            "habana.ai/gaudi",
            "aws.amazon.com/neuron",
            "aws.amazon.com/neuroncore",
            "google.com/tpu",
            "koordinator.sh/gpu-core",
            "huawei.com/Ascend910",
            "aliyun.com/gpu-mem",
        ] {
            assert!(is_accelerator(name), "{name}");
        }
        for name in [
            "cpu",
            "memory",
            "pods",
            "ephemeral-storage",
            "hugepages-2Mi",
            "vpc.amazonaws.com/pod-eni",
            "vpc.amazonaws.com/efa",
            "nvidia.com/hostdev",
            "koordinator.sh/batch-cpu",
            "smarter-devices/fuse",
            "attachable-volumes-aws-ebs",
        ] {
            assert!(!is_accelerator(name), "{name}");
        }
    }
}
