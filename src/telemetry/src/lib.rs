//! What a running Berth tells of itself: logs on standard error, and metrics and health over HTTP.
//!
//! [`text`] writes metrics in the OpenMetrics format, [`Server`] serves them, and [`log_to_stderr`] starts the log. Nothing
//! in it measures: the controllers count, and this asks them.
//!
//! ```
//! use berth_controllers::metrics::{Metric, Values};
//!
//! let values = Values::Counter(vec![(vec![("nodepool", "web".to_owned())], 3)]);
//! let metric = Metric { name: "karpenter_nodeclaims_created", help: "NodeClaims created", values };
//! assert!(berth_telemetry::text(vec![metric]).contains("karpenter_nodeclaims_created_total{nodepool=\"web\"} 3\n"));
//! ```

mod json;
mod log;
mod server;
mod text;

pub use log::{Format, LevelFilter, log_to_stderr};
pub use server::{ServeError, Server};
pub use text::text;
