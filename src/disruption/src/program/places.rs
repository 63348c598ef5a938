//! Which pod of a sort takes which of the places that the program has for the sort.
//!
//! Pods of a sort ask for the same, and may have rules of their own: a spread over zones counts the pods of one Deployment.
//! The program knows nothing of that, and has room in several zones: each pod takes a place where its own rules are most likely
//! to hold, so that fewer of the decisions about a proposal have to look for another.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{BoundPod, Cluster, LabelsId, Node, PodSpec, PodTerm, SpecId, Sym};

/// Pods that no rule tells apart, by index.
pub(super) type GroupId = u32;

/// The domains of nodes that the rules of pods name, and how many pods of whom there are in each.
#[derive(Default)]
pub(super) struct Domains {
    /// The topology keys that rules name, the host name aside.
    keys: Vec<Sym>,
    /// By node, and key: its domain.
    of_bin: Vec<Vec<Option<Sym>>>,
    groups: Vec<Group>,
    ids: BTreeMap<(Sym, SpecId, LabelsId), GroupId>,
    counts: Counts,
}

/// By group, key and domain: how many pods.
type Counts = BTreeMap<(GroupId, usize, Sym), u32>;

/// The domains of a bin, by key; `None` where it is no node yet.
type Where<'d> = Option<&'d [Option<Sym>]>;

/// What rules say of the domains of a group's pods, by position of the key.
struct Group {
    /// Few of them are to be in one.
    apart: Vec<usize>,
    /// They are to be where others are.
    together: Vec<usize>,
}

/// Places that are free yet.
pub(super) struct Places<'d> {
    domains: &'d Domains,
    counts: Counts,
    /// By sort, and the domains of the bin: the bins, the last of which is taken first. Bins that are no nodes yet have no domains.
    of_sort: BTreeMap<u32, BTreeMap<Where<'d>, Vec<usize>>>,
}

// === impl Domains ===

impl Domains {
    /// By pod of a node that comes again: its group, if rules say where it may go.
    pub(super) fn groups_of(&mut self, cluster: &Cluster, pods: &[&BoundPod]) -> Vec<Option<GroupId>> {
        pods.iter().map(|pod| self.group_of(cluster, pod)).collect()
    }

    /// All groups are known: which domains nodes are in, and who is there.
    pub(super) fn count_all(&mut self, nodes: &[&Node], groups: &[Vec<Option<GroupId>>]) {
        let domains = |node: &&Node| self.keys.iter().map(|key| node.labels.get(*key)).collect();
        self.of_bin = nodes.iter().map(domains).collect();
        let mut counts = Counts::new();
        for (bin, groups) in groups.iter().enumerate() {
            groups.iter().flatten().for_each(|group| self.count(&mut counts, *group, self.of(bin), true));
        }
        self.counts = counts;
    }

    fn group_of(&mut self, cluster: &Cluster, pod: &BoundPod) -> Option<GroupId> {
        let id = pod.replaced_by?;
        let spec = cluster.spec(id).filter(|spec| has_rules(spec))?;
        let next = GroupId::try_from(self.groups.len()).ok()?;
        let known = *self.ids.entry((pod.namespace, id, pod.labels)).or_insert(next);
        if known == next {
            let group = self.group(cluster, spec);
            self.groups.push(group);
        }
        Some(known)
    }

    fn group<'c>(&mut self, cluster: &Cluster, spec: &'c PodSpec) -> Group {
        let hostname = cluster.well_known.hostname;
        let mut positions = |keys: &mut dyn Iterator<Item = Sym>| -> Vec<usize> {
            let mut found: Vec<usize> = Vec::new();
            for key in keys.filter(|key| *key != hostname) {
                let at = self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                    self.keys.push(key);
                    self.keys.len() - 1
                });
                if !found.contains(&at) {
                    found.push(at);
                }
            }
            found
        };
        let preferred = |terms: &'c [(i32, PodTerm)]| terms.iter().map(|(_, term)| term);
        let apart = spec.anti_affinity.iter().chain(preferred(&spec.preferred_anti_affinity));
        let together = spec.affinity.iter().chain(preferred(&spec.preferred_affinity));
        Group {
            apart: positions(&mut spec.spread.iter().map(|spread| spread.key).chain(apart.map(|term| term.key))),
            together: positions(&mut together.map(|term| term.key)),
        }
    }

    fn of(&self, bin: usize) -> Where<'_> {
        self.of_bin.get(bin).map(Vec::as_slice)
    }

    fn count(&self, counts: &mut Counts, id: GroupId, domains: Where<'_>, comes: bool) {
        let (Some(group), Some(domains)) = (self.groups.get(id as usize), domains) else { return };
        for &at in &group.apart {
            let Some(domain) = domains.get(at).copied().flatten() else { continue };
            let count = counts.entry((id, at, domain)).or_default();
            *count = if comes { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }
}

/// Whether rules of a spec say which domains its pods may be in, or prefer to.
fn has_rules(spec: &PodSpec) -> bool {
    spec.has_preferences() || !(spec.spread.is_empty() && spec.anti_affinity.is_empty() && spec.affinity.is_empty())
}

// === impl Places ===

impl<'d> Places<'d> {
    /// By bin: how many of which sort come to it.
    pub(super) fn new(domains: &'d Domains, moved: &[Vec<(u32, u32)>]) -> Self {
        let mut of_sort: BTreeMap<u32, BTreeMap<_, Vec<usize>>> = BTreeMap::new();
        for (bin, moved) in moved.iter().enumerate() {
            for &(sort, count) in moved {
                let there = of_sort.entry(sort).or_default().entry(domains.of(bin)).or_default();
                there.extend((0..count).map(|_| bin));
            }
        }
        Places { domains, counts: domains.counts.clone(), of_sort }
    }

    /// A pod of a group is no more on its node.
    pub(super) fn leave(&mut self, group: GroupId, bin: usize) {
        self.domains.count(&mut self.counts, group, self.domains.of(bin), false);
    }

    /// The bin that the next pod of a sort comes to, from another one; `None` where there is no place left.
    pub(super) fn take(&mut self, sort: u32, group: Option<GroupId>, from: usize) -> Option<usize> {
        let domains = self.domains;
        let of_sort = self.of_sort.get(&sort)?;
        // Those that are no nodes yet come last: the first nodes to go need none, as far as that is the same.
        let rank = |there: Where<'_>, bins: &[usize]| {
            (there.is_none(), self.rank(group, there, domains.of(from)), Reverse(bins.last().copied()))
        };
        let open = of_sort.iter().filter(|(_, bins)| !bins.is_empty());
        let there = *open.min_by_key(|(there, bins)| rank(**there, bins))?.0;
        if let Some(group) = group {
            domains.count(&mut self.counts, group, there, true);
        }
        self.of_sort.get_mut(&sort)?.get_mut(&there)?.pop()
    }

    // How many of a group are in these domains, and in how many it would be away from others: the fewer the better.
    fn rank(&self, id: Option<GroupId>, there: Where<'_>, here: Where<'_>) -> (u32, usize) {
        let group = id.and_then(|id| Some((id, self.domains.groups.get(id as usize)?)));
        let (Some((id, group)), Some(there)) = (group, there) else { return (0, 0) };
        let domain = |domains: &[Option<Sym>], at: usize| domains.get(at).copied().flatten();
        let count = |at: usize| match domain(there, at) {
            Some(domain) => self.counts.get(&(id, at, domain)).copied().unwrap_or_default(),
            // A node without the key is for none of them.
            None => u32::MAX,
        };
        let n_there = group.apart.iter().fold(0_u32, |sum, at| sum.saturating_add(count(*at)));
        let is_away = |at: &&usize| here.and_then(|here| domain(here, **at)) != domain(there, **at);
        (n_there, group.together.iter().filter(is_away).count())
    }
}
