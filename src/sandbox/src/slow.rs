//! An API server whose answers take a while, as those of a real one do: what happens in one instant else happens in some order.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_apiserver::ApiServer;
use kube::Client;
use kube::client::Body;
use tower_service::Service;

/// The server, and the most that a request takes to reach it.
#[derive(Debug, Clone)]
struct Slow {
    server: ApiServer,
    most: Duration,
    dice: Arc<AtomicU64>,
}

/// A client of the server whose requests take up to `most`, by chance.
pub(crate) fn client(server: &ApiServer, most: Duration, seed: u64) -> Client {
    if most.is_zero() {
        return Client::new(server.clone(), "default");
    }
    Client::new(Slow { server: server.clone(), most, dice: Arc::new(AtomicU64::new(seed)) }, "default")
}

// === impl Slow ===

impl Slow {
    /// The next time that a request takes (SplitMix64).
    fn delay(&self) -> Duration {
        let mut bits = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let most = u64::try_from(self.most.as_nanos()).unwrap_or(u64::MAX - 1);
        Duration::from_nanos((bits ^ (bits >> 31)) % most.saturating_add(1))
    }
}

impl Service<http::Request<Body>> for Slow {
    type Response = <ApiServer as Service<http::Request<Body>>>::Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (mut server, delay) = (self.server.clone(), self.delay());
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            server.call(request).await
        })
    }
}
