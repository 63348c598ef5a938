//! Kubernetes quantities as exact integers, in billionths (the smallest suffix is `n`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by resource name, in billionths of the resource's unit.
pub(crate) type Resources = BTreeMap<String, i128>;

const UNIT: i128 = 1_000_000_000;

/// The whole units of a quantity; 0 where it is none.
pub(crate) fn whole_units(text: &str) -> i128 {
    parse(text).unwrap_or(0) / UNIT
}

/// Reads a quantity; parts below one billionth are rounded up. None where it is no quantity.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || (*i == 0 && (*c == '+' || *c == '-'))))
        .map_or(text.len(), |(i, _)| i);
    let (number, suffix) = text.split_at(end);
    let (negative, number) = match number.as_bytes().first() {
        Some(b'-') => (true, number.get(1..)?),
        Some(b'+') => (false, number.get(1..)?),
        _ => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let mut exponent = 9 - i32::try_from(fraction.len()).ok()?;
    match suffix {
        "" => {}
        "n" => exponent -= 9,
        "u" => exponent -= 6,
        "m" => exponent -= 3,
        "k" => exponent += 3,
        "M" => exponent += 6,
        "G" => exponent += 9,
        "T" => exponent += 12,
        "P" => exponent += 15,
        "E" => exponent += 18,
        "Ki" => digits = digits.checked_mul(1 << 10)?,
        "Mi" => digits = digits.checked_mul(1 << 20)?,
        "Gi" => digits = digits.checked_mul(1 << 30)?,
        "Ti" => digits = digits.checked_mul(1 << 40)?,
        "Pi" => digits = digits.checked_mul(1 << 50)?,
        "Ei" => digits = digits.checked_mul(1 << 60)?,
        _ => exponent += suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?,
    }
    let scaled = if exponent >= 0 {
        digits.checked_mul(10_i128.checked_pow(exponent.unsigned_abs())?)?
    } else {
        match 10_i128.checked_pow(exponent.unsigned_abs()) {
            Some(divisor) => digits.checked_add(divisor - 1)? / divisor,
            None => i128::from(digits > 0),
        }
    };
    Some(if negative { -scaled } else { scaled })
}

/// The amounts of a typed resource list; what cannot be read is left out.
pub(crate) fn from_list(list: Option<&BTreeMap<String, Quantity>>) -> Resources {
    list.into_iter().flatten().filter_map(|(name, quantity)| Some((name.clone(), parse(&quantity.0)?))).collect()
}

/// The amounts of a JSON object of quantities, which may be written as strings or numbers.
pub(crate) fn from_json(value: Option<&serde_json::Value>) -> Resources {
    value
        .and_then(serde_json::Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, quantity)| {
            let text = match quantity {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some((name.clone(), parse(&text)?))
        })
        .collect()
}

/// Adds `more` to `total`, resource by resource.
pub(crate) fn add(total: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

/// Raises each amount of `total` to at least that of `other`.
pub(crate) fn raise_to(total: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        let entry = total.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// Counts as amounts: `n` whole units.
pub(crate) fn whole(n: usize) -> i128 {
    i128::try_from(n).unwrap_or(i128::MAX / UNIT) * UNIT
}

/// For messages: units with up to three decimals, binary suffixes where they come out even.
pub(crate) fn show(amount: i128) -> String {
    for (power, suffix) in [(30, "Gi"), (20, "Mi")] {
        let unit = UNIT << power;
        if amount != 0 && amount % unit == 0 {
            return format!("{}{suffix}", amount / unit);
        }
    }
    if amount % UNIT == 0 {
        return (amount / UNIT).to_string();
    }
    if amount % (UNIT / 1000) == 0 {
        return format!("{}m", amount / (UNIT / 1000));
    }
    format!("{amount}n")
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn quantities_with_every_suffix_are_exact() {
        for (text, expected) in [
            ("100m", 100_000_000),
            ("1.5", 1_500_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1.5Gi", 1_610_612_736_000_000_000),
            ("2e3", 2_000_000_000_000),
            ("2E", 2_000_000_000_000_000_000_000_000_000),
            (".5", 500_000_000),
            ("-1", -1_000_000_000),
            ("0.1n", 1),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "x", "1Zi", "1e", "--1", "."] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
