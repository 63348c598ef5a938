//! The built-in controllers of a cluster, as a client of its API server.
//!
//! What kube-controller-manager does for a cluster, [`ControllerManager`] does for one that lives in a process: workloads
//! get their pods, dependents follow their owners, namespaces are emptied, nodes are tainted, claims are bound. It knows
//! the server only through lists, watches and writes, so any API server will do.
//!
//! Each change is turned into the work that it concerns: one watch a resource feeds caches with indexes by owner, node,
//! claim and selector; a work queue holds every piece of work once; a piece of work reads what it needs and says what to
//! write. Nothing reads the whole cluster. Waiting goes by tokio's time, which may be paused, and the time that is written
//! comes from [`Options::clock`].
//!
//! ```
//! use berth_apiserver::{ApiServer, Config};
//! use berth_controller_manager::{Clock, ControllerManager, Options};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = ApiServer::new(Config::default());
//! let client = kube::Client::new(server.clone(), "default");
//! let options = Options::new(Clock::new(move || server.now()));
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let manager = ControllerManager::new(client, options);
//! let running = tokio::spawn(manager.run(async { stopped.await.unwrap_or_default() }));
//! stop.send(()).unwrap();
//! running.await.unwrap();
//! # });
//! ```
//!
//! # Deliberately different from kube-controller-manager
//!
//! - All controllers share one queue, and one piece of work is done at a time; only its requests overlap.
//! - The rate of evictions from lost nodes is not limited by zone.
//! - The volume binder is a provisioner, too: a class with a provisioner gets volumes that exist on paper. For a claim
//!   that waits for its first consumer it goes by the annotation of the selected node, as the scheduler writes it.
//! - There is no autoscaler, no mirror of Endpoints, and no controller of certificates, tokens or clouds.

mod addresses;
mod cache;
mod controllers;
mod core;
mod events;
mod garbage;
mod index;
mod intake;
mod key;
mod manager;
mod objects;
mod observe;
mod options;
mod queue;
mod resource;
mod store;
mod watches;
mod work;
mod write;

pub use crate::core::Metrics;
pub use manager::ControllerManager;
pub use options::{Clock, Controller, Controllers, Options, Timings};
