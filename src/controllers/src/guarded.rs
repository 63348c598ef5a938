//! Objects of a watch, whether they can be read or not.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object, or what is wrong with it: one that cannot be read does not end the watch of all others. Its text is read once;
/// kube's `DeserializeGuard` reads it into a tree, copies that, and reads the copy.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<K>(pub(crate) Result<K, Unreadable>);

/// An object that cannot be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unreadable {
    /// Its name and the like.
    pub(crate) metadata: Box<ObjectMeta>,
    /// What is wrong with which field.
    pub(crate) error: String,
    /// Its status as it is.
    pub(crate) status: Value,
    /// The scheduler that its template names, if it has one.
    pub(crate) scheduler_name: Option<String>,
}

#[derive(Deserialize)]
struct OfAnyKind {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    spec: Value,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let text = text.get();
        if let Ok(object) = serde_json::from_str(text) {
            return Ok(Guarded(Ok(object)));
        }
        let OfAnyKind { metadata, status, spec } = serde_json::from_str(text).map_err(D::Error::custom)?;
        let scheduler_name = spec.pointer("/template/spec/schedulerName").and_then(Value::as_str);
        let scheduler_name = scheduler_name.filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Guarded(Err(Unreadable { metadata: Box::new(metadata), error: fault::<K>(text), status, scheduler_name })))
    }
}

/// Which field of an object cannot be read, and why.
fn fault<K: DeserializeOwned>(text: &str) -> String {
    let Err(error) = serde_path_to_error::deserialize::<_, K>(&mut serde_json::Deserializer::from_str(text)) else {
        return String::new();
    };
    let why = error.inner().to_string();
    // Nobody sees the text that lines and columns are of.
    let why = why.split(" at line ").next().unwrap_or_default();
    match error.path().to_string().as_str() {
        "." => why.to_owned(),
        path => format!("{path}: {why}"),
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &K::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &K::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &K::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &K::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    const POD: &str = r#"{"metadata": {"name": "good"}, "spec": {"containers": []}}"#;
    const NO_POD: &str = r#"{"metadata": {"name": "bad"}, "spec": {"containers": 7}}"#;

    #[test]
    fn an_object_that_cannot_be_read_has_its_name_and_others_are_read_beside_it() {
        let list = format!(r#"{{"metadata": {{"resourceVersion": "3"}}, "items": [{POD}, {NO_POD}]}}"#);
        let list: ObjectList<Guarded<Pod>> = serde_json::from_str(&list).unwrap();
        let names: Vec<_> = list.items.iter().map(|item| item.meta().name.as_deref()).collect();
        assert_eq!(names, [Some("good"), Some("bad")]);
        assert!(list.items[0].0.is_ok());
        let unreadable = list.items[1].0.as_ref().unwrap_err();
        assert_eq!(unreadable.error, "spec.containers: invalid type: integer `7`, expected a sequence");
    }

    #[test]
    fn events_of_a_watch_are_read_too() {
        for (text, is_readable) in [(POD, true), (NO_POD, false)] {
            let event = format!(r#"{{"type": "MODIFIED", "object": {text}}}"#);
            let WatchEvent::Modified(found) = serde_json::from_str::<WatchEvent<Guarded<Pod>>>(&event).unwrap() else {
                panic!("{event}")
            };
            assert_eq!(found.0.is_ok(), is_readable);
        }
    }
}
