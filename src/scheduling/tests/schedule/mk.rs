//! Small clusters, built by hand.

use berth_model::{
    BoundPod, ClassId, Cluster, DisruptionBudget, Labels, LabelsId, MemberKind, MemberRun, Node, PodSpec, Requirement,
    Requirements, Resources, Selector, Sym, Universe,
};
use berth_scheduling::{Launchable, Queue, Scheduler};

pub(crate) const GIB: i64 = 1 << 30;

/// A pod that requests milli-CPU and GiB.
pub(crate) fn mk_pod(milli_cpu: i64, gib: i64) -> PodSpec {
    PodSpec { requests: Resources::from_amounts(&[milli_cpu, gib * GIB, 1]), ..PodSpec::default() }
}

/// A cluster while it is built.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
}

impl World {
    pub(crate) fn new() -> Self {
        World { cluster: Cluster::new() }
    }

    pub(crate) fn sym(&mut self, text: &str) -> Sym {
        self.cluster.symbols.intern(text)
    }

    /// An empty node of a zone.
    pub(crate) fn mk_node(&mut self, name: &str, zone: &str, milli_cpu: i64, gib: i64) -> &mut Node {
        let (hostname, zone_key) = (self.cluster.well_known.hostname, self.cluster.well_known.zone);
        let (name, zone) = (self.sym(name), self.sym(zone));
        let room = Resources::from_amounts(&[milli_cpu, gib * GIB, 110]);
        self.cluster.nodes.push(Node {
            name,
            labels: Labels::new([(hostname, name), (zone_key, zone)]),
            open: berth_model::Requirements::new(),
            taints: Vec::new(),
            free: room.clone(),
            allocatable: room.clone(),
            capacity: room,
            node_pool: None,
            attach_limits: Vec::new(),
            volume_pools: Vec::new(),
            cordon: berth_model::Cordon::None,
            is_coming_up: false,
            is_leaving: false,
            images: Vec::new(),
            pods: Vec::new(),
            holdings: Vec::new(),
            units: berth_model::Units::default(),
        });
        self.cluster.nodes.last_mut().unwrap()
    }

    fn labels(&mut self, app: &str) -> LabelsId {
        let pair = (self.sym("app"), self.sym(app));
        self.cluster.intern_labels(Labels::new([pair]))
    }

    /// A pod that runs on the last node since that time.
    pub(crate) fn mk_running(&mut self, app: &str, spec: &PodSpec, started: i64) {
        let (namespace, labels) = (self.sym("default"), self.labels(app));
        let spec_id = self.cluster.intern_spec(spec.clone());
        let node = self.cluster.nodes.last_mut().unwrap();
        node.free.subtract(&spec.requests);
        let name = format!("{app}-{}", node.pods.len()).into();
        node.pods.push(BoundPod {
            namespace,
            name,
            spec: spec_id,
            labels,
            stage: berth_model::PodStage::Bound,
            started,
            draws_from: None,
            candidate: None,
            replaced_by: None,
            assigned: None,
            has_held_room: false,
        });
    }

    pub(crate) fn mk_pods(&mut self, app: &str, count: u32, spec: &PodSpec) {
        let (namespace, labels) = (self.sym("default"), self.labels(app));
        let spec = self.cluster.intern_spec(spec.clone());
        let row = self.cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap();
        row.members.push(MemberRun { name: app.into(), numbers: Some((0, count)) });
    }

    pub(crate) fn mk_budget(&mut self, app: &str, allowed: i32) {
        let (name, namespace, selector) = (self.sym(app), self.sym("default"), self.selector(app));
        self.cluster.budgets.push(DisruptionBudget { name, namespace, selector, allowed, disrupted: Vec::new() });
    }

    pub(crate) fn selector(&mut self, app: &str) -> Selector {
        let (key, app) = (self.sym("app"), self.sym(app));
        let mut requirements = Requirements::new();
        requirements.add(key, Requirement::value(app), &self.cluster.symbols);
        Selector { requirements: Some(requirements) }
    }

    /// Runs `ask` with a scheduler.
    pub(crate) fn scheduled<T>(&mut self, ask: impl FnOnce(&mut Scheduler<'_>, &Cluster) -> T) -> T {
        let universe = Universe::with_scores(&mut self.cluster);
        let mut scheduler = Scheduler::new(&self.cluster, &universe, Launchable::default());
        ask(&mut scheduler, &self.cluster)
    }

    /// Schedules all with preemption, as the plan does; who gave way, and what is pending then by name.
    pub(crate) fn run_and_apply(&mut self) -> (Vec<String>, Vec<String>) {
        berth_scheduling::expect_replacements(&mut self.cluster);
        let universe = Universe::with_scores(&mut self.cluster);
        let mut scheduler = Scheduler::new(&self.cluster, &universe, Launchable::default());
        scheduler.run(Queue { preempts: true, keeps_budgets: true, keeps_homes_whole: true, ..Queue::default() });
        let bindings = scheduler.into_bindings();
        let name = |eviction: &berth_scheduling::Eviction| {
            let node = &self.cluster.nodes[eviction.node];
            format!("{}/{}", self.cluster.symbols.text(node.name), node.pods[eviction.pod].name)
        };
        let gone = bindings.evicted().iter().map(name).collect();
        bindings.apply(&mut self.cluster);
        let members = self.cluster.pending.iter().flat_map(|row| &row.members).filter(|run| !run.is_empty());
        (gone, members.map(|run| run.name.to_string()).collect())
    }

    /// The pods of each node, by name.
    pub(crate) fn pods_on(&self, node: usize) -> Vec<String> {
        self.cluster.nodes[node].pods.iter().map(|pod| pod.name.to_string()).collect()
    }

    /// Schedules all: what each node gets as `node: count`, how many pods are left, who gave way.
    pub(crate) fn run(&mut self, preempts: bool) -> (Vec<String>, u32, Vec<String>) {
        self.scheduled(|scheduler, cluster| {
            let left = scheduler.run(Queue { preempts, ..Queue::default() });
            let nodes = cluster.nodes.iter().zip(scheduler.state().nodes());
            let bound = nodes.filter(|(_, state)| !state.added.is_empty()).map(|(node, state)| {
                let pods: u32 = state.added.iter().map(|(_, count)| *count).sum();
                format!("{}: {pods}", cluster.symbols.text(node.name))
            });
            let bound = bound.collect();
            let evicted = scheduler.evicted().into_iter().map(|eviction| {
                let node = &cluster.nodes[eviction.node];
                format!("{}/{}", cluster.symbols.text(node.name), node.pods[eviction.pod].name)
            });
            (bound, left.iter().map(|(_, count)| *count).sum(), evicted.collect())
        })
    }
}

/// The first class: that of the first pending row.
pub(crate) const FIRST: ClassId = ClassId(0);
