//! Pods onto nodes that exist: scores worked out by hand, order, preemption.

mod mk;
mod preemption;
mod queue;
mod scores;
