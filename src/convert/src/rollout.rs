//! What a change of a workload does to the pods that it has.

use std::collections::BTreeMap;

use berth_model::{Cluster, Images, PodSpec, Sym};
use berth_surplus::Standing;
use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::admission::Admission;
use crate::draft::{Draft, Drafts};
use crate::existing::{ExistingNodes, keeps_on, runs_on};
use crate::fate::Fate;
use crate::maps::{FxIndexSet, Texts};
use crate::pod_record::PodRecord;
use crate::workloads::{Owner, Rollout, Sheds, ToldBy, Workload, WorkloadKind, Workloads};

/// What there is before the change.
pub(crate) struct Given<'a> {
    pub(crate) pods: &'a [PodRecord],
    pub(crate) owners: &'a FxIndexSet<Owner>,
    pub(crate) workloads: &'a Workloads,
    pub(crate) drafts: &'a Drafts,
    pub(crate) existing: &'a ExistingNodes,
    /// When pods go.
    pub(crate) now: Option<Timestamp>,
}

/// The pods of a workload that a change ends.
#[derive(Debug, Default)]
struct Ended {
    pods: Vec<usize>,
    /// How many others take their place.
    n_anew: usize,
}

/// Whether pods of two templates may go to the same places. Their images decide nothing but preferences.
pub(crate) fn are_placed_alike(drafts: &Drafts, a: u32, b: u32) -> bool {
    let without_images = |at: u32| {
        let Draft { spec, priority, claims, shape: _ } = drafts.get_index(at as usize)?.clone();
        Some((PodSpec { images: Images::default(), ..spec }, priority, claims))
    };
    a == b || without_images(a) == without_images(b)
}

/// Ends the pods that changes remake, so that they are planned anew, and those that are too many; says how many of which
/// workload, and whether there are any. Quotas get back what these pods used.
pub(crate) fn end(
    given: &Given<'_>,
    fates: &mut [Fate],
    admission: &mut Admission,
    (cluster, warnings): (&mut Cluster, &mut Texts),
) -> bool {
    let &Given { pods, owners, workloads, .. } = given;
    if workloads.iter().all(|workload| workload.rollout == Rollout::default()) {
        return false;
    }
    let mut all_ended = Vec::new();
    let roots: Vec<Option<usize>> = owners.iter().map(|owner| workloads.root(owner)).collect();
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (pod, fate)) in pods.iter().zip(&*fates).enumerate() {
        let root = pod.owner.and_then(|owner| roots.get(owner as usize).copied().flatten());
        if let Some(root) = root.filter(|_| *fate != Fate::Gone && !pod.is_terminating()) {
            members.entry(root).or_default().push(at);
        }
    }
    let revision_key = cluster.symbols.intern("controller-revision-hash");
    for (root, members) in members {
        let Some(workload) = workloads.get(root) else { continue };
        let (remade, kept) = given.split(workload, members, revision_key, cluster);
        let ended = match workload.kind {
            WorkloadKind::DaemonSet => given.of_daemon(workload, &remade, &kept, fates, cluster),
            _ => given.of_count(workload, remade, kept),
        };
        for at in &ended.pods {
            fates.get_mut(*at).into_iter().for_each(|fate| *fate = Fate::Gone);
        }
        tell(workload, &ended, cluster, warnings);
        all_ended.extend(ended.pods);
    }
    let ends_pods = !all_ended.is_empty();
    admission.give_back(all_ended.into_iter().filter_map(|at| pods.get(at)), given.drafts, cluster);
    ends_pods
}

fn tell(workload: &Workload, ended: &Ended, cluster: &Cluster, warnings: &mut Texts) {
    let text = |sym| cluster.symbols.text(sym);
    let whose = format!("{} {}/{}", workload.kind.name(), text(workload.namespace), text(workload.name));
    let n_anew = ended.n_anew;
    if n_anew > 0 {
        warnings.insert(format!(
            "{whose}: the change makes {n_anew} of its pods anew: its template asks nodes for something else"
        ));
    }
    let n_gone = ended.pods.len() - n_anew.min(ended.pods.len());
    if n_gone > 0 {
        let scaled = match workload.rollout.sheds {
            Sheds::UntilScaled => "; its HorizontalPodAutoscaler may add some again",
            Sheds::No | Sheds::Yes => "",
        };
        warnings.insert(format!("{whose}: the change lets {n_gone} of its pods go{scaled}"));
    }
}

// === impl Given ===

impl Given<'_> {
    /// Which of a workload's pods are of another template than it has after the change, as far as the change remakes them.
    fn split(
        &self,
        workload: &Workload,
        members: Vec<usize>,
        revision_key: Sym,
        cluster: &Cluster,
    ) -> (Vec<usize>, Vec<usize>) {
        // By template of a ReplicaSet: whether its pods are placed as this workload's.
        let mut alike: FxHashMap<u32, bool> = FxHashMap::default();
        let mut is_remade = |pod: &PodRecord| {
            let is_within = |from: u32| from == 0 || ordinal(pod).is_some_and(|number| number >= from);
            let is_changed = workload.rollout.remakes_from.is_some_and(is_within);
            match workload.rollout.told_by {
                None => is_changed,
                Some(ToldBy::Sets) => match self.set_of(pod) {
                    Some(set) => {
                        let is_alike = || are_placed_alike(self.drafts, set.draft, workload.draft);
                        !*alike.entry(set.draft).or_insert_with(is_alike)
                    }
                    None => is_changed,
                },
                Some(ToldBy::Revision(revision, (from, until))) => {
                    let is_old = || cluster.labels(pod.labels)?.get(revision_key).map(|own| own != revision);
                    let is_held = || is_within(from) && ordinal(pod).is_none_or(|number| number < until);
                    is_changed || is_held() && is_old() == Some(true)
                }
                Some(ToldBy::Requests) => is_changed || self.requests_otherwise(pod, workload),
            }
        };
        members.into_iter().partition(|at| self.pods.get(*at).is_some_and(&mut is_remade))
    }

    fn set_of(&self, pod: &PodRecord) -> Option<&Workload> {
        let set = self.workloads.get(self.workloads.find(self.owners.get_index(pod.owner? as usize)?)?)?;
        (set.kind == WorkloadKind::ReplicaSet).then_some(set)
    }

    /// Whether a pod requests something else of what the template requests. What admission adds is in the pod alone.
    fn requests_otherwise(&self, pod: &PodRecord, workload: &Workload) -> bool {
        let draft = |at: u32| self.drafts.get_index(at as usize);
        draft(pod.draft).zip(draft(workload.draft)).is_some_and(|(own, template)| {
            let mut asked = template.spec.requests.iter();
            asked.any(|(resource, amount)| own.spec.requests.get(resource) != amount)
        })
    }

    /// Of a DaemonSet: another pod comes where the template lets it, and none stays where it does not.
    fn of_daemon(
        &self,
        workload: &Workload,
        remade: &[usize],
        kept: &[usize],
        fates: &[Fate],
        cluster: &Cluster,
    ) -> Ended {
        let mut ended = Ended::default();
        let Some(Draft { spec, .. }) = self.drafts.get_index(workload.draft as usize) else { return ended };
        let node_of = |at: usize| match fates.get(at) {
            Some(Fate::Bound(position)) => self.existing.node(*position),
            _ => None,
        };
        for &at in remade {
            let comes = node_of(at).is_none_or(|node| runs_on(spec, node, &cluster.symbols));
            ended.n_anew += usize::from(comes);
            ended.pods.push(at);
        }
        if workload.rollout.sheds != Sheds::No {
            let goes = |at: &usize| node_of(*at).is_some_and(|node| !keeps_on(spec, node, &cluster.symbols));
            ended.pods.extend(kept.iter().copied().filter(goes));
        }
        ended
    }

    /// Of a workload that wants so many pods: others take the place of those that are remade, as far as it wants them.
    fn of_count(&self, workload: &Workload, remade: Vec<usize>, kept: Vec<usize>) -> Ended {
        let n_kept = kept.len();
        let surplus =
            if workload.rollout.sheds == Sheds::No { Vec::new() } else { surplus(workload, kept, self.pods, self.now) };
        let wanted = usize::try_from(workload.wants).unwrap_or(usize::MAX).saturating_sub(n_kept - surplus.len());
        let n_anew = remade.len().min(wanted);
        Ended { pods: remade.into_iter().chain(surplus).collect(), n_anew }
    }
}

/// Those that are more than a workload wants: of a StatefulSet by ordinal, else those that its controller lets go first.
fn surplus(workload: &Workload, mut kept: Vec<usize>, pods: &[PodRecord], now: Option<Timestamp>) -> Vec<usize> {
    if workload.kind == WorkloadKind::StatefulSet {
        let wanted = workload.first..workload.first.saturating_add(workload.wants);
        kept.retain(|at| pods.get(*at).and_then(ordinal).is_some_and(|number| !wanted.contains(&number)));
        return kept;
    }
    let is_job = workload.kind == WorkloadKind::Job;
    let mut beside: FxHashMap<Sym, usize> = FxHashMap::default();
    for node in kept.iter().filter_map(|at| pods.get(*at)?.node) {
        *beside.entry(node).or_default() += 1;
    }
    kept.sort_by_cached_key(|at| {
        let pod = pods.get(*at)?;
        let beside = pod.node.and_then(|node| beside.get(&node)).copied().unwrap_or(0);
        let standing = pod.standing.as_deref().copied().unwrap_or_default();
        // A Job's pods cost the same, wherever they are.
        let rank = if is_job { Standing { cost: 0, ..standing }.rank(0, None) } else { standing.rank(beside, now) };
        Some((rank, pod.uid.clone(), &pod.name))
    });
    let count = kept.len().saturating_sub(usize::try_from(workload.wants).unwrap_or(usize::MAX));
    kept.truncate(count);
    kept
}

/// The number at the end of a pod's name.
pub(crate) fn ordinal(pod: &PodRecord) -> Option<u32> {
    pod.name.rsplit_once('-')?.1.parse().ok()
}
