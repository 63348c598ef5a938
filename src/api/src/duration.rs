//! Durations as Go writes them, `1h30m`, and durations that may be `Never`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What disables the deadline that a [`NillableDuration`] sets.
const NEVER: &str = "Never";
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Why a text is not a Go duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow the grammar of Go's `time.ParseDuration`.
    #[error("{0:?} is not a duration, expected numbers with units such as 30s, 1h30m or 720h")]
    Syntax(String),
    /// The duration is longer than 292 years, the range of nanoseconds in 64 bits.
    #[error("duration {0:?} is too long, expected at most 2562047h")]
    TooLong(String),
}

/// A signed duration in nanoseconds that remembers how it was written.
///
/// Equality, order and hash look at the length alone: `1h` equals `60m`.
#[derive(Debug, Clone, Default)]
pub struct GoDuration {
    nanos: i64,
    written: String,
}

// === impl GoDuration ===

impl GoDuration {
    /// A duration of whole seconds, written in hours, minutes and seconds; capped at 292 years.
    pub fn from_secs(seconds: i64) -> Self {
        let nanos = seconds.saturating_mul(NANOS_PER_SECOND);
        let (sign, seconds) = (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs());
        let mut written = sign.to_owned();
        for (count, unit) in [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")] {
            if count > 0 || (unit == "s" && seconds == 0) {
                written.push_str(&count.to_string());
                written.push_str(unit);
            }
        }
        Self { nanos, written }
    }

    /// The length in nanoseconds; may be negative.
    pub const fn nanos(&self) -> i64 {
        self.nanos
    }

    /// Whether the length is exactly zero.
    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// The length, or `None` where it is negative.
    pub fn to_std(&self) -> Option<Duration> {
        u64::try_from(self.nanos).ok().map(Duration::from_nanos)
    }

    /// The text that it was read from.
    pub fn as_str(&self) -> &str {
        &self.written
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    /// Reads what Go's `time.ParseDuration` reads: an optional sign, then decimal numbers each with a unit of
    /// ns, us, µs, ms, s, m or h; or a plain `0`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || DurationError::Syntax(text.chars().take(64).collect());
        let (sign, mut rest) = match text.as_bytes() {
            [b'-', ..] => (-1, &text[1..]),
            [b'+', ..] => (1, &text[1..]),
            _ => (1, text),
        };
        if rest == "0" {
            return Ok(Self { nanos: 0, written: text.to_owned() });
        }
        if rest.is_empty() {
            return Err(syntax());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (nanos, after) = leading_part(rest).ok_or_else(syntax)?;
            // Each part is capped far above the range, so the sum of a text's parts cannot wrap.
            total = total.saturating_add(nanos);
            rest = after;
        }
        let nanos = i64::try_from(sign * total).map_err(|_| DurationError::TooLong(text.chars().take(64).collect()))?;
        Ok(Self { nanos, written: text.to_owned() })
    }
}

/// The nanoseconds of the first number with its unit, and what follows; fractions of a nanosecond are cut.
fn leading_part(text: &str) -> Option<(i128, &str)> {
    let digits_end = |text: &str| text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(digits_end(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits_end(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.bytes().position(|byte| byte == b'.' || byte.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let digit = |byte: u8| i128::from(byte - b'0');
    let cap = i128::from(i64::MAX) + 1;
    let whole = whole.bytes().fold(0_i128, |sum, byte| (sum * 10 + digit(byte)).min(cap));
    // 18 digits after the point decide every nanosecond of the longest unit.
    let fraction_digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(18);
    let fraction = fraction_digits.fold(0_i128, |sum, byte| sum * 10 + digit(byte));
    Some((whole * unit + fraction * unit / 1_000_000_000_000_000_000, rest))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.written)
    }
}

impl PartialEq for GoDuration {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for GoDuration {}

impl PartialOrd for GoDuration {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoDuration {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for GoDuration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A deadline: after a duration, or never.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NillableDuration {
    /// Written `Never`.
    Never,
    /// Written as a Go duration.
    After(GoDuration),
}

// === impl NillableDuration ===

impl NillableDuration {
    /// A deadline of whole seconds.
    pub fn after_secs(seconds: i64) -> Self {
        Self::After(GoDuration::from_secs(seconds))
    }

    /// The duration, unless it is never.
    pub const fn duration(&self) -> Option<&GoDuration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration),
        }
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == NEVER { Ok(Self::Never) } else { text.parse().map(Self::After) }
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.duration().map_or(NEVER, GoDuration::as_str))
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
