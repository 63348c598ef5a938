//! What a node keeps from pods: kubelet's settings, the cluster's, and disks.

use std::collections::BTreeMap;
use std::str::FromStr;

use berth_quantity::Quantity;

use crate::AmiFamily;

/// How nodes are set up. The default is that of Karpenter's AWS provider without settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSettings {
    /// The family of machine images.
    pub ami_family: AmiFamily,
    /// The part of memory that firmware, hypervisor and kernel take.
    pub vm_memory_overhead: VmMemoryOverhead,
    /// Network interfaces that pods' addresses must not use, as for custom networking.
    pub reserved_interfaces: u32,
    /// Whether the network plugin gives each address slot a prefix of 16 addresses; on Nitro machines.
    pub prefix_delegation: bool,
    /// kubelet's `maxPods`.
    pub max_pods: Option<u32>,
    /// kubelet's `podsPerCore`.
    pub pods_per_core: Option<u32>,
    /// kubelet's `kubeReserved`, where it differs from what the images set.
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// kubelet's `systemReserved`.
    pub system_reserved: BTreeMap<String, Quantity>,
    /// kubelet's `evictionHard`, by signal.
    pub eviction_hard: BTreeMap<String, EvictionThreshold>,
    /// The size of the volume with kubelet's files, where it is not the images' default.
    pub volume: Option<Quantity>,
    /// Whether the instance store, where there is one, holds kubelet's files (`instanceStorePolicy: RAID0`).
    pub uses_instance_store: bool,
}

/// The part of a machine's memory that pods' kernel never sees, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmMemoryOverhead(u32);

/// When kubelet evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionThreshold {
    /// Below this amount.
    Amount(Quantity),
    /// Below this part of the capacity, in millionths.
    Part(u32),
}

/// A setting that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found:?}")]
pub struct SettingsError {
    expected: &'static str,
    found: String,
}

const MILLION: u32 = 1_000_000;

/// Millionths of a decimal number from 0 to `most` such as `0.075`; digits beyond the sixth are dropped.
fn millionths(text: &str, most: u32) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && part.is_empty()) || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = part.chars().chain(std::iter::repeat('0')).take(6).collect();
    let value = whole.checked_mul(u64::from(MILLION))?.checked_add(digits.parse().ok()?)?;
    (part.bytes().all(|b| b.is_ascii_digit()) && value <= u64::from(most) * u64::from(MILLION)).then_some(value)
}

// === impl VmMemoryOverhead ===

impl Default for VmMemoryOverhead {
    /// 7.5%, as Karpenter's `vm-memory-overhead-percent`.
    fn default() -> Self {
        Self(75_000)
    }
}

impl VmMemoryOverhead {
    /// What is left of so many MiB; what is taken is rounded up.
    pub(crate) fn left_of(self, mib: u64) -> u64 {
        let taken = (u128::from(mib) * u128::from(self.0)).div_ceil(u128::from(MILLION));
        mib.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX))
    }
}

impl FromStr for VmMemoryOverhead {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let part = millionths(text, 1).and_then(|part| u32::try_from(part).ok()).filter(|part| *part < MILLION);
        let expected = "a part from 0 to below 1, such as 0.075";
        part.map(Self).ok_or_else(|| SettingsError { expected, found: text.to_owned() })
    }
}

// === impl EvictionThreshold ===

impl EvictionThreshold {
    /// The amount, of this capacity; parts are rounded up. 100% turns the threshold off.
    pub(crate) fn of(self, capacity: Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount,
            Self::Part(MILLION..) => Quantity::ZERO,
            Self::Part(part) => {
                let whole = u128::try_from(capacity.value_ceil().unwrap_or(i64::MAX)).unwrap_or(0);
                let below = (whole * u128::from(part)).div_ceil(u128::from(MILLION));
                Quantity::from_bytes_binary(i64::try_from(below).unwrap_or(i64::MAX))
            }
        }
    }
}

impl FromStr for EvictionThreshold {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let wrong = || SettingsError {
            expected: "a quantity such as 100Mi or a percentage such as 10%",
            found: text.to_owned(),
        };
        if let Some(percent) = text.strip_suffix('%') {
            let part = millionths(percent, 100).and_then(|part| u32::try_from(part / 100).ok());
            return part.map(Self::Part).ok_or_else(wrong);
        }
        let amount: Quantity = text.parse().map_err(|_| wrong())?;
        if amount.is_negative() { Err(wrong()) } else { Ok(Self::Amount(amount)) }
    }
}
