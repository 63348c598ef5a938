//! Names, label keys and values, as apimachinery's `validation`.

use crate::check::Problems;
use crate::error::Problem;
use crate::nearest::nearest;
use crate::path::shorten;

fn is_alphanumeric(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_alphanumeric)
}

fn is_lowercase(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A DNS label: `web-1`, at most 63 characters.
pub(super) fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && is_lowercase(bytes.first())
        && is_lowercase(bytes.last())
        && bytes.iter().all(|byte| is_lowercase(Some(byte)) || *byte == b'-')
}

/// A DNS subdomain: labels joined by dots, at most 253 characters.
pub(super) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            is_lowercase(bytes.first())
                && is_lowercase(bytes.last())
                && bytes.iter().all(|byte| is_lowercase(Some(byte)) || *byte == b'-')
        })
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && is_alphanumeric(bytes.first())
        && is_alphanumeric(bytes.last())
        && bytes.iter().all(|byte| is_alphanumeric(Some(byte)) || b"-_.".contains(byte))
}

/// `name` or `prefix.example/name`.
pub(super) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_qualified_part(name),
        None => is_qualified_part(text),
    }
}

/// Notes a label key that is no qualified name.
pub(super) fn check_key(path: &str, key: &str, problems: &mut Problems) {
    if !is_qualified_name(key) {
        let message = format!(
            "found the key {:?}, expected up to 63 of A-Z a-z 0-9 - _ . beginning and ending with \
             a letter or digit, optionally after a DNS prefix and /",
            shorten(key)
        );
        problems.push(Problem::new(path, message));
    }
}

/// Notes a label value that is neither empty nor well formed.
pub(super) fn check_value(path: &str, value: &str, problems: &mut Problems) {
    if value.is_empty() || is_qualified_part(value) {
        return;
    }
    let message = if value.len() > 63 {
        format!("found a value of {} bytes ({:?}), expected at most 63", value.len(), shorten(value))
    } else {
        format!(
            "found {:?}, expected nothing or A-Z a-z 0-9 - _ . beginning and ending with a letter \
             or digit",
            shorten(value)
        )
    };
    problems.push(Problem::new(path, message));
}

/// Text that is none of what was expected, and the nearest that is.
pub(crate) fn not_one_of(found: &str, known: &[&str]) -> String {
    let hint = nearest(found, known.iter().copied()).map_or_else(String::new, |near| format!(": did you mean {near}?"));
    let expected = match known {
        [only] => (*only).to_owned(),
        known => format!("one of {}", known.join(", ")),
    };
    format!("found {:?}, expected {expected}{hint}", shorten(found))
}

/// Notes text that is not one of `known`.
pub(super) fn check_enum(path: &str, found: &str, known: &[&str], problems: &mut Problems) {
    if !known.contains(&found) {
        let message = not_one_of(found, known);
        problems.push(Problem::new(path, message));
    }
}

/// Notes a count below zero.
pub(super) fn check_not_negative(path: &str, found: Option<i32>, problems: &mut Problems) {
    if let Some(found) = found.filter(|found| *found < 0) {
        problems.push(Problem::new(path, format!("found {found}, expected 0 or more")));
    }
}
