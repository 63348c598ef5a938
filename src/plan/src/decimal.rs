//! Money as exact decimal text.

use berth_model::Money;
use berth_quantity::{Format, Quantity};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

const PICO: u128 = 1_000_000_000_000;
const PLACES: usize = 12;
const NANOS: i128 = 1_000_000_000;

/// Text that is no amount of dollars.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: expected dollars as a decimal number from 0 to 1000000, such as 0.05")]
pub struct ParseMoneyError(String);

/// Reads dollars: digits, and at most twelve after a point.
///
/// # Errors
/// Anything else, and more than a million.
pub fn parse_money(text: &str) -> Result<Money, ParseMoneyError> {
    let error = || ParseMoneyError(text.chars().take(40).collect());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = !(whole.is_empty() && fraction.is_empty());
    if !has_digits || !is_digits(whole) || !is_digits(fraction) || whole.len() > 7 || fraction.len() > PLACES {
        return Err(error());
    }
    let digits = format!("{whole}{fraction:0<PLACES$}");
    let pico = digits.parse::<i128>().map_err(|_| error())?;
    let most = 1_000_000 * i128::try_from(PICO).unwrap_or(i128::MAX);
    if pico > most { Err(error()) } else { Ok(Money::from_pico(pico)) }
}

/// The exact number of dollars, with at least one digit after the point: `0.0464`, `3.0`.
pub fn exact(money: Money) -> String {
    let pico = money.pico();
    let sign = if pico < 0 { "-" } else { "" };
    let (whole, fraction) = (pico.unsigned_abs() / PICO, pico.unsigned_abs() % PICO);
    let fraction = format!("{fraction:0PLACES$}");
    let fraction = fraction.trim_end_matches('0');
    format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
}

/// For people: thousands separated, rounded half up to `places` digits (at most 12), at least two of them.
pub(crate) fn rounded(money: Money, places: usize) -> String {
    let places = places.min(PLACES);
    let unit = 10_u128.pow(u32::try_from(PLACES - places).unwrap_or(0));
    let units = (money.pico().unsigned_abs() + unit / 2) / unit;
    let scale = 10_u128.pow(u32::try_from(places).unwrap_or(0));
    let sign = if money.pico() < 0 && units > 0 { "-" } else { "" };
    let fraction = format!("{:0places$}", units % scale);
    let needed = fraction.trim_end_matches('0').len().max(2).min(places);
    let fraction = fraction.get(..needed).unwrap_or_default();
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", thousands(units / scale))
}

/// A count with its thousands separated: `8,152`.
pub(crate) fn thousands(count: impl Into<u128>) -> String {
    let digits = count.into().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// An amount of a resource for people: `191650m` is `191.65`, and bytes of more than four digits have the next unit and at
/// most two decimals, rounded down: `15998Mi` is `15.62Gi`.
pub(crate) fn amount(quantity: Quantity) -> String {
    rounded_amount(quantity, |nanos, unit| nanos / unit)
}

/// The same, rounded up: whoever is to have so much has enough with it.
pub(crate) fn amount_at_least(quantity: Quantity) -> String {
    rounded_amount(quantity, |nanos, unit| nanos.saturating_add(unit - 1) / unit)
}

fn rounded_amount(quantity: Quantity, rounded: impl Fn(i128, i128) -> i128) -> String {
    let (exact, nanos) = (quantity.to_string(), quantity.nanos());
    let n_digits = exact.bytes().filter(u8::is_ascii_digit).count();
    // Of `units` nano-units, with at most so many decimals.
    let decimal = |units: i128, decimals: u32, suffix: &str| {
        let scale = 10_i128.pow(decimals);
        let scaled = rounded(nanos, (units / scale).max(1));
        let fraction = format!("{:0width$}", scaled % scale, width = usize::try_from(decimals).unwrap_or(0));
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{}{point}{fraction}{suffix}", scaled / scale)
    };
    match quantity.format() {
        Format::BinarySI if n_digits > 4 && nanos > 0 => {
            let units = [("Ti", 1_i128 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
            let unit = units.into_iter().find(|(_, bytes)| nanos >= bytes * NANOS);
            unit.map_or(exact, |(suffix, bytes)| decimal(bytes * NANOS, 2, suffix))
        }
        Format::DecimalSI if exact.ends_with('m') && nanos >= NANOS => decimal(NANOS, 3, ""),
        _ => exact,
    }
}

/// Money as a JSON number that says exactly what it is.
pub(crate) struct Exact(pub(crate) Money);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(exact(self.0)).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_printed_without_float_noise() {
        let sum: Money = (0..3).map(|_| Money::from_pico(100_000_000_000)).sum();
        assert_eq!(exact(sum), "0.3");
        assert_eq!(exact(Money::from_pico(46_400_000_000)), "0.0464");
        assert_eq!(exact(Money::from_pico(3_000_000_000_000)), "3.0");
        assert_eq!(exact(Money::from_pico(1)), "0.000000000001");
        assert_eq!(exact(Money::from_pico(-1_500_000_000_000)), "-1.5");
        assert_eq!(serde_json::to_string(&Exact(Money::ZERO)).unwrap(), "0.0");
    }

    #[test]
    fn people_read_rounded_money_with_separators() {
        assert_eq!(rounded(Money::from_pico(2_582_912_345_678_901), 2), "2,582.91");
        assert_eq!(rounded(Money::from_pico(46_400_000_000), 4), "0.0464");
        assert_eq!(rounded(Money::from_pico(200_000_000_000), 4), "0.20");
        assert_eq!(rounded(Money::from_pico(999_999_999_999), 4), "1.00");
        assert_eq!(rounded(Money::from_pico(1_234_500_000_000_000_000), 0), "1,234,500");
    }

    #[test]
    fn people_read_amounts_of_few_digits() {
        let read = |text: &str| amount(text.parse().unwrap());
        for (exact, shown) in [
            ("191650m", "191.65"),
            ("1500m", "1.5"),
            ("95685m", "95.685"),
            ("500m", "500m"),
            ("15998Mi", "15.62Gi"),
            ("13Gi", "13Gi"),
        ] {
            assert_eq!(read(exact), shown);
        }
        let at_least = |text: &str| amount_at_least(text.parse().unwrap());
        assert_eq!(
            (at_least("15998Mi"), at_least("999080m"), at_least("13Gi")),
            ("15.63Gi".into(), "999.08".into(), "13Gi".into())
        );
        assert_eq!((read("12345678Ki"), read("12345"), read("0")), ("11.77Gi".into(), "12345".into(), "0".into()));
        assert_eq!(amount(Quantity::from_bytes_binary(123_456)), "120.56Ki");
    }

    #[test]
    fn node_cost_is_a_plain_decimal() {
        assert_eq!(parse_money("0.05").unwrap(), Money::from_pico(50_000_000_000));
        assert_eq!(parse_money("3").unwrap(), Money::from_pico(3_000_000_000_000));
        for bad in ["", ".", "-1", "1e3", "0.0000000000001", "1000000.1", "99999999", "NaN", "+1", " 1"] {
            assert!(parse_money(bad).is_err(), "{bad:?}");
        }
    }
}
