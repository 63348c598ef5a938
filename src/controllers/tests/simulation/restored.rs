//! An API server that is restored from a backup counts its versions from there: nothing that was known says what is newer.

use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodePool};
use berth_apiserver::{ApiServer, Config};
use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
use berth_controllers::{Clock, Controllers, Options};
use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower_service::Service;

use crate::scenarios::{catalogue, pool};

/// Whichever server is there now.
#[derive(Clone)]
struct Current(Arc<Mutex<ApiServer>>);

impl Service<Request<kube::client::Body>> for Current {
    type Response = Response<berth_apiserver::Body>;
    type Error = <ApiServer as Service<Request<kube::client::Body>>>::Error;
    type Future = <ApiServer as Service<Request<kube::client::Body>>>::Future;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut server = self.0.lock().clone();
        server.call(request)
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "3"}}}]}})
}

async fn create<K>(client: &Client, object: Value)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn n_claims(client: &Client) -> usize {
    Api::<NodeClaim>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn what_came_after_the_backup_is_forgotten_and_what_comes_after_its_restoration_is_seen() {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let config = || Config { epoch, ..Config::default() };
    let server = ApiServer::new(config());
    let current = Current(Arc::new(Mutex::new(server.clone())));
    let client = Client::new(current.clone(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for (_, text) in berth_api::CRDS {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(text).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let pools: Api<NodePool> = Api::all(client.clone());
    let pool = serde_json::from_value(pool("web", &["on-demand"])).unwrap();
    pools.create(&PostParams::default(), &pool).await.unwrap();
    let backup = server.snapshot();
    let cloud = FakeCloud::new(CloudConfig { epoch, any_node_class: true, ..CloudConfig::default() }, catalogue());
    let controllers = Controllers::new(client.clone(), Arc::new(cloud), Clock::starting_at(epoch), Options::default());
    tokio::spawn(controllers.run(std::future::pending()));
    create::<Pod>(&client, pod("before")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(n_claims(&client).await, 1);
    // Of every kind more was told than the restored server knows.
    Api::<Pod>::default_namespaced(client.clone()).delete("before", &DeleteParams::default()).await.unwrap();
    for n in 0..500 {
        create::<ConfigMap>(&client, json!({"metadata": {"name": format!("{n}")}})).await;
    }
    *current.0.lock() = ApiServer::restore(config(), &backup).unwrap();
    assert_eq!(n_claims(&client).await, 0);
    // Watches of the server that is gone end after some minutes.
    tokio::time::sleep(Duration::from_secs(600)).await;
    create::<Pod>(&client, pod("after")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(n_claims(&client).await, 1, "a node is launched for the pod");
}
