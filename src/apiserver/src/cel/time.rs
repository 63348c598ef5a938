//! Durations and instants, as texts and in rules.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration as Go writes it, such as `1h30m` or `-1.5s`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let (amount, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(*scale)?)?;
        let mut place = *scale;
        for digit in fraction.chars() {
            place /= 10;
            total += i128::from(digit.to_digit(10)?) * place;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// An instant of RFC 3339, or the beginning of a date in UTC.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(instant) = Timestamp::from_str(text) {
        return Some(instant);
    }
    let date = jiff::civil::Date::from_str(text).ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// A duration in seconds, as `string()` writes it.
pub(super) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// A part of an instant in a time zone, by the name of CEL's function; UTC where none is named.
pub(super) fn part_of_instant(instant: Timestamp, function: &str, zone: Option<&str>) -> Option<i64> {
    let zone = match zone {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(name).ok()?,
    };
    let time = instant.to_zoned(zone);
    Some(match function {
        "getFullYear" => time.year().into(),
        "getMonth" => i64::from(time.month()) - 1,
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDate" => time.day().into(),
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        "getMilliseconds" => time.millisecond().into(),
        _ => return None,
    })
}

/// A duration in whole units, by the name of CEL's function.
pub(super) fn part_of_duration(nanos: i64, function: &str) -> Option<i64> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return None,
    };
    Some(nanos / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            (".5m", Some(30_000_000_000)),
            ("1d", None),
            ("1", None),
            ("", None),
            ("-", None),
            ("9999999999h", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
        assert_eq!(duration_text(-1_500_000_000), "-1.5s");
    }

    #[test]
    fn a_date_is_its_beginning_in_utc() {
        let time = parse_timestamp("2026-01-02").unwrap();
        assert_eq!(time.to_string(), "2026-01-02T00:00:00Z");
        assert_eq!(part_of_instant(time, "getDayOfWeek", None), Some(5));
    }
}
