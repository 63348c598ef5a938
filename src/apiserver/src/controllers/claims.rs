//! Claims and volumes: bound to each other, made where a class has a provisioner, let go when nobody uses them.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::{Value, json};

use super::world::{World, has_ended, key, set_label};
use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

impl ApiServer {
    pub(super) fn bind_volumes(&self, _: &World) {
        let claims = self.values("persistentvolumeclaims", "");
        let volumes = self.values("persistentvolumes", "");
        for claim in &claims {
            if meta::has(claim, "deletionTimestamp") {
                self.release_claim(claim);
            } else if text_at(claim, &["status", "phase"]) != "Bound" {
                self.bind_claim(claim, &volumes);
            }
        }
        for volume in &volumes {
            // As it is now: it may have been bound in this round.
            if let Some(volume) = self.value("persistentvolumes", meta::name(volume)) {
                self.settle_volume(&volume, &claims);
            }
        }
    }

    fn bind_claim(&self, claim: &Value, volumes: &[Value]) {
        let class_name = text_at(claim, &["spec", "storageClassName"]);
        let class = self.value("storageclasses.storage.k8s.io", class_name);
        let waits =
            class.as_ref().is_some_and(|class| text_at(class, &["volumeBindingMode"]) == "WaitForFirstConsumer");
        let node = meta::annotation(claim, SELECTED_NODE).map(str::to_owned);
        let named = text_at(claim, &["spec", "volumeName"]);
        let reserved = volumes.iter().find(|volume| is_reserved(volume, claim));
        if waits && node.is_none() && named.is_empty() && reserved.is_none() {
            return;
        }
        let node = node.and_then(|name| self.value("nodes", &name));
        let mut fitting: Vec<&Value> = volumes
            .iter()
            .filter(
                |volume| {
                    if named.is_empty() { fits(volume, claim, node.as_ref()) } else { meta::name(volume) == named }
                },
            )
            .collect();
        // One that was kept for the claim; else of those with the fewest modes the smallest that is large enough.
        let modes = |volume: &Value| list_at(volume, &["spec", "accessModes"]).len();
        fitting.sort_by_key(|volume| {
            (!is_reserved(volume, claim), modes(volume), capacity(volume), meta::name(volume).to_owned())
        });
        if let Some(volume) = fitting.first() {
            self.bind(claim, meta::name(volume), capacity(volume));
            return;
        }
        let provisioner = class.as_ref().map(|class| text_at(class, &["provisioner"]).to_owned()).unwrap_or_default();
        if let Some(class) = class
            && !["", "kubernetes.io/no-provisioner"].contains(&provisioner.as_str())
        {
            self.provision(claim, &class, &provisioner, node.as_ref());
        }
    }

    fn provision(&self, claim: &Value, class: &Value, provisioner: &str, node: Option<&Value>) {
        let name = format!("pvc-{}", meta::text(claim, "uid"));
        let storage = at(claim, &["spec", "resources", "requests", "storage"]).cloned().unwrap_or_default();
        let mut spec = json!({
            "capacity": {"storage": storage}, "accessModes": at(claim, &["spec", "accessModes"]),
            "storageClassName": meta::name(class), "persistentVolumeReclaimPolicy": class.get("reclaimPolicy"),
            "volumeMode": at(claim, &["spec", "volumeMode"]), "claimRef": reference(claim),
            "csi": {"driver": provisioner, "volumeHandle": name},
        });
        let zone = node.and_then(|node| at(node, &["metadata", "labels", ZONE])).and_then(Value::as_str);
        if let Some(map) = spec.as_object_mut()
            && let Some(zone) = zone
        {
            map.insert(
                "nodeAffinity".to_owned(),
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": ZONE, "operator": "In", "values": [zone]}]}]}}),
            );
        }
        let volume = json!({"metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
                            "spec": spec});
        if self.make("persistentvolumes", "", volume, "kube-controller-manager") {
            let size = storage.as_str().and_then(|text| Quantity::from_str(text).ok());
            self.bind(claim, &name, size);
        }
    }

    fn bind(&self, claim: &Value, volume: &str, size: Option<Quantity>) {
        let reference = reference(claim);
        self.change_object("persistentvolumes", volume, |volume| {
            // Which of the two chose the other is remembered on both.
            if at(volume, &["spec", "claimRef"]).is_none() {
                set_label(volume, &["metadata", "annotations"], BOUND_BY_CONTROLLER, "yes");
            }
            if let Some(spec) = meta::object_mut(volume, &["spec"]) {
                spec.insert("claimRef".to_owned(), reference);
            }
            if let Some(status) = meta::object_mut(volume, &["status"]) {
                status.insert("phase".to_owned(), "Bound".into());
            }
        });
        let modes = at(claim, &["spec", "accessModes"]).cloned().unwrap_or_default();
        self.change_object("persistentvolumeclaims", &key(claim), |claim| {
            if text_at(claim, &["spec", "volumeName"]).is_empty() {
                set_label(claim, &["metadata", "annotations"], BOUND_BY_CONTROLLER, "yes");
            }
            set_label(claim, &["metadata", "annotations"], "pv.kubernetes.io/bind-completed", "yes");
            if let Some(spec) = meta::object_mut(claim, &["spec"]) {
                spec.insert("volumeName".to_owned(), volume.into());
            }
            if let Some(status) = meta::object_mut(claim, &["status"]) {
                status.insert("phase".to_owned(), "Bound".into());
                status.insert("accessModes".to_owned(), modes);
                if let Some(size) = size {
                    status.insert("capacity".to_owned(), json!({"storage": size.to_string()}));
                }
            }
        });
    }

    /// A claim that is being deleted is let go when no pod uses it.
    fn release_claim(&self, claim: &Value) {
        let pods = self.values("pods", meta::namespace(claim));
        let is_used = pods.iter().filter(|pod| !has_ended(pod)).any(|pod| {
            list_at(pod, &["spec", "volumes"])
                .iter()
                .any(|volume| text_at(volume, &["persistentVolumeClaim", "claimName"]) == meta::name(claim))
        });
        if !is_used {
            self.change_object("persistentvolumeclaims", &key(claim), |claim| {
                meta::remove_finalizer(claim, PVC_PROTECTION);
            });
        }
    }

    /// The phase of a volume, and its end where its claim is gone.
    fn settle_volume(&self, volume: &Value, claims: &[Value]) {
        let name = meta::name(volume);
        let uid = text_at(volume, &["spec", "claimRef", "uid"]);
        let has_claim = at(volume, &["spec", "claimRef"]).is_some();
        let owner = claims.iter().find(|claim| meta::text(claim, "uid") == uid);
        let is_claimed = uid.is_empty() && has_claim || owner.is_some();
        if meta::has(volume, "deletionTimestamp") {
            if !is_claimed || !has_claim {
                self.change_object("persistentvolumes", name, |volume| meta::remove_finalizer(volume, PV_PROTECTION));
            }
            return;
        }
        let phase = match (has_claim, is_claimed) {
            (false, _) => "Available",
            // Kept for a claim that is not there yet.
            (true, true) if uid.is_empty() => "Available",
            (true, true) if owner.is_some_and(|claim| text_at(claim, &["spec", "volumeName"]) == name) => "Bound",
            (true, true) => return,
            (true, false) => "Released",
        };
        if phase == "Released" && text_at(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Delete" {
            self.remove_object("persistentvolumes", name, None);
            return;
        }
        let now = self.inner.clock.now_text();
        self.change_object("persistentvolumes", name, |volume| {
            if let Some(status) = meta::object_mut(volume, &["status"])
                && status.get("phase").and_then(Value::as_str) != Some(phase)
            {
                status.insert("phase".to_owned(), phase.into());
                status.insert("lastPhaseTransitionTime".to_owned(), now.into());
            }
        });
    }
}

fn reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta::namespace(claim),
           "name": meta::name(claim), "uid": meta::text(claim, "uid"),
           "resourceVersion": meta::text(claim, "resourceVersion")})
}

fn capacity(volume: &Value) -> Option<Quantity> {
    Quantity::from_str(text_at(volume, &["spec", "capacity", "storage"])).ok()
}

/// Whether a volume is kept for a claim.
fn is_reserved(volume: &Value, claim: &Value) -> bool {
    at(volume, &["spec", "claimRef"]).is_some_and(|reference| {
        text_at(reference, &["name"]) == meta::name(claim)
            && text_at(reference, &["namespace"]) == meta::namespace(claim)
            && ["", meta::text(claim, "uid")].contains(&text_at(reference, &["uid"]))
    })
}

/// Whether a free volume serves a claim on a node.
fn fits(volume: &Value, claim: &Value, node: Option<&Value>) -> bool {
    let is_ours = at(volume, &["spec", "claimRef"]).is_none() || is_reserved(volume, claim);
    let same = |field: &str| text_at(volume, &["spec", field]) == text_at(claim, &["spec", field]);
    let modes = list_at(volume, &["spec", "accessModes"]);
    let has_modes = list_at(claim, &["spec", "accessModes"]).iter().all(|mode| modes.contains(mode));
    let wanted = Quantity::from_str(text_at(claim, &["spec", "resources", "requests", "storage"])).unwrap_or_default();
    let selector = at(claim, &["spec", "selector"]);
    let selected = selector
        .is_none_or(|selector| crate::selector::LabelSelector::from_object(Some(selector)).matches_object(volume));
    let reachable = match (node, at(volume, &["spec", "nodeAffinity", "required"])) {
        (Some(node), Some(required)) => node_selector_fits(required, node),
        _ => true,
    };
    !meta::has(volume, "deletionTimestamp")
        && is_ours
        && same("storageClassName")
        && same("volumeMode")
        && has_modes
        && capacity(volume).is_some_and(|size| size >= wanted)
        && selected
        && reachable
}

/// Whether a node fits one of the terms of a node selector.
pub(super) fn node_selector_fits(selector: &Value, node: &Value) -> bool {
    let label = |key: &str| at(node, &["metadata", "labels", key]).and_then(Value::as_str);
    let holds = |expression: &Value, value: Option<&str>| {
        let values: Vec<&str> = list_at(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
        match text_at(expression, &["operator"]) {
            "In" => value.is_some_and(|value| values.contains(&value)),
            "NotIn" => value.is_none_or(|value| !values.contains(&value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => matches!((number(value), number(values.first().copied())), (Some(a), Some(b)) if a > b),
            "Lt" => matches!((number(value), number(values.first().copied())), (Some(a), Some(b)) if a < b),
            _ => false,
        }
    };
    list_at(selector, &["nodeSelectorTerms"]).iter().any(|term| {
        let expressions = list_at(term, &["matchExpressions"]);
        let fields = list_at(term, &["matchFields"]);
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|expression| holds(expression, label(text_at(expression, &["key"]))))
            && fields.iter().all(|field| holds(field, Some(meta::name(node))))
    })
}
