//! Names, columns and subresources of each kind.

use k8s_openapi::Resource;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::rules::{self, Rule};
use super::structural::schema_of;
use super::{Crd, UnknownField};
use crate::{
    FakeCapacityReservation, FakeCapacityReservationSpec, FakeCapacityReservationStatus, FakeNodeClass,
    FakeNodeClassSpec, FakeNodeClassStatus, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeOverlay, NodeOverlaySpec,
    NodeOverlayStatus, NodePool, NodePoolSpec, NodePoolStatus, Reservation, ReservationSpec, ReservationStatus,
};

const READY: &str = r#".status.conditions[?(@.type=="Ready")].status"#;
const DRIFTED: &str = r#".status.conditions[?(@.type=="Drifted")].status"#;

/// What a kind has besides its schema.
struct Kind {
    description: &'static str,
    categories: &'static [&'static str],
    short_names: &'static [&'static str],
    columns: Vec<Value>,
    subresources: Value,
    rules: Vec<Rule>,
}

/// A column of `kubectl get`; wide ones show with `-o wide` only.
fn column(name: &str, json_path: &str, column_type: &str) -> Value {
    json!({ "name": name, "jsonPath": json_path, "type": column_type })
}

fn wide(name: &str, json_path: &str, column_type: &str) -> Value {
    json!({ "name": name, "jsonPath": json_path, "type": column_type, "priority": 1 })
}

pub(super) fn all() -> Result<Vec<Crd>, UnknownField> {
    let age = || column("Age", ".metadata.creationTimestamp", "date");
    let node_pool = Kind {
        description: "Which nodes may be launched for pending pods, and how they may be disrupted.",
        categories: &["karpenter"],
        short_names: &[],
        columns: vec![
            column("NodeClass", ".spec.template.spec.nodeClassRef.name", "string"),
            column("Nodes", ".status.nodes", "string"),
            column("Ready", READY, "string"),
            age(),
            wide("Weight", ".spec.weight", "integer"),
            wide("CPU", ".status.resources.cpu", "string"),
            wide("Memory", ".status.resources.memory", "string"),
        ],
        subresources: json!({
            "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes" }, "status": {},
        }),
        rules: rules::node_pool(),
    };
    let node_claim = Kind {
        description: "One node that was asked for, and what became of it.",
        categories: &["karpenter"],
        short_names: &[],
        columns: vec![
            column("Type", r".metadata.labels.node\.kubernetes\.io/instance-type", "string"),
            column("Capacity", r".metadata.labels.karpenter\.sh/capacity-type", "string"),
            column("Zone", r".metadata.labels.topology\.kubernetes\.io/zone", "string"),
            column("Node", ".status.nodeName", "string"),
            column("Ready", READY, "string"),
            age(),
            wide("ImageID", ".status.imageID", "string"),
            wide("ID", ".status.providerID", "string"),
            wide("NodePool", r".metadata.labels.karpenter\.sh/nodepool", "string"),
            wide("NodeClass", ".spec.nodeClassRef.name", "string"),
            wide("Drifted", DRIFTED, "string"),
        ],
        subresources: json!({ "status": {} }),
        rules: rules::node_claim(),
    };
    let node_overlay = Kind {
        description: "A correction to the price or capacity of some instance types.",
        categories: &["karpenter"],
        short_names: &["overlays"],
        columns: vec![column("Ready", READY, "string"), age(), wide("Weight", ".spec.weight", "integer")],
        subresources: json!({ "status": {} }),
        rules: rules::node_overlay(),
    };
    let reservation = Kind {
        description: "Room on a node, held for pods that come later.",
        categories: &[],
        short_names: &[],
        columns: vec![
            column("Phase", ".status.phase", "string"),
            age(),
            column("Node", ".status.nodeName", "string"),
            column("TTL", ".spec.ttl", "string"),
            column("Expires", ".spec.expires", "string"),
        ],
        subresources: json!({ "status": {} }),
        rules: rules::reservation(),
    };
    let fake_node_class = Kind {
        description: "How the cloud in memory makes nodes: from which instance types, in which zones, how fast.",
        categories: &["berth"],
        short_names: &[],
        columns: vec![column("Ready", READY, "string"), age(), wide("Delay", ".spec.registrationDelay", "string")],
        subresources: json!({ "status": {} }),
        rules: rules::fake_node_class(),
    };
    let fake_capacity_reservation = Kind {
        description: "Capacity that the cloud in memory has sold beforehand. Deleting it cancels it.",
        categories: &["berth"],
        short_names: &["fcr"],
        columns: vec![
            column("Total", ".status.total", "integer"),
            column("Used", ".status.used", "integer"),
            column("Free", ".status.free", "integer"),
            column("State", ".status.state", "string"),
            age(),
            wide("Type", ".spec.type", "string"),
            wide("End", ".spec.end", "string"),
        ],
        subresources: json!({ "status": {} }),
        rules: rules::fake_capacity_reservation(),
    };
    Ok(vec![
        define::<NodePool, NodePoolSpec, NodePoolStatus>(node_pool)?,
        define::<NodeClaim, NodeClaimSpec, NodeClaimStatus>(node_claim)?,
        define::<NodeOverlay, NodeOverlaySpec, NodeOverlayStatus>(node_overlay)?,
        define::<Reservation, ReservationSpec, ReservationStatus>(reservation)?,
        define::<FakeNodeClass, FakeNodeClassSpec, FakeNodeClassStatus>(fake_node_class)?,
        define::<FakeCapacityReservation, FakeCapacityReservationSpec, FakeCapacityReservationStatus>(
            fake_capacity_reservation,
        )?,
    ])
}

fn define<Object: Resource, Spec: JsonSchema, Status: JsonSchema>(kind: Kind) -> Result<Crd, UnknownField> {
    let mut schema = json!({
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string", "description": "The group and version of this form of the object." },
            "kind": { "type": "string", "description": "The kind of the object." },
            "metadata": { "type": "object" },
            "spec": schema_of::<Spec>(),
            "status": schema_of::<Status>(),
        },
    });
    rules::apply(Object::KIND, &mut schema, kind.rules)?;
    let plural = Object::URL_PATH_SEGMENT;
    let mut names = json!({
        "kind": Object::KIND, "listKind": format!("{}List", Object::KIND),
        "plural": plural, "singular": Object::KIND.to_lowercase(),
    });
    for (field, list) in [("categories", kind.categories), ("shortNames", kind.short_names)] {
        if !list.is_empty() {
            names[field] = json!(list);
        }
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{}", Object::GROUP) },
        "spec": {
            "group": Object::GROUP,
            "names": names,
            "scope": "Cluster",
            "versions": [{
                "name": Object::VERSION,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": kind.columns,
                "schema": { "openAPIV3Schema": schema },
                "subresources": kind.subresources,
            }],
        },
    });
    Ok(Crd { file_name: format!("{}_{plural}.yaml", Object::GROUP), definition })
}
