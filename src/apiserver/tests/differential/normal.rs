//! What is left of an answer when uids, versions, times and generated names are taken out.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use jiff::Timestamp;
use regex::Regex;
use serde_json::{Value, json};

static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap());
static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
static VERSIONS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(resource version: |current: |ResourceVersion in record \(|in the precondition \(|\()(\d+)").unwrap()
});

/// Gives names to what a server made up, in the order in which it is seen.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Uids and versions, each with the answer in which it was first seen, so that one disagreement is not many.
    seen: BTreeMap<String, String>,
    /// Generated names, with what stands for them.
    generated: BTreeMap<String, String>,
    n_answers: usize,
    n_new: usize,
}

impl Names {
    /// An answer's body without what may differ.
    pub(crate) fn normal(&mut self, mut body: Value) -> Value {
        self.n_answers += 1;
        self.n_new = 0;
        self.walk(&mut body, "");
        body
    }

    fn name(&mut self, what: &str, text: &str) -> String {
        if let Some(name) = self.seen.get(text) {
            return name.clone();
        }
        self.n_new += 1;
        let name = format!("{what}-{}-{}", self.n_answers, self.n_new);
        self.seen.insert(text.to_owned(), name.clone());
        name
    }

    fn walk(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::Object(map) => {
                forgive(map);
                if map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List") || kind == "Table")
                    && let Some(Value::Object(metadata)) = map.get_mut("metadata")
                {
                    for field in ["resourceVersion", "continue"] {
                        if let Some(value) = metadata.get_mut(field) {
                            *value = if value == "" { json!("") } else { json!("SOME") };
                        }
                    }
                }
                if map.get("type") == Some(&json!("BOOKMARK"))
                    && let Some(version) =
                        map.get_mut("object").and_then(|o| o.pointer_mut("/metadata/resourceVersion"))
                {
                    *version = json!("SOME");
                }
                if let Some(base) = map.get("generateName").and_then(Value::as_str).map(str::to_owned)
                    && let Some(name) = map.get_mut("name").filter(|n| n.as_str().is_some_and(|n| n.starts_with(&base)))
                {
                    let made = name.as_str().unwrap_or_default().to_owned();
                    self.generated.insert(made, format!("{base}(generated)"));
                }
                if let Some(Value::Array(cells)) = map.get_mut("cells") {
                    cells
                        .iter_mut()
                        .filter(|cell| cell.as_str().is_some_and(is_age))
                        .for_each(|cell| *cell = "AGE".into());
                }
                for (key, value) in map.iter_mut() {
                    self.walk(value, key);
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.walk(item, key);
                }
                if key == "managedFields" {
                    // Their order is that of times, which are not compared.
                    items.sort_by_key(Value::to_string);
                }
            }
            Value::String(text) => {
                if key == "resourceVersion" && text.parse::<u64>().is_ok_and(|version| version > 0) {
                    *text = self.name("version", &text.clone());
                    return;
                }
                if ["clusterIP", "clusterIPs"].contains(&key) && text.starts_with("10.") {
                    "10.x".clone_into(text);
                    return;
                }
                if let Some(name) = self.generated.get(text.as_str()) {
                    name.clone_into(text);
                    return;
                }
                if key == "message" {
                    *text = sorted(text);
                    // Of several fields that an apply is refused for, the real server names one or two by chance.
                    if text.starts_with("failed to create typed patch object")
                        && let Some((head, _)) = text.split_once("): ")
                    {
                        *text = head.to_owned();
                    }
                }
                let named = UID.replace_all(text, |found: &regex::Captures<'_>| self.name("uid", &found[0]));
                let timed = TIME.replace_all(&named, |found: &regex::Captures<'_>| normal_time(&found[0]));
                let text_of_status = VERSIONS.replace_all(&timed, |found: &regex::Captures<'_>| {
                    format!("{}{}", &found[1], if ["message", "name"].contains(&key) { "N" } else { &found[2] })
                });
                *value = text_of_status.into_owned().into();
            }
            // Those below are asked for, never given; who only tries is told numbers beyond all by the real server.
            Value::Number(number)
                if ["nodePort", "healthCheckNodePort"].contains(&key)
                    && number.as_i64().is_some_and(|number| number >= 30_086) =>
            {
                *value = json!(30086);
            }
            _ => {}
        }
    }
}

/// A message without the objects that it prints: Go prints them as its structs declare them.
fn sorted(message: &str) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(" value: ") {
        let (before, after) = rest.split_at(at + " value: ".len());
        out += before;
        rest = after;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let Some(Ok(mut value)) = values.next() else { continue };
        rest = &rest[values.byte_offset()..];
        let inner = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if inner.is_some_and(|inner| inner.is_object()) || value.is_object() || value.is_array() || value.is_null() {
            value = "printed".into();
        }
        out += &value.to_string();
    }
    out += rest;
    // What follows is a comparison of Go structs.
    out.split("\n@@").next().unwrap_or_default().to_owned()
}

/// What is not compared, everywhere: see the list in the crate's documentation.
fn forgive(map: &mut serde_json::Map<String, Value>) {
    // A token is what it says, not how it is signed; of its times only how long it lasts.
    if let Some(claims) = map.get("token").and_then(Value::as_str).and_then(claims) {
        map.insert("token".to_owned(), claims);
    }
    // The texts below the heads of tables.
    if let Some(Value::Array(columns)) = map.get_mut("columnDefinitions") {
        for column in columns {
            column["description"] = Value::Null;
        }
    }
    // Causes are found in the order of Go's maps, which changes from run to run; the message repeats them.
    if let Some(Value::Array(causes)) = map.get_mut("details").and_then(|details| details.get_mut("causes")) {
        causes.sort_by_key(Value::to_string);
        if causes.len() > 1
            && let Some(Value::String(message)) = map.get_mut("message")
        {
            let end = message.find(" is invalid: ").or_else(|| message.find(": conflict")).unwrap_or(message.len());
            message.truncate(end);
        }
    }
    if let Some(Value::String(message)) = map.get_mut("message")
        && let Some((before, list)) = message.split_once(" is forbidden: [")
    {
        let mut parts: Vec<&str> = list.trim_end_matches(']').split(", ").collect();
        parts.sort_unstable();
        *message = format!("{before} is forbidden: [{}]", parts.join(", "));
    }
    // Hashes of storage versions, what needs a kubelet, and the order of subresources.
    if map.get("kind").is_some_and(|kind| kind == "APIResourceList")
        && let Some(Value::Array(resources)) = map.get_mut("resources")
    {
        let absent = ["/proxy", "/attach", "/exec", "/log", "/portforward"];
        resources.retain(|resource| !absent.iter().any(|end| resource["name"].as_str().unwrap().ends_with(end)));
        for resource in resources.iter_mut() {
            resource.as_object_mut().unwrap().remove("storageVersionHash");
        }
        resources.sort_by_key(|resource| resource["name"].to_string());
    }
}

/// What a JSON web token says.
fn claims(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1)?;
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).ok()?;
    let mut claims: Value = serde_json::from_slice(&payload).ok()?;
    let mut second = |name: &str| claims.as_object_mut()?.remove(name)?.as_i64();
    let (from, since, until) = (second("iat")?, second("nbf")?, second("exp")?);
    claims["lasts"] = json!([since - from, until - from]);
    Some(claims)
}

/// Times of the test itself are not compared, times that it wrote are.
fn normal_time(text: &str) -> String {
    let is_now = text.parse::<Timestamp>().is_ok_and(|time| (time - Timestamp::now()).get_seconds().abs() < 86_400);
    let fraction = if text.contains('.') { ".6" } else { "" };
    if is_now { format!("NOW{fraction}") } else { text.to_owned() }
}

/// Whether a cell says how many seconds ago something was.
fn is_age(cell: &str) -> bool {
    cell.strip_suffix('s').is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Where two values differ, in words.
pub(crate) fn differences(path: &str, theirs: &Value, ours: &Value, out: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => differences(&format!("{path}.{key}"), value, other, out),
                    None => out.push(format!("{path}.{key}: real {value}, ours has none")),
                }
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                out.push(format!("{path}.{key}: real has none, ours {value}"));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, out);
            }
        }
        (a, b) if a == b => {}
        (Value::Array(a), Value::Array(b)) if a.is_empty() || b.is_empty() => {
            out.push(format!("{path}:\n      real {a:?}\n      ours {b:?}"));
        }
        (Value::Array(a), Value::Array(b)) => {
            out.push(format!("{path}: real has {} items, ours {}", a.len(), b.len()));
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, out);
            }
        }
        (a, b) => out.push(format!("{path}:\n      real {a}\n      ours {b}")),
    }
}
