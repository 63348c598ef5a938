//! The objects to begin with.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{
    CRDS, FakeCapacityReservation, FakeCapacityReservationSpec, FakeNodeClass, FakeReservationType, NodeClassRef,
};
use berth_cloudprovider::ReservationKind;
use berth_cloudprovider_fake::cloud::{FakeReservation, NODE_CLASS};
use berth_manifests::Object;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::SandboxError;

/// Kinds that have no namespace.
const CLUSTER_KINDS: [&str; 15] = [
    "Node",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "CSINode",
    "NodePool",
    "NodeClaim",
    "NodeOverlay",
    "Reservation",
    "FakeNodeClass",
    "FakeCapacityReservation",
    "Device",
    "NodeResourceTopology",
];

/// Objects that are written before others have their turn.
const TURN: usize = 64;

/// Which objects are applied rather than created. That they are remembers what each said.
pub(crate) type IsApplied<'a> = &'a (dyn Fn(&Object) -> bool + Sync);

/// Who owns what is applied.
const APPLIER: &str = "sandbox";

/// What must be there before what refers to it.
const FIRST: [&str; 10] = [
    "Namespace",
    "LimitRange",
    "ResourceQuota",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ConfigMap",
    "FakeNodeClass",
    "FakeCapacityReservation",
    "NodePool",
];

fn failed(object: &str, error: &kube::Error) -> SandboxError {
    let message = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    SandboxError::Apply { object: object.to_owned(), message }
}

/// Installs Berth's definitions.
pub(crate) async fn definitions(client: &Client) -> Result<(), SandboxError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for (file, text) in CRDS {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(text)
            .map_err(|error| SandboxError::Apply { object: (*file).to_owned(), message: error.to_string() })?;
        api.create(&PostParams::default(), &definition).await.map_err(|error| failed(file, &error))?;
    }
    Ok(())
}

/// The node classes that objects refer to and that are not among them, and `default`, for what is added later.
pub(crate) fn missing_node_classes(objects: &[Object]) -> BTreeSet<String> {
    let mut wanted = BTreeSet::from(["default".to_owned()]);
    let mut known = BTreeSet::new();
    let mut want = |class: &NodeClassRef| {
        if (class.group.as_str(), class.kind.as_str()) == NODE_CLASS {
            wanted.insert(class.name.clone());
        }
    };
    for object in objects {
        match object {
            Object::NodePool(pool) => pool.spec.template.spec.node_class_ref.iter().for_each(&mut want),
            Object::NodeClaim(claim) => claim.spec.node_class_ref.iter().for_each(&mut want),
            Object::FakeNodeClass(class) => known.extend(class.metadata.name.clone()),
            _ => {}
        }
    }
    wanted.retain(|name| !known.contains(name));
    wanted
}

/// The NodePool of a cluster whose objects have none: as `plan`, linux on amd64, and else open.
pub(crate) async fn open_pool(client: &Client) -> Result<(), SandboxError> {
    let (group, kind) = NODE_CLASS;
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
            "requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            ],
        }}},
    });
    create(client, pool).await.map_err(|error| failed("NodePool default", &error))
}

/// The StorageClass of a cluster whose objects have none: like those of clouds, it makes volumes where their pods come to be.
pub(crate) async fn storage_class(client: &Client) -> Result<(), SandboxError> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "berth.sh/fake", "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
    });
    create(client, class).await.map_err(|error| failed("StorageClass standard", &error))
}

/// A node class with nothing said.
pub(crate) async fn node_class(client: &Client, name: &str) -> Result<(), SandboxError> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let class = FakeNodeClass { metadata, ..FakeNodeClass::default() };
    let made = Api::<FakeNodeClass>::all(client.clone()).create(&PostParams::default(), &class).await;
    made.map(drop).map_err(|error| failed(&format!("FakeNodeClass {name}"), &error))
}

/// Shows the catalogue's reservations as objects, so that their counts can be changed. One that is there stays as it is.
pub(crate) async fn missing_reservations(
    client: &Client,
    definitions: &BTreeMap<String, FakeReservation>,
) -> Result<(), SandboxError> {
    let api = Api::<FakeCapacityReservation>::all(client.clone());
    for (id, definition) in definitions {
        let name = object_name(id);
        let object = FakeCapacityReservation {
            spec: FakeCapacityReservationSpec {
                id: (name != *id).then(|| id.clone()),
                instance_types: definition.instance_types.clone(),
                zones: definition.zones.clone(),
                count: i64::from(definition.total),
                reservation_type: match definition.kind {
                    ReservationKind::OnDemand => FakeReservationType::OnDemand,
                    ReservationKind::CapacityBlock => FakeReservationType::CapacityBlock,
                    ReservationKind::Interruptible => FakeReservationType::Interruptible,
                },
                ..FakeCapacityReservationSpec::default()
            },
            metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
            status: None,
        };
        let made = api.create(&PostParams::default(), &object).await.map(drop);
        ignore_existing(made).map_err(|error| failed(&format!("FakeCapacityReservation {id}"), &error))?;
    }
    Ok(())
}

/// An id as an object's name: lower case, with dots and dashes alone.
fn object_name(id: &str) -> String {
    let mapped = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '-' || c == '.' => c,
        _ => '-',
    };
    id.chars().map(mapped).collect::<String>().trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// Creates objects, those first that others need; one that is there already stays as it is. Some are applied instead. What the
/// cluster has no resource for is named in the answer.
pub(crate) async fn objects(
    client: &Client,
    objects: &[Object],
    is_applied: IsApplied<'_>,
) -> Result<Vec<String>, SandboxError> {
    write_all(client, objects, is_applied).await
}

/// Applies objects as `kubectl apply --server-side` does, those first that others need: they are created, or changed to what
/// is given. What the cluster has no resource for is named in the answer.
///
/// # Errors
/// The API server refused an object.
pub async fn apply_objects(client: &Client, objects: &[Object]) -> Result<Vec<String>, SandboxError> {
    write_all(client, objects, &|_| true).await
}

async fn write_all(
    client: &Client,
    objects: &[Object],
    is_applied: IsApplied<'_>,
) -> Result<Vec<String>, SandboxError> {
    let mut passed_over = Vec::new();
    let rank = |object: &Object| FIRST.iter().position(|kind| *kind == object.kind()).unwrap_or(FIRST.len());
    let mut ordered: Vec<&Object> = objects.iter().collect();
    ordered.sort_by_key(|object| rank(object));
    let mut namespaces = BTreeSet::from(["default".to_owned(), "kube-system".to_owned()]);
    for (n, object) in ordered.into_iter().enumerate() {
        if n % TURN == TURN - 1 {
            // The server is in this process and answers at once: others want their turn, and the end may be asked for.
            tokio::task::yield_now().await;
        }
        let name = object.metadata().name.clone().unwrap_or_default();
        let label = format!("{} {name}", object.kind());
        let value = object
            .to_value()
            .map_err(|error| SandboxError::Apply { object: label.clone(), message: error.to_string() })?;
        if object.kind() == "Namespace" {
            namespaces.insert(name.clone());
        }
        if !CLUSTER_KINDS.contains(&object.kind()) {
            let namespace = object.metadata().namespace.clone().unwrap_or_else(|| "default".to_owned());
            if namespaces.insert(namespace.clone()) {
                let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                ignore_existing(create(client, made).await).map_err(|error| failed(&label, &error))?;
            }
        }
        let written =
            if is_applied(object) { apply(client, value).await } else { ignore_existing(create(client, value).await) };
        match written {
            Err(kube::Error::Api(status)) if status.code == 404 => passed_over.push(label),
            answer => answer.map_err(|error| failed(&label, &error))?,
        }
    }
    Ok(passed_over)
}

fn ignore_existing(answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => Ok(()),
        answer => answer,
    }
}

async fn create(client: &Client, mut value: Value) -> Result<(), kube::Error> {
    let api = api_for(client, &mut value);
    let body = serde_json::to_vec(&value).map_err(kube::Error::SerdeError)?;
    let request = kube::core::Request::new(api.resource_url()).create(&PostParams::default(), body);
    // Nobody reads what the object has become.
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
}

async fn apply(client: &Client, value: Value) -> Result<(), kube::Error> {
    let (api, object) = prepare(client, value)?;
    let Some(name) = object.metadata.name.clone() else {
        return api.create(&PostParams::default(), &object).await.map(drop);
    };
    let params = PatchParams::apply(APPLIER).force();
    api.patch(&name, &params, &Patch::Apply(&object)).await.map(drop)
}

/// An object as it may be written, and where.
fn prepare(client: &Client, mut value: Value) -> Result<(Api<DynamicObject>, DynamicObject), kube::Error> {
    let api = api_for(client, &mut value);
    let object: DynamicObject = serde_json::from_value(value).map_err(kube::Error::SerdeError)?;
    Ok((api, object))
}

/// Where an object is written. What a dump of a cluster carries and no one may set is taken off.
fn api_for(client: &Client, value: &mut Value) -> Api<DynamicObject> {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink"] {
            metadata.remove(key);
        }
    }
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    api_of(client, &api_version, &kind, &text(&value["metadata"], "namespace"))
}

/// The API of a kind's objects in a namespace; in `default` where none is named and the kind has one.
pub fn api_of(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if CLUSTER_KINDS.contains(&kind) {
        Api::all_with(client.clone(), &resource)
    } else if namespace.is_empty() {
        Api::default_namespaced_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}
