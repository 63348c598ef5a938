//! What all the objects mean together: who is pending, and what is left of each node.

use std::ops::{Range, RangeInclusive};

use berth_api::ReservationArgs;
use berth_model::{
    BoundPod, Cluster, Daemon, MemberKind, MemberRun, NodePool, PodSpec, PodStage, PreAllocatable,
    PreAllocationSettings, Reservation, ReservationRules, ResourceId, Sym, Symbols, Template,
};
use jiff::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::admission::{Admitted, Admitting};
use crate::autoscalers::Autoscaler;
use crate::builder::{Builder, Converted, Expansion, FxIndexMap, FxIndexSet, PodRecord};
use crate::capacity::{Links, Site};
use crate::claims::Storage;
use crate::live::{ImageNames, Known, Live, Place, Reservations, Rooms, Supplies};
use crate::node::NodeRecord;
use crate::ownership::{Ownership, Who};
use crate::pod::Draft;
use crate::reservation::ReservationRecord;
use crate::resolve::Resolver;
use crate::standing::{self, Parts, Standing};
use crate::workloads::{Children, Owner, OwnerKind, Workload, WorkloadKind, Workloads};
use crate::{ConvertError, autoscalers, operating, overlay, pool, running_daemons, units};

impl Builder {
    /// What all the objects mean together.
    ///
    /// # Errors
    /// None today; what is wrong with an object is said when it is added.
    pub fn finish(self) -> Result<Converted, ConvertError> {
        Ok(self.finish_live()?.into_converted())
    }

    /// What all the objects mean together, so that single pods may come and go.
    ///
    /// # Errors
    /// None today; what is wrong with an object is said when it is added.
    pub fn finish_live(mut self) -> Result<Live, ConvertError> {
        self.cluster.namespaces = self.take_namespaces().into();
        self.cluster.budgets = std::mem::take(&mut self.budgets).into_values().collect();
        let mut cluster = self.cluster;
        let mut warnings = self.warnings;
        self.storage.settle_default(&cluster.symbols);
        cluster.storage_topologies = self.storage.topologies(&cluster.symbols);
        let overlays = self.overlays.into_values().collect();
        overlay::apply(overlays, &mut cluster, &mut warnings);

        settle_workloads(&self.autoscalers, &mut self.workloads, &cluster, &mut warnings);
        let images = image_names(&self.drafts, &self.nodes);
        let drivers = count_drivers(&self.attach_limits);
        let parts = Parts { attach_limits: self.attach_limits, units: units::together(self.topologies, self.devices) };
        let links = Links::of(&self.nodes, &self.node_claims);
        let pools = self.pools.iter();
        let startup_taints = pools.map(|(name, record)| (*name, record.startup_taints.clone())).collect();
        let site = Site { startup_taints: &startup_taints, wanted: &images.wanted };
        let supplies: Vec<u32> = cluster.slots.iter().map(|supply| supply.free).collect();
        let (nodes, claims) = (&self.nodes, &self.node_claims);
        let mut standing = Standing::new(nodes, claims, &links, &site, parts, &mut cluster, &mut warnings);
        if self.expansion == Expansion::PodsThatExist {
            sort_by_age(&mut self.pods, &cluster);
        }
        let mut fates = fates(&self.pods, &self.owners, &self.workloads, &standing, self.expansion);
        let operating = operating(&mut self.pods, &mut fates, &self.drafts);
        let children = children(&self.pods, &fates, &self.owners, &self.workloads, &standing);
        let asking = (&mut self.pods[..], &mut fates[..], &mut self.workloads, &mut self.drafts);
        let mut admitting = Admitting::new(asking, &mut cluster, &mut warnings);
        let admitted = self.admission.admit(self.expansion, &mut admitting, &children);
        // First those that run where nothing is planned: their claims may be exclusive.
        use_claims_elsewhere(&self.pods, &fates, &self.drafts, &mut self.storage, &mut cluster.symbols);
        // What exists comes to run where it was not: images come to nodes that had none of them.
        let on_nodes = (self.expansion == Expansion::Workloads).then(|| standing.images());
        let mut resolver = Resolver::new(self.drafts, self.storage, self.priorities, self.default_priority, on_nodes);

        // Before pods are bound: nodes keep room for the daemons that they lack.
        let daemons = add_daemons(&self.workloads, &mut resolver, &mut cluster, &mut warnings);
        let n_given_daemons = cluster.daemons.len();
        if self.expansion == Expansion::Workloads {
            let workloads = &self.workloads;
            running_daemons::add(&self.pods, &self.owners, workloads, &mut resolver, &mut cluster, &mut warnings);
        }
        let valid = valid_seconds(self.reservations.values(), self.options.now);
        let given = self.reservations.values().cloned().chain(operating);
        let reservations: Vec<ReservationRecord> = sorted(given, self.options.now, &cluster, &mut warnings);
        add_reservations(&reservations, &mut resolver, &mut cluster, &mut warnings);
        let mut ownership = Ownership::new(self.references, &cluster);
        let known: Vec<Known> = match self.expansion {
            Expansion::Workloads => Vec::new(),
            Expansion::PodsThatExist => {
                let who = (&self.owners, &self.workloads, &daemons);
                let pods = self.pods.iter().zip(&fates);
                pods.map(|(pod, fate)| Known::of(pod, *fate, &resolver, who, &mut cluster)).collect()
            }
        };
        let pods = self.pods.into_iter().zip(fates);
        let daemon_of = |owner: u32| {
            let owner = self.owners.get_index(owner as usize)?;
            daemons.get(&self.workloads.root(owner)?).copied()
        };
        let kind_of = |owner: u32| self.owners.get_index(owner as usize).map(|owner| owner.kind);
        for (record, id) in reservations.iter().zip(0..) {
            standing.hold(id, record);
        }
        let places = place_pods(
            pods,
            (daemon_of, kind_of),
            &mut standing,
            &mut resolver,
            &mut ownership,
            &mut cluster,
            &mut warnings,
        );
        if self.expansion == Expansion::Workloads {
            let children = (&children[..], &admitted);
            expand_workloads(&self.workloads, children, &mut resolver, &mut ownership, &mut cluster, &mut warnings);
            warn_of_empty_requests(&cluster, &mut warnings);
        }
        standing.settle_holdings(&reservations);
        cluster.rules = rules(&self.options.reservations, &cluster);
        let pools = self.pools.into_values().map(|record| record.pool).collect();
        let pools = settle_pools(pools, self.expansion, &self.class_catalogues, &mut cluster, &mut warnings);
        standing::finish(&mut standing, n_given_daemons, pools, &mut cluster);
        let mut reader = Builder::new(self.options);
        reader.expansion = self.expansion;
        reader.memo = self.memo;
        let rooms = Rooms {
            owners: self.owners,
            owns_daemons: self.workloads.owns_daemons(),
            workloads: self.workloads,
            daemons,
            standing,
            links,
            startup_taints,
            images,
            drivers,
            supplies: Supplies { counted: self.counted, free: supplies },
            class_catalogues: self.class_catalogues,
            reservations: Reservations::new(self.reservations, reservations),
            resolver,
            ownership,
        };
        Ok(Live::new(cluster, reader, rooms, (warnings, valid), known.into_iter().zip(places)))
    }
}

/// The NodePools, by name; one that takes anything where a plan has none.
fn settle_pools(
    mut pools: Vec<NodePool>,
    expansion: Expansion,
    class_catalogues: &FxIndexSet<Sym>,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) -> Vec<NodePool> {
    if pools.is_empty() && expansion == Expansion::Workloads {
        warnings.insert(
            "no NodePool given: planning with one open pool, \"default\", of any Linux type on amd64".to_owned(),
        );
        pools.push(pool::open_pool(cluster));
    }
    for pool in &mut pools {
        pool.node_class = pool.node_class.filter(|class| class_catalogues.contains(class));
    }
    pools.sort_by(|a, b| cluster.symbols.text(a.name).cmp(cluster.symbols.text(b.name)));
    pools
}

/// The images that matter on nodes, and the others that these have.
fn image_names(drafts: &FxIndexSet<Draft>, nodes: &FxIndexMap<Sym, NodeRecord>) -> ImageNames {
    let wanted: FxHashSet<Sym> = drafts.iter().flat_map(|draft| draft.spec.images.names.iter().copied()).collect();
    let of_nodes = nodes.values().flat_map(|node| node.images.iter().map(|(name, _)| *name));
    let unwanted = of_nodes.filter(|image| !wanted.contains(image)).collect();
    ImageNames { wanted, unwanted }
}

/// By driver: how many nodes limit its volumes.
fn count_drivers(limits: &FxHashMap<Sym, Vec<(Sym, u32)>>) -> FxHashMap<Sym, u32> {
    let mut drivers = FxHashMap::default();
    for (driver, _) in limits.values().flatten() {
        *drivers.entry(*driver).or_default() += 1;
    }
    drivers
}

/// Counts the claims of pods that run where nothing is planned as used.
fn use_claims_elsewhere(
    pods: &[PodRecord],
    fates: &[Fate],
    drafts: &FxIndexSet<Draft>,
    storage: &mut Storage,
    symbols: &mut Symbols,
) {
    for (pod, _) in pods.iter().zip(fates).filter(|(_, fate)| **fate == Fate::Elsewhere) {
        if let Some(Draft { claims, .. }) = drafts.get_index(pod.draft as usize) {
            storage.use_claims(claims, pod.namespace, &pod.name, symbols);
        }
    }
}

/// The oldest first.
fn sort_by_age(pods: &mut [PodRecord], cluster: &Cluster) {
    let namespace = |pod: &PodRecord| cluster.symbols.text(pod.namespace);
    pods.sort_by(|a, b| {
        let names = || namespace(a).cmp(namespace(b)).then_with(|| a.name.cmp(&b.name));
        a.created.cmp(&b.created).then_with(names)
    });
}

/// The seconds of Unix time at which the same Reservations have expired as have by now.
pub(crate) fn valid_seconds<'a>(
    reservations: impl Iterator<Item = &'a ReservationRecord>,
    now: Option<Timestamp>,
) -> RangeInclusive<i64> {
    let (mut first, mut last) = (i64::MIN, i64::MAX);
    let Some(now) = now.map(Timestamp::as_second) else { return first..=last };
    for end in reservations.filter_map(|record| record.ends(now)) {
        if now > end {
            first = first.max(end.saturating_add(1));
        } else {
            last = last.min(end);
        }
    }
    first..=last
}

/// How many pods workloads want, and whose they are.
fn settle_workloads(
    autoscalers: &FxIndexMap<(Sym, Sym), Autoscaler>,
    workloads: &mut Workloads,
    cluster: &Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    autoscalers::apply(autoscalers, workloads, &cluster.symbols, warnings);
    for index in workloads.settle() {
        let Some(workload) = workloads.get(index) else { continue };
        let text = |sym| cluster.symbols.text(sym);
        warnings.insert(format!(
            "{} {}/{}: its owner references lead back to itself; it counts as if nobody owned it",
            workload.kind.name(),
            text(workload.namespace),
            text(workload.name)
        ));
    }
}

/// The scheduler's configuration, of the resources that the input names.
fn rules(args: &ReservationArgs, cluster: &Cluster) -> ReservationRules {
    let is_ignored = |name: &str| {
        args.ignored_resources.iter().any(|ignored| ignored == name)
            || name.split_once('/').is_some_and(|(group, _)| args.ignored_resource_groups.iter().any(|g| g == group))
    };
    let names = cluster.resource_names.iter();
    ReservationRules {
        preempts: args.enable_preemption,
        pre_allocation: PreAllocationSettings {
            cluster_mode: args.pre_allocation_config.enable_cluster_mode,
            prefers_free_room: args.pre_allocation_config.prefer_no_pre_allocated_pods,
        },
        ignored: names.filter(|(_, name)| is_ignored(cluster.symbols.text(*name))).map(|(id, _)| id).collect(),
    }
}

/// What becomes of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is planned.
    Pending,
    /// It takes room on the node of that position.
    Bound(usize),
    /// It runs where this plan does not look: on a node that goes away with it, or one that is not in the input.
    Elsewhere,
    /// It is a Reservation, and holds room on a node.
    Holds,
    /// It counts for nothing.
    Gone,
}

fn owner_kind(pod: &PodRecord, owners: &FxIndexSet<Owner>) -> Option<OwnerKind> {
    Some(owners.get_index(pod.owner? as usize)?.kind)
}

pub(crate) fn fates(
    pods: &[PodRecord],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    standing: &Standing,
    expansion: Expansion,
) -> Vec<Fate> {
    let fate = |pod: &PodRecord| {
        let kind = owner_kind(pod, owners);
        let is_daemon = kind == Some(OwnerKind::Workload(WorkloadKind::DaemonSet));
        if pod.is_gone {
            return Fate::Gone;
        }
        let Some(node) = pod.node else {
            if pod.is_terminating {
                return Fate::Gone;
            }
            // A DaemonSet of the input has its room on the nodes counted already.
            let owner = pod.owner.and_then(|owner| owners.get_index(owner as usize));
            let is_counted = is_daemon && owner.is_some_and(|owner| workloads.root(owner).is_some());
            return if is_counted && expansion == Expansion::Workloads { Fate::Gone } else { Fate::Pending };
        };
        if let Some(position) = standing.position(node) {
            return Fate::Bound(position);
        }
        // The others were made anew already where they are being deleted.
        let comes_after = kind == Some(OwnerKind::Workload(WorkloadKind::StatefulSet));
        let stays = is_daemon || pod.is_static || kind == Some(OwnerKind::Node) || (pod.is_terminating && !comes_after);
        if standing.is_deleting(node) && !stays { Fate::Pending } else { Fate::Elsewhere }
    };
    pods.iter().map(fate).collect()
}

/// The pods on nodes that are Reservations.
fn operating(pods: &mut [PodRecord], fates: &mut [Fate], drafts: &FxIndexSet<Draft>) -> Vec<ReservationRecord> {
    let mut records = Vec::new();
    for (pod, fate) in pods.iter_mut().zip(fates).filter(|(_, fate)| matches!(fate, Fate::Bound(_))) {
        let Some(reservation) = pod.operating.take() else { continue };
        *fate = Fate::Holds;
        records.extend(drafts.get_index(pod.draft as usize).map(|draft| operating::held(pod, *reservation, draft)));
    }
    records
}

/// How many pods each workload has in the input, by the workload's index.
fn children(
    pods: &[PodRecord],
    fates: &[Fate],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    standing: &Standing,
) -> Vec<Children> {
    let mut children = vec![Children::default(); workloads.len()];
    let roots: Vec<Option<usize>> = owners.iter().map(|owner| workloads.root(owner)).collect();
    for (pod, fate) in pods.iter().zip(fates) {
        let root = pod.owner.and_then(|owner| roots.get(owner as usize).copied().flatten());
        let Some(root) = root.filter(|_| *fate != Fate::Gone) else { continue };
        if pod.is_terminating && !waits_for(workloads, root, *fate, standing) {
            continue;
        }
        if let Some(children) = children.get_mut(root) {
            children.count += 1;
            if workloads.kind(root) == Some(WorkloadKind::StatefulSet) {
                let ordinal = pod.name.rsplit_once('-').and_then(|(_, n)| n.parse::<u32>().ok());
                children.ordinals.extend(ordinal);
            }
        }
    }
    children
}

/// Whether a workload makes no other pod before one that is being deleted is gone: a StatefulSet's has the same name, and
/// some Jobs ask for it. What comes then finds the room that this one leaves, if its node takes pods.
fn waits_for(workloads: &Workloads, root: usize, fate: Fate, standing: &Standing) -> bool {
    match fate {
        Fate::Pending => true,
        Fate::Bound(position) => workloads.waits_for_terminating(root) && !standing.is_cordoned(position),
        _ => false,
    }
}

/// The Reservations that count, by name.
fn sorted(
    reservations: impl Iterator<Item = ReservationRecord>,
    now: Option<Timestamp>,
    cluster: &Cluster,
    warnings: &mut FxIndexSet<String>,
) -> Vec<ReservationRecord> {
    let mut list: Vec<ReservationRecord> = Vec::new();
    for record in reservations {
        if let Some(end) = record.expired(now).and_then(|end| Timestamp::from_second(end).ok()) {
            let name = cluster.symbols.text(record.reservation.name);
            warnings.insert(format!("Reservation {name}: expired at {end}; it holds nothing"));
        }
        if record.counts(now) {
            list.push(record);
        }
    }
    let text = |record: &ReservationRecord| cluster.symbols.text(record.reservation.name);
    list.sort_by(|a, b| text(a).cmp(text(b)));
    list
}

/// Hands Reservations to the cluster, and the pods that stand in for those that are pending.
fn add_reservations(
    records: &[ReservationRecord],
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    let mut alike = Alike::default();
    for (record, id) in records.iter().zip(0_u32..) {
        let reservation = with_stand_in(record, id, &mut alike, resolver, cluster, warnings);
        cluster.reservations.push(reservation);
    }
}

/// Those that are to be placed, without name and age and with the spec of their stand-ins: the first of each.
pub(crate) type Alike = FxHashMap<(Reservation, u32), u32>;

/// A Reservation with what its stand-in adds; one that is to be placed is pending from now on.
pub(crate) fn with_stand_in(
    record: &ReservationRecord,
    id: u32,
    alike: &mut Alike,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) -> Reservation {
    let name = cluster.symbols.text(record.reservation.name).to_owned();
    let spec = resolver.pending(record.draft, record.namespace, &name, cluster, warnings);
    let mut reservation = record.reservation.clone();
    let Some(mut stand_in) = cluster.specs.get(spec as usize).cloned() else { return reservation };
    reservation.host_ports.clone_from(&stand_in.host_ports);
    reservation.volumes.clone_from(&stand_in.volumes);
    reservation.priority = stand_in.priority;
    let mut template = Template { namespace: record.namespace, spec, labels: record.labels };
    if record.is_pending() {
        // Those that are alike in all but name and age are one class.
        let mut key = reservation.clone();
        (key.name, key.uid, key.created) = (cluster.well_known.hostname, None, None);
        stand_in.reservation.reserves = Some(*alike.entry((key, spec)).or_insert(id));
        let spec = cluster.intern_spec(stand_in);
        template.spec = spec;
        let run = MemberRun { name: name.into(), numbers: None };
        add_member(MemberKind::Reservation, record.namespace, spec, record.labels, run, cluster);
    }
    reservation.template = Some(template);
    reservation
}

fn add_member(kind: MemberKind, namespace: Sym, spec: u32, labels: u32, run: MemberRun, cluster: &mut Cluster) {
    if let Some(row) = cluster.pending_row(kind, namespace, spec, labels) {
        row.members.push(run);
    }
}

/// Says where each pod went.
pub(crate) fn place_pods(
    pods: impl Iterator<Item = (PodRecord, Fate)>,
    (daemon_of, kind_of): (impl Fn(u32) -> Option<usize>, impl Fn(u32) -> Option<OwnerKind>),
    standing: &mut Standing,
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) -> Vec<Place> {
    let mut places = Vec::with_capacity(pods.size_hint().0);
    let mut n_elsewhere = 0_usize;
    for (pod, fate) in pods {
        match fate {
            Fate::Pending => {
                let spec = resolver.pending(pod.draft, pod.namespace, &pod.name, cluster, warnings);
                let who = Who {
                    namespace: pod.namespace,
                    name: &pod.name,
                    uid: pod.uid.as_deref(),
                    labels: pod.labels,
                    references: pod.references,
                };
                let spec = ownership.spec_for(spec, who, cluster);
                if let Some(daemon) = pod.owner.and_then(&daemon_of) {
                    standing.expect_daemon(spec, daemon, cluster);
                }
                // One whose node is going away comes again without what was decided for it.
                let nominated = pod.nominated_node.filter(|_| pod.node.is_none());
                let nominated = nominated.filter(|node| standing.position(*node).is_some());
                let spec = nominated_to(nominated, spec, cluster);
                let run = MemberRun { name: pod.name, numbers: None };
                add_member(MemberKind::Pod, pod.namespace, spec, pod.labels, run, cluster);
                let row = cluster.row_of(MemberKind::Pod, pod.namespace, spec, pod.labels);
                places.push(row.map_or(Place::Nowhere, Place::Row));
            }
            Fate::Bound(position) => {
                let spec = resolver.bound(pod.draft, pod.namespace, &pod.name, cluster, warnings);
                let daemon = pod.owner.and_then(&daemon_of);
                let who = Who {
                    namespace: pod.namespace,
                    name: &pod.name,
                    uid: pod.uid.as_deref(),
                    labels: pod.labels,
                    references: pod.references,
                };
                // One that says from which Reservation it draws is bound to no other, even if that one is spent.
                let candidate = if pod.draws_from.is_some() || pod.is_terminating {
                    PreAllocatable::default()
                } else {
                    let owned_by = ownership.pre_allocating(who, cluster);
                    PreAllocatable { owned_by, priority: pod.pre_allocatable }
                };
                let is_replaced = !pod.is_static
                    && !pod.is_terminating
                    && pod.owner.and_then(&kind_of).is_some_and(OwnerKind::replaces);
                let replaced_by = is_replaced.then(|| {
                    let spec = resolver.pending(pod.draft, pod.namespace, &pod.name, cluster, warnings);
                    ownership.spec_for(spec, Who { uid: None, ..who }, cluster)
                });
                let bound = BoundPod {
                    replaced_by,
                    namespace: pod.namespace,
                    name: pod.name,
                    spec,
                    labels: pod.labels,
                    stage: if pod.is_terminating { PodStage::Terminating } else { PodStage::Bound },
                    started: pod.started,
                    draws_from: standing.drawn_from(position, pod.draws_from, cluster),
                    candidate: (candidate != PreAllocatable::default()).then(|| Box::new(candidate)),
                    assigned: pod.assigned,
                };
                standing.bind(position, bound, daemon, cluster);
                places.push(pod.node.map_or(Place::Nowhere, Place::Node));
            }
            Fate::Elsewhere => {
                let is_unknown = pod.node.is_some_and(|node| !standing.is_deleting(node));
                n_elsewhere += usize::from(is_unknown);
                places.push(Place::Nowhere);
            }
            Fate::Holds | Fate::Gone => places.push(Place::Nowhere),
        }
    }
    if n_elsewhere > 0 {
        warnings
            .insert(format!("{n_elsewhere} pods are bound to nodes that are not in the input; they count for nothing"));
    }
    places
}

/// The spec of a pod that has room made for it on a node.
fn nominated_to(node: Option<Sym>, spec: u32, cluster: &mut Cluster) -> u32 {
    match (node, cluster.specs.get(spec as usize)) {
        (Some(_), Some(known)) => {
            let nominated = PodSpec { nominated_node: node, ..known.clone() };
            cluster.intern_spec(nominated)
        }
        _ => spec,
    }
}

fn expand_workloads(
    workloads: &Workloads,
    (children, admitted): (&[Children], &Admitted),
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    let are_expanded = workloads.are_expanded();
    for (at, ((workload, children), is_expanded)) in workloads.iter().zip(children).zip(are_expanded).enumerate() {
        if !is_expanded {
            continue;
        }
        let name = cluster.symbols.text(workload.name).to_owned();
        let (first, count) = if workload.kind == WorkloadKind::StatefulSet {
            (workload.first, workload.wants)
        } else {
            (0, workload.wants.saturating_sub(children.count))
        };
        let all = first..first.saturating_add(count);
        let is_per_pod = resolver.is_per_pod(workload.draft);
        let named = ownership.named_members(workload.namespace, &name, cluster);
        let ranges = without(all, &children.ordinals);
        let mut left = admitted.of(
            at,
            ranges
                .iter()
                .map(ExactSizeIterator::len)
                .fold(0_u32, |sum, len| sum.saturating_add(u32::try_from(len).unwrap_or(u32::MAX))),
        );
        for range in ranges {
            let range = range.start..range.end.min(range.start.saturating_add(left));
            left = left.saturating_sub(range.end - range.start);
            if is_per_pod {
                for number in range {
                    add_one(workload, &name, number, resolver, ownership, cluster, warnings);
                }
                continue;
            }
            let mut next = range.start;
            for &number in named.range(range.clone()) {
                add_range(workload, &name, next..number, resolver, ownership, cluster, warnings);
                add_one(workload, &name, number, resolver, ownership, cluster, warnings);
                next = number.saturating_add(1);
            }
            add_range(workload, &name, next..range.end, resolver, ownership, cluster, warnings);
        }
    }
}

/// Pods that request neither CPU nor memory cost a plan nothing, and their nodes much.
fn warn_of_empty_requests(cluster: &Cluster, warnings: &mut FxIndexSet<String>) {
    let (mut count, mut first) = (0_u64, None);
    for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod) {
        let Some(spec) = cluster.specs.get(row.spec as usize) else { continue };
        let is_empty = |id| spec.requests.get(id) == 0;
        if is_empty(ResourceId::CPU) && is_empty(ResourceId::MEMORY) && spec.refusal.is_none() {
            count += row.members.iter().map(|run| u64::from(run.len())).sum::<u64>();
            first = first.or_else(|| {
                let run = row.members.first()?;
                let number = run.numbers.map(|(number, _)| format!("-{number}")).unwrap_or_default();
                Some(format!("{}/{}{number}", cluster.symbols.text(row.namespace), run.name))
            });
        }
    }
    let Some(first) = first else { return };
    let (pods, whom) =
        if count == 1 { ("1 pod requests", first) } else { ("pods request", format!("such as {first}")) };
    let count = if count == 1 { String::new() } else { format!("{count} ") };
    warnings.insert(format!(
        "{count}{pods} neither CPU nor memory ({whom}): only the pods that a node may have limit how many share one"
    ));
}

/// What is left of `all` without the numbers that are taken.
fn without(all: Range<u32>, taken: &FxHashSet<u32>) -> Vec<Range<u32>> {
    let mut taken: Vec<u32> = taken.iter().copied().filter(|number| all.contains(number)).collect();
    taken.sort_unstable();
    let mut left = Vec::with_capacity(taken.len() + 1);
    let mut next = all.start;
    for number in taken {
        left.push(next..number);
        next = number.saturating_add(1);
    }
    left.push(next..all.end);
    left.retain(|range| !range.is_empty());
    left
}

/// Adds pods that differ in nothing but their number.
fn add_range(
    workload: &Workload,
    name: &str,
    numbers: Range<u32>,
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    if numbers.is_empty() {
        return;
    }
    let spec = resolver.pending(workload.draft, workload.namespace, name, cluster, warnings);
    let spec = ownership.spec_for(spec, member(workload, name), cluster);
    add_run(workload, name, spec, (numbers.start, numbers.end - numbers.start), cluster);
}

/// Adds the pod of one number, to the run that ends before it where they are alike.
fn add_one(
    workload: &Workload,
    name: &str,
    number: u32,
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    let pod = format!("{name}-{number}");
    let spec = resolver.pending(workload.draft, workload.namespace, &pod, cluster, warnings);
    let spec = ownership.spec_for(spec, member(workload, &pod), cluster);
    add_run(workload, name, spec, (number, 1), cluster);
}

fn member<'a>(workload: &Workload, name: &'a str) -> Who<'a> {
    let &Workload { namespace, labels, references, .. } = workload;
    Who { namespace, name, uid: None, labels, references }
}

fn add_run(workload: &Workload, name: &str, spec: u32, numbers: (u32, u32), cluster: &mut Cluster) {
    let row = cluster.pending_row(MemberKind::Pod, workload.namespace, spec, workload.labels);
    let Some(row) = row else { return };
    if let Some(last) = row.members.last_mut()
        && let Some((first, count)) = &mut last.numbers
        && *last.name == *name
        && first.saturating_add(*count) == numbers.0
    {
        *count += numbers.1;
        return;
    }
    row.members.push(MemberRun { name: name.into(), numbers: Some(numbers) });
}

/// Adds the DaemonSets; the position of each among the cluster's daemons, by the workload's index.
pub(crate) fn add_daemons(
    workloads: &Workloads,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) -> FxHashMap<usize, usize> {
    let mut positions = FxHashMap::default();
    for (index, workload) in workloads.iter().enumerate() {
        if workload.kind == WorkloadKind::DaemonSet && workload.wants > 0 {
            let (namespace, name) = (cluster.symbols.text(workload.namespace), cluster.symbols.text(workload.name));
            let name = format!("{namespace}/{name}");
            let spec = resolver.bound(workload.draft, workload.namespace, &name, cluster, warnings);
            positions.insert(index, cluster.daemons.len());
            cluster.daemons.push(Daemon { name, spec });
        }
    }
    positions
}
