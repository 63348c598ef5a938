//! Exact money: prices per hour in pico-dollars.

use std::fmt;

/// Dollars an hour, exact to 10⁻¹² of a dollar. Sums of prices are taken in `i128` ([`Money::pico`]), so no plan
/// overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i128);

impl Money {
    /// Nothing.
    pub const ZERO: Money = Money(0);

    /// From pico-dollars (10⁻¹² $).
    pub const fn from_pico(pico: i128) -> Self {
        Money(pico)
    }

    /// Pico-dollars.
    pub const fn pico(self) -> i128 {
        self.0
    }

    /// The nearest number of dollars, for printing.
    #[expect(clippy::cast_precision_loss, reason = "printing only; decisions compare the exact integers")]
    pub fn dollars(self) -> f64 {
        // Split, so that the whole dollars and the fraction each convert exactly.
        (self.0 / 1_000_000_000_000) as f64 + (self.0 % 1_000_000_000_000) as f64 / 1e12
    }

    /// `self` times a count.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Money(self.0.saturating_mul(i128::from(count)))
    }
}

impl std::ops::Add for Money {
    type Output = Money;
    fn add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for Money {
    type Output = Money;
    fn sub(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }
}

impl std::ops::AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Money>>(iter: I) -> Money {
        iter.fold(Money::ZERO, |a, b| a + b)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.dollars())
    }
}
