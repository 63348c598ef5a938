//! Exact money.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Picodollars in a dollar, as a power of ten.
const DECIMALS: usize = 12;
const PICO_PER_DOLLAR: i128 = 10_i128.pow(12);
/// Digits kept of a decimal text; 30 hold any accepted price to well under a picodollar.
const MAX_DIGITS: usize = 30;

/// An amount in dollars (an hour, where it is a price), held exactly as a whole number of picodollars (1e-12).
///
/// A picodollar is fine enough for the prices that Karpenter's AWS provider gives reserved offerings, on-demand divided
/// by ten million. Sums and products are exact, and saturate beyond 1.7e26 dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Money(i128);

/// The text is no decimal number, or one beyond what [`Money`] holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an amount of money such as 0.096, found {0:?}")]
pub struct ParseMoneyError(String);

// === impl Money ===

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// That many picodollars.
    pub const fn from_pico(pico: i128) -> Self {
        Self(pico)
    }

    /// That many whole dollars.
    pub const fn from_dollars(dollars: i64) -> Self {
        Self(dollars as i128 * PICO_PER_DOLLAR)
    }

    /// The decimal that `dollars` prints as, which is the text it was read from if that had 15 digits or fewer, rounded
    /// to the nearest picodollar. `None` if it is not finite or out of range.
    pub fn from_f64(dollars: f64) -> Option<Self> {
        dollars.to_string().parse().ok()
    }

    /// The exact amount in picodollars. Below 2^63 for every price in a catalogue.
    pub const fn pico(self) -> i128 {
        self.0
    }

    /// The nearest `f64` in dollars; for reports and for solvers that work in floating point.
    #[expect(clippy::cast_precision_loss, reason = "what an f64 does not hold exactly is read from its decimal")]
    pub fn dollars(self) -> f64 {
        const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
        if self.0.unsigned_abs() <= EXACT {
            // Both are exact, so the quotient is the nearest.
            return self.0 as f64 / PICO_PER_DOLLAR as f64;
        }
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// So many times this.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count as i128))
    }

    /// Whether this is less than nothing.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether this is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Money {
    type Err = ParseMoneyError;

    /// Reads a decimal with an optional fraction and exponent (`0.096`, `8.5e-09`), rounding halves away from zero
    /// where it is finer than a picodollar.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self).ok_or_else(|| ParseMoneyError(text.chars().take(60).collect()))
    }
}

fn parse(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (decimal, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((decimal, exponent)) => (decimal, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The number is `digits` times ten to the power of `scale`, in picodollars.
    let mut digits: i128 = 0;
    let mut scale = i64::from(exponent) + i64::try_from(DECIMALS).ok()?;
    let mut n_digits = 0;
    for (is_fraction, digit) in whole.bytes().map(|b| (false, b)).chain(fraction.bytes().map(|b| (true, b))) {
        if !digit.is_ascii_digit() {
            return None;
        }
        if n_digits < MAX_DIGITS {
            digits = digits * 10 + i128::from(digit - b'0');
            n_digits += usize::from(digits != 0);
            scale -= i64::from(is_fraction);
        } else {
            scale += i64::from(!is_fraction);
        }
    }
    let power = |exponent: i64| u32::try_from(exponent).ok().and_then(|e| 10_i128.checked_pow(e));
    let magnitude = if digits == 0 {
        0
    } else if scale >= 0 {
        digits.checked_mul(power(scale)?)?
    } else {
        // A divisor out of range leaves less than half a picodollar.
        power(-scale).map_or(0, |divisor| (digits + divisor / 2) / divisor)
    };
    Some(if negative { -magnitude } else { magnitude })
}

impl fmt::Display for Money {
    /// The exact decimal, without trailing zeros: `0.096`, `-1.5`, `3`; with a precision, so many digits after the point,
    /// halves rounded away from zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let unit = PICO_PER_DOLLAR.unsigned_abs();
        if let Some(places) = f.precision().filter(|places| *places <= DECIMALS) {
            let cut = 10_u128.pow(u32::try_from(DECIMALS - places).unwrap_or(0));
            let rounded = (magnitude + cut / 2) / cut;
            let (whole, fraction) = (rounded / (unit / cut), rounded % (unit / cut));
            let sign = if self.0 < 0 && rounded > 0 { "-" } else { "" };
            let point = if places == 0 { String::new() } else { format!(".{fraction:0places$}") };
            return write!(f, "{sign}{whole}{point}");
        }
        let (whole, fraction) = (magnitude / unit, magnitude % unit);
        let text = if fraction == 0 {
            whole.to_string()
        } else {
            let text = format!("{whole}.{fraction:0DECIMALS$}");
            text.trim_end_matches('0').to_owned()
        };
        f.pad_integral(self.0 >= 0, "", &text)
    }
}

impl Serialize for Money {
    /// As the nearest JSON number.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Money {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Money {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl<'a> Sum<&'a Money> for Money {
    fn sum<I: Iterator<Item = &'a Money>>(amounts: I) -> Self {
        amounts.copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0.096", 96_000_000_000, "0.096")]
    #[case("0.085e-7", 8_500, "0.0000000085")]
    #[case("8.500000000000001e-09", 8_500, "0.0000000085")]
    #[case("0.027147483648", 27_147_483_648, "0.027147483648")]
    #[case("0.019003238553599998", 19_003_238_554, "0.019003238554")]
    #[case("-1.5", -1_500_000_000_000, "-1.5")]
    #[case("12E2", 1_200_000_000_000_000, "1200")]
    #[case(".5", 500_000_000_000, "0.5")]
    #[case("5.", 5_000_000_000_000, "5")]
    #[case("0.0000000000005", 1, "0.000000000001")]
    #[case("1e-400", 0, "0")]
    #[case("0e999", 0, "0")]
    #[case("0000000000000000000000000000000000000000001", 1_000_000_000_000, "1")]
    #[case("1.00000000000000000000000000000000000000000000000", 1_000_000_000_000, "1")]
    fn decimal_text_is_read_to_the_picodollar(#[case] text: &str, #[case] pico: i128, #[case] printed: &str) {
        let money: Money = text.parse().unwrap();
        assert_eq!(money.pico(), pico);
        assert_eq!(money.to_string(), printed);
    }

    #[rstest]
    fn what_is_no_amount_is_refused(
        #[values("", "-", ".", "1.2.3", "NaN", "inf", "1e", "0x10", "1_000", "1e40", "1e99999999999", "é")] text: &str,
    ) {
        assert!(text.parse::<Money>().is_err());
    }

    #[rstest]
    #[case("0.09996", "0.1000")]
    #[case("-0.00005", "-0.0001")]
    #[case("-0.00004", "0.0000")]
    #[case("12", "12.0000")]
    fn with_a_precision_money_is_rounded(#[case] text: &str, #[case] printed: &str) {
        assert_eq!(format!("{:.4}", text.parse::<Money>().unwrap()), printed);
    }

    #[test]
    fn a_million_small_prices_sum_exactly() {
        let price: Money = "0.1".parse().unwrap();
        assert_eq!(std::iter::repeat_n(price, 1_000_000).sum::<Money>(), Money::from_dollars(100_000));
        assert_eq!(price.times(1_000_000), Money::from_dollars(100_000));
    }

    proptest! {
        #[test]
        fn printed_money_reads_back(pico in -10_i128.pow(28)..10_i128.pow(28)) {
            let money = Money::from_pico(pico);
            prop_assert_eq!(money.to_string().parse::<Money>(), Ok(money));
        }

        #[test]
        fn a_price_with_twelve_decimals_passes_through_f64_unharmed(pico in 0..1_000_000_000_000_000_i128) {
            let money = Money::from_pico(pico);
            prop_assert_eq!(Money::from_f64(money.dollars()), Some(money));
        }

        #[test]
        fn dollars_are_the_nearest_number_to_the_decimal(pico in -10_i128.pow(28)..10_i128.pow(28), small in any::<i64>()) {
            for money in [Money::from_pico(pico), Money::from_pico(small.into()), Money::from_pico((small >> 20).into())] {
                prop_assert_eq!(money.dollars().to_bits(), money.to_string().parse::<f64>().unwrap().to_bits());
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<Money>();
        }
    }
}
