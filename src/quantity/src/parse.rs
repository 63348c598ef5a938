//! Reading a quantity: sign, decimal number, suffix or exponent.

use std::str::FromStr;

use crate::{Format, NANOS, Quantity};

/// Decimal places of a nano-unit.
const NANO_PLACES: i64 = 9;
/// Decimal digits of `i128::MAX`: nothing longer fits.
const MAX_DIGITS: usize = 39;
/// Kubernetes reads binary amounts beyond this as this many units.
const BINARY_CAP: i128 = i64::MAX as i128 * NANOS;

/// Why a text is not a quantity, and what was expected instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("quantity is empty, expected a number such as 2, 500m or 1.5Gi")]
    Empty,
    /// The text has no digit, or something other than a number before the suffix.
    #[error("quantity {0:?} does not start with a number, expected one such as 2, 500m or 1.5Gi")]
    NotANumber(String),
    /// What follows the number is no suffix that Kubernetes knows.
    #[error(
        "quantity {text:?} has the unknown suffix {suffix:?}, expected none, one of n u m k M G T P E \
         Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
    )]
    UnknownSuffix {
        /// The whole quantity as written, cut after 64 characters.
        text: String,
        /// The part after the number, cut likewise.
        suffix: String,
    },
    /// The amount is too large to be held in nano-units.
    #[error("quantity {0:?} is too large, expected an amount below 1.7e29")]
    TooLarge(String),
}

/// What a suffix multiplies the number by, and the notation that it implies.
enum Scale {
    Binary { shift: u32 },
    Decimal { exponent: i64, format: Format },
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, unsigned) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::NotANumber(excerpt(text)));
        }
        let scale = Scale::of(suffix)
            .ok_or_else(|| QuantityError::UnknownSuffix { text: excerpt(text), suffix: excerpt(suffix) })?;

        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
        let fraction_places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let (exponent, format) = match scale {
            Scale::Binary { shift } => {
                digits = shifted_left(&digits, shift);
                (0, Format::BinarySI)
            }
            Scale::Decimal { exponent, format } => (exponent, format),
        };
        let places = exponent.saturating_sub(fraction_places).saturating_add(NANO_PLACES);
        let magnitude = scaled_up(&digits, places);
        Self::with_sign(negative, magnitude, format).ok_or_else(|| QuantityError::TooLarge(excerpt(text)))
    }
}

impl TryFrom<&str> for Quantity {
    type Error = QuantityError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Quantity {
    /// Puts sign and magnitude together, with apimachinery's two rules for binary amounts: they are capped at
    /// 2^63-1 units, and below one unit they count as decimal. `None` where the magnitude did not fit.
    fn with_sign(negative: bool, magnitude: Option<i128>, format: Format) -> Option<Self> {
        let (magnitude, format) = match format {
            Format::BinarySI => {
                let capped = magnitude.map_or(BINARY_CAP, |nanos| nanos.min(BINARY_CAP));
                let below_one = capped > 0 && capped < NANOS;
                (capped, if below_one { Format::DecimalSI } else { Format::BinarySI })
            }
            _ => (magnitude?, format),
        };
        Some(Self::from_nanos(if negative { -magnitude } else { magnitude }, format))
    }
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let decimal = |exponent| Some(Self::Decimal { exponent, format: Format::DecimalSI });
        let binary = |shift| Some(Self::Binary { shift });
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                Some(Self::Decimal { exponent, format: Format::DecimalExponent })
            }
        }
    }
}

/// The leading ASCII digits and what follows them.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A decimal number, most significant digit first, times 2^shift for shifts up to 60.
fn shifted_left(digits: &[u8], shift: u32) -> Vec<u8> {
    let mut product: Vec<u8> = Vec::with_capacity(digits.len() + 20);
    let mut carry: u128 = 0;
    for &digit in digits.iter().rev() {
        carry += u128::from(digit) << shift;
        product.push((carry % 10) as u8);
        carry /= 10;
    }
    while carry > 0 {
        product.push((carry % 10) as u8);
        carry /= 10;
    }
    product.reverse();
    product
}

/// A decimal number times 10^places, rounded away from zero where places are cut off; `None` beyond `i128`.
fn scaled_up(digits: &[u8], places: i64) -> Option<i128> {
    let first = digits.iter().position(|&digit| digit != 0);
    let Some(digits) = first.map(|first| &digits[first..]) else {
        return Some(0);
    };
    let cut = usize::try_from(places.saturating_neg()).unwrap_or(0).min(digits.len());
    let (kept, dropped) = digits.split_at(digits.len() - cut);
    let zeros = usize::try_from(places).unwrap_or(0);
    if kept.len().saturating_add(zeros) > MAX_DIGITS {
        return None;
    }
    let kept = kept.iter().copied().chain(std::iter::repeat_n(0, zeros));
    let scaled = kept.map(i128::from).try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(digit))?;
    scaled.checked_add(i128::from(dropped.iter().any(|&digit| digit != 0)))
}

/// The text for an error message: whole where it is short.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
