//! A class as it is asked for: with all its preferences as requirements, and then with ever fewer.

use berth_model::{
    ClassId, Cluster, Constraint, CounterId, Effect, PodClass, PodSpec, PreferencePolicy, Requirements, SpecId, Sym,
    Universe,
};

/// A class, with the preferences that are not relaxed yet taken as requirements.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The class.
    pub class: ClassId,
    /// Index into [`Cluster::specs`].
    pub spec: SpecId,
    /// Node selector and node affinity: one of these must hold.
    pub terms: Vec<Requirements>,
    /// Whether `PreferNoSchedule` taints keep the pods off.
    pub avoids_preferred_taints: bool,
    /// Constraints on `kubernetes.io/hostname`.
    pub host: Vec<Constraint>,
    /// Constraints on other topology keys, by key.
    pub keyed: Vec<(Sym, Vec<Constraint>)>,
    /// Topology keys (other than the hostname) whose value must be decided on a bin that takes a pod, because the
    /// pod is constrained by, or counts in, a counter of that key.
    pub decided_keys: Vec<Sym>,
    /// Counters on other keys than the hostname in which a pod counts.
    pub keyed_counts: Vec<CounterId>,
    /// Counters on the hostname in which a pod counts.
    pub host_counts: Vec<CounterId>,
    /// The DaemonSets whose pods it cannot be beside.
    pub apart: Vec<Apart>,
    /// How many preferences were given up.
    pub relaxed: usize,
}

/// A DaemonSet whose pods others cannot be beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Index into [`Cluster::daemons`].
    pub daemon: u32,
    /// The label that makes the domain: nodes without it are in none.
    pub key: Sym,
    /// Whether that is by the others' own anti-affinity, or by that of the DaemonSet's pods.
    pub is_own: bool,
}

/// The demands of a class, from all preferences kept to none, in Karpenter's order of relaxation: preferred pod
/// affinity, preferred pod anti-affinity, preferred node affinity (each heaviest first), `ScheduleAnyway` spread,
/// `PreferNoSchedule` taints. (The alternatives of required node affinity need no relaxation: all are tried at once.) Where
/// preferences are ignored there is the last alone.
pub fn demands(cluster: &Cluster, universe: &Universe, id: ClassId) -> Vec<Demand> {
    let (Some(class), mut out) = (universe.class(id), Vec::new()) else { return Vec::new() };
    let Some(spec) = cluster.spec(class.spec) else { return out };
    let heaviest_first = |weighted: &[(i32, Constraint)]| {
        let mut sorted: Vec<(i32, Constraint)> = weighted.to_vec();
        sorted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        sorted.into_iter().map(|(_, constraint)| constraint).collect::<Vec<_>>()
    };
    let mut affinity = heaviest_first(&class.preferred.affinity);
    let mut anti_affinity = heaviest_first(&class.preferred.anti_affinity);
    let mut node_terms: Vec<&(i32, Requirements)> = spec.preferred_terms.iter().collect();
    node_terms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let mut spread = class.preferred.spread.clone();
    let mut avoids_preferred_taints = untolerated_preferences(cluster, spec);
    let apart = apart_from_daemons(universe, class);
    if cluster.preferences == PreferencePolicy::Ignore {
        (affinity, anti_affinity, node_terms, spread) = Default::default();
        avoids_preferred_taints = false;
    }
    loop {
        let preferred = affinity.iter().chain(&anti_affinity).chain(&spread).copied();
        let constraints = class.required.iter().copied().chain(preferred);
        let term = node_terms.first().map(|(_, term)| term);
        let mut demand = Demand {
            class: id,
            spec: class.spec,
            terms: terms(cluster, spec, term),
            avoids_preferred_taints,
            host: Vec::new(),
            keyed: Vec::new(),
            decided_keys: Vec::new(),
            keyed_counts: Vec::new(),
            host_counts: Vec::new(),
            apart: apart.clone(),
            relaxed: out.len(),
        };
        demand.sort_constraints(cluster, universe, constraints, &class.counts_in);
        out.push(demand);
        if !affinity.is_empty() {
            affinity.remove(0);
        } else if !anti_affinity.is_empty() {
            anti_affinity.remove(0);
        } else if !node_terms.is_empty() {
            node_terms.remove(0);
        } else if !spread.is_empty() {
            spread.remove(0);
        } else if avoids_preferred_taints {
            avoids_preferred_taints = false;
        } else {
            return out;
        }
    }
}

/// The DaemonSets whose pods a class cannot be beside, by its anti-affinity or by theirs.
fn apart_from_daemons(universe: &Universe, class: &PodClass) -> Vec<Apart> {
    let mut apart = Vec::new();
    for constraint in &class.required {
        let Constraint::AntiAffinity { counter, .. } = *constraint else { continue };
        let Some(known) = universe.counter(counter) else { continue };
        for (daemon, id) in (0..).zip(&universe.daemons) {
            let of_daemon = universe.class(*id);
            if of_daemon.is_some_and(|daemon| daemon.counts_in.binary_search(&counter).is_ok()) {
                apart.push(Apart { daemon, key: known.key, is_own: !known.counts_owners });
            }
        }
    }
    apart
}

impl Demand {
    fn sort_constraints(
        &mut self,
        cluster: &Cluster,
        universe: &Universe,
        constraints: impl Iterator<Item = Constraint>,
        counts_in: &[CounterId],
    ) {
        let key_of = |counter: CounterId| universe.counter(counter).map(|c| c.key);
        for constraint in constraints {
            match key_of(constraint.counter()) {
                Some(key) if key == cluster.well_known.hostname => self.host.push(constraint),
                Some(key) => match self.keyed.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, constraints)) => constraints.push(constraint),
                    None => self.keyed.push((key, vec![constraint])),
                },
                None => {}
            }
        }
        self.keyed.sort_by_key(|(key, _)| *key);
        self.decided_keys.extend(self.keyed.iter().map(|(key, _)| *key));
        for &counter in counts_in {
            match key_of(counter) {
                Some(key) if key == cluster.well_known.hostname => self.host_counts.push(counter),
                Some(key) => {
                    self.keyed_counts.push(counter);
                    self.decided_keys.push(key);
                }
                None => {}
            }
        }
        self.decided_keys.sort_unstable();
        self.decided_keys.dedup();
    }
}

fn terms(cluster: &Cluster, spec: &PodSpec, preferred: Option<&Requirements>) -> Vec<Requirements> {
    let mut base = spec.node_selector.clone();
    if let Some(preferred) = preferred {
        base.add_all(preferred, &cluster.symbols);
    }
    if spec.required_terms.is_empty() {
        return vec![base];
    }
    let with = |term: &Requirements| {
        let mut all = base.clone();
        all.add_all(term, &cluster.symbols);
        all
    };
    spec.required_terms.iter().map(with).collect()
}

// Whether some node or pool has a PreferNoSchedule taint that the pod does not tolerate.
fn untolerated_preferences(cluster: &Cluster, spec: &PodSpec) -> bool {
    let taints = cluster.nodes.iter().map(|node| &node.taints).chain(cluster.node_pools.iter().map(|p| &p.taints));
    taints.flatten().any(|taint| {
        taint.effect == Effect::PreferNoSchedule
            && !spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, &cluster.symbols))
    })
}
