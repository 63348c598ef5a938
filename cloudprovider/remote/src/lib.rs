//! A cloud in another process: [`Server`] serves any [`CloudProvider`](berth_cloudprovider::CloudProvider) over HTTP, and
//! [`RemoteCloud`] is one to who asks there.
//!
//! It is made for tests of processes, where Berth is killed and its cloud lives on: nobody is asked who they are, so the
//! server belongs on loopback. What is promised of a provider holds here too: a launch whose answer is lost on the way is
//! [`OutcomeUnknown`](berth_cloudprovider::CloudError::OutcomeUnknown), and one that was never sent is not.
//!
//! ```no_run
//! # async fn f(cloud: std::sync::Arc<dyn berth_cloudprovider::CloudProvider>) -> Result<(), Box<dyn std::error::Error>> {
//! use berth_cloudprovider_remote::{RemoteCloud, Server};
//!
//! let kinds = [("berth.sh".to_owned(), "FakeNodeClass".to_owned())];
//! let server = Server::start(([127, 0, 0, 1], 0).into(), cloud, kinds.to_vec()).await?;
//! let remote = RemoteCloud::connect(server.address()).await?;
//! # Ok(())
//! # }
//! ```

mod client;
mod protocol;
mod server;

pub use client::{ConnectError, RemoteCloud};
pub use server::{ServeError, Server};
