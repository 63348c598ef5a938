//! The formats of texts that are checked; others, and those of numbers, say nothing, as with the real server.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use regex::Regex;

use crate::cel::parse_duration;

/// A format that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crd) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    LongName,
    Mac,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
}

/// Formats of texts by their names, and the pattern of each that has one.
const TEXTS: &[(&str, Format, &str)] = &[
    ("bsonobjectid", Format::BsonObjectId, "^[0-9a-fA-F]{24}$"),
    ("byte", Format::Byte, ""),
    ("cidr", Format::Cidr, ""),
    (
        "creditcard",
        Format::CreditCard,
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    ),
    ("date", Format::Date, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
    ("datetime", Format::DateTime, ""),
    ("duration", Format::Duration, ""),
    ("email", Format::Email, r"^[^\s@<>]+@[^\s@<>]+$"),
    ("hexcolor", Format::HexColor, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    (
        "hostname",
        Format::Hostname,
        r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*\.?$",
    ),
    ("ipv4", Format::Ipv4, ""),
    ("ipv6", Format::Ipv6, ""),
    ("k8slongname", Format::LongName, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
    ("k8sshortname", Format::ShortName, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    ("mac", Format::Mac, r"^([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2})$|^([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}$"),
    (
        "rgbcolor",
        Format::RgbColor,
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
    ),
    ("ssn", Format::Ssn, r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
    ("uri", Format::Uri, r"^(/\S*|[a-zA-Z][a-zA-Z0-9+.-]*:\S+)$"),
    ("uuid", Format::Uuid, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid3", Format::Uuid3, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid4", Format::Uuid4, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
    ("uuid5", Format::Uuid5, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
];

static PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    let patterns = TEXTS.iter().map(|(_, _, pattern)| Some(*pattern).filter(|pattern| !pattern.is_empty()));
    patterns.map(|pattern| pattern.and_then(|pattern| Regex::new(pattern).ok())).collect()
});

// === impl Format ===

impl Format {
    /// The format of a schema, where it is one that is checked.
    pub(in crate::crd) fn of(kind: &str, format: &str) -> Option<Self> {
        match (kind, format) {
            (_, "") => None,
            ("" | "string", format) => {
                let name = format.replace('-', "");
                TEXTS.iter().find(|(known, _, _)| *known == name).map(|(_, format, _)| *format)
            }
            _ => None,
        }
    }

    /// Whether a text has the format.
    pub(super) fn holds_of(self, text: &str) -> bool {
        let place = TEXTS.iter().position(|(_, format, _)| *format == self);
        let pattern = place.and_then(|place| PATTERNS.get(place)).and_then(Option::as_ref);
        if pattern.is_some_and(|pattern| !pattern.is_match(text)) {
            return false;
        }
        match self {
            Self::Byte => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
            Self::Cidr => text.split_once('/').is_some_and(|(address, bits)| {
                let bits = bits.parse::<u8>().ok().filter(|_| !bits.starts_with('+'));
                bits.is_some_and(|bits| {
                    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
                        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
                })
            }),
            Self::Date => text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Hostname | Self::LongName => text.len() <= 253,
            Self::ShortName => text.len() <= 63,
            _ => true,
        }
    }
}

/// A date and a time with its offset, to the end of the year 9999, which is beyond what a clock here counts.
fn is_date_time(text: &str) -> bool {
    let pieces = jiff::fmt::temporal::Pieces::parse(text);
    text.contains(['T', 't']) && pieces.is_ok_and(|pieces| pieces.time().is_some() && pieces.offset().is_some())
}

/// A duration of Go, or numbers with units in words, such as `2 days`.
fn is_duration(text: &str) -> bool {
    const WORDS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    static PART: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\d+)\s*([A-Za-zµ]+)").ok());
    if parse_duration(text).is_some() {
        return true;
    }
    let is_unit = |unit: &str| {
        let unit = unit.to_lowercase();
        WORDS.iter().any(|words| {
            words.contains(&unit.as_str()) || words.last().is_some_and(|longest| unit.starts_with(longest))
        })
    };
    PART.as_ref().is_some_and(|part| {
        part.captures_iter(text).any(|found| found.get(2).is_some_and(|unit| is_unit(unit.as_str())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_a_format_is_one() {
        for ((name, _, pattern), compiled) in TEXTS.iter().zip(PATTERNS.iter()) {
            assert_eq!(compiled.is_some(), !pattern.is_empty(), "{name}");
        }
    }

    #[test]
    fn formats_hold_of_what_the_real_server_takes() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02"),
            ("date-time", "9999-12-31T23:59:59Z", "2026-01-02T03:04:05"),
            ("date", "2026-01-02", "2026-13-02"),
            ("duration", "1h30m", "an hour"),
            ("duration", "2 days", "2"),
            ("uuid", "9b2c1a7e-0c1d-4e2f-8a3b-1c2d3e4f5a6b", "9b2c1a7e"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("byte", "aGk=", "a?"),
            ("email", "a@example.com", "a"),
            ("uri", "https://example.com/a", "example"),
            ("hostname", "a.example.com", "-a"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("k8s-short-name", "a-b", "a.b"),
        ] {
            let format = Format::of("string", format).unwrap();
            assert!(format.holds_of(good), "{format:?} of {good}");
            assert!(!format.holds_of(bad), "{format:?} of {bad}");
        }
        assert_eq!(Format::of("string", "anything"), None);
    }
}
