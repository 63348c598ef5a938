//! Volumes that are there, counted one by one: each claim of a pod that waits is to find one of its own.
//!
//! Volumes of single nodes are pools that these nodes have, and as many pods as a pool has volumes come to its node. Others, of
//! zones for the most part, may be used on nodes that are still to be launched. Where these are scarce they are shared out among
//! the pods beforehand, so that no volume is offered to two.

mod domains;
mod pools;
mod rows;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Cluster, MemberKind, MemberRun, Requirements, SpecId, Sym};
use rustc_hash::FxHashMap;

use crate::claims::{Free, Question, Storage, Want};
use crate::maps::FxIndexMap;
use pools::keep_in_pools;
use rows::change_rows;
use sharing::Sharing;

/// What pods want of volumes that are there, by namespace and name of the pod.
pub(crate) type Wanting = BTreeMap<(Sym, Box<str>), Arc<[Want]>>;

/// What is known of pods that wait beside what they want; in a plan nothing.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Where pods are to come, by namespace and name: the index of a node that is there or comes up.
    pub(crate) homes: BTreeMap<(Sym, Box<str>), usize>,
    /// Volumes that pods will have which have their node already.
    pub(crate) taken: BTreeSet<Sym>,
    /// Pods that found no place with the volumes that they were offered before, and where the first of these was.
    pub(crate) left: Offers,
}

/// The first place that a pod was offered, by index; `None`: a volume that is nowhere in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstPlace(Option<usize>);

/// The first places that pods were offered, by namespace and name of the pod.
pub(crate) type Offers = BTreeMap<(Sym, Box<str>), FirstPlace>;

/// A pod that wants volumes that are there.
struct Pod {
    row: usize,
    run: usize,
    number: Option<u32>,
    spec: SpecId,
    priority: i32,
    /// What its claims ask for, by index.
    wants: Vec<usize>,
    /// The node that it is to come to.
    home: Option<usize>,
    /// Whether it found no place before, and where it was offered a volume then.
    left: Option<FirstPlace>,
}

/// What claims ask for, with what is free for it.
struct Asked {
    class: Sym,
    free: Arc<Free>,
    /// More claims wait for volumes of the class than some place has.
    is_scarce: bool,
    /// Each of its volumes names its node.
    is_local: bool,
}

impl Asked {
    /// Whether its volumes are counted by node.
    fn is_pooled(&self) -> bool {
        self.is_scarce && self.is_local
    }

    /// Whether its volumes are shared out beforehand.
    fn is_shared_out(&self) -> bool {
        self.is_scarce && !self.is_local
    }
}

/// What becomes of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Change {
    kept: Vec<(Sym, u32)>,
    /// Where it may be; `None`: no less than before.
    places: Option<Vec<usize>>,
}

/// Shares the volumes out among the pods of a plan, where there are too few.
pub(crate) fn share_out(wanting: &Wanting, storage: &mut Storage, cluster: &mut Cluster) {
    if let Some(scarce) = Scarce::of(wanting, &Beside::default(), storage, cluster) {
        scarce.share_out(cluster);
    }
}

/// Volumes of which there are too few for those who wait.
pub(crate) struct Scarce {
    pods: Vec<Pod>,
    asked: Vec<Asked>,
}

// === impl Scarce ===

impl Scarce {
    /// Counts what pods wait for; `None` where there is enough for all.
    pub(crate) fn of(wanting: &Wanting, beside: &Beside, storage: &mut Storage, cluster: &Cluster) -> Option<Self> {
        if wanting.is_empty() {
            return None;
        }
        let mut questions: FxIndexMap<Question, usize> = FxIndexMap::default();
        let pods = waiting(wanting, beside, &mut questions, cluster);
        let mut asked: Vec<Asked> = questions
            .keys()
            .map(|question| {
                let free = storage.free_for(question, &cluster.symbols);
                let free = if beside.taken.is_empty() { free } else { Arc::new(free.without(&beside.taken)) };
                let is_local =
                    free.anywhere.is_empty() && free.by_place.keys().all(|place| names_nodes(place, cluster));
                Asked { class: question.0, free, is_scarce: false, is_local }
            })
            .collect();
        let n_claims: Vec<usize> = questions.values().copied().collect();
        let scarce = scarce_classes(&asked, &n_claims);
        for asked in &mut asked {
            asked.is_scarce = scarce.contains(&asked.class);
        }
        (!scarce.is_empty()).then_some(Scarce { pods, asked })
    }

    /// The rows of the same cluster with pods that want any of them, by index.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> {
        let is_scarce = |want: &usize| self.asked.get(*want).is_some_and(|asked| asked.is_scarce);
        self.pods.iter().filter(move |pod| pod.wants.iter().any(is_scarce)).map(|pod| pod.row)
    }

    /// Shares them out among the pods of the same cluster, and says who was offered what.
    pub(crate) fn share_out(self, cluster: &mut Cluster) -> Offers {
        let Scarce { pods, asked } = self;
        let mut changes: Vec<Change> = pods.iter().map(|_| Change::default()).collect();
        keep_in_pools(&asked, &pods, &mut changes, cluster);
        let (places, firsts) = Sharing::new(&asked, cluster).share_out(&pods, &mut changes);
        let offers = firsts.into_iter().filter_map(|(at, first)| {
            let pod = pods.get(at)?;
            let row = cluster.pending.get(pod.row)?;
            let (run, number) = (&row.members.get(pod.run)?.name, pod.number);
            let name = number.map_or_else(|| run.as_ref().into(), |at| format!("{run}-{at}").into());
            Some(((row.namespace, name), first))
        });
        let offers = offers.collect();
        cluster.has_shared_out_volumes |= changes.iter().any(|change| change.places.is_some());
        change_rows(&pods, changes, &places, cluster);
        offers
    }
}

/// The pods that wait, in the order of their rows, and what their claims ask for, with how many do. Whose claim others use, too,
/// goes where these go and takes no volume of its own.
fn waiting(
    wanting: &Wanting,
    beside: &Beside,
    questions: &mut FxIndexMap<Question, usize>,
    cluster: &Cluster,
) -> Vec<Pod> {
    let namespaces: BTreeSet<Sym> = wanting.keys().map(|(namespace, _)| *namespace).collect();
    let mut found: Vec<(Pod, &Arc<[Want]>)> = Vec::new();
    let mut users: FxHashMap<(Sym, Sym), u32> = FxHashMap::default();
    for (row, known) in cluster.pending.iter().enumerate() {
        let Some(spec) = cluster.spec(known.spec) else { continue };
        if known.kind != MemberKind::Pod || spec.refusal.is_some() || !namespaces.contains(&known.namespace) {
            continue;
        }
        for (run, members) in known.members.iter().enumerate() {
            for (number, name) in names(members) {
                let id = (known.namespace, name);
                let Some(wants) = wanting.get(&id) else { continue };
                wants.iter().for_each(|want| *users.entry(want.claim).or_default() += 1);
                let (home, left) = (beside.homes.get(&id).copied(), beside.left.get(&id).copied());
                let wanted = Vec::new();
                let pod =
                    Pod { row, run, number, spec: known.spec, priority: spec.priority, wants: wanted, home, left };
                found.push((pod, wants));
            }
        }
    }
    let is_shared = |want: &Want| users.get(&want.claim).is_some_and(|users| *users > 1);
    let mut pods = Vec::with_capacity(found.len());
    for (mut pod, wants) in found.into_iter().filter(|(_, wants)| !wants.iter().any(is_shared)) {
        for want in wants.iter() {
            let entry = questions.entry(want.question.clone());
            pod.wants.push(entry.index());
            *entry.or_default() += 1;
        }
        pods.push(pod);
    }
    pods
}

/// The members of a run by name.
fn names(run: &MemberRun) -> impl Iterator<Item = (Option<u32>, Box<str>)> {
    let name = &run.name;
    let one = run.numbers.is_none().then(|| (None, name.as_ref().into()));
    let (first, count) = run.numbers.unwrap_or_default();
    let numbered = (first..first.saturating_add(count)).map(move |at| (Some(at), format!("{name}-{at}").into()));
    one.into_iter().chain(numbered)
}

/// Whether each alternative names nodes.
fn names_nodes(place: &[Requirements], cluster: &Cluster) -> bool {
    let own = [cluster.well_known.hostname, cluster.well_known.field_name];
    place.iter().all(|terms| terms.iter().any(|(key, asked)| own.contains(&key) && asked.finite_values().is_some()))
}

/// The classes of which more claims wait for volumes than some place has.
fn scarce_classes(asked: &[Asked], n_claims: &[usize]) -> BTreeSet<Sym> {
    let mut classes: BTreeMap<Sym, (usize, usize)> = BTreeMap::new();
    for (asked, n_claims) in asked.iter().zip(n_claims) {
        let free = &asked.free;
        let fewest = free.by_place.values().map(Vec::len).min().unwrap_or_default() + free.anywhere.len();
        let (n_of_class, least) = classes.entry(asked.class).or_insert((0, fewest));
        *n_of_class += n_claims;
        *least = fewest.min(*least);
    }
    classes.into_iter().filter(|(_, (n_claims, fewest))| n_claims > fewest).map(|(class, _)| class).collect()
}
