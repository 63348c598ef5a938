//! Field paths in the words of the API server: `spec.containers[0].name`, `metadata.labels[a/b]`.

use std::fmt::Write as _;

/// Appends a map key or field name.
pub(crate) fn push_key(path: &mut String, key: &str) {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$');
    if key.bytes().all(is_name) && !key.is_empty() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    } else {
        let key = shorten(key);
        let _ = write!(path, "[{key}]");
    }
}

/// Appends a list index.
pub(crate) fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}

/// `spec.tolerations` and 2 as `spec.tolerations[2]`.
pub(crate) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Text of the user's as an error quotes it: bounded, and without control characters.
pub(crate) fn shorten(text: &str) -> String {
    shorten_to(text, 80)
}

/// As [`shorten`], to so many characters.
pub(crate) fn shorten_to(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).map(printable).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}

/// What is safe to print: neither control characters nor those that turn the direction of what follows, or are not seen.
fn printable(char: char) -> char {
    let is_unseen = matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    if char.is_control() || is_unseen { char::REPLACEMENT_CHARACTER } else { char }
}

/// As [`shorten`], for whole messages.
pub(crate) fn shorten_long(text: &str) -> String {
    const MOST: usize = 300;
    let mut short: String = text.chars().take(MOST).map(printable).collect();
    if short.len() < text.len() && text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}
