//! The side of the cloud.

use std::net::SocketAddr;
use std::sync::Arc;

use berth_cloudprovider::{CloudError, CloudProvider, Result};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Serialize;

use crate::protocol::{About, Call, MAX_REQUEST, Offered, PATH};

/// Connections at a time: some processes, each with some calls side by side.
const CONNECTIONS: usize = 256;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[error("unable to listen on {address} for calls of the cloud: {source}")]
pub struct ServeError {
    address: SocketAddr,
    source: std::io::Error,
}

/// A server of a provider. It stops when it is dropped; calls that it has begun end unanswered.
#[derive(Debug)]
pub struct Server {
    listening: berth_listen::Server,
}

// === impl Server ===

impl Server {
    /// Serves a provider on an address; port 0 takes a free one. `serves` are group and kind of its node classes.
    ///
    /// # Errors
    /// Where the address cannot be listened on, or is none of loopback: callers are not asked who they are.
    pub async fn start(
        address: SocketAddr,
        cloud: Arc<dyn CloudProvider>,
        serves: Vec<(String, String)>,
    ) -> Result<Self, ServeError> {
        let failed = |source| ServeError { address, source };
        if !address.ip().is_loopback() {
            return Err(failed(std::io::Error::other("expected an address of loopback, such as 127.0.0.1:0")));
        }
        let about = About {
            name: cloud.name().to_owned(),
            serves,
            repair_policies: cloud.repair_policies(),
            adoption: cloud.reservation_adoption(),
            consistency_lag: cloud.consistency_lag(),
        };
        let own = Served { cloud, about: Arc::new(about) };
        let respond = move |request| answer(request, own.clone());
        let listening = berth_listen::Server::start(address, CONNECTIONS, respond).await.map_err(failed)?;
        Ok(Self { listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }
}

#[derive(Clone)]
struct Served {
    cloud: Arc<dyn CloudProvider>,
    about: Arc<About>,
}

async fn answer(request: Request<Incoming>, served: Served) -> Response<Full<Bytes>> {
    if request.method() != Method::POST || request.uri().path() != PATH {
        return refused(StatusCode::NOT_FOUND, "there is POST /v1 alone\n".to_owned());
    }
    let body = match Limited::new(request.into_body(), MAX_REQUEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refused(StatusCode::BAD_REQUEST, format!("unable to read the request: {error}\n")),
    };
    let call: Call = match serde_json::from_slice(&body) {
        Ok(call) => call,
        Err(error) => return refused(StatusCode::BAD_REQUEST, format!("the request is no call: {error}\n")),
    };
    // A launch that was begun is not given up with its caller, as no cloud would.
    let called = tokio::spawn(served.call(call)).await;
    match called {
        Ok(Ok(text)) => Response::new(Full::new(Bytes::from(text))),
        Ok(Err(error)) => refused(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, format!("the call ended early: {error}\n")),
    }
}

fn refused(status: StatusCode, message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(message)));
    *response.status_mut() = status;
    response
}

fn written<T: Serialize>(answer: &Result<T>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(answer)
}

// === impl Served ===

impl Served {
    async fn call(self, call: Call) -> serde_json::Result<Vec<u8>> {
        let Self { cloud, about } = self;
        match call {
            Call::About => written(&Ok::<_, CloudError>(&*about)),
            Call::Create(request) => written(&cloud.create(&request).await),
            Call::Delete(id) => written(&cloud.delete(&id).await),
            Call::Get(id) => written(&cloud.get(&id).await),
            Call::Interrupted => written(&cloud.interrupted().await),
            Call::List(tags) => written(&cloud.list(&tags).await),
            Call::InstanceTypes(class) => written(
                &cloud
                    .instance_types(&class)
                    .await
                    .and_then(|types| Offered::of(&types).map_err(|message| CloudError::Unavailable { message })),
            ),
            Call::Reservations(class) => written(&cloud.reservations(&class).await),
            Call::NodeClassStatus(class) => written(&cloud.node_class_status(&class).await),
            Call::Drift(claim) => written(&cloud.drift(&claim).await),
        }
    }
}
