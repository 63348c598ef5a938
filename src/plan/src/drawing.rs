//! Owners of Reservations: who draws from which, on nodes that exist and with Reservations that are placed by the plan.

use berth_model::{ClassId, Cluster, MemberKind, Resources, Universe};
use berth_provisioning::{NodePlan, Options, Solution};
use berth_scheduling::reservation::{Draw, Draws, bundle, draw_on_nodes};
use rustc_hash::FxHashMap;

use crate::deal::{Deal, Share};

/// Who draws from which Reservation, as pods and Reservations are called in the answer.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    draws: Draws,
    /// Pending Reservations that have owners in the plan, by name.
    by_name: FxHashMap<Box<str>, u32>,
}

/// A pod and the Reservation that it draws from.
pub(crate) type Pair<'a> = (&'a str, &'a str);

/// Gives owners their room, then plans what is left. Reservations that no place takes together with their owners are
/// planned without.
pub(crate) fn solve(cluster: &mut Cluster, options: &Options) -> (Universe, Solution, Drawing) {
    let mut draws = draw_on_nodes(cluster);
    let bundled = bundle(cluster, &mut draws);
    let mut drawing = Drawing::new(draws, cluster);
    let (mut universe, mut solution) = berth_provisioning::solve(cluster, options);
    if let Some(before) = bundled.filter(|_| drawing.leaves_any(cluster, &universe, &solution)) {
        before.restore(cluster, &mut drawing.draws);
        drawing.by_name.clear();
        (universe, solution) = berth_provisioning::solve(cluster, options);
    }
    let spent = solution.claims.iter().map(|claims| spent(cluster, &universe, &claims.contents)).collect::<Vec<_>>();
    for (claims, spent) in solution.claims.iter_mut().zip(&spent) {
        claims.requests.subtract(spent);
    }
    for &node in drawing.draws.on_nodes.keys() {
        if let Err(at) = solution.nodes.binary_search_by_key(&node, |entry| entry.node) {
            solution.nodes.insert(at, NodePlan { node, contents: Vec::new() });
        }
    }
    (universe, solution, drawing)
}

/// What Reservations for one owner alone no longer hold once it has come: a node has to have it, its pods do not use it.
fn spent(cluster: &Cluster, universe: &Universe, contents: &[(ClassId, u32)]) -> Resources {
    let mut spent = Resources::new();
    for &(class, count) in contents {
        let spec = universe.class(class).and_then(|class| cluster.specs.get(class.spec as usize));
        let Some(spec) = spec.filter(|spec| spec.reservation.owners_request != Resources::new()) else { continue };
        let reservation = spec.reservation.reserves.and_then(|index| cluster.reservations.get(index as usize));
        if reservation.is_some_and(|reservation| reservation.allocate_once) {
            spent.add_times(&spec.requests, i64::from(count));
            spent.add_times(&spec.reservation.owners_request, -i64::from(count));
        }
    }
    spent
}

impl Drawing {
    fn new(draws: Draws, cluster: &Cluster) -> Self {
        let reservations = draws.with.keys().filter_map(|&index| {
            let name = cluster.reservations.get(index as usize)?.name;
            Some((cluster.symbols.text(name).into(), index))
        });
        Drawing { by_name: reservations.collect(), draws }
    }

    /// Whether a Reservation with owners has no place.
    fn leaves_any(&self, cluster: &Cluster, universe: &Universe, solution: &Solution) -> bool {
        let deal = Deal::new(cluster, universe, solution);
        deal.unschedulable.iter().any(|share| !self.with(&deal, &[*share], 0, cluster).is_empty())
    }

    /// How many pods draw.
    pub(crate) fn len(&self) -> u64 {
        self.draws.len() as u64
    }

    /// Why pods of a spec that must draw cannot.
    pub(crate) fn refusals(&self, spec: u32) -> Option<&[(String, u32)]> {
        self.draws.refusals.get(&spec).map(Vec::as_slice)
    }

    /// Who draws on an existing node from what was there.
    pub(crate) fn on_node<'a>(&'a self, node: usize, cluster: &'a Cluster) -> Vec<Pair<'a>> {
        let draws = self.draws.on_nodes.get(&node).into_iter().flatten();
        draws.map(|Draw { pod, reservation }| (&**pod, name_of(*reservation, cluster))).collect()
    }

    /// Who draws from the Reservations in the shares of a node.
    pub(crate) fn with<'a>(
        &'a self,
        deal: &Deal<'_>,
        shares: &[Share],
        node: u32,
        cluster: &'a Cluster,
    ) -> Vec<Pair<'a>> {
        if self.by_name.is_empty() {
            return Vec::new();
        }
        let mut pairs = Vec::new();
        for share in shares.iter().filter(|share| deal.kind(**share) == MemberKind::Reservation) {
            for member in deal.members(share.of_node(node)) {
                let Some(&index) = self.by_name.get(member.to_string().as_str()) else { continue };
                let pods = self.draws.with.get(&index).into_iter().flatten();
                pairs.extend(pods.map(|pod| (&**pod, name_of(index, cluster))));
            }
        }
        pairs
    }
}

fn name_of(reservation: u32, cluster: &Cluster) -> &str {
    cluster.reservations.get(reservation as usize).map_or("", |known| cluster.symbols.text(known.name))
}
