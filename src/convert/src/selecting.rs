//! The selectors of Services and controllers, as they are read.

use berth_model::{Labels, Requirements, Sym};

use crate::maps::FxIndexMap;
use crate::workloads::WorkloadKind;

/// A controller: kind, namespace and name.
pub(crate) type ControllerId = (WorkloadKind, Sym, Sym);

/// What a controller selects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selected {
    /// Labels that take the place of those that Services name: a ReplicationController's.
    Labels(Labels),
    /// Requirements beside what Services name.
    Requirements(Requirements),
}

/// The selectors of Services and controllers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selecting {
    /// By namespace and name. Those that select nothing are left out.
    pub(crate) services: FxIndexMap<(Sym, Sym), Labels>,
    pub(crate) controllers: FxIndexMap<ControllerId, Selected>,
}
