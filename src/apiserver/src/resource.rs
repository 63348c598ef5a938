//! The resources that are served, built-in and custom, and where they differ from each other.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::crd::CustomResource;
use crate::schema::{Data, Typed, builtin};
use crate::status::qualified;

/// One resource of one group version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) subresources: BTreeMap<String, Subresource>,
    /// The collection in the store. Group versions of one kind share it.
    pub(crate) storage: String,
    pub(crate) habits: Habits,
    schema: Source,
    /// An object that nobody has written yet.
    empty: std::sync::OnceLock<Value>,
    /// What the texts of its objects begin with.
    head: std::sync::OnceLock<String>,
}

/// A subresource, with the kind that it speaks.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

#[derive(Debug)]
enum Source {
    Builtin(&'static str, Option<Typed<'static>>),
    Custom(Arc<CustomResource>),
}

/// Where a kind's handling differs from that of most kinds.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Habits {
    /// PUT makes an object that is not there.
    pub(crate) create_on_update: bool,
    /// PUT and PATCH must name the version that they change.
    pub(crate) needs_version: bool,
    /// DELETE answers with the object, not with a Status.
    pub(crate) returns_deleted: bool,
    /// `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
}

const CREATE_ON_UPDATE: &[&str] = &[
    "runtimeclasses.node.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "leases.coordination.k8s.io",
    "limitranges",
    "events",
    "services",
    "endpoints",
];
const NEEDS_VERSION: &[&str] = &[
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "runtimeclasses.node.k8s.io",
    "poddisruptionbudgets.policy",
    "csidrivers.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "leases.coordination.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];
const RETURNS_DELETED: &[&str] = &[
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "deviceclasses.resource.k8s.io",
    "csidrivers.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
    "resourcequotas",
    "persistentvolumes",
    "serviceaccounts",
    "persistentvolumeclaims",
    "namespaces",
    "pods",
    "services",
    "podtemplates",
];
const GENERATION: &[&str] = &[
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "pods",
    "replicationcontrollers",
    "podtemplates",
    "customresourcedefinitions.apiextensions.k8s.io",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "endpointslices.discovery.k8s.io",
    "ingresses.networking.k8s.io",
    "ingressclasses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "priorityclasses.scheduling.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
];
/// Subresources that need a kubelet or a cloud behind them.
const NOT_SERVED: &[&str] = &["attach", "exec", "log", "portforward", "proxy"];

// === impl Resource ===

impl Resource {
    pub(crate) fn typed(&self) -> Typed<'_> {
        match &self.schema {
            Source::Builtin(_, Some(typed)) => *typed,
            Source::Builtin(_, None) => builtin().schemas.get(crate::schema::SchemaId::MISSING),
            Source::Custom(custom) => custom.typed(),
        }
    }

    /// An object of the resource as it is before a create.
    pub(crate) fn empty(&self) -> &Value {
        self.empty.get_or_init(|| match self.custom() {
            Some(_) => Value::Object(serde_json::Map::new()),
            None => crate::schema::decode::empty(self.typed()),
        })
    }

    /// What the text of an object in this version begins with.
    pub(crate) fn head(&self) -> &str {
        self.head.get_or_init(|| format!("{{\"apiVersion\":{:?},", self.api_version()))
    }

    pub(crate) fn custom(&self) -> Option<&Arc<CustomResource>> {
        match &self.schema {
            Source::Builtin(..) => None,
            Source::Custom(custom) => Some(custom),
        }
    }

    /// The name of the schema in the pinned document, for a built-in kind.
    pub(crate) fn schema_name(&self) -> Option<&'static str> {
        match &self.schema {
            Source::Builtin(name, _) => Some(name),
            Source::Custom(_) => None,
        }
    }

    pub(crate) fn list_kind(&self) -> String {
        match &self.schema {
            Source::Builtin(..) => format!("{}List", self.kind),
            Source::Custom(custom) => custom.list_kind.clone(),
        }
    }

    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresources.contains_key("status")
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }

    /// The key of an object in the store.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// Where the real server keeps an object in etcd, which some of its messages say.
    pub(crate) fn registry_path(&self, key: &str) -> String {
        let plural = match self.storage.as_str() {
            _ if self.custom().is_some() || self.group.contains("apiextensions") => {
                format!("{}/{}", self.group, self.plural)
            }
            "nodes" => "minions".to_owned(),
            "services" => "services/specs".to_owned(),
            "endpoints" => "services/endpoints".to_owned(),
            "replicationcontrollers" => "controllers".to_owned(),
            "ingresses.networking.k8s.io" => "ingress".to_owned(),
            _ => self.plural.clone(),
        };
        format!("/registry/{plural}/{key}")
    }

    /// The resource's kind with the package of its internal type, as conversion messages say it.
    pub(crate) fn internal_kind(&self) -> String {
        format!("{}.{}", package_of(&self.group), self.kind)
    }

    /// The group as errors about invalid objects say it: all events are those of the old group.
    pub(crate) fn group_of_errors(&self) -> &str {
        if self.is("events") { "" } else { &self.group }
    }

    /// Whether this is the built-in resource of a storage name, such as `pods`.
    pub(crate) fn is(&self, storage: &str) -> bool {
        self.storage == storage && self.custom().is_none()
    }

    pub(crate) fn of_custom(custom: &Arc<CustomResource>) -> Self {
        let mut subresources = BTreeMap::new();
        let own = |verbs: &[&str]| Subresource {
            group: custom.group.clone(),
            version: custom.version.clone(),
            kind: custom.kind.clone(),
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        };
        let verbs = ["get", "patch", "update"];
        if custom.has_status {
            subresources.insert("status".to_owned(), own(&verbs));
        }
        if custom.scale.is_some() {
            let scale =
                Subresource { group: "autoscaling".into(), version: "v1".into(), kind: "Scale".into(), ..own(&verbs) };
            subresources.insert("scale".to_owned(), scale);
        }
        let all = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        Self {
            group: custom.group.clone(),
            version: custom.version.clone(),
            plural: custom.plural.clone(),
            singular: custom.singular.clone(),
            kind: custom.kind.clone(),
            namespaced: custom.namespaced,
            verbs: all.iter().map(|&verb| verb.to_owned()).collect(),
            short_names: custom.short_names.clone(),
            categories: custom.categories.clone(),
            subresources,
            storage: qualified(&custom.group, &custom.plural),
            habits: Habits { needs_version: true, generation: true, ..Habits::default() },
            schema: Source::Custom(custom.clone()),
            empty: std::sync::OnceLock::new(),
            head: std::sync::OnceLock::new(),
        }
    }
}

/// `v1` or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The package of the real server that has the types of a group.
pub(crate) fn package_of(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    }
}

/// The group and version of an `apiVersion`.
pub(crate) fn split_api_version(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or(("", text))
}

/// The resources of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
    /// The same by plural name, which few resources share, and by collection, in the same order.
    by_plural: FxHashMap<String, Vec<Arc<Resource>>>,
    by_storage: FxHashMap<String, Arc<Resource>>,
}

// === impl Registry ===

impl Registry {
    /// Every built-in resource.
    pub(crate) fn builtin() -> Self {
        let mut registry = Self::default();
        let data = builtin();
        for group in &data.groups {
            registry.extend(builtin_resources(data, group));
        }
        registry
    }

    /// Adds resources, in place of those of the same names.
    pub(crate) fn extend(&mut self, resources: impl IntoIterator<Item = Resource>) {
        for resource in resources {
            let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            self.resources.insert(key, Arc::new(resource));
        }
        self.index();
    }

    /// Removes the custom resources of a plural name and group.
    pub(crate) fn remove_custom(&mut self, storage: &str) {
        self.resources.retain(|_, resource| resource.custom().is_none() || resource.storage != storage);
        self.index();
    }

    fn index(&mut self) {
        self.by_plural.clear();
        self.by_storage.clear();
        for resource in self.resources.values() {
            self.by_plural.entry(resource.plural.clone()).or_default().push(resource.clone());
            // Of several versions that in which objects are stored, where it is served.
            let is_stored = match resource.custom() {
                Some(custom) => custom.version == custom.storage_version,
                None => !crate::convert::differs(resource),
            };
            match self.by_storage.entry(resource.storage.clone()) {
                Entry::Occupied(mut known) if is_stored => {
                    known.insert(resource.clone());
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(free) => {
                    free.insert(resource.clone());
                }
            }
        }
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let named = self.by_plural.get(plural)?;
        named.iter().find(|resource| resource.group == group && resource.version == version)
    }

    /// The resource that serves a collection of the store; of several versions that in which it is stored.
    pub(crate) fn by_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        self.by_storage.get(storage)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    pub(crate) fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.resources.values().any(|r| r.group == group && r.version == version)
    }

    /// A hash of what is served of a group version: it changes when a definition does, and not with writes.
    pub(crate) fn hash_of(&self, group: &str, version: &str) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        builtin().version.hash(&mut hasher);
        for resource in self.resources.values().filter(|r| r.group == group && r.version == version) {
            (&resource.plural, &resource.kind, resource.namespaced).hash(&mut hasher);
            (resource.custom().map(|custom| custom.form), resource.subresources.len()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The groups with their versions, built-in ones in the order in which the real server prefers them.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in self.resources.values() {
            let versions = groups.entry(resource.group.clone()).or_default();
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
        }
        let mut out: Vec<_> = groups.into_iter().collect();
        for (_, versions) in &mut out {
            versions.sort_by_key(|version| std::cmp::Reverse(crate::crd::version_priority(version)));
        }
        let is_custom = |group: &str| self.resources.values().any(|r| r.group == group && r.custom().is_some());
        out.sort_by_key(|(group, _)| (is_custom(group), group.clone()));
        out
    }
}

fn builtin_resources(data: &'static Data, group: &Value) -> Vec<Resource> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let texts = |value: &Value, key: &str| -> Vec<String> {
        let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (name, version) = (text(group, "name"), text(group, "version"));
    let mut out: Vec<Resource> = Vec::new();
    let listed = group.get("resources").and_then(Value::as_array).into_iter().flatten();
    for item in listed {
        let path = text(item, "name");
        if let Some((parent, sub)) = path.split_once('/') {
            if NOT_SERVED.contains(&sub.split('/').next().unwrap_or(sub)) {
                continue;
            }
            let or_own = |key: &str, own: &str| {
                Some(text(item, key)).filter(|t| !t.is_empty()).unwrap_or_else(|| own.to_owned())
            };
            let subresource = Subresource {
                group: if item.get("version").is_some() { text(item, "group") } else { name.clone() },
                version: or_own("version", &version),
                kind: text(item, "kind"),
                verbs: texts(item, "verbs"),
            };
            if let Some(parent) = out.iter_mut().find(|resource| resource.plural == parent) {
                parent.subresources.insert(sub.to_owned(), subresource);
            }
            continue;
        }
        let kind = text(item, "kind");
        let suffix = format!(".{version}.{kind}");
        let schema = data
            .raw
            .iter()
            .find(|(schema_name, schema)| schema_name.ends_with(&suffix) && is_of_group(schema, &name, &kind));
        let Some((schema, _)) = schema else { continue };
        // Events are one kind under two groups, stored once.
        let storage = if path == "events" { "events".to_owned() } else { qualified(&name, &path) };
        let listed = |list: &[&str]| list.contains(&storage.as_str());
        let habits = Habits {
            create_on_update: listed(CREATE_ON_UPDATE),
            needs_version: listed(NEEDS_VERSION),
            returns_deleted: listed(RETURNS_DELETED),
            generation: listed(GENERATION),
        };
        out.push(Resource {
            group: name.clone(),
            version: version.clone(),
            singular: text(item, "singularName"),
            namespaced: item.get("namespaced").and_then(Value::as_bool).unwrap_or_default(),
            verbs: texts(item, "verbs"),
            short_names: texts(item, "shortNames"),
            categories: texts(item, "categories"),
            subresources: BTreeMap::new(),
            plural: path,
            kind,
            storage,
            habits,
            schema: Source::Builtin(schema, data.schemas.named(schema)),
            empty: std::sync::OnceLock::new(),
            head: std::sync::OnceLock::new(),
        });
    }
    out
}

fn is_of_group(schema: &Value, group: &str, kind: &str) -> bool {
    let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
    kinds.into_iter().flatten().any(|gvk| {
        gvk.get("group").and_then(Value::as_str) == Some(group) && gvk.get("kind").and_then(Value::as_str) == Some(kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_resources_come_with_schema_verbs_and_subresources() {
        let registry = Registry::builtin();
        let pods = registry.get("", "v1", "pods").unwrap();
        assert_eq!((pods.kind.as_str(), pods.namespaced, pods.storage.as_str()), ("Pod", true, "pods"));
        assert_eq!(pods.typed().name(), "Pod");
        assert!(pods.subresources.contains_key("binding") && !pods.subresources.contains_key("exec"));
        let scale = &registry.get("apps", "v1", "deployments").unwrap().subresources["scale"];
        assert_eq!((scale.group.as_str(), scale.kind.as_str()), ("autoscaling", "Scale"));
        let events = registry.get("events.k8s.io", "v1", "events").unwrap();
        assert_eq!((events.storage.as_str(), events.typed().field("regarding").is_some()), ("events", true));
    }
}
