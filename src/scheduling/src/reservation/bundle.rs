//! Owners into the room of Reservations that are still to be placed: where a Reservation goes, they go with it.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocatePolicy, ClassId, Cluster, Constraint, Holding, InstanceType, Labels, MemberKind, MemberRun, Money,
    PendingRow, Phase, PodClass, PodSpec, Preferences, Requirements, Reservation, ReservationId, ResourceId, Resources,
    RowId, SpecId, Symbols, Universe,
};
use rustc_hash::FxHashMap;

use super::choice::gives_any;
use super::draw::{Bundled, Draws, is_open, owners_in_order};
use super::matching::{Seeker, may_draw_from};
use super::members::take;
use crate::demands;

/// Alternatives of node affinity that owners and Reservation may have together.
const MOST_TERMS: usize = 32;

/// The rows as they were before owners were bundled.
#[derive(Clone, Debug, Default)]
pub struct Before {
    rows: Vec<PendingRow>,
    has_rules: bool,
    n_held_back: u32,
}

impl Before {
    /// The rows as they are.
    pub fn of(cluster: &Cluster) -> Self {
        Before { rows: cluster.pending.clone(), has_rules: false, n_held_back: 0 }
    }

    /// Whether owners were bundled whose place depends on other pods, or other pods' on them.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// How many owners are pending no more without being bundled.
    pub fn n_held_back(&self) -> u32 {
        self.n_held_back
    }

    /// Makes the owners pending pods by themselves again.
    pub fn restore(self, cluster: &mut Cluster, draws: &mut Draws) {
        // Rows that were made for bundles stay, empty: they are known by their number.
        let made = cluster.pending.split_off(self.rows.len().min(cluster.pending.len()));
        cluster.pending = self.rows;
        cluster.pending.extend(made.into_iter().map(|row| PendingRow { members: Vec::new(), ..row }));
        draws.with.clear();
    }
}

/// What owners after the first get of the node beyond what is reserved, where the policy lets them have that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing.
    Nothing,
    /// What is left on the cheapest instance type that has room for the Reservation and those who need no more than is reserved.
    OnSameType,
}

/// How owners are bundled.
#[derive(Clone, Debug)]
pub struct How {
    /// What owners after the first get of the node.
    pub beyond: Beyond,
    /// Which Reservations take owners with rules.
    pub with_rules: WithRules,
    /// Whether owners whom spreads alone keep from being bundled are left out, where a Reservation has room for them: once it is known
    /// where that one comes they are placed by these, and may draw there.
    pub holds_back: bool,
}

/// Which Reservations are bundled with owners whose place depends on other pods, or other pods' on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WithRules {
    /// All but these, by name.
    AllBut(BTreeSet<Box<str>>),
    /// None.
    Never,
}

impl WithRules {
    /// What is tried next where these Reservations found no place with their owners.
    #[must_use]
    pub fn narrower(&self, left: BTreeSet<Box<str>>) -> Self {
        match self {
            WithRules::AllBut(names) if names.is_empty() => WithRules::AllBut(left),
            _ => WithRules::Never,
        }
    }

    fn may(&self, reservation: &str) -> bool {
        match self {
            WithRules::AllBut(names) => !names.contains(reservation),
            WithRules::Never => false,
        }
    }
}

/// Gives pending Reservations the owners that they have room for: what is placed is the Reservation with them, on what
/// admits all of them. `None` where there is nothing to bundle.
///
/// Where the place of owners depends on other pods, or other pods' on them, a Reservation takes those of one class, and counts
/// as one of them: if its own template has no such rules, or the same.
pub fn bundle(cluster: &mut Cluster, draws: &mut Draws, how: &How) -> Option<Before> {
    let refused: Vec<bool> = cluster.specs.iter().map(|spec| spec.refusal.is_some()).collect();
    let is_reservation = |row: &PendingRow| {
        let is_refused = refused.get(row.spec.index()).copied().unwrap_or(true);
        row.kind == MemberKind::Reservation && !row.members.is_empty() && !is_refused
    };
    let owns = |spec: &PodSpec| !spec.reservation.owner_of.is_empty();
    if !cluster.pending.iter().any(is_reservation) || !cluster.specs.iter().any(owns) {
        return None;
    }
    let universe = Universe::new(cluster);
    let mut owners: Vec<Owners> =
        owners_in_order(cluster, &universe).into_iter().filter_map(|id| Owners::new(cluster, &universe, id)).collect();
    if owners.is_empty() {
        return None;
    }
    let mut before = Before::of(cluster);
    let mut rooms = Vec::new();
    let of_row = |class| move |row: &RowId| (row.index(), class);
    let class_of = universe.classes.iter().flat_map(|class| class.rows.iter().map(of_row(class)));
    let class_of: FxHashMap<usize, &PodClass> = class_of.collect();
    let ids = cluster.reservations_with_ids().map(|(id, known)| (cluster.symbols.text(known.name).into(), id));
    let ids: BTreeMap<Box<str>, ReservationId> = ids.collect();
    for row in 0..before.rows.len() {
        if before.rows.get(row).is_some_and(is_reservation) {
            let own = class_of.get(&row).copied();
            before.has_rules |= bundle_row(cluster, (row, own, &ids), (&mut owners, how), (draws, &mut rooms));
        }
    }
    for (probe, like, mut holding) in rooms {
        for class in owners.iter_mut().filter(|class| class.is_spread) {
            let is_owner = class.spec.reservation.owner_of.binary_search(&like).is_ok();
            let seeker = Seeker { is_owner, spec: &class.spec };
            let mut count = 0;
            while count < class.left
                && may_draw_from(&seeker, &probe, &holding, &Labels::default(), &cluster.symbols).is_ok()
                && takes(&holding, &class.spec)
            {
                holding.draw_in_sum(&class.spec.requests);
                count += 1;
            }
            class.left -= count;
            before.n_held_back = before.n_held_back.saturating_add(count);
            take(cluster, &class.rows, count as usize);
        }
    }
    (!draws.with.is_empty() || before.n_held_back > 0).then_some(before)
}

/// A class of owners that may be placed together with a Reservation.
struct Owners {
    id: SpecId,
    spec: PodSpec,
    rows: Vec<RowId>,
    left: u32,
    rules: Option<Rules>,
    /// Whether they are spread over domains of several nodes and ask for nothing else of other pods: several may come to one node once it
    /// is known who is where.
    is_spread: bool,
}

/// What ties the place of owners to that of other pods.
#[derive(PartialEq, Eq)]
struct Rules {
    counts_in: Vec<berth_model::CounterId>,
    required: Vec<Constraint>,
    preferred: Preferences,
}

impl Owners {
    fn new(cluster: &Cluster, universe: &Universe, id: ClassId) -> Option<Self> {
        let class = universe.class(id)?;
        let spec = cluster.spec(class.spec)?;
        let demand = demands(cluster, universe, id).pop()?;
        let is_alone = class.required.is_empty()
            && class.counts_in.is_empty()
            && demand.host.is_empty()
            && demand.keyed.is_empty();
        let hostname = cluster.well_known.hostname;
        let is_over_nodes = |rule: &Constraint| {
            let key = universe.counter(rule.counter()).map(|counter| counter.key);
            matches!(rule, Constraint::Spread { .. }) && key.is_some_and(|key| key != hostname)
        };
        is_open(spec).then(|| Owners {
            id: class.spec,
            spec: spec.clone(),
            rows: class.rows.clone(),
            left: class.count,
            // Preferences are left aside, as where a Reservation is drawn from on a node.
            rules: (!is_alone).then(|| Rules::of(class)),
            is_spread: !class.required.is_empty() && class.required.iter().all(is_over_nodes),
        })
    }
}

// === impl Rules ===

impl Rules {
    fn of(class: &PodClass) -> Self {
        let PodClass { counts_in, required, preferred, .. } = class;
        Rules { counts_in: counts_in.clone(), required: required.clone(), preferred: preferred.clone() }
    }

    fn is_none(&self) -> bool {
        let Preferences { affinity, anti_affinity, spread, .. } = &self.preferred;
        self.counts_in.is_empty()
            && self.required.is_empty()
            && affinity.is_empty()
            && anti_affinity.is_empty()
            && spread.is_empty()
    }

    /// Whether several such pods may share a node, whoever is elsewhere.
    fn lets_share(&self) -> bool {
        let keeps_apart = |rule: &Constraint| {
            matches!(
                rule,
                Constraint::Spread { counts_self: true, .. } | Constraint::AntiAffinity { counts_self: true, .. }
            )
        };
        !self.required.iter().any(keeps_apart)
    }
}

/// What is placed with a Reservation is placed by the rules of one class: these are taken over.
fn take_rules(spec: &mut PodSpec, of: &PodSpec) {
    spec.spread.clone_from(&of.spread);
    spec.affinity.clone_from(&of.affinity);
    spec.anti_affinity.clone_from(&of.anti_affinity);
    spec.preferred_affinity.clone_from(&of.preferred_affinity);
    spec.preferred_anti_affinity.clone_from(&of.preferred_anti_affinity);
    spec.insists.clone_from(&of.insists);
}

/// Fills each Reservation of a row in turn; those that are filled alike are a row again. Whether owners with rules are among those that
/// it takes.
fn bundle_row(
    cluster: &mut Cluster,
    (row, class, ids): (usize, Option<&PodClass>, &BTreeMap<Box<str>, ReservationId>),
    (owners, how): (&mut [Owners], &How),
    (draws, rooms): (&mut Draws, &mut Vec<(Reservation, ReservationId, Holding)>),
) -> bool {
    let mut has_rules = false;
    let own = class.map(Rules::of);
    let Some((namespace, labels, stand_in, members)) = cluster.pending.get_mut(row).map(|row| {
        let members = std::mem::take(&mut row.members);
        (row.namespace, row.labels, row.spec, members)
    }) else {
        return false;
    };
    let spec = cluster.spec(stand_in).cloned().unwrap_or_default();
    let mut left = Vec::new();
    for member in members {
        let known = ids.get(&*member.name).and_then(|id| Some((*id, cluster.reservation(*id)?.clone())));
        let Some((id, known)) = known else {
            left.push(member);
            continue;
        };
        let probe = Reservation { phase: Phase::Available, ..known };
        let takes_rules = how.with_rules.may(&member.name);
        let own = own.as_ref().filter(|_| takes_rules);
        let filled = fill(cluster, &spec, (&probe, id, own), owners, how.beyond);
        if how.holds_back && takes_rules {
            let holding = filled.as_ref().map_or_else(|| Holding::new(id, &probe), |filled| filled.holding.clone());
            rooms.push((probe, id, holding));
        }
        let Some(filled) = filled else {
            left.push(member);
            continue;
        };
        let mut counts_as = (namespace, labels);
        for (class, count) in filled.owners {
            let Some(owners) = owners.get_mut(class) else { continue };
            owners.left -= count;
            let taken = take(cluster, &owners.rows, count as usize);
            if let Some(first) = taken.first().filter(|_| filled.ruled == Some(class)) {
                (counts_as, has_rules) = ((first.namespace, first.labels), true);
            }
            let bundled = taken.iter().map(|member| Bundled {
                name: member.full_name(cluster),
                namespace: member.namespace,
                spec: owners.id,
                labels: member.labels,
            });
            draws.with.entry(id).or_default().extend(bundled.collect::<Vec<_>>());
        }
        let spec = cluster.intern_spec(filled.spec);
        let (namespace, labels) = counts_as;
        if let Some(row) = cluster.pending_row(MemberKind::Reservation, namespace, spec, labels) {
            row.members.push(MemberRun { name: member.name, numbers: None });
        }
    }
    if let Some(row) = cluster.pending.get_mut(row) {
        row.members.extend(left);
    }
    has_rules
}

/// A Reservation with its owners.
struct Filled {
    spec: PodSpec,
    /// Owners by position, and how many of each.
    owners: Vec<(usize, u32)>,
    /// By position: those whose rules it is placed by.
    ruled: Option<usize>,
    /// What owners request.
    request: Resources,
    holding: Holding,
}

// === impl Filled ===

impl Filled {
    /// What owners request, and what is held beside that.
    fn requests(&self) -> Resources {
        let mut requests = self.request.clone();
        requests.add(&self.holding.held());
        requests
    }

    /// Adds as many owners as may draw and are taken.
    fn add(
        &mut self,
        cluster: &Cluster,
        (probe, like, own): (&Reservation, ReservationId, Option<&Rules>),
        owners: &[Owners],
        takes: impl Fn(&Filled, &PodSpec) -> bool,
    ) {
        for (position, class) in owners.iter().enumerate() {
            let has = |filled: &Filled| {
                let known = filled.owners.iter().filter(|(known, _)| *known == position);
                known.map(|(_, count)| *count).sum::<u32>()
            };
            let is_owner = class.spec.reservation.owner_of.binary_search(&like).is_ok();
            let seeker = Seeker { is_owner, spec: &class.spec };
            let mut count = 0;
            let before = has(self);
            let admits = |rules: &Rules| own.is_some_and(|own| own.is_none() || own == rules);
            if class.rules.as_ref().is_some_and(|rules| !admits(rules)) {
                continue;
            }
            let may_come = |ruled: Option<usize>| match &class.rules {
                Some(rules) => ruled.is_none_or(|ruled| ruled == position && rules.lets_share()),
                None => true,
            };
            while may_come(self.ruled)
                && before + count < class.left
                && may_draw_from(&seeker, probe, &self.holding, &Labels::default(), &cluster.symbols).is_ok()
                && takes(self, &class.spec)
            {
                let Some(merged) = merge(&self.spec, &class.spec, self.holding.owners() > 0, &cluster.symbols) else {
                    break;
                };
                self.spec = merged;
                if class.rules.is_some() {
                    take_rules(&mut self.spec, &class.spec);
                    self.ruled = Some(position);
                }
                self.holding.draw_in_sum(&class.spec.requests);
                self.request.add(&class.spec.requests);
                count += 1;
            }
            if count > 0 {
                self.owners.retain(|(known, _)| *known != position);
                self.owners.push((position, before + count));
            }
        }
    }
}

fn fill(
    cluster: &Cluster,
    stand_in: &PodSpec,
    probe: (&Reservation, ReservationId, Option<&Rules>),
    owners: &[Owners],
    beyond: Beyond,
) -> Option<Filled> {
    let holding = Holding::new(probe.1, probe.0);
    let mut filled =
        Filled { spec: stand_in.clone(), owners: Vec::new(), ruled: None, request: Resources::new(), holding };
    filled.add(cluster, probe, owners, |filled, owner| takes(&filled.holding, owner));
    if beyond == Beyond::OnSameType
        && filled.holding.owners() > 0
        && let Some(room) = cheapest_room(cluster, &filled.requests())
    {
        filled.add(cluster, probe, owners, |filled, owner| takes_beyond(filled, owner, room));
    }
    filled.spec.reservation.owners_request = filled.request.clone();
    filled.spec.requests = filled.requests();
    (!filled.owners.is_empty()).then_some(filled)
}

/// What there is on the cheapest instance type that has room for so much.
fn cheapest_room<'c>(cluster: &'c Cluster, requests: &Resources) -> Option<&'c Resources> {
    let price = |known: &InstanceType| known.offerings.iter().map(|offering| offering.list_price).min();
    let fitting = cluster.instance_types.iter().filter(|known| requests.fits(&known.resources));
    let priced = fitting.filter_map(|known| Some((price(known)?, known)));
    let cheapest: Option<(Money, &InstanceType)> = priced.reduce(|a, b| if b.0 < a.0 { b } else { a });
    cheapest.map(|(_, known)| &known.resources)
}

/// Whether a Reservation has room for one more owner: all of what it reserves, or it is the first, and the policy lets
/// it take more from the node.
fn takes(holding: &Holding, owner: &PodSpec) -> bool {
    let overflows = holding.owners() == 0 && holding.policy() != AllocatePolicy::Restricted;
    takes_with(holding, owner, overflows)
}

/// Whether a Reservation has some left for one more owner, and the node of this room the rest.
fn takes_beyond(filled: &Filled, owner: &PodSpec, room: &Resources) -> bool {
    let mut with = filled.holding.clone();
    with.draw_in_sum(&owner.requests);
    let mut requests = with.held();
    requests.add(&filled.request);
    requests.add(&owner.requests);
    filled.holding.policy() != AllocatePolicy::Restricted
        && gives_any(&filled.holding, owner)
        && takes_with(&filled.holding, owner, true)
        && requests.fits(room)
}

fn takes_with(holding: &Holding, owner: &PodSpec, overflows: bool) -> bool {
    let available = holding.available();
    let fits = |id: ResourceId, amount: i64| amount <= available.get(id);
    let is_reserved =
        |id: ResourceId| holding.reserved().get(id) > 0 || id == ResourceId::PODS && holding.limits_pods();
    let asked = || owner.requests.iter().filter(|(id, amount)| *amount > 0 && is_reserved(*id));
    let must = owner.reservation.affinity.is_some();
    (must || holding.shares_resource(&owner.requests))
        && asked().all(|(id, amount)| fits(id, amount) || (overflows && id != ResourceId::PODS))
}

/// What admits both: `None` where that cannot be said in one spec, or where they exclude each other.
fn merge(a: &PodSpec, b: &PodSpec, has_owners: bool, symbols: &Symbols) -> Option<PodSpec> {
    // Ports and volumes of one owner are like those of the Reservation; those of two could exclude each other.
    let is_plain = b.host_ports.is_empty() && b.volumes == berth_model::Volumes::default();
    if has_owners && !is_plain {
        return None;
    }
    let mut both = a.clone();
    both.node_selector.add_all(&b.node_selector, symbols);
    both.required_terms = match (a.required_terms.as_slice(), b.required_terms.as_slice()) {
        (terms, []) | ([], terms) => terms.to_vec(),
        (mine, theirs) if mine == theirs => mine.to_vec(),
        (mine, theirs) => {
            let with = |mine: &Requirements, theirs: &Requirements| {
                let mut all = mine.clone();
                all.add_all(theirs, symbols);
                all
            };
            mine.iter().flat_map(|mine| theirs.iter().map(move |theirs| with(mine, theirs))).collect()
        }
    };
    both.tolerations.retain(|toleration| b.tolerations.contains(toleration));
    both.host_ports.extend(&b.host_ports);
    both.host_ports.sort_unstable();
    both.host_ports.dedup();
    for topology in &b.volumes.topologies {
        if !both.volumes.topologies.contains(topology) {
            both.volumes.topologies.push(topology.clone());
        }
    }
    both.volumes.exclusive_claims.extend(&b.volumes.exclusive_claims);
    both.volumes.exclusive_claims.sort_unstable();
    both.volumes.exclusive_claims.dedup();
    both.volumes.disks.extend(b.volumes.disks.iter().cloned());
    both.volumes.disks.sort_unstable();
    both.volumes.disks.dedup();
    both.volumes.attachments.extend(&b.volumes.attachments);
    both.volumes.attachments.sort_unstable();
    both.volumes.attachments.dedup();
    for (pool, count) in &b.volumes.kept {
        match both.volumes.kept.binary_search_by_key(pool, |(known, _)| *known) {
            Ok(at) => both.volumes.kept.get_mut(at).into_iter().for_each(|(_, most)| *most = (*most).max(*count)),
            Err(at) => both.volumes.kept.insert(at, (*pool, *count)),
        }
    }
    (both.required_terms.len() <= MOST_TERMS && !both.node_selector.is_contradiction()).then_some(both)
}

#[cfg(test)]
mod tests {
    use berth_model::{Requirement, Symbols};

    use super::*;

    #[test]
    fn a_reservation_goes_where_the_volumes_of_its_owner_are() {
        let mut symbols = Symbols::default();
        let (zone, b) = (symbols.intern("zone"), symbols.intern("b"));
        let mut place = Requirements::new();
        place.add(zone, Requirement::value(b), &symbols);
        let mut owner = PodSpec::default();
        owner.volumes.topologies.push(vec![place]);
        let merged = merge(&PodSpec::default(), &owner, false, &symbols).unwrap();
        assert_eq!(merged.volumes.topologies, owner.volumes.topologies);
        let again = merge(&merged, &owner, false, &symbols).unwrap();
        assert_eq!(again.volumes.topologies, owner.volumes.topologies, "once");
        assert_eq!(
            merge(&merged, &owner, true, &symbols),
            None,
            "of two owners, whose volumes could exclude each other"
        );
    }
}
