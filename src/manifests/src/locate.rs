//! Where a field stands in the text of an object, looked for once something is wrong with it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::value::yaml_options;

/// Characters of a line that are shown.
const MOST_SHOWN: usize = 120;

/// A place in a text: line and column, from 1, and what the line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What the line says, without control characters and cut where it is long.
    pub text: String,
}

/// The place in a document of the field at `path`, as `spec.containers[0].image`, or else of the innermost part of the
/// path that is there. `None` where the text is no YAML.
pub(crate) fn locate(text: &str, path: &str) -> Option<Position> {
    let root: Spanned<Node> =
        serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |yaml| Spanned::deserialize(yaml))
            .ok()?;
    let mut node = &root;
    for step in Steps(path) {
        let next = match &node.value {
            Node::Map(fields) => fields.iter().find(|(name, _)| *name == step).map(|(_, node)| node),
            Node::Seq(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            Node::Leaf => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    let (line, column) = (node.referenced.line(), node.referenced.column());
    let shown = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    Some(Position { line, column, text: line_shown(shown, column) })
}

/// A line as messages show it: of a long one what is around the column.
pub(crate) fn line_shown(line: &str, column: u64) -> String {
    let line = line.trim_end();
    let column = usize::try_from(column).unwrap_or(usize::MAX);
    let n_left_out = if line.chars().nth(MOST_SHOWN).is_some() { column.saturating_sub(MOST_SHOWN / 2) } else { 0 };
    let Some((start, _)) = line.char_indices().nth(n_left_out).filter(|_| n_left_out > 0) else {
        return crate::path::shorten_to(line, MOST_SHOWN);
    };
    let rest = line.get(start..).unwrap_or_default();
    format!("…{}", crate::path::shorten_to(rest, MOST_SHOWN))
}

/// The parts of a path: `a.b[0].c[x/y]` is a, b, 0, c and x/y.
struct Steps<'a>(&'a str);

impl<'a> Iterator for Steps<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.strip_prefix('.').unwrap_or(self.0);
        if rest.is_empty() {
            return None;
        }
        let (step, rest) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        self.0 = rest;
        Some(step)
    }
}

/// What a path leads through.
enum Node {
    Map(Vec<(String, Spanned<Node>)>),
    Seq(Vec<Spanned<Node>>),
    Leaf,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            fields.push((name, map.next_value()?));
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Node::Seq(all))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::locate;

    const POD: &str = "kind: Pod\nspec:\n  containers:\n  - name: a\n    resources: {requests: {example.com/x: -1}}\n";

    fn at(path: &str) -> (u64, u64) {
        let place = locate(POD, path).unwrap();
        (place.line, place.column)
    }

    #[test]
    fn a_path_leads_to_its_value_or_to_the_innermost_that_is_there() {
        assert_eq!(at("kind"), (1, 7));
        assert_eq!(at("spec.containers[0].name"), (4, 11));
        assert_eq!(at("spec.containers[0].resources.requests[example.com/x]"), (5, 43));
        assert_eq!(at("spec.containers[0].image"), (4, 5));
        assert_eq!(at("spec.containers[7]").0, 4);
        assert_eq!(at(""), (1, 1));
        assert_eq!(locate("a: [", "a"), None);
    }

    #[test]
    fn of_a_long_line_the_place_of_the_fault_is_shown() {
        let text = format!("{{a: {}, b: -1, c: {}}}", "x".repeat(300), "y".repeat(300));
        let place = locate(&text, "b").unwrap();
        assert!(
            place.text.starts_with("…xxx") && place.text.contains("b: -1") && place.text.ends_with("yyy…"),
            "{}",
            place.text
        );
        assert!(place.text.chars().count() <= super::MOST_SHOWN + 2);
        let near = locate(&text, "a").unwrap();
        assert!(near.text.starts_with("{a: x") && near.text.ends_with("x…"), "{}", near.text);
    }

    #[test]
    fn json_is_located_too() {
        let place = locate("{\"spec\":\n  {\"replicas\": -1}}", "spec.replicas").unwrap();
        assert_eq!((place.line, place.column, place.text.as_str()), (2, 16, "  {\"replicas\": -1}}"));
    }
}
