//! The side of Berth.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_cloudprovider::{
    CapacityReservation, CloudError, CloudProvider, Drift, Instance, InstanceTypes, LaunchRequest, Launched,
    NodeClassStatus, ProviderId, RepairPolicy, ReservationAdoption, Result,
};
use futures::future::BoxFuture;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use crate::protocol::{About, Call, MAX_ANSWER, Offered, PATH};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

/// Why there is no cloud at an address.
#[derive(Debug, thiserror::Error)]
#[error("no cloud answers at {address}: {source}; `berth cloud` starts one, and says its address")]
pub struct ConnectError {
    address: SocketAddr,
    source: CloudError,
}

/// A cloud that another process serves.
#[derive(Debug, Clone)]
pub struct RemoteCloud {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    about: About,
}

/// How a call went wrong before its answer was there.
enum Lost {
    /// Nothing was sent.
    Unsent(String),
    /// It may have been carried out.
    Sent(String),
}

// === impl RemoteCloud ===

impl RemoteCloud {
    /// Asks the cloud at an address what it is. Connections are made for calls, so a cloud may go and come back.
    ///
    /// # Errors
    /// Nothing answers there, or something else than a [`Server`](crate::Server).
    pub async fn connect(address: SocketAddr) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError { address, source };
        let uri = Uri::builder().scheme("http").authority(address.to_string()).path_and_query(PATH).build();
        let uri = uri.map_err(|error| failed(CloudError::Unavailable { message: error.to_string() }))?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let about = About {
            name: String::new(),
            serves: Vec::new(),
            repair_policies: Vec::new(),
            adoption: ReservationAdoption::default(),
            consistency_lag: Duration::ZERO,
        };
        let mut cloud = Self { client, uri, about };
        cloud.about = cloud.call(&Call::About).await.map_err(failed)?;
        Ok(cloud)
    }

    async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        let failed = |lost| match lost {
            Lost::Sent(message) if call.is_write() => CloudError::OutcomeUnknown { message },
            Lost::Sent(message) | Lost::Unsent(message) => CloudError::Unavailable { message },
        };
        let asked = tokio::time::timeout(ANSWER, self.ask(call)).await;
        let text = asked.unwrap_or_else(|_| Err(Lost::Sent(format!("no answer within {ANSWER:?}")))).map_err(failed)?;
        let answer: Result<Result<T>, _> = serde_json::from_slice(&text);
        answer.map_err(|error| failed(Lost::Sent(format!("the answer cannot be read: {error}"))))?
    }

    async fn ask(&self, call: &Call) -> Result<Bytes, Lost> {
        let body = serde_json::to_vec(call).map_err(|error| Lost::Unsent(error.to_string()))?;
        let request = Request::post(self.uri.clone()).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| Lost::Unsent(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| {
            let message = chain(&error);
            if error.is_connect() { Lost::Unsent(message) } else { Lost::Sent(message) }
        })?;
        let status = response.status();
        let text = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let text = text.map_err(|error| Lost::Sent(format!("the answer broke off: {error}")))?.to_bytes();
        match status {
            StatusCode::OK => Ok(text),
            // Refused before anything was done.
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Err(Lost::Unsent(said(status, &text))),
            _ => Err(Lost::Sent(said(status, &text))),
        }
    }
}

fn said(status: StatusCode, text: &[u8]) -> String {
    format!("the cloud answers {status}: {}", String::from_utf8_lossy(text).trim())
}

/// An error with its causes: the first alone says nothing.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl CloudProvider for RemoteCloud {
    fn name(&self) -> &str {
        &self.about.name
    }

    fn serves(&self, node_class: &NodeClassRef) -> bool {
        self.about.serves.iter().any(|(group, kind)| *group == node_class.group && *kind == node_class.kind)
    }

    fn create<'a>(&'a self, request: &'a LaunchRequest) -> BoxFuture<'a, Result<Launched>> {
        Box::pin(async move { self.call(&Call::Create(Box::new(request.clone()))).await })
    }

    fn delete<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.call(&Call::Delete(id.clone())).await })
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<Instance>> {
        Box::pin(async move { self.call(&Call::Get(id.clone())).await })
    }

    fn list<'a>(&'a self, tags: &'a BTreeMap<String, String>) -> BoxFuture<'a, Result<Vec<Instance>>> {
        Box::pin(async move { self.call(&Call::List(tags.clone())).await })
    }

    fn interrupted(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        Box::pin(async move { self.call(&Call::Interrupted).await })
    }

    fn instance_types<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<InstanceTypes>> {
        Box::pin(async move {
            let offered: Offered = self.call(&Call::InstanceTypes(node_class.clone())).await?;
            offered.read().map_err(|message| CloudError::Unavailable { message })
        })
    }

    fn reservations<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<Vec<CapacityReservation>>> {
        Box::pin(async move { self.call(&Call::Reservations(node_class.clone())).await })
    }

    fn node_class_status<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<NodeClassStatus>> {
        Box::pin(async move { self.call(&Call::NodeClassStatus(node_class.clone())).await })
    }

    fn drift<'a>(&'a self, node_claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<Drift>>> {
        Box::pin(async move { self.call(&Call::Drift(Box::new(node_claim.clone()))).await })
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.about.repair_policies.clone()
    }

    fn reservation_adoption(&self) -> ReservationAdoption {
        self.about.adoption
    }

    fn consistency_lag(&self) -> Duration {
        self.about.consistency_lag
    }
}
