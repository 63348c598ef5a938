//! A cluster's days in virtual time: what happens when, and what it costs.
//!
//! A scenario says what a cluster begins with and what happens to it; [`Simulation::read`] reads it, [`Simulation::run`]
//! lets its time pass and answers what came of it. What runs is what goes to a real cluster: Berth's controllers beside the
//! parts of the sandbox, on a clock that goes on when nobody has anything to do. Nothing here decides, and nothing is
//! random: the same scenario gives the same bytes.

mod act;
mod chance;
mod check;
mod error;
mod kept_out;
mod load;
mod lost;
mod meter;
mod names;
mod not_made;
mod outcome;
mod population;
mod record;
mod report;
mod scenario;
mod step;
mod trace;
mod vary;
mod waits;
mod world;

pub use berth_cloudprovider_fake::cloud::{CloudEvent, FakeCloud};
pub use error::SimulateError;
pub use kube::Client;
pub use load::Simulation;
pub use outcome::{Cost, Nodes, Outcome, Pods, ReservationUse, Sample, Unplaced, WaitRow};
pub use record::{RecordOptions, Recorded, record};
pub use report::{Provenance, Report};
pub use trace::{GenerateOptions, LEAST_SERVICE_PODS, OpenbOptions, OpenbSummary, generate, open, openb};
pub use vary::{Variation, run_all, variants};
pub use world::Onlooker;
