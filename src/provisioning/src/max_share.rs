//! What shares a caller may set, and how much of a plan each value has.

/// What a share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareKey {
    /// `topology.kubernetes.io/zone`
    Zone,
    /// `node.kubernetes.io/instance-type`
    InstanceType,
    /// `karpenter.sh/capacity-type`
    CapacityType,
}

/// At most so much of what a plan puts on new nodes may be on nodes of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxShare {
    /// What the values are of.
    pub key: ShareKey,
    /// The value that it holds for; `None` for each.
    pub value: Option<String>,
    /// The share in billionths, 1,000,000,000 at most; 0 for none, where it names a value.
    pub billionths: u32,
}

/// How much of what a plan puts on new nodes is on nodes of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueShare {
    /// The zone, instance type or capacity type.
    pub value: String,
    /// New nodes of it.
    pub nodes: u64,
    /// Its share, in billionths, rounded up.
    pub billionths: u32,
}

/// All of it, in billionths.
pub(crate) const ALL: i128 = 1_000_000_000;

/// What a pod that requests no CPU counts for, in milli-CPU: kube-scheduler's `DefaultMilliCPURequest`.
pub(crate) const DEFAULT_MILLI_CPU: i64 = 100;

/// What a pod of this request counts for, in milli-CPU.
pub(crate) fn weight_of_cpu(milli_cpu: i64) -> i64 {
    if milli_cpu > 0 { milli_cpu } else { DEFAULT_MILLI_CPU }
}

impl ShareKey {
    /// The name in flags and in answers.
    pub fn name(self) -> &'static str {
        match self {
            ShareKey::Zone => "zone",
            ShareKey::InstanceType => "instanceType",
            ShareKey::CapacityType => "capacityType",
        }
    }
}

impl MaxShare {
    /// The share as a percentage: `50%`, `12.5%`.
    pub fn percent(&self) -> String {
        Self::percent_of(u64::from(self.billionths))
    }

    /// Billionths as a percentage.
    pub fn percent_of(billionths: u64) -> String {
        let (whole, rest) = (billionths / 10_000_000, billionths % 10_000_000);
        let rest = format!("{rest:07}");
        let rest = rest.trim_end_matches('0');
        if rest.is_empty() { format!("{whole}%") } else { format!("{whole}.{rest}%") }
    }
}
