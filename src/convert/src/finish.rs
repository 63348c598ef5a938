//! What all the objects mean together: who is pending, and what is left of each node.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::{DefaultingType, PodTopologySpreadArgs, ReservationArgs};
use berth_model::{
    Cluster, DefaultConstraint, DefaultSpread, MemberKind, NodePool, PreAllocationSettings, ReservationId,
    ReservationRules, Sym, Symbols, Taint,
};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::admission::Admitting;
use crate::builder::{Builder, Converted};
use crate::capacity::{Links, Site};
use crate::claims::Storage;
use crate::controller_labels::{ControllerLabels, Selectors};
use crate::draft::{Draft, Drafts};
use crate::existing::{self, ExistingNodes, Parts};
use crate::expand::Expanding;
use crate::fate::Fate;
use crate::fates::{children, fates, operating};
use crate::live::{ImageNames, Known, Live, Reservations, Rooms, Supplies};
use crate::maps::{FxIndexMap, FxIndexSet, Texts};
use crate::memo::Memo;
use crate::node_record::NodeRecord;
use crate::options::{Expansion, Options};
use crate::overlay::PoolLabels;
use crate::ownership::Ownership;
use crate::place::place_pods;
use crate::pod_record::PodRecord;
use crate::pool::PoolRecord;
use crate::reservation::{ReservationRecord, ignored};
use crate::resolve::Resolver;
use crate::stand_ins::{add_reservations, sorted, valid_seconds};
use crate::terms::node_key;
use crate::workloads::{Owner, Workloads};
use crate::{ConvertError, autoscalers, budgets, daemons, never_made, overlay, pool, rollout, units, volume_counts};

/// Volumes are wanted of a class that nobody named.
const NO_CLASS: &str =
    "no StorageClass given: planning with a default one that makes volumes where their pods come to be";

impl Builder {
    /// What all the objects mean together.
    ///
    /// # Errors
    /// None today; what is wrong with an object is said when it is added.
    pub fn finish(self) -> Result<Converted, ConvertError> {
        let (live, ends_pods) = self.convert();
        Ok(Converted { ends_pods, ..live.into_converted() })
    }

    /// What all the objects mean together, so that single pods may come and go. What is wrong with an object was said when it
    /// was added.
    pub fn finish_live(self) -> Live {
        self.convert().0
    }

    /// The cluster, and whether a change ends pods that run.
    fn convert(mut self) -> (Live, bool) {
        let uncounted = self.settle();
        let (mut cluster, mut warnings) = (self.cluster, self.warnings);
        let (images, drivers) = (image_names(&self.drafts, &self.nodes), count_drivers(&self.attach_limits));
        let units = units::together(self.topologies, self.devices);
        let parts = Parts { attach_limits: self.attach_limits, units, staying: self.staying };
        let links = Links::of(&self.nodes, &self.node_claims);
        let startup_taints = startup_taints_of(&self.pools);
        let site = Site { startup_taints: &startup_taints, wanted: &images.wanted };
        let supplies: Vec<u32> = cluster.slots.iter().map(|supply| supply.free).collect();
        let (nodes, claims) = (&self.nodes, &self.node_claims);
        let mut existing = ExistingNodes::new(nodes, claims, &links, &site, parts, &mut cluster, &mut warnings);
        sort_by_age(&mut self.pods, &cluster);
        let mut fates = fates(&self.pods, &self.owners, &self.workloads, &existing, self.expansion);
        never_made::let_go(&self.terminating, (&self.pods, &mut fates), &cluster, &mut warnings);
        let given = rollout::Given {
            pods: &self.pods,
            owners: &self.owners,
            workloads: &self.workloads,
            drafts: &self.drafts,
            existing: &existing,
            now: self.options.now,
        };
        let ends_pods = rollout::end(&given, &mut fates, &mut self.admission, (&mut cluster, &mut warnings));
        let selectors = Selectors { reservations: &self.reservations, selecting: &self.selecting };
        let given = (&self.pods[..], &self.owners, &self.drafts);
        let controller_labels =
            ControllerLabels::of(self.expansion, &selectors, &mut self.workloads, given, &mut cluster);
        let (operating, named_owners) = operating(&mut self.pods, &mut fates, &self.drafts);
        let children = children(&self.pods, &fates, &self.owners, &self.workloads, &existing);
        let asking = (&mut self.pods[..], &mut fates[..], &mut self.workloads, &mut self.drafts);
        let mut admitting = Admitting::new(asking, &mut cluster, &mut warnings);
        let admitted = self.admission.admit(self.expansion, &mut admitting, &children);
        // First those that run where nothing is planned: their claims may be exclusive.
        use_claims_elsewhere(&self.pods, &fates, &self.drafts, &mut self.storage, &mut cluster.symbols);
        // What exists comes to run where it was not: images come to nodes that had none of them.
        let on_nodes = (self.expansion == Expansion::Workloads).then(|| existing.images());
        let mut resolver = Resolver::new(self.drafts, self.storage, self.priorities, self.default_priority, on_nodes);

        // Before pods are bound: nodes keep room for the daemons that they lack.
        let running = (&self.pods[..], &self.owners);
        let (daemons, n_given_daemons) =
            daemons::add_all(running, &self.workloads, self.expansion, &mut resolver, &mut cluster, &mut warnings);
        let valid = valid_seconds(self.reservations.values(), self.options.now);
        let given = self.reservations.values().cloned().chain(operating);
        let reservations: Vec<ReservationRecord> = sorted(given, self.options.now, &cluster, &mut warnings);
        add_reservations(&reservations, &mut resolver, &mut cluster, &mut warnings);
        let mut ownership = Ownership::new(self.references, self.selecting, &cluster);
        let who = (&self.owners, &self.workloads, &daemons);
        let exist = if self.expansion == Expansion::PodsThatExist { &self.pods[..] } else { &[] };
        let known = known_pods((exist, &fates), &resolver, who, &mut cluster);
        let waiting = daemons::waiting(&self.pods, &fates, who, &resolver, &cluster);
        let running = running_elsewhere(&self.pods, &fates);
        let daemon_of = |owner: u32| {
            let owner = self.owners.get_index(owner as usize)?;
            daemons.get(&self.workloads.root(owner)?).copied()
        };
        let kind_of = |owner: u32| self.owners.get_index(owner as usize).map(|owner| owner.kind);
        hold_rooms(&reservations, &mut existing);
        let places = place_pods(
            self.pods.into_iter().zip(fates),
            (daemon_of, kind_of),
            &mut existing,
            &mut resolver,
            &mut ownership,
            &mut cluster,
            &mut warnings,
        );
        if self.expansion == Expansion::Workloads {
            let makers = (&controller_labels, &mut resolver, &mut ownership);
            Expanding::new(makers, &mut cluster, &mut warnings).expand(&self.workloads, (&children, &admitted));
        }
        put_running_last(&running, &mut cluster);
        existing.settle_holdings(&reservations);
        cluster.default_spread = default_spread(&self.options.pod_topology_spread, &mut cluster.symbols);
        cluster.preferences = self.options.preferences;
        cluster.rules = rules(&self.options.reservations, &cluster);
        let pools = settle_pools(&self.pools, self.expansion, &self.class_catalogues, &mut cluster, &mut warnings);
        let is_planned = self.expansion == Expansion::Workloads;
        let without_room = existing::finish(&mut existing, (n_given_daemons, is_planned), pools, &mut cluster);
        if is_planned {
            budgets::count(&uncounted, &mut cluster);
        }
        daemons::add_pending(&without_room, &waiting, (&self.workloads, &daemons), &mut ownership, &mut cluster);
        // In a running cluster each decision counts anew: it knows who is expected where.
        volume_counts::share_out(&resolver.take_wanting(), &mut resolver.storage, &mut cluster);
        let reader = reader(self.options, self.expansion, self.memo);
        let rooms = Rooms {
            owners: self.owners,
            owns_daemons: self.workloads.owns_daemons(),
            workloads: self.workloads,
            daemons,
            existing,
            links,
            startup_taints,
            pool_labels: PoolLabels::of(&self.pools, &self.class_catalogues, !self.overlays.is_empty()),
            images,
            drivers,
            supplies: Supplies { counted: self.counted, free: supplies },
            class_catalogues: self.class_catalogues,
            reservations: Reservations::new(self.reservations, reservations),
            resolver,
            ownership,
            named_owners,
        };
        (Live::new(cluster, reader, rooms, (warnings, valid), known.into_iter().zip(places)), ends_pods)
    }
}

/// Nodes hold room for these Reservations.
fn hold_rooms(reservations: &[ReservationRecord], existing: &mut ExistingNodes) {
    for (record, id) in reservations.iter().zip((0..).map(ReservationId)) {
        existing.hold(id, record);
    }
}

impl Builder {
    /// What needs neither nodes nor pods; the budgets that no controller has counted.
    fn settle(&mut self) -> Vec<(usize, PodDisruptionBudgetSpec)> {
        self.cluster.namespaces = self.take_namespaces().into();
        self.settle_offers();
        self.settle_counts();
        self.settle_budgets()
    }

    /// The budgets, with those that no controller has counted, by index.
    fn settle_budgets(&mut self) -> Vec<(usize, PodDisruptionBudgetSpec)> {
        let budgets = std::mem::take(&mut self.budgets);
        let uncounted = budgets.keys().enumerate().filter_map(|(at, id)| Some((at, self.uncounted.remove(id)?)));
        let uncounted = uncounted.collect();
        self.cluster.budgets = budgets.into_values().collect();
        uncounted
    }

    /// What classes of storage and instance types there are.
    fn settle_offers(&mut self) {
        // Manifests alone say little of the cluster that they are for.
        let is_new = self.expansion == Expansion::Workloads && self.nodes.is_empty();
        let drafts = is_new.then_some(&self.drafts);
        self.storage.binds_new = self.expansion == Expansion::Workloads;
        self.storage.set_nodes(self.nodes.keys().copied());
        settle_storage(&mut self.storage, drafts, &mut self.cluster, &mut self.warnings);
        overlay::warn(self.overlay_faults(), &mut self.warnings);
    }

    /// Lets NodeOverlays change the catalogue; says what is wrong with them about it.
    pub(crate) fn overlay_faults(&mut self) -> overlay::Faults {
        let overlays = self.overlays.values().cloned().collect();
        let pools = PoolLabels::of(&self.pools, &self.class_catalogues, !self.overlays.is_empty());
        overlay::apply(overlays, &pools, &mut self.cluster)
    }

    /// How many pods workloads want. The order of documents decides nothing.
    fn settle_counts(&mut self) {
        let Builder { workloads, cluster, warnings, .. } = self;
        workloads.sort(&cluster.symbols);
        settle_workloads(workloads, cluster, warnings);
        if self.expansion == Expansion::Workloads {
            leave_out_unmade((&self.pods, &self.owners), workloads, cluster, warnings);
        }
        autoscalers::apply(&self.autoscalers, workloads, &cluster.symbols, warnings);
        if self.expansion == Expansion::Workloads {
            never_made::want_none((&self.terminating, &self.nodes), workloads, cluster, warnings);
        }
    }
}

/// What reads objects that come later.
fn reader(options: Options, expansion: Expansion, memo: Memo) -> Builder {
    let mut reader = Builder::new(options);
    (reader.expansion, reader.memo) = (expansion, memo);
    reader
}

fn startup_taints_of(pools: &FxIndexMap<Sym, PoolRecord>) -> FxHashMap<Sym, Vec<Taint>> {
    pools.iter().map(|(name, record)| (*name, record.startup_taints.clone())).collect()
}

/// What is to be known of pods that exist.
fn known_pods(
    (pods, fates): (&[PodRecord], &[Fate]),
    resolver: &Resolver,
    who: (&FxIndexSet<Owner>, &Workloads, &FxHashMap<usize, usize>),
    cluster: &mut Cluster,
) -> Vec<Known> {
    pods.iter().zip(fates).map(|(pod, fate)| Known::of(pod, *fate, resolver, who, cluster)).collect()
}

/// The pods that run yet on nodes that go away.
fn running_elsewhere(pods: &[PodRecord], fates: &[Fate]) -> BTreeSet<(Sym, Arc<str>)> {
    let pods = pods.iter().zip(fates).filter(|(pod, fate)| **fate == Fate::Pending && pod.node.is_some());
    pods.map(|(pod, _)| (pod.namespace, pod.name.clone())).collect()
}

/// Settles the default StorageClass; without any class one is assumed for the claims of these drafts that name none.
fn settle_storage(storage: &mut Storage, drafts: Option<&Drafts>, cluster: &mut Cluster, warnings: &mut Texts) {
    if drafts.is_some_and(|drafts| storage.lacks_default(drafts.iter().flat_map(|draft| &draft.claims))) {
        storage.assume_default(&mut cluster.symbols);
        warnings.insert(NO_CLASS.to_owned());
    }
    storage.settle_default(&cluster.symbols);
    cluster.storage_topologies = storage.topologies(&cluster.symbols);
}

/// The NodePools, by name; one that takes anything where a plan has none.
fn settle_pools(
    pools: &FxIndexMap<Sym, PoolRecord>,
    expansion: Expansion,
    class_catalogues: &FxIndexSet<Sym>,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> Vec<NodePool> {
    let mut pools: Vec<NodePool> = pools.values().map(|record| record.pool.clone()).collect();
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
fn image_names(drafts: &Drafts, nodes: &FxIndexMap<Sym, NodeRecord>) -> ImageNames {
    let wanted: FxHashSet<Sym> = drafts.iter().flat_map(|draft| draft.spec.images.names.iter().copied()).collect();
    let of_nodes = nodes.values().flat_map(|node| node.images.iter().map(|(name, _)| *name));
    let unwanted = of_nodes.filter(|image| !wanted.contains(image)).collect();
    ImageNames { wanted, unwanted, asked: Vec::new() }
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
    drafts: &Drafts,
    storage: &mut Storage,
    symbols: &mut Symbols,
) {
    for (pod, _) in pods.iter().zip(fates).filter(|(_, fate)| **fate == Fate::Elsewhere) {
        if let Some(Draft { claims, .. }) = drafts.get_index(pod.draft as usize) {
            storage.use_claims(claims, pod.namespace, &pod.name, symbols);
        }
    }
}

/// The oldest first, then by name.
fn sort_by_age(pods: &mut [PodRecord], cluster: &Cluster) {
    let namespace = |pod: &PodRecord| cluster.symbols.text(pod.namespace);
    pods.sort_unstable_by(|a, b| {
        let names = || namespace(a).cmp(namespace(b)).then_with(|| a.name.cmp(&b.name));
        a.created.cmp(&b.created).then_with(names)
    });
}

/// Of pods that are alike, those who run yet on nodes that go away come after those who wait now.
fn put_running_last(running: &BTreeSet<(Sym, Arc<str>)>, cluster: &mut Cluster) {
    if running.is_empty() {
        return;
    }
    for row in cluster.pending.iter_mut().filter(|row| row.kind == MemberKind::Pod) {
        let namespace = row.namespace;
        row.members.sort_by_cached_key(|member| running.contains(&(namespace, member.name.clone())));
    }
}

/// Finds out which workloads belong to which others.
fn settle_workloads(workloads: &mut Workloads, cluster: &Cluster, warnings: &mut Texts) {
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

/// A Deployment that is paused before it has a ReplicaSet gets no pods.
fn leave_out_unmade(
    (pods, owners): (&[PodRecord], &FxIndexSet<Owner>),
    workloads: &mut Workloads,
    cluster: &Cluster,
    warnings: &mut Texts,
) {
    let unmade = workloads.unmade();
    if unmade.is_empty() {
        return;
    }
    let owner = |pod: &PodRecord| workloads.root(owners.get_index(pod.owner? as usize)?);
    let with_pods: FxHashSet<usize> = pods.iter().filter_map(owner).collect();
    for index in unmade.into_iter().filter(|index| !with_pods.contains(index)) {
        workloads.want_none(index);
        let Some(workload) = workloads.get(index) else { continue };
        let text = |sym| cluster.symbols.text(sym);
        let name = format!("{}/{}", text(workload.namespace), text(workload.name));
        warnings.insert(format!(
            "Deployment {name}: it is paused and has no ReplicaSet: nothing makes its pods until it goes on"
        ));
    }
}

/// How pods are spread that have no spread constraints of their own.
fn default_spread(args: &PodTopologySpreadArgs, symbols: &mut Symbols) -> DefaultSpread {
    let constraint = |given: &TopologySpreadConstraint| DefaultConstraint {
        key: node_key(&given.topology_key, symbols),
        max_skew: u32::try_from(given.max_skew).unwrap_or(1),
        min_domains: given.min_domains.and_then(|least| u32::try_from(least).ok()),
        is_required: given.when_unsatisfiable == "DoNotSchedule",
    };
    DefaultSpread {
        constraints: args.constraints().iter().map(constraint).collect(),
        needs_all_keys: args.defaulting_type == DefaultingType::List,
    }
}

/// The scheduler's configuration, of the resources that the input names.
fn rules(args: &ReservationArgs, cluster: &Cluster) -> ReservationRules {
    ReservationRules {
        preempts: args.enable_preemption,
        pre_allocation: PreAllocationSettings {
            cluster_mode: args.pre_allocation_config.enable_cluster_mode,
            prefers_free_room: args.pre_allocation_config.prefer_no_pre_allocated_pods,
        },
        ignored: ignored(args, cluster),
    }
}
