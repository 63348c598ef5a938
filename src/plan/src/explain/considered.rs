//! What every node and offering says to one pod, and what it would say to that pod with one wish less.

use std::collections::BTreeMap;

use berth_decisions::quantities;
use berth_model::{
    ClassId, Cluster, LabelsId, MemberKind, MemberRun, Node, PendingRow, PodSpec, ResourceId, Resources, SpecId, Sym,
    Toleration, TolerationOperator, Universe, Volumes,
};
use berth_provisioning::{Considered, Options, Refusal, consider, launchable};
use berth_quantity::Quantity;
use berth_scheduling::reasons::NO_TYPE;
use berth_scheduling::reservation::{Seeker, may_draw_from};
use berth_scheduling::{Scheduler, Verdict, is_of_one_node};

use super::{Admitting, Change, Explanation, NodesSay, Obstacle, PoolSays};
use crate::outcome::Outcome;
use crate::pool_hints::PoolHints;
use crate::{FeatureGates, decimal};

/// Names that a reason or a change lists.
const EXAMPLES: usize = 3;

/// Why no node is launched for a pod that could run on it.
const NOT_LAUNCHED_FOR: &str = "no node is launched for a pod that has to draw from a Reservation";

/// Who is asked for.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: MemberKind,
    pub(super) namespace: Sym,
    pub(super) spec: SpecId,
    pub(super) labels: LabelsId,
}

/// Writes into the explanation what nodes and NodePools say; changes only where `has_place` is not set.
pub(super) fn consider_all(
    cluster: &mut Cluster,
    gates: &FeatureGates,
    outcome: &Outcome,
    options: &Options,
    subject: &Subject,
    story: &mut Explanation,
) {
    let Some(spec) = cluster.spec(subject.spec).cloned() else { return };
    let is_of_one_node = is_of_one_node(cluster, &spec);
    let mut wishes = if story.has_place { Vec::new() } else { with_one_wish_less(cluster, &spec) };
    if is_of_one_node {
        // Which node that is, its controller says.
        wishes.retain(|(wish, _)| !matches!(wish, Wish::Other(NODE_AFFINITY)));
    }
    let apart = wishes.iter().position(|(wish, _)| matches!(wish, Wish::Other(ANTI_AFFINITY)));
    let apart = apart.map(|at| wishes.remove(at));
    let asked = Asked { outcome, options, is_of_one_node };
    let own = add_row(cluster, subject, subject.spec);
    let mut rows = Vec::new();
    for (wish, spec) in wishes {
        let spec = cluster.intern_spec(spec);
        rows.push((wish, add_row(cluster, subject, spec)));
    }
    let universe = Universe::with_scores(cluster);
    let mut scheduler = Scheduler::new(cluster, &universe, launchable(cluster, &universe));
    let Some(class) = class_of(&universe, own) else { return };
    story.nodes = nodes_say(&mut scheduler, outcome.n_there, cluster, class);
    let mut considered = consider(cluster, &universe, class, options, &outcome.taken);
    if must_draw(cluster, subject.spec) {
        considered.iter_mut().for_each(launch_none);
    } else if !story.has_place && !is_of_one_node {
        story.changes.extend(considered.iter().flat_map(|pool| changes_of(cluster, pool)));
    }
    if !is_of_one_node {
        story.node_pools = pools_say(cluster, gates, considered);
    }
    asked.say((&*cluster, &universe, &mut scheduler), &spec, rows, story);
    let Some((wish, changed)) = apart else { return };
    // Those who are alike change with it, and keep nobody off any more.
    cluster.pending.truncate(own);
    let changed = cluster.intern_spec(changed);
    let is_alike = |row: &&mut PendingRow| {
        (row.kind, row.namespace, row.spec, row.labels)
            == (subject.kind, subject.namespace, subject.spec, subject.labels)
    };
    cluster.pending.iter_mut().filter(is_alike).for_each(|row| row.spec = changed);
    let rows = vec![(wish, add_row(cluster, subject, changed))];
    let universe = Universe::with_scores(cluster);
    let mut scheduler = Scheduler::new(cluster, &universe, launchable(cluster, &universe));
    asked.say((&*cluster, &universe, &mut scheduler), &spec, rows, story);
}

/// How changes are asked about.
struct Asked<'a> {
    outcome: &'a Outcome,
    options: &'a Options,
    /// No new node is the one that it may go to.
    is_of_one_node: bool,
}

impl Asked<'_> {
    /// Writes into the explanation which changes of a spec would do.
    fn say(
        &self,
        (cluster, universe, scheduler): (&Cluster, &Universe, &mut Scheduler<'_>),
        spec: &PodSpec,
        rows: Vec<(Wish, usize)>,
        story: &mut Explanation,
    ) {
        for (wish, row) in rows {
            let Some(class) = class_of(universe, row) else { continue };
            let nodes = admitting(scheduler, cluster, class);
            let must_draw = cluster.pending.get(row).is_some_and(|row| must_draw(cluster, row.spec));
            let offerings = match wish {
                Wish::Other(_) if !must_draw && !self.is_of_one_node => {
                    let pools = consider(cluster, universe, class, self.options, &self.outcome.taken);
                    pools.iter().map(|pool| pool.open).sum()
                }
                // How much less is said by NodePool.
                _ => 0,
            };
            if nodes.is_empty() && offerings == 0 {
                continue;
            }
            let what = match wish {
                Wish::Requests => nearest(cluster, spec, &nodes).unwrap_or_else(|| "it requested less".to_owned()),
                Wish::Other(text) => text.to_owned(),
            };
            let nodes = nodes.into_iter().map(|node| name_of(cluster, node)).collect();
            story.changes.push(Change { what, nodes, offerings });
        }
    }
}

fn class_of(universe: &Universe, row: usize) -> Option<ClassId> {
    let has = |class: &berth_model::PodClass| class.rows.iter().any(|known| known.index() == row);
    universe.classes.iter().position(has).and_then(|at| u32::try_from(at).ok()).map(ClassId)
}

/// Whether pods of a spec have to draw from a Reservation: they come with it, or to where it is, and nothing is launched for them.
fn must_draw(cluster: &Cluster, spec: SpecId) -> bool {
    cluster.spec(spec).is_some_and(|spec| spec.reservation.affinity.is_some())
}

fn add_row(cluster: &mut Cluster, subject: &Subject, spec: SpecId) -> usize {
    let members = vec![MemberRun { name: "explained".into(), numbers: None }];
    let Subject { kind, namespace, labels, .. } = *subject;
    cluster.pending.push(PendingRow { kind, namespace, spec, labels, members });
    cluster.pending.len() - 1
}

fn name_of(cluster: &Cluster, node: usize) -> String {
    cluster.nodes.get(node).map_or("", |node| cluster.symbols.text(node.name)).to_owned()
}

// === What nodes and offerings say ===

fn nodes_say(scheduler: &mut Scheduler<'_>, n_there: usize, cluster: &Cluster, class: ClassId) -> Vec<NodesSay> {
    let mut said: Vec<NodesSay> = Vec::new();
    for (of, is_among) in [("nodes that exist", true), ("nodes to launch", false)] {
        let mut admitting: Vec<(i64, usize)> = Vec::new();
        let mut reasons: BTreeMap<String, (u32, Vec<String>)> = BTreeMap::new();
        let mut total = 0;
        for assessment in scheduler.assess(class) {
            if (assessment.node < n_there) != is_among {
                continue;
            }
            total += 1;
            let words = match assessment.verdict {
                Verdict::Feasible(scores) => {
                    admitting.push((scores.total(), assessment.node));
                    continue;
                }
                Verdict::Refused(obstacle) => obstacle.in_words(cluster),
                Verdict::ComingUp => {
                    let goes = cluster.nodes.get(assessment.node).is_some_and(|node| node.is_leaving);
                    vec![(if goes { "node(s) are going away" } else { "node(s) are coming up" }).to_owned()]
                }
            };
            for reason in words {
                let (count, examples) = reasons.entry(reason).or_default();
                *count += 1;
                if examples.len() < EXAMPLES {
                    examples.push(name_of(cluster, assessment.node));
                }
            }
        }
        admitting.sort_by_key(|&(score, node)| (std::cmp::Reverse(score), node));
        let admitting =
            admitting.into_iter().map(|(score, node)| Admitting { node: name_of(cluster, node), score }).collect();
        let reasons = reasons.into_iter().map(|(reason, (count, examples))| Obstacle { reason, count, examples });
        let mut reasons: Vec<Obstacle> = reasons.collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        if total > 0 {
            said.push(NodesSay { of, total, admitting, reasons });
        }
    }
    said
}

fn admitting(scheduler: &mut Scheduler<'_>, cluster: &Cluster, class: ClassId) -> Vec<usize> {
    let assessments = scheduler.assess(class).into_iter();
    let feasible = assessments.filter(|assessment| matches!(assessment.verdict, Verdict::Feasible(_)));
    let mut nodes: Vec<usize> = feasible.map(|assessment| assessment.node).collect();
    nodes.sort_by_key(|&node| name_of(cluster, node));
    nodes
}

fn pools_say(cluster: &Cluster, gates: &FeatureGates, considered: Vec<Considered>) -> Vec<PoolSays> {
    let mut hints = PoolHints::new(cluster, gates);
    let said = considered.into_iter().map(|pool| {
        let node_pool = pool_name(cluster, pool.node_pool).to_owned();
        let obstacle = |(reason, count)| Obstacle { reason, count, examples: Vec::new() };
        let has_none = pool.reasons.iter().any(|refusal| refusal.reason == NO_TYPE);
        let why = if has_none { hints.of_pool(&node_pool) } else { None };
        let reasons = pool.reasons.into_iter().map(|refusal| (refusal.reason, refusal.count));
        PoolSays {
            node_pool,
            offerings: pool.offerings,
            admitting: pool.open,
            reasons: reasons.chain(why.map(|why| (why, 0))).map(obstacle).collect(),
        }
    });
    said.collect()
}

/// Of no offering a new node comes for a pod that has to draw from a Reservation.
fn launch_none(pool: &mut Considered) {
    let open = std::mem::take(&mut pool.open);
    if open > 0 {
        pool.reasons.insert(0, Refusal { reason: NOT_LAUNCHED_FOR.to_owned(), count: open });
    }
}

fn pool_name(cluster: &Cluster, pool: usize) -> &str {
    cluster.node_pools.get(pool).map_or("", |pool| cluster.symbols.text(pool.name))
}

// === What would have to change ===

/// By how much the requests would have to shrink, or the limits of a NodePool to grow, for a new node of it.
fn changes_of(cluster: &Cluster, pool: &Considered) -> Vec<Change> {
    let name = pool_name(cluster, pool.node_pool);
    let named = |id: ResourceId, amount: i64, in_words: fn(Quantity) -> String| {
        let mut resources = Resources::new();
        resources.set(id, amount);
        let named = quantities(cluster, &resources).into_iter().next().map(|(name, amount)| (name, in_words(amount)));
        // An amount of zero is none.
        let unnamed =
            || (cluster.resource_names.name(id).map_or("", |name| cluster.symbols.text(name)), "0".to_owned());
        named.unwrap_or_else(unnamed)
    };
    let smaller = pool.smaller.as_ref().map(|smaller| {
        let of_type = cluster.instance_types.get(smaller.instance_type as usize);
        let of_type = of_type.map_or("", |known| cluster.symbols.text(known.name));
        let amounts = smaller.at_most.iter().map(|&(id, amount)| named(id, amount, decimal::amount)).collect();
        let what = format!("it requested {} ({of_type} of NodePool {name} is nearest)", at_most(amounts));
        Change { what, nodes: Vec::new(), offerings: smaller.offerings }
    });
    let raised = pool.raised.as_ref().map(|raised| {
        let limits = raised.limits.iter().map(|&(id, limit, needed)| match id {
            Some(id) => {
                let (resource, needed) = named(id, needed, decimal::amount_at_least);
                let (_, limit) = named(id, limit, decimal::amount);
                format!("limits.{resource} of NodePool {name} were {needed} (it is {limit})")
            }
            None => format!("limits.nodes of NodePool {name} were {needed} (it is {limit})"),
        });
        let what = limits.collect::<Vec<_>>().join(" and ");
        Change { what, nodes: Vec::new(), offerings: raised.offerings }
    });
    smaller.into_iter().chain(raised).collect()
}

/// "2 cpu and 4Gi memory at most, and no nvidia.com/gpu".
fn at_most(amounts: Vec<(&str, String)>) -> String {
    let (none, some): (Vec<_>, Vec<_>) = amounts.into_iter().partition(|(_, amount)| amount == "0");
    let some: Vec<String> = some.into_iter().map(|(resource, amount)| format!("{amount} {resource}")).collect();
    let none: Vec<String> = none.into_iter().map(|(resource, _)| format!("no {resource}")).collect();
    match (some.is_empty(), none.is_empty()) {
        (false, true) => format!("{} at most", some.join(" and ")),
        (true, _) => none.join(" and "),
        (false, false) => format!("{} at most, and {}", some.join(" and "), none.join(" and ")),
    }
}

const NODE_AFFINITY: &str = "it had no node selector and no required node affinity";
const ANTI_AFFINITY: &str = "it had no required pod anti-affinity";

/// What a pod could do without.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Requests,
    Other(&'static str),
}

fn with_one_wish_less(cluster: &Cluster, spec: &PodSpec) -> Vec<(Wish, PodSpec)> {
    let without = |change: &dyn Fn(&mut PodSpec)| {
        let mut changed = spec.clone();
        change(&mut changed);
        changed
    };
    let anything = Toleration {
        key: None,
        operator: TolerationOperator::Exists,
        value: cluster.symbols.get("").unwrap_or(cluster.well_known.hostname),
        effect: None,
    };
    let wishes = [
        (Wish::Requests, without(&|spec| spec.requests = Resources::from_amounts(&[0, 0, 1]))),
        (Wish::Other("it tolerated the taints"), without(&|spec| spec.tolerations = vec![anything.clone()])),
        (
            Wish::Other(NODE_AFFINITY),
            without(&|spec| (spec.node_selector, spec.required_terms) = (berth_model::Requirements::new(), Vec::new())),
        ),
        (
            Wish::Other("it had no required topology spread constraint"),
            without(&|spec| spec.spread.retain(|constraint| !constraint.is_required)),
        ),
        (Wish::Other("it had no required pod affinity"), without(&|spec| spec.affinity.clear())),
        (Wish::Other(ANTI_AFFINITY), without(&|spec| spec.anti_affinity.clear())),
        (Wish::Other("it had no host ports"), without(&|spec| spec.host_ports.clear())),
        (Wish::Other("it had no volumes"), without(&|spec| spec.volumes = Volumes::default())),
        (
            Wish::Other("it did not have to draw from a Reservation"),
            without(&|spec| {
                if spec.reservation.affinity.take().is_some() {
                    spec.refusal = None;
                }
            }),
        ),
    ];
    wishes.into_iter().filter(|(_, changed)| changed != spec).collect()
}

/// How much less a pod had to request for the node that is nearest to having room, in shares of what it requests.
fn nearest(cluster: &Cluster, spec: &PodSpec, nodes: &[usize]) -> Option<String> {
    let lacks_in = |room: &Resources| {
        let mut lacks = Resources::new();
        let mut share = 0_i128;
        for (id, asked) in spec.requests.iter().filter(|(id, _)| *id != ResourceId::PODS) {
            let lack = asked.saturating_sub(room.get(id).max(0));
            if asked > 0 && lack > 0 {
                lacks.set(id, lack);
                share = share.max(i128::from(lack) * 1_000_000 / i128::from(asked));
            }
        }
        (share > 0).then_some((share, lacks))
    };
    // Where there are several rooms, as those of Reservations that are for it, the one that lacks least.
    let lacks = |node: usize| {
        let rooms = rooms_for(cluster, spec, cluster.nodes.get(node)?);
        rooms.iter().filter_map(lacks_in).min_by_key(|(share, _)| *share)
    };
    let nearest = nodes.iter().filter_map(|&node| Some((lacks(node)?, node)));
    let ((_, lacks), node) = nearest.min_by_key(|((share, _), node)| (*share, *node))?;
    let amounts = quantities(cluster, &lacks);
    let amounts: Vec<String> =
        amounts.iter().map(|(name, lack)| format!("{} less {name}", decimal::amount_at_least(*lack))).collect();
    Some(format!("it requested {} (node {} is nearest)", amounts.join(" and "), name_of(cluster, node)))
}

/// What a pod may have of a node: what is free, and with each Reservation there that is for it, what is left of that, too.
fn rooms_for(cluster: &Cluster, spec: &PodSpec, node: &Node) -> Vec<Resources> {
    let mut rooms = Vec::new();
    if spec.reservation.affinity.is_none() {
        rooms.push(node.free.clone());
    }
    for holding in &node.holdings {
        let is_owner = spec.reservation.owner_of.binary_search(&holding.reservation).is_ok();
        let known = cluster.reservation(holding.reservation);
        let seeker = Seeker { is_owner, spec };
        let draws =
            |known| may_draw_from(&seeker, known, holding, &node.labels, &cluster.symbols).is_ok() && !holding.waits;
        if !known.is_some_and(draws) {
            continue;
        }
        let available = holding.available();
        let mut room = Resources::new();
        for (id, _) in spec.requests.iter() {
            let free = if holding.restricts(id) { 0 } else { node.free.get(id).max(0) };
            room.set(id, available.get(id).saturating_add(free));
        }
        rooms.push(room);
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn none_of_a_resource_is_none_at_most() {
        let words = |amounts: &[(&'static str, &str)]| {
            at_most(amounts.iter().map(|&(resource, amount)| (resource, amount.to_owned())).collect())
        };
        assert_eq!(words(&[("cpu", "2"), ("memory", "4Gi")]), "2 cpu and 4Gi memory at most");
        assert_eq!(words(&[("nvidia.com/gpu", "0")]), "no nvidia.com/gpu");
        assert_eq!(words(&[("cpu", "2"), ("nvidia.com/gpu", "0")]), "2 cpu at most, and no nvidia.com/gpu");
    }
}
