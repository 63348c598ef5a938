//! Families of machine images: what each does about pods, reserves and disks.

use std::str::FromStr;

use berth_quantity::Quantity;

/// A family of machine images, as `amiFamily` of an `EC2NodeClass`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS' own")]
pub enum AmiFamily {
    Al2,
    #[default]
    Al2023,
    Bottlerocket,
    Custom,
    Windows2019,
    Windows2022,
    Windows2025,
}

// === impl AmiFamily ===

impl AmiFamily {
    const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// The name as `amiFamily` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// The family of an alias such as `al2023@latest`.
    pub fn of_alias(alias: &str) -> Option<Self> {
        let (family, _) = alias.split_once('@')?;
        Self::ALL.into_iter().find(|known| *known != Self::Custom && known.as_str().eq_ignore_ascii_case(family))
    }

    /// Whether nodes run Windows.
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }

    /// Whether pods are limited by network interfaces; else 110 is the limit.
    pub(crate) const fn limits_pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Whether kubelet's memory is reserved for as many pods as there are addresses, whatever `maxPods` says.
    pub(crate) const fn reserves_for_addresses(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// Whether `podsPerCore` is obeyed.
    pub(crate) const fn obeys_pods_per_core(self) -> bool {
        !matches!(self, Self::Bottlerocket)
    }

    /// The device with kubelet's files.
    pub(crate) const fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Custom => None,
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
        }
    }

    /// How large that device is where a node class does not say.
    pub(crate) const fn default_volume(self) -> Quantity {
        let gib: i64 = if self.is_windows() { 50 } else { 20 };
        Quantity::from_bytes_binary(gib << 30)
    }
}

impl FromStr for AmiFamily {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text)).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("expected one of {names}, found {text:?}")
        })
    }
}
