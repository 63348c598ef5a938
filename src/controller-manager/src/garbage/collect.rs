//! What becomes of dependents and of owners that wait for them.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{FOREGROUND, Node, ORPHAN, RestMap};
use crate::core::Core;
use crate::key::NamespacedName;
use crate::objects::{AnyObject, View};
use crate::resource::Resource;
use crate::store::Kept;
use crate::work::Work;
use crate::write::{Effect, Failure, Write, Written};

/// The live state of an object, with where it was found.
struct Live {
    resource: Resource,
    object: AnyObject,
}

/// What a live read found of an owner.
enum Owner {
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    Absent,
}

/// A dependent of which an owner may be gone, or an owner that waits for its dependents.
pub(crate) fn attempt_to_delete(core: &mut Core, uid: &Arc<str>) -> Effect {
    let Some(node) = core.graph.nodes.get(uid).cloned() else { return Effect::Done };
    if node.is_waiting() {
        return finish_waiting(core, uid, node);
    }
    if node.is_deleted || node.owners.is_empty() {
        return Effect::Done;
    }
    let Some(rest) = core.graph.rest.clone() else { return Effect::Retry("resources are not discovered".to_owned()) };
    let has_dependents = core.graph.has_dependents(uid);
    let circular = core.graph.dependents(uid).any(|(_, dependent)| dependent.is_waiting());
    let (client, uid) = (core.client.clone(), uid.clone());
    Effect::Task(Box::pin(async move {
        let Some(live) = read(&client, &node.resource, &node.key).await? else { return Ok(Vec::new()) };
        let view = live.object.view();
        if view.uid != &*uid || view.is_deleted {
            return Ok(Vec::new());
        }
        let (mut solid, mut waiting, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        for owner in view.owners {
            match look_up(&client, &rest, owner, view.namespace).await? {
                Owner::Solid => solid.push(owner.clone()),
                Owner::Waiting => waiting.push(owner.clone()),
                Owner::Absent => absent.push(owner.clone()),
            }
        }
        if waiting.is_empty() && absent.is_empty() {
            return Ok(Vec::new());
        }
        let write = if !solid.is_empty() {
            Write::set_owners(&live.resource, view, &solid)
        } else if !waiting.is_empty() && has_dependents {
            if circular {
                let mut owners = view.owners.to_vec();
                for owner in &mut owners {
                    owner.block_owner_deletion = Some(false);
                }
                let unblock = Write::set_owners(&live.resource, view, &owners).send(&client).await?;
                let delete = remove(&live.resource, view, "Foreground", false).send(&client).await?;
                return Ok(vec![unblock, delete]);
            }
            remove(&live.resource, view, "Foreground", true)
        } else {
            let has = |finalizer: &str| view.finalizers.iter().any(|own| own == finalizer);
            let policy = match (has(ORPHAN), has(FOREGROUND)) {
                (true, _) => "Orphan",
                (false, true) => "Foreground",
                (false, false) => "Background",
            };
            remove(&live.resource, view, policy, true)
        };
        Ok(vec![write.send(&client).await?])
    }))
}

fn remove(resource: &Resource, view: View<'_>, policy: &str, of_version: bool) -> Write {
    let mut options = json!({"propagationPolicy": policy});
    if of_version && let Some(map) = options.as_object_mut() {
        map.insert("preconditions".to_owned(), json!({"resourceVersion": view.version}));
    }
    Write::delete_with(resource, &view.key(), view.uid, options)
}

/// An owner that waits goes when no dependent blocks it any more.
fn finish_waiting(core: &mut Core, uid: &Arc<str>, node: Node) -> Effect {
    let blocks = |dependent: &Node| {
        dependent.owners.iter().any(|owner| owner.uid == **uid && owner.block_owner_deletion == Some(true))
    };
    let dependents = core.graph.dependents(uid);
    let blocking: Vec<Arc<str>> = dependents.filter(|(_, node)| blocks(node)).map(|(uid, _)| uid.clone()).collect();
    if blocking.is_empty() {
        return forget_finalizer(core, uid, node, FOREGROUND);
    }
    for dependent in blocking {
        if core.graph.nodes.get(&dependent).is_some_and(|node| !node.is_deleted) {
            core.add(Work::AttemptToDelete(dependent));
        }
    }
    Effect::Done
}

/// An owner whose dependents shall stay: they forget it, then it goes.
pub(crate) fn attempt_to_orphan(core: &mut Core, uid: &Arc<str>) -> Effect {
    let Some(node) = core.graph.nodes.get(uid).filter(|node| node.is_deleted && node.orphans).cloned() else {
        return Effect::Done;
    };
    let dependents: Vec<Node> = core.graph.dependents(uid).map(|(_, node)| node.clone()).collect();
    let (client, owner) = (core.client.clone(), uid.clone());
    Effect::Task(Box::pin(async move {
        let mut written = Vec::new();
        for dependent in dependents {
            let Some(live) = read(&client, &dependent.resource, &dependent.key).await? else { continue };
            let view = live.object.view();
            let left: Vec<OwnerReference> = view.owners.iter().filter(|one| one.uid != *owner).cloned().collect();
            if left.len() < view.owners.len() {
                written.push(Write::set_owners(&live.resource, view, &left).send(&client).await?);
            }
        }
        written.extend(drop_finalizer(&client, &node, &owner, ORPHAN).await?);
        Ok(written)
    }))
}

fn forget_finalizer(core: &Core, uid: &Arc<str>, node: Node, finalizer: &'static str) -> Effect {
    let (client, uid) = (core.client.clone(), uid.clone());
    Effect::Task(Box::pin(async move {
        let written = drop_finalizer(&client, &node, &uid, finalizer).await?;
        Ok(written.into_iter().collect())
    }))
}

async fn drop_finalizer(client: &Client, node: &Node, uid: &str, finalizer: &str) -> Result<Option<Written>, Failure> {
    let Some(live) = read(client, &node.resource, &node.key).await? else { return Ok(None) };
    let view = live.object.view();
    if view.uid != uid || !view.finalizers.iter().any(|own| own == finalizer) {
        return Ok(None);
    }
    let left: Vec<&String> = view.finalizers.iter().filter(|own| *own != finalizer).collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    let patch = json!({"metadata": {"uid": uid, "resourceVersion": view.version, "finalizers": left}});
    Write::merge(&live.resource, &view.key(), &patch).send(client).await.map(Some)
}

/// An owner that nobody has seen: if there is none, its dependents are looked at.
pub(crate) fn missing_owner(core: &mut Core, uid: &Arc<str>) -> Effect {
    core.graph.of_no_kind.remove(uid);
    if core.graph.nodes.contains_key(uid) {
        return Effect::Done;
    }
    let Some(rest) = core.graph.rest.clone() else { return Effect::Retry("resources are not discovered".to_owned()) };
    // Dependents of other namespaces may name the same UID; each is looked at by itself if any of them is in doubt.
    let mut places: Vec<(OwnerReference, NamespacedName)> = Vec::new();
    for (_, node) in core.graph.dependents(uid) {
        for owner in node.owners.iter().filter(|owner| owner.uid == **uid) {
            let is_known = places.iter().any(|(known, key)| {
                (&known.api_version, &known.kind, &known.name) == (&owner.api_version, &owner.kind, &owner.name)
                    && key.namespace == node.key.namespace
            });
            if !is_known {
                places.push((owner.clone(), node.key.clone()));
            }
        }
    }
    // Such a look-up fails and is had again. With many dependents it is not to be had for each that comes, too.
    if !places.is_empty() && places.iter().all(|(owner, _)| core.graph.is_of_no_kind(owner)) {
        core.graph.of_no_kind.insert(uid.clone());
    }
    let (client, sender, uid) = (core.client.clone(), core.sender(), uid.clone());
    Effect::Task(Box::pin(async move {
        for (owner, dependent) in places {
            if !matches!(look_up(&client, &rest, &owner, &dependent.namespace).await?, Owner::Absent) {
                continue;
            }
            // Back in the manager's own task, where the graph is.
            let uid = uid.clone();
            let namespace = dependent.namespace.clone();
            let message = move |core: &mut Core| {
                let concerned = core.graph.dependents(&uid);
                let concerned = concerned.filter(|(_, node)| node.key.namespace == namespace);
                for uid in concerned.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
                    core.add(Work::AttemptToDelete(uid));
                }
            };
            let _ = sender.send(Box::new(message)).await;
        }
        Ok(Vec::new())
    }))
}

/// Reads the metadata of an object. `None` says that the server knows of none; an error says nothing.
async fn read(client: &Client, resource: &Resource, key: &NamespacedName) -> Result<Option<Live>, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        metadata: crate::objects::Meta,
    }
    let failure = |source: kube::Error| Failure::Request {
        verb: http::Method::GET,
        resource: resource.plural.to_string(),
        key: key.clone(),
        source: Box::new(source),
        tells: None,
    };
    let request = http::Request::get(format!("{}/{}", resource.path(&key.namespace), key.name));
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = request.header(http::header::ACCEPT, accept).body(Vec::new());
    let request = request.map_err(|error| failure(kube::Error::HttpError(error)))?;
    match client.request::<Answer>(request).await {
        Ok(answer) => {
            let object = AnyObject { metadata: answer.metadata };
            Ok(Some(Live { resource: resource.clone(), object }))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

/// Reads an owner, of its dependent's namespace where its kind has namespaces.
async fn look_up(client: &Client, rest: &RestMap, owner: &OwnerReference, namespace: &str) -> Result<Owner, Failure> {
    let Some(resource) = rest.resource_of(&owner.api_version, &owner.kind) else {
        return Err(Failure::NotYet(format!("no resource is known for {} {}", owner.api_version, owner.kind)));
    };
    if resource.namespaced && namespace.is_empty() {
        // Such a reference is invalid. As upstream, nothing is deleted for it.
        return Ok(Owner::Solid);
    }
    let key = NamespacedName::new(if resource.namespaced { namespace } else { "" }, &owner.name);
    let Some(live) = read(client, resource, &key).await? else { return Ok(Owner::Absent) };
    let view = live.object.view();
    if view.uid != owner.uid {
        return Ok(Owner::Absent);
    }
    let waits = view.is_deleted && view.finalizers.iter().any(|own| own == FOREGROUND);
    Ok(if waits { Owner::Waiting } else { Owner::Solid })
}
