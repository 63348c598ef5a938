//! Who goes where: a solution speaks of classes and counts, and members are assigned in order, first to existing
//! nodes, then to claims node by node; the last ones are those that could not be placed.

use std::fmt;

use berth_model::{Assigned, ClassId, Cluster, MemberKind, MemberRun, PodClass, RowId, Universe};
use berth_provisioning::{NodePlan, Solution};

/// A run of members within its class.
#[derive(Clone, Copy)]
struct Run {
    /// The position in the class after the run's last member.
    end: u32,
    row: RowId,
    /// Which of the row's members.
    position: u32,
}

/// Members `first … first+count-1` of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The class.
    pub class: ClassId,
    /// The position of the first member in its class.
    pub first: u32,
    /// How many members.
    pub count: u32,
}

/// The members of every class, and where each part of a solution begins among them.
pub struct Assignment<'a> {
    cluster: &'a Cluster,
    classes: &'a [PodClass],
    runs: Vec<Vec<Run>>,
    /// By existing node that gets pods.
    pub nodes: Vec<Vec<Share>>,
    /// By group of claims: the shares of its first node.
    pub claims: Vec<Vec<Share>>,
    /// By entry of the unschedulable.
    pub unschedulable: Vec<Share>,
}

/// The name of a member: `ns/name` or `ns/name-3`; a Reservation, which has no namespace, is `name`.
#[derive(Clone, Copy)]
pub struct MemberName<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    number: Option<u32>,
}

impl fmt::Display for MemberName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(self.name)?;
        self.number.map_or(Ok(()), |number| write!(f, "-{number}"))
    }
}

impl serde::Serialize for MemberName<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl MemberName<'_> {
    /// The name without the namespace.
    pub fn own(self) -> String {
        MemberName { namespace: None, ..self }.to_string()
    }

    /// The number that ends it, if it has one, and the name without.
    pub fn split(self) -> (Self, Option<u32>) {
        (MemberName { number: None, ..self }, self.number)
    }
}

impl Share {
    /// The share of the `node`-th of identical nodes.
    #[must_use]
    pub fn of_node(self, node: u32) -> Share {
        Share { first: self.first.saturating_add(self.count.saturating_mul(node)), ..self }
    }
}

// === impl Assignment ===

impl<'a> Assignment<'a> {
    /// Deals out the members of a solution's classes.
    pub fn new(cluster: &'a Cluster, universe: &'a Universe, solution: &Solution) -> Self {
        let runs = universe.classes.iter().map(|class| runs_of(cluster, class)).collect();
        let mut next = vec![0_u32; universe.classes.len()];
        let mut take = |(class, count): (ClassId, u32), nodes: u32| {
            let mut share = Share { class, first: 0, count };
            if let Some(next) = next.get_mut(class.index()) {
                share.first = *next;
                *next = next.saturating_add(count.saturating_mul(nodes));
            }
            share
        };
        let mut take_all = |contents: &[(ClassId, u32)], nodes: u32| -> Vec<Share> {
            contents.iter().map(|&content| take(content, nodes)).collect()
        };
        let nodes = solution.nodes.iter().map(|node| take_all(&node.contents, 1)).collect();
        let claims = solution.claims.iter().map(|claims| take_all(&claims.contents, claims.count)).collect();
        let unschedulable = solution.unschedulable.iter().map(|left| take((left.class, left.count), 1)).collect();
        Assignment { cluster, classes: &universe.classes, runs, nodes, claims, unschedulable }
    }

    /// Whether a share is of pods or of Reservations.
    pub fn kind(&self, share: Share) -> MemberKind {
        self.classes.get(share.class.index()).map_or(MemberKind::Pod, |class| class.kind)
    }

    /// The names of a class in order: each the beginning of `count` numbered ones, or one by itself.
    pub fn names(&self, class: ClassId) -> impl Iterator<Item = (MemberName<'_>, u32)> {
        let runs = self.runs.get(class.index()).map_or(&[][..], |runs| runs);
        let mut begin = 0;
        runs.iter().filter_map(move |run| {
            let count = run.end - std::mem::replace(&mut begin, run.end);
            Some((self.member(*run, 0)?, count))
        })
    }

    /// The pods of an existing node that have CPUs and devices to themselves, with what.
    pub fn assigned<'p>(&self, node: &'p NodePlan, shares: &[Share]) -> Vec<(String, &'p Assigned)> {
        let mut assigned = Vec::new();
        for share in shares {
            let came = node.came.iter().filter(|(class, _)| *class == share.class).flat_map(|(_, came)| came);
            let named = self.members(*share).zip(came).filter(|(_, (_, own))| !own.is_empty());
            assigned.extend(named.map(|(name, (_, own))| (name.to_string(), own)));
        }
        assigned
    }

    /// The members of a share, in order.
    pub fn members(&self, share: Share) -> impl Iterator<Item = MemberName<'_>> {
        self.members_with_rows(share).map(|(name, _)| name)
    }

    /// The members of a share, in order, each with the number of its row.
    pub fn members_with_rows(&self, share: Share) -> impl Iterator<Item = (MemberName<'_>, RowId)> {
        let runs = self.runs.get(share.class.index()).map_or(&[][..], |runs| runs);
        let from = runs.partition_point(|run| run.end <= share.first);
        let mut begin = from.checked_sub(1).and_then(|before| runs.get(before)).map_or(0, |run| run.end);
        let (first, last) = (share.first, share.first.saturating_add(share.count));
        let spans = runs.iter().skip(from).map(move |run| (std::mem::replace(&mut begin, run.end), *run));
        spans.take_while(move |(begin, _)| *begin < last).flat_map(move |(begin, run)| {
            let positions = begin.max(first)..run.end.min(last);
            positions.filter_map(move |position| Some((self.member(run, position - begin)?, run.row)))
        })
    }

    fn member(&self, run: Run, offset: u32) -> Option<MemberName<'_>> {
        let row = self.cluster.row(run.row)?;
        let members: &MemberRun = row.members.get(run.position as usize)?;
        let namespace = (row.kind == MemberKind::Pod).then(|| self.cluster.symbols.text(row.namespace));
        let number = members.numbers.map(|(first, _)| first.saturating_add(offset));
        Some(MemberName { namespace, name: &members.name, number })
    }
}

fn runs_of(cluster: &Cluster, class: &PodClass) -> Vec<Run> {
    let mut end = 0_u32;
    let mut runs = Vec::new();
    for &row in &class.rows {
        let members = cluster.row(row).map_or(&[][..], |row| &row.members);
        for (position, members) in members.iter().enumerate().filter(|(_, members)| !members.is_empty()) {
            end = end.saturating_add(members.len());
            runs.push(Run { end, row, position: u32::try_from(position).unwrap_or(u32::MAX) });
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use berth_provisioning::Unschedulable;

    use super::*;

    fn run(name: &str, numbers: Option<(u32, u32)>) -> MemberRun {
        MemberRun { name: name.into(), numbers }
    }

    // One class of two rows: a single pod, three replicas from ordinal 5, and two of another namespace.
    fn one_class() -> (Cluster, Universe) {
        let mut cluster = Cluster::new();
        let spec = cluster.intern_spec(berth_model::PodSpec::default());
        let labels = cluster.intern_labels(berth_model::Labels::default());
        let (a, b) = (cluster.symbols.intern("a"), cluster.symbols.intern("b"));
        let rows = [
            (a, vec![run("web", None), run("db", Some((5, 3)))]),
            (b, vec![run("none", Some((0, 0))), run("api", Some((0, 2)))]),
        ];
        for (namespace, members) in rows {
            cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap().members = members;
        }
        let universe = Universe::new(&mut cluster);
        (cluster, universe)
    }

    fn names(assignment: &Assignment<'_>, share: Share) -> Vec<String> {
        assignment.members(share).map(|name| name.to_string()).collect()
    }

    #[test]
    fn members_are_dealt_in_order_across_rows_and_runs() {
        let (cluster, universe) = one_class();
        let class = ClassId(0);
        assert_eq!(universe.classes.len(), 1);
        let node = |node, count| NodePlan { node, contents: vec![(class, count)], came: Vec::new() };
        let left = Unschedulable { class, count: 1, reasons: Vec::new() };
        let solution =
            Solution { nodes: vec![node(0, 2), node(1, 3)], unschedulable: vec![left], ..Solution::default() };
        let assignment = Assignment::new(&cluster, &universe, &solution);
        assert_eq!(names(&assignment, assignment.nodes[0][0]), ["a/web", "a/db-5"]);
        assert_eq!(names(&assignment, assignment.nodes[1][0]), ["a/db-6", "a/db-7", "b/api-0"]);
        assert_eq!(names(&assignment, assignment.unschedulable[0]), ["b/api-1"]);
    }

    #[test]
    fn identical_nodes_take_consecutive_shares() {
        let (cluster, universe) = one_class();
        let assignment = Assignment::new(&cluster, &universe, &Solution::default());
        let share = Share { class: ClassId(0), first: 0, count: 3 };
        assert_eq!(names(&assignment, share.of_node(1)), ["a/db-7", "b/api-0", "b/api-1"]);
        assert_eq!(names(&assignment, share.of_node(2)), Vec::<String>::new());
    }
}
