//! The nodes of a static NodePool: so many, whatever pods need.

use berth_api::{NodeClaim, labels};
use berth_model::{
    Cluster, MemberKind, MemberRun, PodSpec, PodTerm, Requirements, Selector, Toleration, TolerationOperator, Universe,
};
use berth_provisioning::{Effort, Launching, Solution};
use berth_state::{State, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::allocation::Allocation;
use crate::answer::Answer;
use crate::assignment::Assignment;
use crate::decision::{DecideError, Launch};
use crate::options::{Options, expect_synced};

/// The NodePool of a node or a NodeClaim, by its label.
pub fn pool_of(metadata: &ObjectMeta) -> Option<&str> {
    metadata.labels.as_ref()?.get(labels::NODEPOOL).map(String::as_str)
}

/// What to launch for `count` more nodes of a static NodePool, fewer where its limits or what is on offer leave fewer: what
/// would be launched for as many pods that ask for nothing and exclude each other from their nodes. So free slots come
/// first, limits and minValues hold, and DaemonSets have room. `n_leaving` are nodes that the state does not have any more
/// and that count against limits yet.
///
/// # Errors
/// The state does not know every kind yet.
pub fn replicas(
    state: &mut State,
    pool: &str,
    (count, n_leaving): (u32, u32),
    options: &Options,
    now: Time,
) -> Result<Vec<Launch>, DecideError> {
    expect_synced(state)?;
    // Here those on their way out count against limits, too. What is launched in a what-if is a Node without a NodeClaim.
    let is_its =
        |of: &ObjectMeta| of.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL)).is_some_and(|name| name == pool);
    let n_claims = state.all::<NodeClaim>().filter(|claim| is_its(&claim.metadata)).count();
    let n_nodes = state.nodes().filter(|node| node.label(labels::NODEPOOL) == Some(pool)).count();
    let n_all = u32::try_from(n_claims.max(n_nodes)).unwrap_or(u32::MAX).saturating_add(n_leaving);
    let (cluster, universe, solution) = plan_replicas(state.cluster(now), pool, (count, n_all), &options.solve);
    let allocation = Allocation::default();
    let answer = Answer { state, options, cluster: &cluster, allocation: &allocation };
    let assignment = Assignment::new(&cluster, &universe, &solution);
    let mut launches = Vec::new();
    for (at, (claims, shares)) in solution.claims.iter().zip(&assignment.claims).enumerate() {
        for copy in 0..claims.count {
            let launch = answer.launch(&assignment, claims, shares, (at, copy));
            launches.push(Launch { pods: Vec::new(), ..launch });
        }
    }
    Ok(launches)
}

/// The same of a cluster in which so many nodes count against the limits of the NodePool: the claims of the solution, and the
/// cluster that these are of. That one has no nodes, and everything else at the same index.
pub fn plan_replicas(
    cluster: &Cluster,
    pool: &str,
    (count, n_there): (u32, u32),
    options: &berth_provisioning::Options,
) -> (Cluster, Universe, Solution) {
    let mut cluster = cluster.without_nodes();
    let symbols = &cluster.symbols;
    let is_meant = |other: &berth_model::NodePool| symbols.text(other.name) == pool;
    // Pods launch nothing of it; every other NodePool has no say here.
    let refused: Vec<bool> = cluster.node_pools.iter().map(|other| !is_meant(other)).collect();
    for (other, is_refused) in cluster.node_pools.iter_mut().zip(refused) {
        other.refusal = is_refused.then(String::new);
        other.nodes = n_there;
    }
    cluster.reservations.clear();
    let none = cluster.symbols.intern("");
    let spec = PodSpec {
        tolerations: vec![Toleration { key: None, operator: TolerationOperator::Exists, value: none, effect: None }],
        anti_affinity: vec![PodTerm {
            key: cluster.symbols.intern(labels::HOSTNAME),
            selector: Selector { requirements: Some(Requirements::new()) },
            namespaces: Vec::new(),
            namespace_selector: None,
            match_label_keys: Vec::new(),
            mismatch_label_keys: Vec::new(),
        }],
        ..PodSpec::default()
    };
    let (spec, own_labels) = (cluster.intern_spec(spec), cluster.intern_labels(berth_model::Labels::default()));
    if let Some(row) = cluster.pending_row(MemberKind::Pod, none, spec, own_labels) {
        row.members.push(MemberRun { name: pool.into(), numbers: Some((0, count)) });
    }
    let mut options = options.clone();
    (options.effort, options.bound, options.what_restrictions_cost) = (Effort::Low, false, false);
    options.max_shares.clear();
    let launching = Launching::new(&cluster);
    let (universe, solution) = berth_provisioning::solve_with(&mut cluster, &options, &launching);
    (cluster, universe, solution)
}
