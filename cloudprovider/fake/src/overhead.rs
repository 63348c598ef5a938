//! What the system keeps of a machine, and how many pods it takes.

const MIB_PER_GIB: u64 = 1024;

/// What pods may use of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocatable {
    pub(crate) milli_cpu: u64,
    pub(crate) memory_mib: u64,
    pub(crate) pods: u64,
}

/// A machine of `vcpus` and `memory_mib`, net of what kubelet and the system keep: 7% of memory for the hypervisor and
/// kernel; 11 MiB a pod, 255 MiB and the 100 MiB eviction threshold; of the CPU 60m for the first vCPU, 20m for the
/// second and 2.5m for each further one.
pub(crate) fn allocatable(vcpus: u64, memory_mib: u64) -> Allocatable {
    let pods = max_pods(vcpus);
    let kept_milli_cpu = match vcpus {
        0 | 1 => 60,
        _ => 80 + (vcpus - 2) * 5 / 2,
    };
    let kept_mib = (memory_mib * 7).div_ceil(100) + 11 * pods + 255 + 100;
    Allocatable {
        milli_cpu: (vcpus * 1000).saturating_sub(kept_milli_cpu),
        memory_mib: memory_mib.saturating_sub(kept_mib),
        pods,
    }
}

/// Small machines have few network addresses, large ones stop where kubelet does well.
fn max_pods(vcpus: u64) -> u64 {
    match vcpus {
        0..=1 => 17,
        2 => 29,
        3..=7 => 58,
        8..=31 => 110,
        _ => 250,
    }
}

/// GiB in MiB.
pub(crate) const fn mib(gib: u64) -> u64 {
    gib * MIB_PER_GIB
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(2, 8, 1920, 6944, 29)]
    #[case(4, 16, 3915, 14_244, 58)]
    #[case(96, 384, 95_685, 362_585, 250)]
    fn the_system_keeps_its_share(
        #[case] vcpus: u64,
        #[case] gib: u64,
        #[case] milli_cpu: u64,
        #[case] memory_mib: u64,
        #[case] pods: u64,
    ) {
        assert_eq!(allocatable(vcpus, mib(gib)), Allocatable { milli_cpu, memory_mib, pods });
    }

    #[test]
    fn the_smallest_machine_still_has_room() {
        let smallest = allocatable(1, mib(2));
        assert!(smallest.memory_mib > 1024 && smallest.milli_cpu > 900);
    }
}
