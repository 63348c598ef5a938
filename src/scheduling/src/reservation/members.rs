//! Pending pods by name, taken out of their rows one after another.

use std::sync::Arc;

use berth_model::{Cluster, LabelsId, MemberRun, RowId, Sym};

/// A pending pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) namespace: Sym,
    /// The name, without the namespace.
    pub(crate) name: Arc<str>,
    /// Index of its label set.
    pub(crate) labels: LabelsId,
}

impl Member {
    /// `namespace/name`.
    pub(crate) fn full_name(&self, cluster: &Cluster) -> Box<str> {
        format!("{}/{}", cluster.symbols.text(self.namespace), self.name).into()
    }
}

/// Takes the first `count` members out of rows, in order.
pub(crate) fn take(cluster: &mut Cluster, rows: &[RowId], mut count: usize) -> Vec<Member> {
    let mut taken = Vec::with_capacity(count);
    for &row in rows {
        let Some(row) = cluster.row_mut(row) else { continue };
        let mut spent = 0;
        for run in &mut row.members {
            while count > 0 && !run.is_empty() {
                let Some(name) = next_of(run) else { break };
                taken.push(Member { namespace: row.namespace, name, labels: row.labels });
                count -= 1;
                if run.numbers.is_none() {
                    // One object is taken once.
                    run.numbers = Some((0, 0));
                }
            }
            if !run.is_empty() {
                break;
            }
            spent += 1;
        }
        row.members.drain(..spent);
        if count == 0 {
            break;
        }
    }
    taken
}

fn next_of(run: &mut MemberRun) -> Option<Arc<str>> {
    match &mut run.numbers {
        None => Some(run.name.clone()),
        Some((_, 0)) => None,
        Some((first, left)) => {
            let name = format!("{}-{first}", run.name).into();
            *first = first.saturating_add(1);
            *left -= 1;
            Some(name)
        }
    }
}
