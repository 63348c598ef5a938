//! Which resources there are, and the watches of those that no controller has a cache for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Client;
use kube::core::Version;
use serde_json::json;
use tokio::task::AbortHandle;

use super::Core;
use crate::key::NamespacedName;
use crate::objects::AnyObject;
use crate::options::Controller;
use crate::resource::{NAMESPACES, Resource};
use crate::store::{Delta, Kept, Store};
use crate::watches::{Message, Told};
use crate::work::Work;
use crate::write::{Effect, Failure, Write};

/// All resources that can be listed, and which serves a kind.
#[derive(Debug, Default)]
pub(crate) struct RestMap {
    /// One version of each resource: the one that its group prefers.
    preferred: Vec<Found>,
    by_kind: BTreeMap<(String, String), Resource>,
}

#[derive(Debug, Clone)]
struct Found {
    resource: Resource,
    verbs: Vec<String>,
}

impl Found {
    fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }
}

impl RestMap {
    /// The resource that serves a kind of an `apiVersion`.
    pub(super) fn resource_of(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        self.by_kind.get(&(api_version.to_owned(), kind.to_owned()))
    }
}

/// A resource of which only the metadata is watched.
#[derive(Debug)]
pub(crate) struct Dynamic {
    resource: Resource,
    store: Store<AnyObject>,
    task: AbortHandle,
}

/// Events own nothing and are owned by nobody.
fn is_ignored(resource: &Resource) -> bool {
    resource.plural == "events"
}

/// Asks a few times where the server is busy: of dozens of requests one may well fail, and all are needed.
async fn insist<T, F>(ask: impl Fn() -> F) -> kube::Result<T>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut attempts = 0;
    loop {
        match ask().await {
            Err(kube::Error::Api(status)) if attempts < 8 && (status.code == 429 || status.code >= 500) => {
                attempts += 1;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            answer => return answer,
        }
    }
}

/// Asks which resources there are. An error is one: it never reads as a lack of resources.
async fn read(client: &Client) -> Result<RestMap, kube::Error> {
    let mut map = RestMap::default();
    let mut versions: Vec<(String, Vec<String>)> =
        vec![(String::new(), insist(|| client.list_core_api_versions()).await?.versions)];
    for group in insist(|| client.list_api_groups()).await?.groups {
        let preferred = group.preferred_version.map(|version| version.version);
        let mut all: Vec<String> = group.versions.into_iter().map(|version| version.version).collect();
        all.sort_by_key(|version| {
            (preferred.as_ref() != Some(version), std::cmp::Reverse(Version::parse(version).priority()))
        });
        versions.push((group.name, all));
    }
    for (group, versions) in versions {
        let mut known = BTreeSet::new();
        for version in versions {
            let name = format!("{group}/{version}");
            let list = if group.is_empty() {
                insist(|| client.list_core_api_resources(&version)).await?
            } else {
                insist(|| client.list_api_group_resources(&name)).await?
            };
            for one in list.resources.into_iter().filter(|one| !one.name.contains('/')) {
                let resource = Resource {
                    group: group.clone().into(),
                    version: version.clone().into(),
                    plural: one.name.clone().into(),
                    kind: one.kind.clone().into(),
                    namespaced: one.namespaced,
                };
                map.by_kind.insert((resource.api_version(), one.kind), resource.clone());
                if known.insert(one.name) {
                    map.preferred.push(Found { resource, verbs: one.verbs });
                }
            }
        }
    }
    Ok(map)
}

/// Asks which resources there are, and watches those that are new.
pub(crate) fn discover(core: &mut Core) -> Effect {
    let (client, sender) = (core.client.clone(), core.sender());
    Effect::Task(Box::pin(async move {
        let map = read(&client).await.map_err(not_discovered)?;
        let _ = sender.send(Box::new(move |core: &mut Core| core.discovered(map))).await;
        Ok(Vec::new())
    }))
}

fn not_discovered(error: kube::Error) -> Failure {
    Failure::Request {
        verb: http::Method::GET,
        resource: "resources".to_owned(),
        key: NamespacedName::new("", ""),
        source: Box::new(error),
        tells: None,
    }
}

/// Deletes everything in a namespace that is being deleted; finalizes it when nothing is left.
pub(crate) fn empty_namespace(core: &mut Core, name: &Arc<str>) -> Effect {
    let Some(namespace) = core.caches.namespaces.get(&NamespacedName::new("", name)).cloned() else {
        return Effect::Done;
    };
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    if namespace.metadata.deletion_timestamp.is_none() || !finalizers.iter().any(|own| own == "kubernetes") {
        return Effect::Done;
    }
    core.add_after(Work::Namespace(name.clone()), core.options.timings.namespace_recheck);
    let (client, name) = (core.client.clone(), name.clone());
    Effect::Task(Box::pin(async move {
        // As it is now: a resource that was defined a moment ago counts as well.
        let map = read(&client).await.map_err(not_discovered)?;
        let mut left = false;
        for found in map.preferred.iter().filter(|found| found.resource.namespaced && found.can("list")) {
            left |= empty(&client, found, &name).await?;
        }
        if left {
            return Ok(Vec::new());
        }
        let mut namespace = (*namespace).clone();
        if let Some(spec) = &mut namespace.spec {
            spec.finalizers = Some(finalizers.into_iter().filter(|own| own != "kubernetes").collect());
        }
        let key = NamespacedName::new("", &name);
        let write = Write::replace_subresource(&NAMESPACES, &key, "finalize", &namespace);
        Ok(vec![write.send(&client).await?])
    }))
}

/// Deletes the objects of a resource in a namespace. Gives whether any are left.
async fn empty(client: &Client, found: &Found, namespace: &str) -> Result<bool, Failure> {
    #[derive(serde::Deserialize)]
    struct List {
        items: Vec<AnyObject>,
    }
    let resource = &found.resource;
    let failure = |source: kube::Error| Failure::Request {
        verb: http::Method::DELETE,
        resource: resource.plural.to_string(),
        key: NamespacedName::new(namespace, ""),
        source: Box::new(source),
        tells: None,
    };
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = || {
        let request = http::Request::get(resource.path(namespace)).header(http::header::ACCEPT, accept);
        request.body(Vec::new()).map_err(kube::Error::HttpError)
    };
    let before: List = client.request(list().map_err(failure)?).await.map_err(failure)?;
    if before.items.is_empty() {
        return Ok(false);
    }
    if found.can("deletecollection") {
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        let request = http::Request::delete(resource.path(namespace));
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError).map_err(failure)?;
        client.request_text(request).await.map_err(failure)?;
    } else if found.can("delete") {
        for object in &before.items {
            let view = object.view();
            let options = json!({"propagationPolicy": "Background"});
            Write::delete_with(resource, &view.key(), view.uid, options).send(client).await?;
        }
    }
    let after: List = client.request(list().map_err(failure)?).await.map_err(failure)?;
    Ok(!after.items.is_empty())
}

impl Core {
    /// Asks which resources there are, where a controller needs to know.
    pub(crate) fn start_discovery(&mut self) {
        if self.knows_all() {
            self.queue.add(Work::Discovery);
        }
    }

    /// Whether a controller looks at all resources: owners, or counts of objects.
    fn knows_all(&self) -> bool {
        self.has(Controller::GarbageCollector) || self.has(Controller::ResourceQuota)
    }

    fn discovered(&mut self, map: RestMap) {
        let map = Arc::new(map);
        let watched = map.preferred.iter().filter(|found| found.can("list") && found.can("watch"));
        let watched = watched.map(|found| &found.resource).filter(|resource| !is_ignored(resource));
        let wanted: BTreeMap<(String, String), Resource> = watched
            .filter(|resource| !self.has_cache(&resource.group, &resource.plural))
            .map(|resource| ((resource.group.to_string(), resource.plural.to_string()), resource.clone()))
            .collect();
        let ended = self.graph.dynamic.iter().filter(|(name, dynamic)| wanted.get(*name) != Some(&dynamic.resource));
        let ended: Vec<_> = ended.map(|(name, _)| name.clone()).collect();
        for name in ended {
            let Some(mut dynamic) = self.graph.dynamic.remove(&name) else { continue };
            dynamic.task.abort();
            // With the resource its objects are gone.
            for delta in dynamic.store.listed(&BTreeSet::new(), u64::MAX) {
                self.take_any(&dynamic.resource, Some(delta));
            }
        }
        for (name, resource) in wanted {
            if !self.graph.dynamic.contains_key(&name) {
                let told_name = name.clone();
                let task = self.watch(resource.clone(), true, move |told: Told<AnyObject>| -> Message {
                    let name = told_name.clone();
                    Box::new(move |core: &mut Core| core.told_any(&name, told))
                });
                self.graph.dynamic.insert(name, Dynamic { resource, store: Store::default(), task });
            }
        }
        self.graph.rest = Some(map);
    }

    fn told_any(&mut self, name: &(String, String), told: Told<AnyObject>) {
        let Some(mut dynamic) = self.graph.dynamic.remove(name) else { return };
        let resource = &dynamic.resource;
        match told {
            Told::Page(items) => {
                for item in items {
                    let delta = dynamic.store.page(item);
                    self.take_any(resource, delta);
                }
            }
            Told::Listed(keys, version) => {
                for delta in dynamic.store.listed(&keys, version) {
                    self.take_any(resource, Some(delta));
                }
            }
            Told::Changed(object) => {
                let delta = dynamic.store.upsert(object);
                self.take_any(resource, delta);
            }
            Told::Deleted(object) => {
                let delta = dynamic.store.remove(&object);
                self.take_any(resource, delta);
            }
            Told::Bookmark(version) => dynamic.store.advance(version),
        }
        self.graph.dynamic.insert(name.clone(), dynamic);
    }

    /// Takes in an object that we wrote and that has no cache of its own.
    pub(crate) fn wrote_any(&mut self, resource: &Resource, text: &str) {
        let name = (resource.group.to_string(), resource.plural.to_string());
        let Ok(object) = serde_json::from_str::<AnyObject>(text) else { return };
        let Some(dynamic) = self.graph.dynamic.get_mut(&name) else { return };
        let delta = dynamic.store.wrote(object);
        self.take_any(resource, delta);
    }

    /// Takes in that an object is gone that has no cache of its own.
    pub(crate) fn deleted_any(&mut self, resource: &Resource, key: &NamespacedName, uid: &str) {
        let name = (resource.group.to_string(), resource.plural.to_string());
        let Some(dynamic) = self.graph.dynamic.get_mut(&name) else { return };
        let delta = dynamic.store.deleted(key, uid);
        self.take_any(resource, delta);
    }

    fn take_any(&mut self, resource: &Resource, delta: Option<Delta<AnyObject>>) {
        let Some(Delta { old, new, .. }) = delta else { return };
        let is_another = matches!((&old, &new), (Some(old), Some(new)) if old.view().uid != new.view().uid);
        if is_another {
            self.observe_graph(resource, old.as_deref().map(Kept::view), None);
            self.observe_graph(resource, None, new.as_deref().map(Kept::view));
        } else {
            self.observe_graph(resource, old.as_deref().map(Kept::view), new.as_deref().map(Kept::view));
        }
        // Definitions decide which resources there are. They are served a moment later at the most.
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") || resource.plural == "apiservices" {
            self.queue.add_after(Work::Discovery, std::time::Duration::from_millis(50));
        }
    }
}
