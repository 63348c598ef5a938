//! Who is stopped gives its Lease up only once nothing that it sent can take effect any more.

use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodePool};
use berth_apiserver::{ApiServer, Config};
use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
use berth_controllers::{Clock, Controllers, LeaseOptions, Options};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use tokio::sync::Notify;
use tower_service::Service;

use crate::restored::pod;
use crate::scenarios::{catalogue, pool};

/// A server to which the creation of a NodeClaim takes so long to come, whoever waits for it.
#[derive(Clone)]
struct Slow {
    server: ApiServer,
    takes: Duration,
    sent: Arc<Notify>,
}

impl Service<Request<kube::client::Body>> for Slow {
    type Response = Response<berth_apiserver::Body>;
    type Error = <ApiServer as Service<Request<kube::client::Body>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut server = self.server.clone();
        if request.method() != Method::POST || !request.uri().path().ends_with("/nodeclaims") {
            return server.call(request).boxed();
        }
        self.sent.notify_one();
        let takes = self.takes;
        let under_way = tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            server.call(request).await
        });
        under_way.map(|answer| answer.unwrap()).boxed()
    }
}

/// Stops the controllers while they create a NodeClaim. Who holds the Lease then, and how many NodeClaims there are.
async fn stop_while_writing(takes: Duration) -> (String, usize) {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::new(Config { epoch, ..Config::default() });
    let sent = Arc::new(Notify::new());
    let client = Client::new(Slow { server, takes, sent: Arc::clone(&sent) }, "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for (_, text) in berth_api::CRDS {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(text).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let pools: Api<NodePool> = Api::all(client.clone());
    let own = serde_json::from_value(pool("web", &["on-demand"])).unwrap();
    pools.create(&PostParams::default(), &own).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &serde_json::from_value(pod("one")).unwrap()).await.unwrap();
    let cloud = FakeCloud::new(CloudConfig { epoch, any_node_class: true, ..CloudConfig::default() }, catalogue());
    let lease = LeaseOptions { identity: "me".to_owned(), ..LeaseOptions::default() };
    let (namespace, name) = (lease.namespace.clone(), lease.name.clone());
    let options = Options { lease: Some(lease), ..Options::default() };
    let controllers = Controllers::new(client.clone(), Arc::new(cloud), Clock::starting_at(epoch), options);
    Box::pin(controllers.run(async move { sent.notified().await })).await;
    let lease = Api::<Lease>::namespaced(client.clone(), &namespace).get(&name).await.unwrap();
    let claims = Api::<NodeClaim>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    (lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default(), claims.items.len())
}

/// The regression: the Lease was given up at once, and what was on its way took effect under the next leader.
#[tokio::test(start_paused = true)]
async fn the_lease_is_given_up_once_what_was_sent_is_answered() {
    let (soon, late) = (Duration::from_millis(200), Duration::from_secs(5));
    assert_eq!(stop_while_writing(soon).await, (String::new(), 1));
    assert_eq!(stop_while_writing(late).await, ("me".to_owned(), 0), "others wait until it is over");
}
