//! Conditions of pods, as clients see them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::time::Duration;

use berth_apiserver::{ApiServer, Config};
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

/// The regression: what had made a pod unready stayed with it as the reason for which it was ready.
#[tokio::test(start_paused = true)]
async fn a_condition_that_holds_has_no_reason_for_which_it_did_not() {
    let client = Client::new(ApiServer::new(Config::default()), "default");
    let kubelets = Kubelets::start(client.clone(), KubeletConfig::default());
    let amounts = [("cpu", "2"), ("memory", "4Gi"), ("pods", "3")];
    let amounts = amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    let amounts = BTreeMap::from(amounts);
    let (capacity, allocatable) = (amounts.clone(), amounts);
    kubelets.join(NodeSpec { name: "a".to_owned(), capacity, allocatable, ..NodeSpec::default() });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod = json!({"metadata": {"name": "p", "annotations": {"berth.sh/ready-after": "5s"}},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let ready = async |after| {
        tokio::time::sleep(Duration::from_secs(after)).await;
        let status = serde_json::to_value(pods.get("p").await.unwrap().status).unwrap();
        let all = status["conditions"].as_array().unwrap().clone();
        let ready = all.iter().find(|condition| condition["type"] == "Ready").unwrap();
        (ready["status"].clone(), ready["reason"].clone())
    };
    assert_eq!(ready(2).await, (json!("False"), json!("ContainersNotReady")));
    assert_eq!(ready(10).await, (json!("True"), Value::Null));
}
