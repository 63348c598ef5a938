//! What would become of the pods of each of many nodes, if that node alone went: told without a whole decision where that
//! can be, by what the scheduler keeps, a bound of what new nodes cost, and plans of the few pods that find no place.

use std::cell::OnceCell;

use berth_model::{BoundPod, ClassId, Cluster, MemberKind, MemberRun, Money};
use berth_provisioning::{Floor, Launching, NewNodes};
use berth_scheduling::Scheduler;
use berth_state::{State, Time, is_remade};
use rustc_hash::FxHashMap;

use crate::beside;
use crate::decider::{Decider, Kept};
use crate::decision::{DecideError, Launch};
use crate::displaced::queue;
use crate::market::{Found, Left, Market, Question};
use crate::options::{Options, expect_synced};
use crate::plans::Plans;

/// What would become of the pods of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Outlook {
    /// All of them find other nodes that are up.
    Fits {
        /// How many pods move.
        pods: usize,
        /// Whether others wait for a place, who may come to one of those first.
        others_wait: bool,
    },
    /// Some need new nodes.
    Launches {
        /// How many pods need them.
        pods: usize,
        /// The nodes; the pods in them are those of the first node whose pods need the same.
        launches: Vec<Launch>,
    },
    /// Some need new nodes, and there are such that cost less than [`Question::below`].
    Cheaper {
        /// How many pods need them.
        pods: usize,
        /// The nodes of one plan: there may be cheaper ones.
        nodes: NewNodes,
    },
    /// Some need new nodes, which cost as much as [`Question::below`] or more, and on slots alone as much as
    /// [`Question::below_on_slots`], where that is of interest.
    Dearer {
        /// How many pods need them.
        pods: usize,
        /// What these cost at least.
        floor: Money,
    },
    /// Some find no place, nor can a node be launched for them.
    NoPlace {
        /// How many pods find no other node that is up.
        pods: usize,
    },
    /// Only a whole decision can tell.
    Unknown,
}

/// How the questions were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes whose pods find other nodes.
    pub fits: usize,
    /// Nodes of which a bound alone says that new nodes cost too much.
    pub by_bound: usize,
    /// Nodes of which a single new node or a quick packing says that new nodes cost less.
    pub by_packing: usize,
    /// Nodes for whose pods new nodes were planned, or whose like was.
    pub searched: usize,
    /// Plans that were made for them.
    pub plans: usize,
    /// Nodes of which only a whole decision can tell.
    pub unknown: usize,
}

impl Decider {
    /// What would become of the pods of each of these nodes, if it alone went. Nothing changes, and pods that are pending
    /// are not asked. At most so many plans of new nodes are made: what would need more is unknown.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn outlooks(
        &mut self,
        state: &mut State,
        questions: &[Question<'_>],
        most_plans: usize,
        options: &Options,
        now: Time,
    ) -> Result<(Vec<Outlook>, Tally), DecideError> {
        expect_synced(state)?;
        let unknown = || {
            let tally = Tally { unknown: questions.len(), ..Tally::default() };
            (vec![Outlook::Unknown; questions.len()], tally)
        };
        let tracked = state.tracked(now);
        let cluster = tracked.cluster;
        let kept = self.kept_of(tracked);
        let Kept { classes, scheduler, .. } = kept;
        let universe = classes.universe();
        let names: FxHashMap<berth_model::Sym, usize> =
            cluster.nodes.iter().enumerate().map(|(at, node)| (node.name, at)).collect();
        let mut scheduler = Scheduler::resume(cluster, universe, scheduler);
        let supply = OnceCell::new();
        let mut market = Market::new((cluster, &supply), universe, &kept.launching, options, most_plans);
        let found: Vec<Found> = questions
            .iter()
            .map(|question| {
                let node = cluster.symbols.get(question.node).and_then(|name| names.get(&name).copied());
                let known = node.and_then(|at| Some((at, cluster.nodes.get(at)?)));
                let Some((node, known)) = known else { return Found::Unknown };
                let Some(again) = queue(cluster, &classes, &known.pods) else { return Found::Unknown };
                let ids: Vec<ClassId> = again.iter().map(|(_, id)| *id).collect();
                match scheduler.try_without(node, &ids) {
                    Some(places) => market.ask(&mut scheduler, node, (&again, &places), question),
                    None => Found::Unknown,
                }
            })
            .collect();
        let mut tally = Tally { plans: market.n_searched(), ..Tally::default() };
        let others_wait = market.others_wait();
        drop(market);
        let scheduler = scheduler.pause();
        let Some(cluster) = state.last_cluster() else { return Ok(unknown()) };
        let mut planned: FxHashMap<Left, Option<Vec<Launch>>> = FxHashMap::default();
        let mut of_plans: Option<Cluster> = None;
        let mut outlooks = Vec::with_capacity(found.len());
        for found in found {
            if found.node().is_none_or(|node| loses_any(state, cluster, node)) {
                tally.unknown += 1;
                outlooks.push(Outlook::Unknown);
                continue;
            }
            outlooks.push(match found {
                Found::Unknown => Outlook::Unknown,
                Found::Fits { pods, .. } => {
                    tally.fits += 1;
                    Outlook::Fits { pods, others_wait }
                }
                Found::NoPlace { pods, .. } => {
                    tally.by_bound += 1;
                    Outlook::NoPlace { pods }
                }
                Found::Dearer { pods, floor, is_searched, .. } => {
                    *(if is_searched { &mut tally.searched } else { &mut tally.by_bound }) += 1;
                    Outlook::Dearer { pods, floor }
                }
                Found::Cheaper { pods, nodes, is_searched, .. } => {
                    *(if is_searched { &mut tally.searched } else { &mut tally.by_packing }) += 1;
                    Outlook::Cheaper { pods, nodes }
                }
                Found::Open { node, pods, left } => {
                    if !planned.contains_key(&left) {
                        if tally.plans >= most_plans {
                            tally.unknown += 1;
                            outlooks.push(Outlook::Unknown);
                            continue;
                        }
                        tally.plans += 1;
                        let supply = of_plans.get_or_insert_with(|| cluster.without_nodes());
                        let members = pods.iter().filter_map(|&at| cluster.nodes.get(node)?.pods.get(at));
                        planned.insert(
                            left.clone(),
                            launches(state, options, supply, (&kept.launching, &mut self.plans), members),
                        );
                    }
                    tally.searched += 1;
                    match planned.get(&left) {
                        Some(Some(launches)) => Outlook::Launches { pods: pods.len(), launches: launches.clone() },
                        _ => Outlook::NoPlace { pods: pods.len() },
                    }
                }
            });
        }
        self.kept = Some(Kept { classes, scheduler, ..kept });
        Ok((outlooks, tally))
    }
}

impl Decider {
    /// What the pods of each node would cost at least on new paid nodes, in dollars an hour: those that would come again.
    /// All nodes share the same dual prices, so the sum over the nodes is no more than any packing of all these pods costs.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn least_costs(
        &mut self,
        state: &mut State,
        nodes: &[&str],
        options: &Options,
        now: Time,
    ) -> Result<Vec<Money>, DecideError> {
        expect_synced(state)?;
        let tracked = state.tracked(now);
        let cluster = tracked.cluster;
        let kept = self.kept_of(tracked);
        let names: FxHashMap<berth_model::Sym, &berth_model::Node> =
            cluster.nodes.iter().map(|node| (node.name, node)).collect();
        let contents: Vec<Left> = nodes
            .iter()
            .map(|name| {
                let node = cluster.symbols.get(name).and_then(|name| names.get(&name));
                let pods = node.map_or(&[][..], |node| &node.pods);
                let mut ids: Vec<ClassId> = pods.iter().filter_map(|pod| kept.classes.class_again(pod)).collect();
                ids.sort_unstable();
                ids.into_iter().map(|id| (id, 1)).collect()
            })
            .collect();
        let least_costs =
            Floor::of_paid(cluster, kept.classes.universe(), &kept.launching, &options.solve).split(&contents);
        self.kept = Some(kept);
        Ok(least_costs)
    }
}

/// Whether a pod that no controller makes anew would be lost with a node.
fn loses_any(state: &State, cluster: &Cluster, node: usize) -> bool {
    let pods = cluster.nodes.get(node).map_or(&[][..], |node| &node.pods);
    pods.iter().filter(|pod| pod.replaced_by.is_none()).any(|pod| {
        let record = state.pod(cluster.symbols.text(pod.namespace), &pod.name);
        record.is_some_and(|record| is_remade(record))
    })
}

/// The new nodes that pods need which find no place; `None` where some find none on new nodes either.
fn launches<'p>(
    state: &State,
    options: &Options,
    supply: &mut Cluster,
    with: (&Launching, &mut Plans),
    pods: impl Iterator<Item = &'p BoundPod>,
) -> Option<Vec<Launch>> {
    supply.set_pending(Vec::new());
    for pod in pods {
        let row = supply.pending_row(MemberKind::Pod, pod.namespace, pod.replaced_by?, pod.labels)?;
        row.members.push(MemberRun { name: pod.name.clone(), numbers: None });
    }
    beside::plan(state, options, supply, with)
}
