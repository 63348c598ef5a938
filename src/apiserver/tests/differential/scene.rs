//! Scenes: files of requests, played in order.
//!
//! ```text
//! ### what it shows
//! METHOD path
//! Header: value
//! @until 200              repeat it until this is the code, where a server takes its time
//! @lines 3                read so many lines of a watch
//! @save name a.b.0.c      keep a field of the answer, for `${name}`
//! @differs why            the servers deliberately differ in the body
//! @differs-status why     the same in the code too
//! @raw                    the body is not YAML to be sent as JSON, but sent as it is
//! body
//! ```
//!
//! `~/pods` is a path in the scene's namespace, `~apps/v1/deployments` one of a group; `{ns}` is the namespace. The methods
//! MERGE, JSONPATCH, STRATEGIC, APPLY and WATCH say what they say.

use std::collections::BTreeMap;

/// One request of a scene.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) title: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) until: Option<u16>,
    pub(crate) lines: Option<usize>,
    pub(crate) saves: Vec<(String, String)>,
    pub(crate) differs: Option<String>,
    pub(crate) code_differs: bool,
    pub(crate) raw: bool,
    pub(crate) body: String,
}

/// Reads the requests of a scene.
pub(crate) fn parse(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for block in text.split("\n### ").skip(1) {
        let mut lines = block.lines();
        let mut step = Step { title: lines.next().unwrap_or_default().trim().to_owned(), ..Step::default() };
        let request = lines.next().unwrap_or_else(|| panic!("{}: no request", step.title));
        let (method, path) = request.split_once(' ').unwrap_or_else(|| panic!("{}: {request}", step.title));
        (step.method, step.path) = (method.to_owned(), expand(path.trim()));
        for line in lines {
            let is_header = || {
                let name = line.split_once(": ").map(|(name, _)| name).unwrap_or_default();
                step.body.is_empty()
                    && name.starts_with(|c: char| c.is_ascii_uppercase())
                    && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
            };
            if let Some(directive) = line.strip_prefix('@') {
                let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
                match word {
                    "until" => step.until = rest.parse().ok(),
                    "lines" => step.lines = rest.parse().ok(),
                    "save" => {
                        let (name, field) = rest.split_once(' ').unwrap();
                        step.saves.push((name.to_owned(), field.trim().to_owned()));
                    }
                    "differs" => step.differs = Some(rest.to_owned()),
                    "differs-status" => {
                        step.differs = Some(rest.to_owned());
                        step.code_differs = true;
                    }
                    "raw" => step.raw = true,
                    other => panic!("{}: no directive {other}", step.title),
                }
            } else if is_header() {
                let (name, value) = line.split_once(": ").unwrap();
                step.headers.push((name.to_owned(), value.to_owned()));
            } else if !(line.starts_with("# ") || line.is_empty() && step.body.is_empty()) {
                step.body += line;
                step.body.push('\n');
            }
        }
        step.body.truncate(step.body.trim_end().len());
        steps.push(step);
    }
    steps
}

fn expand(path: &str) -> String {
    let Some(rest) = path.strip_prefix('~') else { return path.to_owned() };
    if let Some(rest) = rest.strip_prefix('/') {
        return format!("/api/v1/namespaces/{{ns}}/{rest}");
    }
    let mut parts = rest.splitn(3, '/');
    let (group, version, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    format!("/apis/{group}/{version}/namespaces/{{ns}}/{rest}")
}

/// Puts saved values in their places.
pub(crate) fn fill(text: &str, namespace: &str, saved: &BTreeMap<String, String>) -> String {
    let mut out = text.replace("{ns}", namespace);
    for (name, value) in saved {
        out = out.replace(&format!("${{{name}}}"), value);
    }
    out
}
