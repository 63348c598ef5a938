//! A server and clients of it.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

use berth_apiserver::{ApiServer, Config};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

/// A server that starts on a fixed day.
pub(crate) fn server() -> ApiServer {
    ApiServer::new(config())
}

pub(crate) fn config() -> Config {
    Config { epoch: "2026-01-01T00:00:00Z".parse().unwrap(), seed: 7, ..Config::default() }
}

pub(crate) fn client(server: &ApiServer) -> Client {
    Client::new(server.clone(), "default")
}

/// A pod of one container.
pub(crate) fn pod(name: &str) -> Pod {
    from(json!({"metadata": {"name": name, "labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]}}))
}

pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) async fn create<T>(api: &Api<T>, object: Value) -> T
where
    T: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &from(object)).await.unwrap()
}

/// Code and reason of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("{other}"),
    }
}
