//! `berth run` as a process of its own, against a cluster that another process serves.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

mod common;
#[path = "common/process.rs"]
mod process;

use berth_api::NodeClaim;
use common::berth;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use process::{Process, client, folder, get, line_with, until};

#[tokio::test]
async fn pods_of_another_process_get_nodes_and_the_lease_is_given_back() {
    let config = folder("run").join("kubeconfig");
    let _ = std::fs::remove_file(&config);
    let path = config.to_str().unwrap();
    let (files, types) = ("examples/reserved-first", "examples/catalogues/four-slots.yaml");
    let cluster = ["sandbox", "--without-berth", "--kubeconfig", path, "-f", files, "--instance-types", types];
    let mut cluster = Process::start(&cluster);
    line_with(cluster.0.stdout.take().unwrap(), "kubectl --kubeconfig");
    let client = client(&config).await;
    let run = ["run", "--kubeconfig", path, "--provider", "fake", "--instance-types", types, "--scheduler-names", "*"];

    let mut dry = Process::start(&[&run[..], &["--dry-run"]].concat());
    let said = line_with(dry.0.stdout.take().unwrap(), "would launch");
    assert!(said.contains("pending → would launch"), "{said}");
    assert_eq!(dry.terminate(), 0);
    let claims = Api::<NodeClaim>::all(client.clone());
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 0, "a dry run writes nothing");
    let lease = Api::<Lease>::namespaced(client.clone(), "kube-system");
    let name = "karpenter-leader-election";
    assert!(lease.get_opt(name).await.unwrap().is_none(), "a dry run needs no Lease");

    let real = [&run[..], &["--metrics-address", "127.0.0.1:0", "--log-format", "json"]].concat();
    let mut real = Process::start(&real);
    let told = line_with(real.0.stderr.take().unwrap(), "serving /metrics");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let address = told["address"].as_str().unwrap().to_owned();
    let pods = Api::<Pod>::all(client.clone());
    until("a place for each pod", async || {
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        pods.len() == 14 && pods.iter().all(runs)
    })
    .await;
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/").starts_with("HTTP/1.1 404"));
    let metrics = get(&address, "/metrics");
    for expected in [
        "berth_leads 1.0",
        "berth_reserved_slots{reservation_id=\"cr-web\",state=\"used\"} 4.0",
        "karpenter_cluster_state_node_count 5.0",
        "karpenter_cluster_state_synced 1.0",
        "karpenter_pods_bound_duration_seconds_count 14",
        "karpenter_scheduler_scheduling_duration_seconds_count{controller=\"provisioner\"}",
        "karpenter_nodeclaims_created_total{min_values_relaxed=\"false\",nodepool=\"prefer-reserved\",reason=\"provisioned\"} 5",
        "phase=\"Running\"",
        "# EOF",
    ] {
        assert!(metrics.contains(expected), "{expected}: {metrics}");
    }
    let held = lease.get(name).await.unwrap().spec.unwrap().holder_identity;
    assert!(held.is_some_and(|holder| !holder.is_empty()));
    assert_eq!(real.terminate(), 0);
    let given_back = lease.get(name).await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(given_back.unwrap_or_default(), "", "the next process need not wait");
    assert_eq!(cluster.terminate(), 0);
}

#[tokio::test]
async fn the_page_tells_why_from_what_the_controllers_know() {
    let (files, types) = ("examples/reserved-first", "examples/catalogues/four-slots.yaml");
    let mut sandbox = Process::start(&["sandbox", "-f", files, "--instance-types", types, "--page", "127.0.0.1:0"]);
    let told = line_with(sandbox.0.stderr.take().unwrap(), "the page: ");
    let address = told.trim_start_matches("the page: http://").trim_end_matches('/').to_owned();
    line_with(sandbox.0.stdout.take().unwrap(), "pods pending");
    let of = |object: &str| get(&address, &format!("/explain?of={object}"));
    // Five such nodes run 14 pods; which of them has but 2 is for the order in which they came up.
    let runs = |count: u32| of("node/m5-xlarge-0001").contains(&format!("Pods that run here:  {count}\n"));
    until("a node with its pods", async || runs(3) || runs(2)).await;
    let node = of("node/m5-xlarge-0001");
    assert!(node.contains("If it went:") && node.contains("Inputs:     the controllers' state"), "{node}");
    assert!(of("pod/nobody").starts_with("HTTP/1.1 422"));
}

#[test]
fn what_keeps_it_from_starting_is_one_line() {
    let missing = folder("run-bad").join("none");
    let missing = missing.to_str().unwrap();
    let unread = format!("error: unable to read the kubeconfig {missing}: No such file or directory");
    for (args, expected) in [
        (vec!["run", "--provider", "fake", "--kubeconfig", missing], &*unread),
        (vec!["run", "--provider", "fake", "--instance-types", missing], "error: unable to read "),
        (vec!["cloud", "--kubeconfig", missing], &*unread),
        (vec!["cloud", "--instance-types", missing], "error: unable to read "),
        (
            vec!["run", "--provider", "fake", "--cloud-address", "127.0.0.1:1", "--page"],
            "error: the argument '--cloud-address <ADDRESS:PORT>' cannot be used with '--page",
        ),
        (vec!["run", "--provider", "gcp"], "error: invalid value 'gcp' for '--provider <PROVIDER>'"),
    ] {
        let run = berth(&args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with(expected), "{args:?}: {}", run.stderr);
    }
}
