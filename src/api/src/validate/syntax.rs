//! The syntax of names, labels and durations, as k8s.io/apimachinery's `validation` and the schemas' patterns.

/// The longest name part of a qualified name, and the longest label value, in bytes.
pub(super) const NAME_LENGTH: usize = 63;
/// The longest DNS subdomain, in bytes.
const SUBDOMAIN_LENGTH: usize = 253;

/// Why a text is no qualified name such as `example.com/team`; `None` if it is one.
pub(super) fn qualified_name_error(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(error) = prefix.and_then(subdomain_error) {
        return Some(format!("the part before the slash {error}"));
    }
    if name.contains('/') {
        return Some("expected a name or prefix/name, found more than one slash".to_owned());
    }
    if name.is_empty() {
        return Some("expected a name, found none".to_owned());
    }
    name_error(name)
}

/// Why a text is no label value; `None` if it is one. The empty text is.
pub(super) fn label_value_error(text: &str) -> Option<String> {
    if text.is_empty() { None } else { name_error(text) }
}

/// Why a text is no DNS subdomain; `None` if it is one.
pub(super) fn subdomain_error(text: &str) -> Option<String> {
    if text.len() > SUBDOMAIN_LENGTH {
        return Some(format!("has {} characters, expected at most {SUBDOMAIN_LENGTH}", text.len()));
    }
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| starts_ends_and_holds(label, is_inner, |byte| is_inner(byte) || byte == b'-');
    (!text.split('.').all(is_label)).then(|| {
        "must be lower case letters, digits, '-' and '.', each part starting and ending with a letter or digit"
            .to_owned()
    })
}

fn name_error(text: &str) -> Option<String> {
    if text.len() > NAME_LENGTH {
        return Some(format!("has {} characters, expected at most {NAME_LENGTH}", text.len()));
    }
    let is_name = starts_ends_and_holds(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    );
    (!is_name)
        .then(|| "must be letters, digits, '-', '_' and '.', starting and ending with a letter or digit".to_owned())
}

fn starts_ends_and_holds(text: &str, at_ends: impl Fn(u8) -> bool, inside: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(&first, &last)| at_ends(first) && at_ends(last)) && bytes.iter().all(|&byte| inside(byte))
}

/// Whether a text matches `^([0-9]+(s|m|h))+$`, which is narrower than Go's durations.
pub(super) fn is_whole_duration(text: &str) -> bool {
    let mut rest = text;
    while let Some((after, _)) = leading_count(rest, &['s', 'm', 'h']) {
        if after.is_empty() {
            return true;
        }
        rest = after;
    }
    false
}

/// Whether a text matches `^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`, the duration of a budget.
pub(super) fn is_budget_duration(text: &str) -> bool {
    let Some((rest, unit)) = leading_count(text, &['h', 'm']) else { return false };
    if rest.is_empty() || rest == "0s" {
        return true;
    }
    let minutes = if unit == 'h' { leading_count(rest, &['m']) } else { None };
    minutes.is_some_and(|(rest, _)| rest.is_empty() || rest == "0s")
}

/// Takes `[0-9]+` and one of the units off the text: what is left, and the unit.
fn leading_count<'a>(text: &'a str, units: &[char]) -> Option<(&'a str, char)> {
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let unit = rest.chars().next().filter(|unit| units.contains(unit))?;
    (rest.len() < text.len()).then(|| (&rest[unit.len_utf8()..], unit))
}
