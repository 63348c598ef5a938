//! Pod classes: pods that no rule can tell apart.

use super::topology::{Constraint, Counter, CounterId, FilterId, NodeFilter};
use crate::cluster::listed;
use crate::{Cluster, Daemon, Labels, LabelsId, MemberKind, PendingRow, ReservationId, RowId, SpecId, Sym};

/// An index into [`Universe::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a class would like, weighted where Kubernetes weighs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preferences {
    /// Preferred pod affinity.
    pub affinity: Vec<(i32, Constraint)>,
    /// Preferred pod anti-affinity.
    pub anti_affinity: Vec<(i32, Constraint)>,
    /// `ScheduleAnyway` spread.
    pub spread: Vec<Constraint>,
    /// The same of pods without spread constraints of their own, by the scheduler's configuration. Only scores of nodes that
    /// exist look at it. Empty unless the universe was made with scores.
    pub default_spread: Vec<Constraint>,
}

/// Pods that are alike in everything that placement can see.
#[derive(Clone, Debug)]
pub struct PodClass {
    /// Pods or pending Reservations.
    pub kind: MemberKind,
    /// Index into [`Cluster::specs`].
    pub spec: SpecId,
    /// How many are pending; 0 for a class that only runs.
    pub count: u32,
    /// The rows of [`Cluster::pending`] that it is made of, in input order.
    pub rows: Vec<RowId>,
    /// The counters in which each of its pods counts, ascending.
    pub counts_in: Vec<CounterId>,
    /// What must hold.
    pub required: Vec<Constraint>,
    /// What would be good.
    pub preferred: Preferences,
    /// The counters of [`Counter::pull`] in which each of its pods counts, ascending. Empty unless the universe was
    /// made with scores.
    pub weighs_in: Vec<CounterId>,
    /// What draws its pods to a domain: each pod of the counter there, with this weight; ascending by counter. Its own
    /// preferred affinity, and the affinity of others that matches it. Empty unless the universe was made with scores.
    pub drawn: Vec<(CounterId, i64)>,
}

/// What the pods of a cluster reduce to.
#[derive(Clone, Debug, Default)]
pub struct Universe {
    /// The classes; those of [`Cluster::pending`] in order of first appearance, then those that stand in for
    /// Reservations, then those that only run.
    pub classes: Vec<PodClass>,
    /// The counters that some constraint reads.
    pub counters: Vec<Counter>,
    /// The node filters of counters.
    pub filters: Vec<NodeFilter>,
    /// The class of every bound pod, by node and position in [`crate::Node::pods`].
    pub bound: Vec<Vec<ClassId>>,
    /// The class of the pod that stands in for a Reservation, by index into [`Cluster::reservations`]; `None` where its
    /// template is not known.
    pub reserved: Vec<Option<ClassId>>,
    /// The class of the pods of a DaemonSet, by index into [`Cluster::daemons`].
    pub daemons: Vec<ClassId>,
}

/// Who a class is made from: kind, namespace, spec, labels.
pub(super) type SpecAndLabels = (MemberKind, Sym, SpecId, LabelsId);

pub(super) fn labels_of(cluster: &Cluster, id: LabelsId) -> &Labels {
    static NONE: std::sync::OnceLock<Labels> = std::sync::OnceLock::new();
    cluster.labels(id).unwrap_or_else(|| NONE.get_or_init(Labels::default))
}

/// What the pods of a DaemonSet are made from, on the nodes where they run.
pub(super) fn of_daemon(daemon: &Daemon) -> SpecAndLabels {
    (MemberKind::Pod, daemon.namespace, daemon.spec, daemon.labels)
}

impl PodClass {
    /// Its pods are pending in this row, too.
    pub(super) fn add_row(&mut self, index: RowId, row: &PendingRow) {
        let count = row.members.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len()));
        self.count = self.count.saturating_add(count);
        self.rows.push(index);
    }
}

impl Universe {
    /// The class of an id.
    pub fn class(&self, id: ClassId) -> Option<&PodClass> {
        listed(&self.classes, id.index(), "class")
    }

    /// The class of the pod that stands in for a Reservation; `None` where its template is not known.
    pub fn reserved(&self, id: ReservationId) -> Option<ClassId> {
        listed(&self.reserved, id.index(), "Reservation").copied().flatten()
    }

    /// The counter of an id.
    pub fn counter(&self, id: CounterId) -> Option<&Counter> {
        listed(&self.counters, id.index(), "counter")
    }

    /// The node filter of an id.
    pub fn filter(&self, id: FilterId) -> Option<&NodeFilter> {
        listed(&self.filters, id.index(), "node filter")
    }
}
