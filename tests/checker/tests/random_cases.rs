//! Random clusters are the same for the same seed, valid for a strict reader, and show every feature.

#![allow(clippy::expect_used, clippy::panic, reason = "builders of a test may fail as the test itself")]

use std::collections::BTreeSet;

use berth_checker::{Options, Size, check, random_case};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The fields of the object that its type does not know.
fn unknown_fields<T: DeserializeOwned>(object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let read: Result<T, _> = serde_ignored::deserialize(object, |path| unknown.push(path.to_string()));
    assert!(read.is_ok(), "{:?}: {object}", read.err());
    unknown
}

#[test]
fn same_seed_gives_the_same_case() {
    for size in [Size::Tiny, Size::Small, Size::Medium] {
        let (one, two, other) = (random_case(5, size), random_case(5, size), random_case(6, size));
        assert_eq!((&one.objects, &one.catalogue), (&two.objects, &two.catalogue));
        assert_ne!(one.objects, other.objects);
    }
}

#[test]
fn objects_have_only_known_fields() {
    for seed in 0..300 {
        let size = [Size::Tiny, Size::Small, Size::Medium][usize::try_from(seed % 3).expect("small")];
        for object in random_case(seed, size).objects {
            let unknown = match object["kind"].as_str().expect("a kind") {
                "Pod" => unknown_fields::<Pod>(&object),
                "Node" => unknown_fields::<Node>(&object),
                "Deployment" => unknown_fields::<Deployment>(&object),
                "ReplicaSet" => unknown_fields::<ReplicaSet>(&object),
                "StatefulSet" => unknown_fields::<StatefulSet>(&object),
                "DaemonSet" => unknown_fields::<DaemonSet>(&object),
                "Job" => unknown_fields::<Job>(&object),
                "Namespace" => unknown_fields::<Namespace>(&object),
                "PriorityClass" => unknown_fields::<PriorityClass>(&object),
                "PersistentVolume" => unknown_fields::<PersistentVolume>(&object),
                "PersistentVolumeClaim" => unknown_fields::<PersistentVolumeClaim>(&object),
                "StorageClass" => unknown_fields::<StorageClass>(&object),
                "PodDisruptionBudget" => unknown_fields::<PodDisruptionBudget>(&object),
                "CSINode" => unknown_fields::<CSINode>(&object),
                "NodePool" | "Reservation" | "NodeResourceTopology" => Vec::new(),
                kind => panic!("no reader for {kind}"),
            };
            assert_eq!(unknown, Vec::<String>::new(), "{object}");
        }
    }
}

#[test]
fn object_names_are_unique() {
    for seed in 0..200 {
        let mut seen = BTreeSet::new();
        for object in random_case(seed, Size::Medium).objects {
            let key = (
                object["kind"].to_string(),
                object["metadata"]["namespace"].to_string(),
                object["metadata"]["name"].to_string(),
            );
            assert!(seen.insert(key.clone()), "seed {seed}: {key:?}");
        }
    }
}

#[test]
fn every_feature_appears() {
    let mut text = String::new();
    for seed in 0..200 {
        let case = random_case(seed, Size::Medium);
        text.push_str(&Value::Array(case.objects).to_string());
        text.push_str(&case.catalogue.to_string());
    }
    for feature in [
        "minValues",
        "\"Gt\"",
        "\"Lt\"",
        "\"Gte\"",
        "\"Lte\"",
        "DoesNotExist",
        "\"NotIn\"",
        "\"Exists\"",
        "startupTaints",
        "limits",
        "weight",
        "initContainers",
        "\"Always\"",
        "overhead",
        "nvidia.com/gpu",
        "nodeSelector",
        "podAffinity",
        "podAntiAffinity",
        "namespaceSelector",
        "topologySpreadConstraints",
        "minDomains",
        "matchLabelKeys",
        "nodeTaintsPolicy",
        "ScheduleAnyway",
        "hostPort",
        "schedulingGates",
        "ReadWriteOncePod",
        "Immediate",
        "allowedTopologies",
        "StatefulSet",
        "Job",
        "ReplicaSet",
        "DaemonSet",
        "CSINode",
        "Restricted",
        "Available",
        "ReservationCapacity",
        "reserved",
        "spot",
        "priorityClassName",
        "PreferNoSchedule",
    ] {
        assert!(text.contains(feature), "{feature}");
    }
}

/// A plan that refuses everything is right where a plan may be lazy: nothing but the count of its classes is asked.
#[test]
fn plan_that_places_nothing_breaks_no_placement_rule() {
    let mut pods_in_all = 0;
    for seed in 0..200 {
        let case = random_case(seed, Size::Small);
        let slots = serde_json::json!({"total": 0, "used": 0});
        let plan = serde_json::json!({
            "apiVersion": "berth.sh/v1alpha1", "kind": "Plan",
            "summary": {"pods": 0, "placed": 0, "unschedulable": 0, "nodeClaims": 0, "hourlyCost": 0.0, "listCost": 0.0, "nodeCost": 0.0,
                "lowerBound": null, "solveSeconds": null, "reservedSlots": slots},
            "reservations": [], "nodeClaims": [], "nodes": [], "unschedulable": [],
        });
        let found = check(&case.objects, &case.catalogue, &plan, &Options::default());
        pods_in_all += found.iter().filter(|v| v.rule == "coverage" && v.detail.starts_with("pods is 0")).count();
        let odd: Vec<_> = found.iter().filter(|v| v.rule != "coverage" && v.rule != "slots").collect();
        assert!(odd.is_empty(), "seed {seed}: {odd:?}");
    }
    assert!(pods_in_all > 190, "{pods_in_all} cases with pods");
}
