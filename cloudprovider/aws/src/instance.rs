//! What EC2 says of an instance type.

/// An instance type as `DescribeInstanceTypes` describes it, as far as planning needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as EC2 tells them")]
pub struct InstanceFacts {
    /// The name, such as `m5.xlarge`.
    pub name: String,
    /// Kubernetes' name of the processor architecture: `amd64` or `arm64`.
    pub architecture: String,
    /// Virtual CPUs by default.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Network interfaces of the default network card, which alone carries pods' addresses.
    pub network_interfaces: u32,
    /// IPv4 addresses of each of them.
    pub ipv4_per_interface: u32,
    /// `nitro`, `xen`, or empty where the machine has none.
    pub hypervisor: String,
    /// Whether the machine is the whole server.
    pub is_bare_metal: bool,
    /// Instance store, all volumes together, in GB.
    pub local_storage_gb: u64,
    /// Whether the instance store is NVMe.
    pub local_storage_is_nvme: bool,
    /// GPUs, an entry for each kind.
    pub gpus: Vec<Accelerator>,
    /// Inference accelerators and FPGAs that are not Neuron devices.
    pub accelerators: Vec<Accelerator>,
    /// Neuron devices, an entry for each kind.
    pub neuron: Vec<NeuronDevice>,
    /// Elastic Fabric Adapters.
    pub efas: u32,
    /// Branch network interfaces for pods' own security groups; EC2 does not say how many.
    pub branch_interfaces: u32,
    /// Who makes the processor.
    pub cpu_manufacturer: String,
    /// Sustained clock speed in MHz.
    pub clock_mhz: Option<u32>,
    /// Network bandwidth in Mbit/s, where it is a number.
    pub network_mbps: Option<u32>,
    /// EBS bandwidth in Mbit/s, where EBS optimisation is on by default.
    pub ebs_mbps: Option<u32>,
    /// Whether traffic between such instances is encrypted.
    pub encrypts_in_transit: bool,
    /// Whether it can run Nitro enclaves; `None` where that is not known.
    pub has_nitro_enclaves: Option<bool>,
    /// Whether it is sold by use.
    pub is_on_demand: bool,
    /// Whether it is sold as spot.
    pub is_spot: bool,
}

/// GPUs or inference accelerators of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accelerator {
    /// The name, such as `A100`.
    pub name: String,
    /// Who makes it, such as `NVIDIA`.
    pub manufacturer: String,
    /// How many a machine has.
    pub count: u32,
    /// Memory of each, in MiB.
    pub memory_mib: u64,
}

/// Neuron devices of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeuronDevice {
    /// The name, such as `Inferentia2`.
    pub name: String,
    /// How many a machine has.
    pub count: u32,
    /// Cores of each.
    pub cores: u32,
}

// === impl InstanceFacts ===

impl InstanceFacts {
    /// `m5` of `m5.xlarge`.
    pub fn family(&self) -> &str {
        self.name.split_once('.').map_or(self.name.as_str(), |(family, _)| family)
    }

    /// `xlarge` of `m5.xlarge`.
    pub fn size(&self) -> Option<&str> {
        self.name.split_once('.').map(|(_, size)| size).filter(|size| !size.contains('.'))
    }

    /// Category and generation: `m` and `5` of `m5.xlarge`, `u` and `1` of `u-6tb1.metal`.
    pub fn category_and_generation(&self) -> Option<(&str, &str)> {
        let (family, _) = self.name.split_once('.')?;
        let letters = family.find(|c: char| !c.is_ascii_lowercase())?;
        let (category, mut rest) = family.split_at(letters);
        // High-memory families say how much they have: `u-6tb1`.
        if let Some((size, after)) = rest.strip_prefix('-').and_then(|rest| rest.split_once("tb")) {
            if size.is_empty() || !size.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            rest = after;
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let generation = rest.get(..digits).filter(|digits| !digits.is_empty())?;
        (!category.is_empty()).then_some((category, generation))
    }

    /// GPUs of a maker.
    pub(crate) fn gpus_of(&self, manufacturer: &str) -> u32 {
        let made = self.gpus.iter().filter(|gpu| gpu.manufacturer.eq_ignore_ascii_case(manufacturer));
        made.map(|gpu| gpu.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("m5.xlarge", Some(("m", "5")))]
    #[case("c7i-flex.large", Some(("c", "7")))]
    #[case("u-6tb1.56xlarge", Some(("u", "1")))]
    #[case("u7i-12tb.224xlarge", Some(("u", "7")))]
    #[case("inf2.24xlarge", Some(("inf", "2")))]
    #[case("mac2-m2.metal", Some(("mac", "2")))]
    #[case("m5", None)]
    #[case("5m.large", None)]
    #[case("u-tb1.metal", None)]
    #[case("", None)]
    fn category_and_generation_are_parts_of_the_name(#[case] name: &str, #[case] expected: Option<(&str, &str)>) {
        let facts = InstanceFacts { name: name.to_owned(), ..InstanceFacts::default() };
        assert_eq!(facts.category_and_generation(), expected);
    }
}
