//! Default preemption: the node where the least important pods have to go, as kube-scheduler's DefaultPreemption chooses
//! among all nodes on which their going helps.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_model::{BoundPod, ClassId, Cluster, MemberKind, PodSpec};

use super::budgets::Split;
use super::caches::Caches;
use super::eviction::Eviction;
use super::index::Index;
use super::ledger::Ledger;
use super::replace::Replacements;
use super::tables::Tables;
use super::values::{Beside, Values};
use super::victims::{Candidate, Kept, Order, Residents, VictimSearch, above_least, is_about_amounts, victims_for};
use super::world::World;
use crate::filter::Obstacle;
use crate::reservation::is_open;

/// A class that would have others go.
struct Search<'s> {
    tables: &'s Tables<'s>,
    residents: &'s Residents,
    index: &'s Index,
    values: Values,
    /// Whether amounts alone can decide where nobody has to do with its rules.
    by_amounts: bool,
    /// Whether nobody goes whom a budget keeps.
    keeps_budgets: bool,
}

/// Pods that would give way on a node to one of higher priority, and the PodDisruptionBudgets that keep them there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptByBudgets {
    /// The node, by index.
    pub node: usize,
    /// The pods that would have to go, by index into [`berth_model::Node::pods`], most important first.
    pub pods: Vec<usize>,
    /// The budgets in the way, by index into [`Cluster::budgets`].
    pub budgets: Vec<usize>,
}

/// Makes room for a pod of the class where the least important pods have to go, and evicts them; the node. `None`, and
/// nothing changes, where it does not help, or the pod never preempts. On one node alone where that is given: who was to give
/// way to a pod that is nominated there, and has not gone yet, is to be the same as before.
pub(super) fn preempt(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    replacements: &mut Replacements,
    id: ClassId,
    node: Option<usize>,
) -> Option<usize> {
    let spec = preempting(tables, id)?;
    let best = best_candidate(tables, ledger, caches, id, |search, ledger, caches| match node {
        Some(node) => search.candidate(ledger, node, None).map(|(_, candidate)| candidate),
        None => search.best(ledger, &mut caches.kept),
    });
    let Candidate { node, victims, .. } = best?;
    for pod in victims {
        let eviction = Eviction { node, pod };
        ledger.budgets.charge(tables.cluster, eviction);
        ledger.evict(tables, eviction);
        replacements.expect_again(tables, eviction);
    }
    // Room held for pods of lower priority may be gone.
    let lower = |held: &&ClassId| tables.class_and_spec(**held).is_some_and(|(_, held)| held.priority < spec.priority);
    let gone: Vec<ClassId> = ledger.nominated.get(&node).into_iter().flatten().filter(lower).copied().collect();
    for held in gone {
        ledger.withdraw(held, node);
    }
    Some(node)
}

/// Who would give way to a pod of a class but for PodDisruptionBudgets; see [`super::Scheduler::kept_by_budgets`].
pub(super) fn kept_by_budgets(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    id: ClassId,
) -> Option<KeptByBudgets> {
    preempting(tables, id)?;
    let are_kept = std::mem::replace(&mut ledger.budgets.are_kept, true);
    let best = best_candidate(tables, ledger, caches, id, |search, ledger, _| {
        Search { keeps_budgets: false, ..search }.best(ledger, &mut None)
    });
    let kept = best.filter(|best| best.violations > 0).map(|Candidate { node, victims, .. }| {
        let budgets = ledger.budgets.violated(tables.cluster, node, &victims);
        KeptByBudgets { node, pods: victims, budgets }
    });
    ledger.budgets.are_kept = are_kept;
    kept
}

/// What a class asks for whose pods may make others give way, of whom there are some.
fn preempting<'a>(tables: &Tables<'a>, id: ClassId) -> Option<&'a PodSpec> {
    let (class, spec) = tables.class_and_spec(id)?;
    let is_reservation = class.kind == MemberKind::Reservation;
    if spec.never_preempts || (is_reservation && !tables.rules.preempts) || !is_open(spec) {
        return None;
    }
    Some(spec)
}

/// What a search for a class finds.
fn best_candidate(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    id: ClassId,
    search_in: impl FnOnce(Search<'_>, &mut Ledger, &mut Caches) -> Option<Candidate>,
) -> Option<Candidate> {
    let (_, spec) = tables.class_and_spec(id)?;
    // Before all pods are looked at: of no spec is one less important.
    if caches.residents.is_none() && tables.cluster.specs.iter().all(|known| known.priority >= spec.priority) {
        return None;
    }
    let residents = caches.residents.get_or_insert_with(|| Arc::new(Residents::new(tables.cluster)));
    let residents = Arc::clone(residents);
    if residents.lowest >= spec.priority {
        return None;
    }
    let world = World::new(tables, ledger);
    let index = caches.take_index(world, id)?;
    let search = Search {
        tables,
        residents: &residents,
        values: world.values(&index),
        by_amounts: is_about_amounts(tables, &index),
        keeps_budgets: ledger.budgets.are_kept,
        index: &index,
    };
    let best = search_in(search, ledger, caches);
    caches.keep_index(World::new(tables, ledger), id, index);
    best
}

// === impl Search ===

impl Search<'_> {
    // The best node. The ledger is as it was afterwards.
    fn best(&self, ledger: &mut Ledger, kept: &mut Option<Kept>) -> Option<Candidate> {
        let shape = &self.index.shape;
        // Worth it for a class of many.
        let is_kept = !shape.spreads_over_hosts()
            && shape.spec.volumes.exclusive_claims.is_empty()
            && self.tables.universe.class(shape.class).is_some_and(|class| class.count > 1);
        if is_kept {
            return self.best_kept(ledger, kept);
        }
        let mut best: Option<(Order, Candidate)> = None;
        for node in 0..self.tables.cluster.nodes.len() {
            let most = best.as_ref().map(|(order, _)| order);
            let found = self.candidate(ledger, node, most);
            if let Some(found) = found
                && best.as_ref().is_none_or(|(least, _)| found.0 < *least)
            {
                best = Some(found);
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    // The same, with what was found when the class was asked about before, where nothing has changed since.
    fn best_kept(&self, ledger: &mut Ledger, known: &mut Option<Kept>) -> Option<Candidate> {
        let (id, now) = (self.index.shape.class, ledger.groups.now());
        let (values, totals) = (&self.values, self.index.shape.totals(&ledger.state));
        let kept = known.take().filter(|kept| {
            kept.class == id
                && kept.values == *values
                && kept.totals == totals
                && kept.allowed == ledger.budgets.allowed
        });
        let log = kept.as_ref().and_then(|kept| ledger.groups.since(kept.cursor));
        let (mut kept, nodes) = if let Some((kept, log)) = kept.zip(log) {
            let mut nodes: Vec<usize> = log.iter().map(|change| change.node as usize).collect();
            nodes.sort_unstable();
            nodes.dedup();
            (kept, nodes)
        } else {
            let all = (0..self.tables.cluster.nodes.len()).collect();
            (Kept::new(id, values.clone(), totals, ledger.budgets.allowed.clone()), all)
        };
        kept.cursor = now;
        for node in nodes {
            kept.set(node, self.candidate(ledger, node, None));
        }
        let best = kept.best().cloned();
        *known = Some(kept);
        best
    }

    // Who would have to go from a node, if that helps; with by what it is compared. Nothing that comes after `most`. The
    // ledger is as it was afterwards.
    fn candidate(&self, ledger: &mut Ledger, node: usize, most: Option<&Order>) -> Option<(Order, Candidate)> {
        let &Search { tables, residents, index, by_amounts, keeps_budgets, ref values } = self;
        if !tables.stands_at(node) {
            return None;
        }
        let below = residents.below(node, index.shape.spec.priority);
        if below.is_empty() {
            return None;
        }
        let world = World::new(tables, ledger);
        let found =
            if by_amounts { victims_for(world, residents, (index, values), node, most) } else { VictimSearch::Unclear };
        let candidate = match found {
            VictimSearch::None => None,
            VictimSearch::Some(candidate) => Some(candidate),
            VictimSearch::Unclear => {
                let potential = below.iter().map(|resident| resident.pod);
                let potential: Vec<usize> = potential.filter(|pod| !ledger.is_off(node, *pod)).collect();
                let obstacle = world.obstacle(index, values, node);
                let helps = !potential.is_empty() && obstacle.as_ref().is_some_and(Obstacle::may_be_preempted);
                if helps { self.dry_run(ledger, node, &potential) } else { None }
            }
        };
        let candidate = candidate.filter(|candidate| !keeps_budgets || candidate.violations == 0)?;
        Some((order(tables.cluster, ledger, &candidate), candidate))
    }

    // Takes all off, then puts back as many as can stay: those first whose going would violate a budget. The ledger is as it
    // was afterwards.
    fn dry_run(&self, ledger: &mut Ledger, node: usize, potential: &[usize]) -> Option<Candidate> {
        let &Search { tables, index, .. } = self;
        let spec = &*index.shape.spec;
        let world = World::new(tables, ledger);
        let before = world.seen(node, spec)?.state.host_counts.clone();
        let is_indifferent = world.values(index).is_indifferent;
        let mark = ledger.state.mark();
        for &pod in potential {
            ledger.take_off(tables, node, pod);
        }
        let fits = |ledger: &Ledger| {
            let world = World::new(tables, ledger);
            let mut values = index.shape.values(world.state, &Beside::default(), |rule| {
                index.least_on_hosts(rule, |counter| {
                    let now = world.seen(node, spec)?.state.host_counts.get(counter);
                    world.counts_on(counter, node).then(|| (before.get(counter), now))
                })
            });
            values.is_indifferent = is_indifferent;
            world.obstacle(index, &values, node).is_none()
        };
        let candidate = fits(ledger).then(|| {
            let Split { violating, others } = ledger.budgets.split(tables.cluster, node, potential);
            let (mut victims, mut violations) = (Vec::new(), 0);
            for (at, &pod) in violating.iter().chain(&others).enumerate() {
                ledger.put_back(tables, node, pod);
                if !fits(ledger) {
                    ledger.take_off(tables, node, pod);
                    victims.push(pod);
                    violations += usize::from(at < violating.len());
                }
            }
            victims.sort_by_key(|pod| potential.iter().position(|known| known == pod));
            Candidate { node, victims, violations }
        });
        ledger.state.rollback(mark);
        ledger.state.forget(mark);
        for &pod in potential {
            ledger.off.remove(&Eviction { node, pod });
        }
        candidate.filter(|candidate| !candidate.victims.is_empty())
    }
}

fn order(cluster: &Cluster, ledger: &Ledger, candidate: &Candidate) -> Order {
    let priority = |pod: &BoundPod| cluster.spec(pod.spec).map_or(0, |spec| spec.priority);
    let pods = cluster.node(candidate.node).map_or(&[][..], |node| &node.pods);
    let victims = || candidate.victims.iter().filter_map(|&at| pods.get(at));
    let highest = victims().map(priority).max().unwrap_or(i32::MIN);
    let longest = victims().filter(|pod| priority(pod) == highest).map(|pod| pod.started).min();
    Order {
        violations: candidate.violations,
        highest,
        sum: victims().map(|pod| above_least(priority(pod))).sum(),
        n_victims: candidate.victims.len(),
        started: Reverse(longest.unwrap_or(i64::MAX)),
        rank: ledger.groups.rank(candidate.node),
    }
}
