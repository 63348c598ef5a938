//! Uids, resourceVersions and times in few bytes. What is not of the usual form is kept as it is.

use std::borrow::Cow;

use crate::Time;

/// A uid: sixteen bytes where it is one as the API server makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Uid {
    Canonical([u8; 16]),
    Other(Box<str>),
}

/// A resourceVersion: a number where it reads as one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Number(u64),
    Other(Box<str>),
}

/// A time in nanoseconds since 1970, of the years 1678 to 2261.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(i64);

// === impl Uid ===

/// Where a uid has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    pub(crate) fn of(text: &str) -> Self {
        canonical(text).map_or_else(|| Uid::Other(text.into()), Uid::Canonical)
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        let bytes = match self {
            Uid::Other(text) => return Cow::Borrowed(text),
            Uid::Canonical(bytes) => bytes,
        };
        let mut text = String::with_capacity(36);
        for byte in bytes {
            if HYPHENS.contains(&text.len()) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
            }
        }
        Cow::Owned(text)
    }
}

/// The bytes of `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in lower case.
fn canonical(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        if HYPHENS.contains(&at) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        let slot = bytes.get_mut(digits / 2)?;
        *slot = (*slot << 4) | digit;
        digits += 1;
    }
    Some(bytes)
}

// === impl Version ===

impl Version {
    pub(crate) fn of(text: &str) -> Self {
        let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
        number.map_or_else(|| Version::Other(text.into()), Version::Number)
    }

    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Version::Number(number) => Some(*number),
            Version::Other(text) => crate::object::version(Some(text)),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Version::Number(number) => number.to_string(),
            Version::Other(text) => text.to_string(),
        }
    }
}

// === impl Moment ===

impl Moment {
    /// No time.
    pub(crate) const NONE: Moment = Moment(i64::MIN);

    /// `None` where it is of other years.
    pub(crate) fn of(time: Time) -> Option<Self> {
        i64::try_from(time.as_nanosecond()).ok().filter(|nanoseconds| *nanoseconds != i64::MIN).map(Moment)
    }

    pub(crate) fn time(self) -> Option<Time> {
        if self == Self::NONE {
            return None;
        }
        Time::from_nanosecond(self.0.into()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_reads_as_it_was() {
        for text in [
            "12345678-9abc-def0-0123-456789abcdef",
            "12345678-9ABC-def0-0123-456789abcdef",
            "123456789-abc-def0-0123-456789abcdef",
            "12345678-9abc-def0-0123-456789abcde",
            "12345678-9abc-def0-0123-456789abcdeg",
            "pod-1",
            "",
            "é2345678-9abc-def0-0123-456789abcde",
        ] {
            assert_eq!(Uid::of(text).text(), text);
        }
        assert!(matches!(Uid::of("12345678-9abc-def0-0123-456789abcdef"), Uid::Canonical(_)));
        for text in ["0", "17", "017", "+17", "", "x", "18446744073709551616"] {
            assert_eq!(Version::of(text).text(), text);
            assert_eq!(Version::of(text).number(), text.parse().ok());
        }
        for text in ["1970-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "1700-01-01T00:00:00Z"] {
            let time: Time = text.parse().unwrap();
            assert_eq!(Moment::of(time).and_then(Moment::time), Some(time));
        }
        assert_eq!(Moment::of(Time::MAX), None);
        assert_eq!(Moment::NONE.time(), None);
    }
}
