//! A whole cluster in one process: API server, built-in controllers, stand-in kubelets, a fake cloud, and Berth.
//!
//! [`run`] puts the parts together, applies the objects that it is given, and says in plain words what happens. Nothing
//! in it decides: what runs here goes to a real cluster as it is, and speaks to the API server through `kube` alone.
//! The cloud can be changed while it runs, by objects: `FakeNodeClass` and `FakeCapacityReservation`.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! use berth_sandbox::{Ended, Options, run};
//!
//! let options = Options { settle: true, ..Options::new("2026-01-01T00:00:00Z".parse().unwrap()) };
//! let mut said = Vec::new();
//! // An empty cluster has nothing to wait for.
//! let ended = run(options, |line| said.push(line.message.clone()), std::future::pending()).await.unwrap();
//! assert_eq!(ended, Ended::Settled);
//! # });
//! ```

mod apply;
mod bridge;
mod cluster;
mod error;
mod host;
mod machines;
mod observer;
mod options;
mod overlays;
mod parts;
mod quiet;
mod script;
mod size;
mod slow;
mod story;
#[cfg(test)]
mod tests;

pub use apply::{api_of, apply_objects};
pub use bridge::Bridge;
pub use cluster::{Ended, run};
pub use error::SandboxError;
pub use host::{Host, HostOptions};
pub use machines::node_spec;
pub use options::{Options, Reading, read_inputs};
pub use overlays::PriceSeen;
pub use parts::{Begun, Parts, PartsOptions};
pub use script::story_catalogue;
pub use story::Line;
