//! Discovery, version, health, and OpenAPI: what is served, told to clients.

mod openapi;
mod openapi_v2;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::reply::Answer;
use crate::resource::{Resource, api_version};
use crate::schema::builtin;
use crate::server::ApiServer;
use crate::service::Call;
use crate::status::{ApiError, Result};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl ApiServer {
    /// Answers a request that is not for a resource; `None` if it is for one.
    pub(crate) fn discover(&self, call: &Call) -> Result<Option<Answer>> {
        let parts: Vec<&str> = call.path.split('/').filter(|part| !part.is_empty()).collect();
        let aggregated = call.accept.contains("as=APIGroupDiscoveryList") && call.accept.contains("v=v2;")
            || call.accept.contains("v=v2,");
        let value = match parts.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => return Ok(Some(Answer::Text("ok"))),
            ["metrics"] => {
                let body = Bytes::from(self.metrics());
                return Ok(Some(Answer::Ready { content_type: "text/plain; version=0.0.4; charset=utf-8", body }));
            }
            ["version"] => version(),
            ["api"] if aggregated => return Ok(Some(self.aggregated(true))),
            ["apis"] if aggregated => return Ok(Some(self.aggregated(false))),
            ["api"] => {
                json!({"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": []})
            }
            ["apis"] => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": self.groups()}),
            ["apis", group] => self.group(group).ok_or_else(ApiError::no_path)?,
            ["api", version] => self.resource_list("", version).ok_or_else(ApiError::no_path)?,
            ["apis", group, version] => match self.resource_list(group, version) {
                Some(list) => list,
                // The verbs know how to say that there is none.
                None => return Ok(None),
            },
            ["openapi", "v3"] => self.openapi_index(),
            ["openapi", "v3", path @ ..] => {
                let body = self.openapi_document(path).ok_or_else(ApiError::no_path)?;
                return Ok(Some(Answer::Ready { content_type: "application/json", body }));
            }
            ["openapi", "v2"] => return openapi_v2::document(&call.accept).map(Some),
            [] => json!({"paths": self.paths()}),
            _ => return Ok(None),
        };
        Ok(Some(Answer::Value { code: 200, value }))
    }

    fn group(&self, name: &str) -> Option<Value> {
        let mut group =
            self.groups().into_iter().find(|group| group.get("name").and_then(Value::as_str) == Some(name))?;
        if let Some(map) = group.as_object_mut() {
            map.insert("kind".to_owned(), "APIGroup".into());
            map.insert("apiVersion".to_owned(), "v1".into());
        }
        Some(group)
    }

    fn groups(&self) -> Vec<Value> {
        let groups = self.registry().groups();
        let named = groups.iter().filter(|(name, _)| !name.is_empty());
        named
            .map(|(name, versions)| {
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
                    .collect();
                json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
            })
            .collect()
    }

    fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let registry = self.registry();
        if !registry.has_group_version(group, version) {
            return None;
        }
        let mut resources = Vec::new();
        for resource in registry.iter().filter(|resource| resource.group == group && resource.version == version) {
            resources.push(plain(resource));
            for (name, sub) in &resource.subresources {
                let mut out = json!({"name": format!("{}/{name}", resource.plural), "singularName": "",
                    "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs});
                if (&sub.group, &sub.version) != (&resource.group, &resource.version)
                    && let Some(map) = out.as_object_mut()
                {
                    map.insert("group".to_owned(), sub.group.as_str().into());
                    map.insert("version".to_owned(), sub.version.as_str().into());
                }
                resources.push(out);
            }
        }
        let group_version = api_version(group, version);
        let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
        if !group.is_empty()
            && let Some(map) = list.as_object_mut()
        {
            map.insert("apiVersion".to_owned(), "v1".into());
        }
        Some(list)
    }

    fn aggregated(&self, core: bool) -> Answer {
        let registry = self.registry();
        let groups = registry.groups().into_iter().filter(|(name, _)| name.is_empty() == core);
        let items: Vec<Value> = groups
            .map(|(group, versions)| {
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|version| {
                        let of_version = |r: &&std::sync::Arc<Resource>| r.group == group && r.version == *version;
                        let resources: Vec<Value> = registry.iter().filter(of_version).map(|r| aggregated(r)).collect();
                        json!({"version": version, "resources": resources, "freshness": "Current"})
                    })
                    .collect();
                let metadata = if core { json!({}) } else { json!({"name": group}) };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
        Answer::Ready { content_type: AGGREGATED, body: Bytes::from(list.to_string()) }
    }

    fn paths(&self) -> Vec<String> {
        let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
        for (group, versions) in self.registry().groups().iter().filter(|(name, _)| !name.is_empty()) {
            paths.push(format!("/apis/{group}"));
            paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
        }
        paths.extend(
            ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
        );
        paths
    }
}

fn version() -> Value {
    let version = &builtin().version;
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    json!({"major": major, "minor": minor, "gitVersion": version, "gitCommit": "", "gitTreeState": "",
           "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "berth-apiserver", "platform": "in-memory"})
}

fn names(resource: &Resource, out: &mut Map<String, Value>) {
    for (field, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            out.insert(field.to_owned(), list.clone().into());
        }
    }
}

fn plain(resource: &Resource) -> Value {
    let mut out = Map::new();
    out.insert("name".to_owned(), resource.plural.as_str().into());
    out.insert("singularName".to_owned(), resource.singular.as_str().into());
    out.insert("namespaced".to_owned(), resource.namespaced.into());
    out.insert("kind".to_owned(), resource.kind.as_str().into());
    out.insert("verbs".to_owned(), resource.verbs.clone().into());
    names(resource, &mut out);
    Value::Object(out)
}

fn aggregated(resource: &Resource) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let mut out = Map::new();
    out.insert("resource".to_owned(), resource.plural.as_str().into());
    out.insert("responseKind".to_owned(), kind(&resource.group, &resource.version, &resource.kind));
    out.insert("scope".to_owned(), scope.into());
    out.insert("singularResource".to_owned(), resource.singular.as_str().into());
    out.insert("verbs".to_owned(), resource.verbs.clone().into());
    names(resource, &mut out);
    let subs: Vec<Value> = resource
        .subresources
        .iter()
        .map(|(name, sub)| {
            json!({"subresource": name, "verbs": sub.verbs, "responseKind": kind(&sub.group, &sub.version, &sub.kind)})
        })
        .collect();
    if !subs.is_empty() {
        out.insert("subresources".to_owned(), subs.into());
    }
    Value::Object(out)
}
