//! The pods that workloads still want.

use std::ops::Range;

use berth_model::{Cluster, LabelsId, MemberKind, MemberRun, ResourceId, SpecId};
use rustc_hash::FxHashSet;

use crate::admission::Admitted;
use crate::controller_labels::ControllerLabels;
use crate::maps::Texts;
use crate::ownership::{Ownership, Who};
use crate::resolve::Resolver;
use crate::workloads::{Children, Workload, WorkloadKind, Workloads};

/// What pods of workloads are added to.
pub(crate) struct Expanding<'a> {
    labels: &'a ControllerLabels,
    resolver: &'a mut Resolver,
    ownership: &'a mut Ownership,
    cluster: &'a mut Cluster,
    warnings: &'a mut Texts,
}

/// A workload whose pods are added, its name, and the index of the pod that has the number 0.
#[derive(Clone, Copy)]
struct Of<'a> {
    workload: &'a Workload,
    name: &'a str,
    first: u32,
}

// === impl Expanding ===

impl<'a> Expanding<'a> {
    pub(crate) fn new(
        (labels, resolver, ownership): (&'a ControllerLabels, &'a mut Resolver, &'a mut Ownership),
        cluster: &'a mut Cluster,
        warnings: &'a mut Texts,
    ) -> Self {
        Expanding { labels, resolver, ownership, cluster, warnings }
    }

    /// Adds the pods that workloads want beside those that they have.
    pub(crate) fn expand(mut self, workloads: &Workloads, (children, admitted): (&[Children], &Admitted)) {
        let are_expanded = workloads.are_expanded();
        for (at, ((workload, children), is_expanded)) in workloads.iter().zip(children).zip(are_expanded).enumerate() {
            if !is_expanded {
                continue;
            }
            let name = self.cluster.symbols.text(workload.name).to_owned();
            let (first, count) = if workload.kind == WorkloadKind::StatefulSet {
                (workload.first, workload.wants)
            } else {
                (0, workload.wants.saturating_sub(children.count))
            };
            let all = first..first.saturating_add(count);
            let ranges = without(all, &children.ordinals);
            let wanted = ranges.iter().map(|range| range.end - range.start).fold(0_u32, u32::saturating_add);
            let first = workload.job.first_index.map_or(0, |index| index.saturating_add(children.count));
            self.add_ranges(Of { workload, name: &name, first }, ranges, admitted.of(at, wanted));
        }
        warn_of_empty_requests(self.cluster, self.warnings);
    }

    /// Adds the first so many of these numbers.
    fn add_ranges(&mut self, of: Of<'_>, ranges: Vec<Range<u32>>, mut left: u32) {
        let Of { workload, name, first } = of;
        let is_per_pod = self.resolver.is_per_pod(workload.draft) || self.labels.is_per_pod(workload, self.cluster);
        let mut named = self.ownership.named_members(workload.namespace, name, self.cluster);
        named.append(&mut self.labels.numbers(workload, name, first, self.cluster));
        for range in ranges {
            let range = range.start..range.end.min(range.start.saturating_add(left));
            left = left.saturating_sub(range.end - range.start);
            if is_per_pod {
                range.for_each(|number| self.add_one(of, number));
                continue;
            }
            let mut next = range.start;
            for &number in named.range(range.clone()) {
                self.add_range(of, next..number);
                self.add_one(of, number);
                next = number.saturating_add(1);
            }
            self.add_range(of, next..range.end);
        }
    }

    /// Adds pods that differ in nothing but their number.
    fn add_range(&mut self, of: Of<'_>, numbers: Range<u32>) {
        if numbers.is_empty() {
            return;
        }
        let labels = self.labels.of_number(of.workload, (of.name, None), self.cluster);
        self.add(of, of.name, labels, (numbers.start, numbers.end - numbers.start));
    }

    /// Adds the pod of one number, to the run that ends before it where they are alike.
    fn add_one(&mut self, of: Of<'_>, number: u32) {
        let index = number.saturating_add(of.first);
        let labels = self.labels.of_number(of.workload, (of.name, Some(index)), self.cluster);
        self.add(of, &format!("{}-{number}", of.name), labels, (number, 1));
    }

    /// Adds so many pods from a number on, all of which are as the one of this name.
    fn add(&mut self, Of { workload, name, .. }: Of<'_>, pod: &str, labels: LabelsId, numbers: (u32, u32)) {
        let &Workload { draft, namespace, references, .. } = workload;
        let spec = self.resolver.pending(draft, namespace, pod, self.cluster, self.warnings);
        let who = Who { namespace, name: pod, uid: None, labels, references };
        let spec = self.ownership.spec_for(spec, who, self.cluster);
        let labels = self.ownership.labels_for(who, self.cluster);
        add_run(workload, name, (spec, labels), numbers, self.cluster);
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
fn warn_of_empty_requests(cluster: &Cluster, warnings: &mut Texts) {
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
