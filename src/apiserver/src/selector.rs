//! Label and field selectors, as texts of a request and as `LabelSelector` objects.

use serde_json::Value;

use crate::status::{ApiError, Result};
use crate::store::Object;

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

/// A conjunction of requirements on labels. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// A conjunction of equalities on fields. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<(String, bool, String)>,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Reads the text of a request, such as `app=web,tier in (a, b),!canary`. Errors: 400 in the server's words.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        parser.skip_space();
        while !parser.rest.is_empty() {
            let requirement = parser
                .requirement()
                .map_err(|why| ApiError::bad_request(format!("unable to parse requirement: {why}")))?;
            requirements.push(requirement);
            parser.skip_space();
            if parser.rest.is_empty() {
                break;
            }
            if !parser.take(",") {
                let found = parser.word();
                return Err(ApiError::bad_request(format!("found '{found}', expected: ',' or 'end of string'")));
            }
            parser.skip_space();
            if parser.rest.is_empty() {
                return Err(ApiError::bad_request("found '', expected: identifier after ','"));
            }
        }
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a `metav1.LabelSelector`. A missing one selects nothing, an empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Self {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Self { requirements: Vec::new(), nothing: true };
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(Requirement::In(key.clone(), vec![value.as_str().unwrap_or_default().to_owned()]));
        }
        for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let key = term.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
            let values = term.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(match term.get("operator").and_then(Value::as_str) {
                Some("In") => Requirement::In(key, values),
                Some("NotIn") => Requirement::NotIn(key, values),
                Some("DoesNotExist") => Requirement::Absent(key),
                _ => Requirement::Exists(key),
            });
        }
        Self { requirements, nothing: false }
    }

    /// Whether a set of labels is selected; `get` looks a label up.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self.requirements.iter().all(|requirement| match requirement {
                Requirement::In(key, values) => get(key).is_some_and(|value| values.iter().any(|v| v == value)),
                Requirement::NotIn(key, values) => get(key).is_none_or(|value| values.iter().all(|v| v != value)),
                Requirement::Exists(key) => get(key).is_some(),
                Requirement::Absent(key) => get(key).is_none(),
                Requirement::Greater(key, bound) => {
                    get(key).and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| value > *bound)
                }
                Requirement::Less(key, bound) => {
                    get(key).and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| value < *bound)
                }
            })
    }

    /// Whether an object in JSON is selected.
    pub(crate) fn matches_object(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|meta| meta.get("labels"));
        self.matches(|key| labels?.get(key)?.as_str())
    }

    pub(crate) fn matches_stored(&self, object: &Object) -> bool {
        let labels = &object.selectable.labels;
        self.is_everything() || self.matches(|key| labels.value_of(key))
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|c: char| " \t\n\r,()=!<>".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.take("!") {
            let key = self.key()?;
            return Ok(Requirement::Absent(key));
        }
        let key = self.key()?;
        if self.take("==") || self.take("=") {
            return Ok(Requirement::In(key, vec![self.label_value()?]));
        }
        if self.take("!=") {
            return Ok(Requirement::NotIn(key, vec![self.label_value()?]));
        }
        for (token, greater) in [(">", true), ("<", false)] {
            if self.take(token) {
                let word = self.word();
                let bound: i64 = word.parse().map_err(|_| {
                    format!("values[0][{key}]: Invalid value: {word:?}: for 'Gt', 'Lt' operators, the value must be an integer")
                })?;
                return Ok(if greater { Requirement::Greater(key, bound) } else { Requirement::Less(key, bound) });
            }
        }
        self.skip_space();
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Requirement::Exists(key));
        }
        match self.word() {
            "in" => Ok(Requirement::In(key, self.set()?)),
            "notin" => Ok(Requirement::NotIn(key, self.set()?)),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.word();
        if key.is_empty() {
            let found = self.rest.chars().next().map(String::from).unwrap_or_default();
            return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
        }
        match crate::validation::names::label_key(key) {
            None => Ok(key.to_owned()),
            Some(why) => Err(format!("<nil>: Invalid value: {key:?}: {why}")),
        }
    }

    fn label_value(&mut self) -> Result<String, String> {
        self.skip_space();
        if let Some(found) = self.rest.chars().next().filter(|c| "=!<>()".contains(*c)) {
            return Err(format!("found '{found}', expected: identifier"));
        }
        let value = self.word();
        match crate::validation::names::label_value(value) {
            None => Ok(value.to_owned()),
            Some(why) => Err(format!("values[0]: Invalid value: {value:?}: {why}")),
        }
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        if !self.take("(") {
            return Err(format!("found '{}' expected: '('", self.word()));
        }
        let mut values = vec![self.word().to_owned()];
        while !self.take(")") {
            if !self.take(",") {
                return Err(format!("found '{}', expected: ',' or ')'", self.word()));
            }
            values.push(self.word().to_owned());
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(why) = crate::validation::names::label_value(value) {
                return Err(format!("values[{index}]: Invalid value: {value:?}: {why}"));
            }
        }
        Ok(values)
    }
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Reads the text of a request, such as `spec.nodeName=n1,status.phase!=Failed`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut terms = Vec::new();
        for term in split_escaped(text) {
            if term.is_empty() {
                continue;
            }
            let (field, equal, value) = if let Some((field, value)) = term.split_once("!=") {
                (field, false, value)
            } else if let Some((field, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
                (field, true, value)
            } else {
                let why = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(ApiError::bad_request(why));
            };
            let value =
                unescape(value).map_err(|why| ApiError::bad_request(format!("invalid field selector: {why}")))?;
            terms.push((field.to_owned(), equal, value));
        }
        Ok(Self { terms })
    }

    /// The fields that are asked for.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|(field, _, _)| field.as_str())
    }

    /// The one name that is asked for, where there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.terms.iter().find(|(field, equal, _)| field == "metadata.name" && *equal).map(|(_, _, name)| name.as_str())
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    pub(crate) fn matches_stored(&self, object: &Object) -> bool {
        self.terms.iter().all(|(field, equal, wanted)| {
            let found = match field.as_str() {
                "metadata.name" => object.name(),
                "metadata.namespace" => object.namespace(),
                field => object.selectable.fields.get(field),
            };
            (found == wanted) == *equal
        })
    }
}

fn split_escaped(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            out.push(String::new());
            continue;
        }
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    out
}

/// The value that a text stands for, in which commas, equals signs and backslashes are escaped.
fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                Some(other) => return Err(format!("invalid escape sequence: \\{other}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            c => c,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("app=web", true)]
    #[case("app==web,tier!=front", true)]
    #[case("app in (web, db),!canary", true)]
    #[case("app notin (web)", false)]
    #[case("missing!=x", true)]
    #[case("missing", false)]
    #[case("size>3", true)]
    #[case("size < 3", false)]
    #[case("", true)]
    fn labels_are_selected(#[case] text: &str, #[case] expected: bool) {
        let labels = [("app", "web"), ("tier", "back"), ("size", "5")];
        let selector = LabelSelector::parse(text).unwrap();
        assert_eq!(selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)), expected);
    }

    #[rstest]
    #[case("app=web,")]
    #[case("app in web")]
    #[case("app in (a")]
    #[case("a b")]
    #[case("=x")]
    #[case("-bad=x")]
    #[case("a=b c")]
    #[case("size>big")]
    #[case("app notin (-)")]
    #[case("app in (a, b/c)")]
    fn what_is_no_selector_is_refused(#[case] text: &str) {
        assert_eq!(LabelSelector::parse(text).unwrap_err().code(), 400);
    }

    #[test]
    fn field_selectors_unescape_values() {
        let selector = FieldSelector::parse(r"a.b=x\,y\=z,c!=d").unwrap();
        assert_eq!(selector.terms, [("a.b".into(), true, "x,y=z".into()), ("c".into(), false, "d".into())]);
        for wrong in ["nonsense", "a=b=c", r"a=b\c", r"a=b\"] {
            assert_eq!(FieldSelector::parse(wrong).unwrap_err().code(), 400, "{wrong}");
        }
    }
}
