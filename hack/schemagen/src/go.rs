//! Reads, from the Go types of the Kubernetes API, which optional fields vanish when they hold a zero, and the numbers that
//! fields have in protobuf.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{GROUP_VERSIONS, MODULE_VERSION};

/// Groups whose types are not in the module `k8s.io/api`.
const ELSEWHERE: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The structs of the API packages, by the names of their schemas.
#[derive(Debug, Default)]
pub struct Types {
    structs: BTreeMap<String, Struct>,
}

#[derive(Debug, Default)]
struct Struct {
    fields: Vec<Field>,
    /// Structs whose fields JSON shows in place, with the number that protobuf gives the whole.
    embedded: Vec<(String, Option<u64>)>,
}

#[derive(Debug)]
struct Field {
    /// The name in JSON.
    name: String,
    number: Option<u64>,
    /// A plain value with `omitempty`.
    is_omitted: bool,
}

impl Types {
    /// Reads the packages of the served groups from a module cache.
    pub fn read(cache: &Path) -> Result<Self> {
        let mut types = Self::default();
        let api = cache.join(format!("k8s.io/api@{MODULE_VERSION}"));
        for (group, version) in GROUP_VERSIONS.iter().filter(|(group, _)| !ELSEWHERE.contains(group)) {
            let short = match *group {
                "" => "core",
                group => group.split('.').next().unwrap_or(group),
            };
            types.read_file(
                &api.join(format!("{short}/{version}/types.go")),
                &format!("io.k8s.api.{short}.{version}"),
            )?;
        }
        let meta = cache.join(format!("k8s.io/apimachinery@{MODULE_VERSION}/pkg/apis/meta/v1/types.go"));
        types.read_file(&meta, "io.k8s.apimachinery.pkg.apis.meta.v1")?;
        let folder = cache.join(format!("k8s.io/apiextensions-apiserver@{MODULE_VERSION}/pkg/apis/apiextensions/v1"));
        for file in ["types.go", "types_jsonschema.go"] {
            types.read_file(&folder.join(file), "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1")?;
        }
        let folder = cache.join(format!("k8s.io/kube-aggregator@{MODULE_VERSION}/pkg/apis/apiregistration/v1"));
        types.read_file(&folder.join("types.go"), "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1")?;
        Ok(types)
    }

    fn read_file(&mut self, path: &Path, package: &str) -> Result<()> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        self.read_text(&text, package);
        Ok(())
    }

    /// Reads the structs of one Go file; `package` is the prefix of its schemas' names.
    pub fn read_text(&mut self, text: &str, package: &str) {
        let mut current: Option<String> = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
                current = Some(format!("{package}.{name}"));
            } else if line.starts_with('}') {
                current = None;
            } else if let Some(name) = &current {
                self.structs.entry(name.clone()).or_default().read_field(line.trim(), package);
            }
        }
    }

    /// Marks the properties of a schema: scalars that a Go program leaves out when they are zero, and numbers in protobuf,
    /// of an embedded field with those that lead to it. What is embedded without a number, as `TypeMeta`, is in no message.
    pub fn mark(&self, schema_name: &str, schema: &mut Value) {
        let mut structs = vec![(schema_name, Some(Vec::new()))];
        while let Some((name, prefix)) = structs.pop() {
            let Some(found) = self.structs.get(name) else { continue };
            let inside =
                |number: u64| -> Option<Vec<u64>> { Some(prefix.iter().flatten().copied().chain([number]).collect()) };
            for (embedded, number) in &found.embedded {
                structs.push((embedded, number.filter(|_| prefix.is_some()).and_then(inside)));
            }
            for field in &found.fields {
                let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/{}", field.name)) else {
                    continue;
                };
                let kind = property.get("type").and_then(Value::as_str);
                let scalar = matches!(kind, Some("string" | "integer" | "boolean" | "number"));
                if scalar && field.is_omitted {
                    property.insert("x-go-omit-zero".to_owned(), Value::Bool(true));
                }
                if let Some(path) = field.number.filter(|_| prefix.is_some()).and_then(inside) {
                    property.insert("x-proto".to_owned(), path.into());
                }
            }
        }
    }
}

impl Struct {
    fn read_field(&mut self, line: &str, package: &str) {
        if line.starts_with("//") {
            return;
        }
        let Some((declaration, tag)) = line.split_once("`json:\"") else { return };
        let Some((tag, _)) = tag.split_once('"') else { return };
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let (name, options) = tag.split_once(',').unwrap_or((tag, ""));
        let number = line.split_once("protobuf:\"").and_then(|(_, tag)| tag.split(',').nth(1)?.parse().ok());
        match words.as_slice() {
            [embedded] if options == "inline" => self.embedded.push((format!("{package}.{embedded}"), number)),
            // An embedded struct that JSON shows under a name, as every object's metadata.
            [_] if !name.is_empty() => {
                self.fields.push(Field { name: name.to_owned(), number, is_omitted: false });
            }
            [_, kind, ..] => {
                let is_omitted = options.split(',').any(|o| o == "omitempty") && !kind.starts_with('*');
                self.fields.push(Field { name: name.to_owned(), number, is_omitted });
            }
            _ => {}
        }
    }
}
