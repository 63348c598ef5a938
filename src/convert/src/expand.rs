//! The pods that workloads still want.

use std::ops::Range;

use berth_model::{Cluster, LabelsId, MemberKind, MemberRun, ResourceId, SpecId};
use rustc_hash::FxHashSet;

use crate::admission::Admitted;
use crate::maps::FxIndexSet;
use crate::ownership::{Ownership, Who};
use crate::resolve::Resolver;
use crate::workloads::{Children, Workload, WorkloadKind, Workloads};

pub(crate) fn expand_workloads(
    workloads: &Workloads,
    (children, admitted): (&[Children], &Admitted),
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    let are_expanded = workloads.are_expanded();
    for (at, ((workload, children), is_expanded)) in workloads.iter().zip(children).zip(are_expanded).enumerate() {
        if !is_expanded {
            continue;
        }
        let name = cluster.symbols.text(workload.name).to_owned();
        let (first, count) = if workload.kind == WorkloadKind::StatefulSet {
            (workload.first, workload.wants)
        } else {
            (0, workload.wants.saturating_sub(children.count))
        };
        let all = first..first.saturating_add(count);
        let is_per_pod = resolver.is_per_pod(workload.draft);
        let named = ownership.named_members(workload.namespace, &name, cluster);
        let ranges = without(all, &children.ordinals);
        let mut left = admitted.of(
            at,
            ranges
                .iter()
                .map(ExactSizeIterator::len)
                .fold(0_u32, |sum, len| sum.saturating_add(u32::try_from(len).unwrap_or(u32::MAX))),
        );
        for range in ranges {
            let range = range.start..range.end.min(range.start.saturating_add(left));
            left = left.saturating_sub(range.end - range.start);
            if is_per_pod {
                for number in range {
                    add_one(workload, &name, number, resolver, ownership, cluster, warnings);
                }
                continue;
            }
            let mut next = range.start;
            for &number in named.range(range.clone()) {
                add_range(workload, &name, next..number, resolver, ownership, cluster, warnings);
                add_one(workload, &name, number, resolver, ownership, cluster, warnings);
                next = number.saturating_add(1);
            }
            add_range(workload, &name, next..range.end, resolver, ownership, cluster, warnings);
        }
    }
}

/// What is left of `all` without the numbers that are taken.
fn without(all: Range<u32>, taken: &FxHashSet<u32>) -> Vec<Range<u32>> {
    let mut taken: Vec<u32> = taken.iter().copied().filter(|number| all.contains(number)).collect();
    taken.sort_unstable();
    let mut left = Vec::with_capacity(taken.len() + 1);
    let mut next = all.start;
    for number in taken {
        left.push(next..number);
        next = number.saturating_add(1);
    }
    left.push(next..all.end);
    left.retain(|range| !range.is_empty());
    left
}

/// Adds pods that differ in nothing but their number.
fn add_range(
    workload: &Workload,
    name: &str,
    numbers: Range<u32>,
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    if numbers.is_empty() {
        return;
    }
    let spec = resolver.pending(workload.draft, workload.namespace, name, cluster, warnings);
    let who = member(workload, name);
    let spec = ownership.spec_for(spec, who, cluster);
    let labels = ownership.labels_for(who, cluster);
    add_run(workload, name, (spec, labels), (numbers.start, numbers.end - numbers.start), cluster);
}

/// Adds the pod of one number, to the run that ends before it where they are alike.
fn add_one(
    workload: &Workload,
    name: &str,
    number: u32,
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    let pod = format!("{name}-{number}");
    let spec = resolver.pending(workload.draft, workload.namespace, &pod, cluster, warnings);
    let who = member(workload, &pod);
    let spec = ownership.spec_for(spec, who, cluster);
    let labels = ownership.labels_for(who, cluster);
    add_run(workload, name, (spec, labels), (number, 1), cluster);
}

fn member<'a>(workload: &Workload, name: &'a str) -> Who<'a> {
    let &Workload { namespace, labels, references, .. } = workload;
    Who { namespace, name, uid: None, labels, references }
}

fn add_run(
    workload: &Workload,
    name: &str,
    (spec, labels): (SpecId, LabelsId),
    numbers: (u32, u32),
    cluster: &mut Cluster,
) {
    let row = cluster.pending_row(MemberKind::Pod, workload.namespace, spec, labels);
    let Some(row) = row else { return };
    if let Some(last) = row.members.last_mut()
        && let Some((first, count)) = &mut last.numbers
        && *last.name == *name
        && first.saturating_add(*count) == numbers.0
    {
        *count += numbers.1;
        return;
    }
    row.members.push(MemberRun { name: name.into(), numbers: Some(numbers) });
}

/// Pods that request neither CPU nor memory cost a plan nothing, and their nodes much.
pub(crate) fn warn_of_empty_requests(cluster: &Cluster, warnings: &mut FxIndexSet<String>) {
    let (mut count, mut first) = (0_u64, None);
    for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod) {
        let Some(spec) = cluster.spec(row.spec) else { continue };
        let is_empty = |id| spec.requests.get(id) == 0;
        if is_empty(ResourceId::CPU) && is_empty(ResourceId::MEMORY) && spec.refusal.is_none() {
            count += row.members.iter().map(|run| u64::from(run.len())).sum::<u64>();
            first = first.or_else(|| {
                let run = row.members.first()?;
                let number = run.numbers.map(|(number, _)| format!("-{number}")).unwrap_or_default();
                Some(format!("{}/{}{number}", cluster.symbols.text(row.namespace), run.name))
            });
        }
    }
    let Some(first) = first else { return };
    let (pods, whom) =
        if count == 1 { ("1 pod requests", first) } else { ("pods request", format!("such as {first}")) };
    let count = if count == 1 { String::new() } else { format!("{count} ") };
    warnings.insert(format!(
        "{count}{pods} neither CPU nor memory ({whom}): only the pods that a node may have limit how many share one"
    ));
}
