//! Berth's controllers: they watch a cluster, ask the core what to do, and do it.
//!
//! Watches feed one channel; the core takes in each event, and its decisions become writes to the API server and calls
//! of the cloud, in order for each object, side by side for different ones. Controllers decide nothing that depends on
//! how pods fit: that is the core's. They speak to any API server through `kube`, and know no sandbox.
//!
//! ```no_run
//! # async fn run(client: kube::Client, cloud: std::sync::Arc<dyn berth_cloudprovider::CloudProvider>) {
//! use berth_controllers::{Clock, Controllers, Options};
//!
//! let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
//! let controllers = Controllers::new(client, cloud, clock, Options::default());
//! controllers.run(std::future::pending()).await;
//! # }
//! ```

mod claim;
mod clock;
mod core;
mod dry;
mod fence;
mod guarded;
mod kind;
mod lanes;
mod lease;
pub mod metrics;
mod notice;
mod observed;
mod options;
mod queue;
mod run;
mod view;
mod watch;
mod write;
mod writer;

pub use berth_decisions::{Effort, MaxShare, SolveOptions, parse_max_share};
pub use berth_disruption::Methods as ConsolidationMethods;
pub use berth_model::{Money, PreferencePolicy};
pub use clock::Clock;
pub use fence::{Closed, Fence};
pub use kind::{Kind, NamedObject};
pub use lease::{Candidate, LeaseOptions};
pub use options::{Ceiling, Ceilings, Options, Timings};
pub use run::Controllers;
