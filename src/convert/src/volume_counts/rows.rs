//! Rows of pods, split by what becomes of their specs.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{Cluster, LabelsId, MemberKind, MemberRun, PendingRow, PodSpec, Refusal, Requirements, SpecId, Sym};
use rustc_hash::FxHashMap;

use super::{Change, Pod};
use crate::claims::NO_VOLUME_TO_BIND;
use crate::maps::FxIndexMap;

/// Splits rows so that each has the pods whose spec changes alike.
pub(super) fn change_rows(pods: &[Pod], changes: Vec<Change>, places: &[Vec<Requirements>], cluster: &mut Cluster) {
    let mut specs: FxHashMap<(SpecId, Change), SpecId> = FxHashMap::default();
    let mut by_member: FxHashMap<(usize, usize, Option<u32>), SpecId> = FxHashMap::default();
    let mut split: BTreeSet<usize> = BTreeSet::new();
    for (pod, change) in pods.iter().zip(changes).filter(|(_, change)| *change != Change::default()) {
        let key = (pod.spec, change);
        let spec = if let Some(known) = specs.get(&key) {
            *known
        } else {
            let Some(spec) = cluster.spec(pod.spec).map(|spec| with_change(spec, &key.1, places)) else { continue };
            let spec = cluster.intern_spec(spec);
            *specs.entry(key).or_insert(spec)
        };
        by_member.insert((pod.row, pod.run, pod.number), spec);
        split.insert(pod.row);
    }
    if split.is_empty() {
        return;
    }
    let mut rows: FxIndexMap<(MemberKind, Sym, SpecId, LabelsId), Vec<MemberRun>> = FxIndexMap::default();
    for (at, row) in std::mem::take(&mut cluster.pending).into_iter().enumerate() {
        let key = |spec| (row.kind, row.namespace, spec, row.labels);
        if !split.contains(&at) {
            rows.entry(key(row.spec)).or_default().extend(row.members);
            continue;
        }
        for (run, members) in row.members.iter().enumerate() {
            let (first, count) = members.numbers.unwrap_or((0, 1));
            for number in first..first.saturating_add(count) {
                let number = members.numbers.map(|_| number);
                let spec = by_member.get(&(at, run, number)).copied().unwrap_or(row.spec);
                add_one(rows.entry(key(spec)).or_default(), members, number);
            }
        }
    }
    let rows = rows.into_iter().map(|((kind, namespace, spec, labels), members)| PendingRow {
        kind,
        namespace,
        spec,
        labels,
        members,
    });
    cluster.set_pending(rows.collect());
}

/// Adds one of a run to these, to the last of them where it comes next.
fn add_one(members: &mut Vec<MemberRun>, run: &MemberRun, number: Option<u32>) {
    if let (Some(number), Some(last)) = (number, members.last_mut())
        && let Some((first, count)) = &mut last.numbers
        && last.name == run.name
        && first.checked_add(*count) == Some(number)
    {
        *count += 1;
        return;
    }
    members.push(MemberRun { name: Arc::clone(&run.name), numbers: number.map(|number| (number, 1)) });
}

fn with_change(spec: &PodSpec, change: &Change, places: &[Vec<Requirements>]) -> PodSpec {
    let mut spec = spec.clone();
    spec.volumes.kept.clone_from(&change.kept);
    if let Some(offered) = &change.places {
        let mut terms: Vec<Requirements> = offered.iter().filter_map(|at| places.get(*at)).flatten().cloned().collect();
        terms.sort_unstable();
        terms.dedup();
        if terms.is_empty() {
            spec.refusal.get_or_insert(Refusal(NO_VOLUME_TO_BIND.to_owned()));
        } else {
            spec.volumes.unbound.push(terms);
            spec.volumes.unbound.sort_unstable();
            spec.volumes.unbound.dedup();
        }
    }
    spec
}
