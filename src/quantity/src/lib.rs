//! Exact amounts, as manifests and catalogues write them: Kubernetes quantities, the numbers of `resources.requests`,
//! `limits` and capacities, and [`Money`], the prices. Beside them the [`Operator`]s of requirements, which both share.
//!
//! A [`Quantity`] is a whole number of nano-units in an `i128` and the notation that it was written in. It reads
//! every suffix and exponent that k8s.io/apimachinery reads and prints the same canonical form. It never passes
//! through a float, and it decides nothing about what a quantity means: that is the caller's resource.
//!
//! ```
//! use berth_quantity::{Quantity, QuantityError};
//!
//! let memory: Quantity = "1.5Gi".parse()?;
//! assert_eq!(memory.to_string(), "1536Mi");
//! assert_eq!(memory.value_ceil(), Some(1_610_612_736));
//!
//! let cpu: Quantity = "0.1".parse()?;
//! assert_eq!((cpu.to_string().as_str(), cpu.milli_ceil()), ("100m", Some(100)));
//! # Ok::<(), QuantityError>(())
//! ```
//!
//! Where it departs from apimachinery, on purpose: a quantity needs at least one digit (apimachinery reads `"k"`
//! and `"."` as zero, against its own documented grammar), amounts that do not fit are errors (there they wrap or
//! lose their suffix when printed), and printing is always canonical (there `"1.500"` may be echoed as written).

mod money;
mod operator;
mod parse;
mod print;
#[cfg(feature = "schemars")]
mod schema;
mod serde_impl;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

pub use money::{Money, ParseMoneyError};
pub use operator::{Operator, ParseOperatorError};
pub use parse::QuantityError;

/// Nano-units in one unit.
const NANOS: i128 = 1_000_000_000;
/// Nano-units in one thousandth of a unit.
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The notation that a quantity is printed in, as apimachinery's `resource.Format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Powers of 1024: `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    BinarySI,
    /// Powers of 1000: `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    #[default]
    DecimalSI,
    /// Decimal exponents that are multiples of three: `12e6`.
    DecimalExponent,
}

/// An exact amount in nano-units with the notation that it is printed in.
///
/// Equality, order and hash look at the amount alone: `1Ki` equals `1024`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

// === impl Quantity ===

impl Quantity {
    /// Zero, printed as `0`.
    pub const ZERO: Self = Self::from_nanos(0, Format::DecimalSI);

    /// The amount of `nanos` billionths of a unit, printed in `format`.
    pub const fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    /// `value` whole units in decimal notation.
    pub const fn from_value(value: i64) -> Self {
        Self::from_nanos(value as i128 * NANOS, Format::DecimalSI)
    }

    /// `milli` thousandths of a unit in decimal notation: 1500 prints as `1500m`.
    pub const fn from_milli(milli: i64) -> Self {
        Self::from_nanos(milli as i128 * NANOS_PER_MILLI, Format::DecimalSI)
    }

    /// `bytes` whole units in binary notation: 1536 MiB prints as `1536Mi`.
    pub const fn from_bytes_binary(bytes: i64) -> Self {
        Self::from_nanos(bytes as i128 * NANOS, Format::BinarySI)
    }

    /// The amount in billionths of a unit.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The notation that it prints in.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether the amount is exactly zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Thousandths of a unit, rounded towards positive infinity; `None` beyond `i64`.
    ///
    /// For amounts of zero and more this is apimachinery's `MilliValue`.
    pub fn milli_ceil(self) -> Option<i64> {
        div_ceil(self.nanos, NANOS_PER_MILLI)
    }

    /// Whole units, rounded towards positive infinity; `None` beyond `i64`.
    ///
    /// For amounts of zero and more this is apimachinery's `Value`.
    pub fn value_ceil(self) -> Option<i64> {
        div_ceil(self.nanos, NANOS)
    }

    /// Whole units, rounded towards negative infinity; `None` beyond `i64`.
    pub fn value_floor(self) -> Option<i64> {
        i64::try_from(self.nanos.div_euclid(NANOS)).ok()
    }

    /// The sum, in the notation of `self` unless that is zero; `None` on overflow.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self::from_nanos(self.nanos.checked_add(other.nanos)?, self.format_beside(other)))
    }

    /// The difference, in the notation of `self` unless that is zero; `None` on overflow.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self::from_nanos(self.nanos.checked_sub(other.nanos)?, self.format_beside(other)))
    }

    /// Zero takes on the other operand's notation, as in apimachinery's `Add` and `Sub`.
    const fn format_beside(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

/// `dividend / divisor` rounded up, for positive divisors.
fn div_ceil(dividend: i128, divisor: i128) -> Option<i64> {
    let floor = dividend.div_euclid(divisor);
    i64::try_from(floor + i128::from(dividend.rem_euclid(divisor) != 0)).ok()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}
