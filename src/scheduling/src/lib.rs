//! Does this class of pods fit this bin? One implementation of every filter, for nodes that exist (a bin with one
//! candidate) and for nodes to be launched (a set of instance types × zones × capacity types).
//!
//! [`Demand`] is a class with its preferences, or those that are left after relaxation, taken as requirements.
//! [`admit`] narrows a NodePool's columns to those a demand may use, [`admits_node`] asks the same of a node;
//! narrowing a set equals the union of narrowing its members. [`topology`] tells which domains are open to a demand
//! now. [`NodeFit`] says whether a node that exists has room for a pod: scheduler, planner and explanations ask that alone.
//! [`units`] chooses CPUs and devices one by one. [`filter`] says which of kube-scheduler's filters refuses a pod on a node, and why; [`score`] has its scores.
//!
//! [`Scheduler`] decides where pods go on nodes that exist: in which order, to which node, and who gives way. It follows
//! kube-scheduler's default profile with all nodes scored and ties by name, and knows no price. It changes a snapshot,
//! never a cluster: who binds and evicts is the caller.
//!
//! ```
//! use berth_model::{Cluster, MemberKind, MemberRun, PodSpec, Universe};
//! use berth_scheduling::demands;
//!
//! let mut cluster = Cluster::new();
//! let (namespace, spec) = (cluster.symbols.intern("default"), cluster.intern_spec(PodSpec::default()));
//! let labels = cluster.intern_labels(Default::default());
//! let row = cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap();
//! row.members.push(MemberRun { name: "web".into(), numbers: Some((0, 3)) });
//! let universe = Universe::new(&mut cluster);
//! assert_eq!(universe.classes[0].count, 3);
//! assert_eq!(demands(&cluster, &universe, berth_model::ClassId(0)).len(), 1, "nothing to relax");
//! ```

mod admission;
mod demand;
pub mod filter;
mod kinds;
mod node_changes;
mod node_fit;
mod node_tables;
mod node_terms;
pub mod reasons;
pub mod reservation;
mod scheduler;
pub mod score;
pub mod topology;
pub mod units;

pub use admission::{
    Admission, Passage, admit, admits_node, columns_kept_by_volumes, daemon_refusals, filter_admits_node,
    filter_passages, launch_passages,
};
pub use demand::{Apart, Demand, demands};
pub use node_fit::NodeFit;
pub use node_tables::NodeTables;
pub use node_terms::node_label;
pub use scheduler::{
    Assessment, Bindings, ComeFirst, Counted, EmptyHost, Eviction, Expected, KeptByBudgets, Launchable, Paused,
    Placement, Queue, Scheduler, Step, Trial, Verdict, Waiting, came, expect_replacements, is_of_one_node,
};
