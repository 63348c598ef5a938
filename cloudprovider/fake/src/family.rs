//! The families of instance types: what a vCPU of each comes with and costs.

/// Whether a machine has GPUs, and how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gpu {
    /// The value of the GPU label.
    pub(crate) name: &'static str,
    /// Per size, as in [`Family::sizes`].
    pub(crate) counts: &'static [u64],
    /// Millionths of a dollar an hour for one.
    pub(crate) micro_dollars: u64,
}

/// Machines alike in all but size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    /// As `m` in `m5a.large`.
    pub(crate) category: &'static str,
    /// As `a` in `m5a.large`.
    pub(crate) variant: &'static str,
    pub(crate) generations: &'static [u64],
    pub(crate) architecture: &'static str,
    pub(crate) gib_per_vcpu: u64,
    /// Of the first generation; each later one costs 4% less per vCPU.
    pub(crate) micro_dollars_per_vcpu: u64,
    /// Name and vCPUs, smallest first.
    pub(crate) sizes: &'static [(&'static str, u64)],
    pub(crate) gpu: Option<Gpu>,
}

const SIZES: &[(&str, u64)] = &[
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("metal", 96),
];
const ARM_SIZES: &[(&str, u64)] = &[
    ("medium", 1),
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
];
const BURST_SIZES: &[(&str, u64)] = &[("large", 2), ("xlarge", 4), ("2xlarge", 8)];
const GPU_SIZES: &[(&str, u64)] =
    &[("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16), ("8xlarge", 32), ("12xlarge", 48), ("24xlarge", 96)];
const TRAINING_SIZES: &[(&str, u64)] = &[("8xlarge", 32), ("16xlarge", 64), ("24xlarge", 96)];

const fn cpu(category: &'static str, gib_per_vcpu: u64, micro_dollars_per_vcpu: u64) -> Family {
    Family {
        category,
        variant: "",
        generations: &[5, 6, 7],
        architecture: "amd64",
        gib_per_vcpu,
        micro_dollars_per_vcpu,
        sizes: SIZES,
        gpu: None,
    }
}

/// A tenth cheaper.
const fn variant_a(family: Family) -> Family {
    Family { variant: "a", micro_dollars_per_vcpu: family.micro_dollars_per_vcpu / 10 * 9, ..family }
}

/// A fifth cheaper, with one size more at the small end.
const fn arm(family: Family) -> Family {
    Family {
        variant: "g",
        architecture: "arm64",
        micro_dollars_per_vcpu: family.micro_dollars_per_vcpu / 5 * 4,
        sizes: ARM_SIZES,
        ..family
    }
}

const COMPUTE: Family = cpu("c", 2, 42_500);
const GENERAL: Family = cpu("m", 4, 48_000);
const MEMORY: Family = cpu("r", 8, 63_000);
const HUGE: Family = cpu("x", 16, 104_000);
const BURST: Family = Family { generations: &[2, 3, 4], sizes: BURST_SIZES, ..cpu("t", 4, 41_600) };
const INFERENCE: Family = Family {
    generations: &[4, 5, 6],
    sizes: GPU_SIZES,
    gpu: Some(Gpu { name: "t4", counts: &[1, 1, 1, 1, 4, 8], micro_dollars: 340_000 }),
    ..GENERAL
};
const TRAINING: Family = Family {
    generations: &[3, 4, 5],
    sizes: TRAINING_SIZES,
    gpu: Some(Gpu { name: "a100", counts: &[4, 8, 8], micro_dollars: 2_600_000 }),
    ..MEMORY
};

/// Every family, in the order of the catalogue.
pub(crate) const FAMILIES: [Family; 14] = [
    COMPUTE,
    variant_a(COMPUTE),
    arm(COMPUTE),
    GENERAL,
    variant_a(GENERAL),
    arm(GENERAL),
    MEMORY,
    variant_a(MEMORY),
    arm(MEMORY),
    HUGE,
    BURST,
    arm(Family { generations: &[4], ..BURST }),
    Family { category: "g", ..INFERENCE },
    Family { category: "p", ..TRAINING },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gpu_size_says_how_many_gpus_it_has() {
        for family in FAMILIES {
            assert!(family.gpu.is_none_or(|gpu| gpu.counts.len() == family.sizes.len()), "{family:?}");
        }
    }
}
