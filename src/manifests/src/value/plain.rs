//! A short cut for the YAML that tools write: block mappings and sequences of one-line scalars.
//!
//! It answers only where it is certain. Whatever else YAML can say, mistakes included, is left to
//! the general parser, which is many times slower; the tests hold that the two never differ.

use serde_json::{Map, Value};

const MAX_DEPTH: usize = 50;
/// Longer documents are rare, and the general parser counts their nodes.
const MAX_BYTES: usize = 256 * 1024;

/// The value of a document, or `None` to ask the general parser.
pub(super) fn parse(text: &str) -> Option<Value> {
    if text.len() > MAX_BYTES || !text.is_ascii() {
        return None;
    }
    let mut lines = Vec::with_capacity(text.len() / 16);
    for line in text.split('\n') {
        // Carriage returns end lines too, even within comments.
        if !line.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return None;
        }
        let content = line.trim_start_matches(' ');
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        lines.push(Line { indent: line.len() - content.len(), content: content.trim_end_matches(' ') });
    }
    let indent = lines.first()?.indent;
    let mut blocks = Blocks { lines, at: 0 };
    let root = blocks.mapping(indent, 0)?;
    // What is left stands where no block continues.
    blocks.peek().is_none().then_some(root)
}

#[derive(Clone, Copy)]
struct Line<'a> {
    indent: usize,
    content: &'a str,
}

struct Blocks<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
}

impl<'a> Blocks<'a> {
    fn peek(&self) -> Option<Line<'a>> {
        self.lines.get(self.at).copied()
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut object = Map::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            if dash(line.content).is_some() {
                // The end of a sequence's only item, or nothing that this parser knows.
                break;
            }
            let (key, value) = entry(line.content)?;
            self.at += 1;
            let value = match value {
                Some(value) => scalar(value)?,
                None => self.nested(indent, depth)?,
            };
            if object.insert(key.to_owned(), value).is_some() {
                return None;
            }
        }
        let is_over = self.peek().is_none_or(|line| line.indent < indent);
        (is_over && !object.is_empty()).then_some(Value::Object(object))
    }

    /// What belongs to a key with nothing behind its colon.
    fn nested(&mut self, indent: usize, depth: usize) -> Option<Value> {
        if depth >= MAX_DEPTH {
            return None;
        }
        match self.peek() {
            Some(line) if line.indent >= indent && dash(line.content).is_some() => {
                self.sequence(line.indent, indent, depth + 1)
            }
            Some(line) if line.indent > indent => self.mapping(line.indent, depth + 1),
            _ => Some(Value::Null),
        }
    }

    /// The items at `indent` of a key at `parent`, which may be the same.
    fn sequence(&mut self, indent: usize, parent: usize, depth: usize) -> Option<Value> {
        if depth >= MAX_DEPTH {
            return None;
        }
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some(item) = dash(line.content) else { break };
            if entry(item).is_some() {
                let line = self.lines.get_mut(self.at)?;
                *line = Line { indent: indent + 2, content: item };
                items.push(self.mapping(indent + 2, depth + 1)?);
            } else {
                items.push(scalar(item)?);
                self.at += 1;
            }
        }
        // Deeper lines would continue the last scalar.
        let is_over =
            self.peek().is_none_or(|line| line.indent < indent || (line.indent == indent && indent == parent));
        is_over.then_some(Value::Array(items))
    }
}

/// What follows the dash of an item on its line.
fn dash(content: &str) -> Option<&str> {
    content.strip_prefix('-').and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') })
}

/// `key:` or `key: value`, for keys of letters, digits and `_ - . /` that begin with a letter.
fn entry(content: &str) -> Option<(&str, Option<&str>)> {
    let is_in_key = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let len = content.bytes().position(|byte| !is_in_key(byte))?;
    let (key, rest) = content.split_at_checked(len)?;
    if len > 512 || !key.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) || is_word(key) {
        return None;
    }
    match rest {
        ":" => Some((key, None)),
        _ => Some((key, Some(rest.strip_prefix(": ")?.trim_start_matches(' ')))),
    }
}

/// A scalar on one line, or an empty collection.
fn scalar(text: &str) -> Option<Value> {
    match *text.as_bytes() {
        [b'"', ref quoted @ .., b'"'] if !quoted.iter().any(|byte| b"\"\\".contains(byte)) => {
            Some(text.get(1..text.len() - 1)?.into())
        }
        [b'\'', ref quoted @ .., b'\''] if !quoted.contains(&b'\'') => Some(text.get(1..text.len() - 1)?.into()),
        [b'{', b'}'] => Some(Value::Object(Map::new())),
        [b'[', b']'] => Some(Value::Array(Vec::new())),
        [first, ..] if first.is_ascii_alphanumeric() || b"/_".contains(&first) => plain(text, first),
        _ => None,
    }
}

fn plain(text: &str, first: u8) -> Option<Value> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./+=,;()@ :".contains(&byte);
    if !text.bytes().all(is_plain) || text.ends_with(':') || text.contains(": ") {
        return None;
    }
    if first.is_ascii_digit() {
        return digits(text);
    }
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => (!is_word(text)).then(|| text.into()),
    }
}

/// Words that some version of YAML reads as something else than text.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 12] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"];
    text.len() <= 8 && WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Decimal integers, and what is certainly no number, such as `500m`.
fn digits(text: &str) -> Option<Value> {
    let is_integer = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer {
        let is_decimal = text == "0" || !text.starts_with('0');
        return (is_decimal && text.len() <= 18).then(|| text.parse::<u64>().ok().map(Value::from))?;
    }
    // Hexadecimal digits, exponents, infinities and separators may be part of a number or a date.
    let is_certain = |byte: u8| byte.is_ascii_alphabetic() && !b"abcdefxoABCDEFXOtTzZinIN".contains(&byte);
    text.bytes().any(is_certain).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::parse;
    use crate::value::general;

    /// Where the short cut answers, the general parser gives the same.
    fn assert_same(text: &str) -> bool {
        let Some(value) = parse(text) else { return false };
        assert_eq!(general(text, 1 << 20).ok().as_ref(), Some(&value), "{text}");
        true
    }

    #[test]
    fn pods_take_the_short_cut() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: \"a\"\n  labels: {}\nspec:\n  hostNetwork: false\n  containers:\n  - name: c # x\n";
        assert_eq!(parse(text), None, "comments behind values are left to the general parser");
        let text = text.replace(" # x", "\n    args:\n      - -v\n    resources:\n      requests:\n        cpu: 500m\n        memory: 1Gi\n  priority: 10\nstatus:\n");
        assert_eq!(parse(&text), None, "a dash may begin a number");
        let text = text.replace("- -v", "- v");
        assert!(assert_same(&text));
        assert_eq!(
            parse(&text),
            Some(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {}},
                "spec": {"hostNetwork": false, "priority": 10, "containers": [
                    {"name": "c", "args": ["v"], "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
                "status": null,
            }))
        );
    }

    const TOKENS: &[&str] = &[
        "a",
        "b:",
        "b: ",
        "c: x",
        "- ",
        "-",
        "- a: 1",
        "\n",
        "\n",
        "\n  ",
        "\n  ",
        "\n    ",
        "\n   ",
        "\n- ",
        "\n  - ",
        " ",
        "1",
        "01",
        "0x1f",
        "1e3",
        "500m",
        "1Gi",
        "1:30",
        "2026-01-01",
        "true",
        "Yes",
        "null",
        "~",
        "\"q\"",
        "'q'",
        "\"",
        "'",
        "#",
        " # c",
        "{}",
        "[]",
        "{",
        "]",
        ",",
        "&a",
        "*a",
        "|",
        ">",
        "!",
        "?",
        "? ",
        "%",
        "@",
        "`",
        ":",
        "::",
        "---",
        "...",
        "<<: ",
        "/",
        "\t",
        "\r",
        ".inf",
        "nan",
        "1_0",
        "0b1",
        "0o7",
        "x: y: z",
        "=",
        "k/l.m-n: v",
        "10.0.0.1:80",
        "1T",
        "1d",
        "1n",
        "12h",
        "1E",
        "190:20:30",
        "2001-12-14t21:59:43.10-05:00",
        "é",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn never_differs_on_tokens(tokens in vec(prop::sample::select(TOKENS), 0..24)) {
            assert_same(&tokens.concat());
        }

        #[test]
        fn never_differs_on_keys_and_values(
            lines in vec((0..4_usize, any::<bool>(), 0..3_u8, prop::sample::select(TOKENS)), 1..12),
        ) {
            let mut text = String::new();
            for (idx, (indent, is_item, shape, value)) in lines.into_iter().enumerate() {
                let dash = if is_item { "- " } else { "" };
                let line = match shape {
                    0 => format!("k{idx}:"),
                    1 => format!("k{idx}: {value}"),
                    _ => value.to_owned(),
                };
                text.push_str(&" ".repeat(indent));
                text.extend([dash, &line, "\n"]);
            }
            assert_same(&text);
        }

        #[test]
        fn never_differs_on_mutated_documents(
            edits in vec((any::<prop::sample::Index>(), prop::sample::select(TOKENS), any::<bool>()), 0..6),
        ) {
            let mut text = include_str!("../../tests/plain.yaml").to_owned();
            for (at, token, is_replaced) in edits {
                let at = at.index(text.len());
                let end = if is_replaced { (at + token.len()).min(text.len()) } else { at };
                if text.is_char_boundary(at) && text.is_char_boundary(end) {
                    text.replace_range(at..end, token);
                }
            }
            assert_same(&text);
        }
    }
}
