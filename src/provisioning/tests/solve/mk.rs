//! Small clusters, built by hand.

use berth_model::{
    BoundPod, CapacityType, Cluster, Daemon, Disk, DiskId, Effect, HostPort, InstanceType, Labels, LabelsId,
    MemberKind, MemberRun, Money, Node, NodePool, Offering, Operator, PodSpec, PodTerm, Refusal, Requirement,
    Requirements, ResourceId, Resources, Selector, SlotId, Slots, SpecId, SpreadConstraint, Sym, Taint, Toleration,
    TolerationOperator,
};
use berth_provisioning::{Effort, Options, solve};

use crate::plan::Plan;

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

pub(crate) const GIB: i64 = 1 << 30;
pub(crate) const MILLI_DOLLAR: i128 = 1_000_000_000;

/// Milli-dollars an hour.
pub(crate) fn milli(amount: u32) -> Money {
    Money::from_pico(i128::from(amount) * MILLI_DOLLAR)
}

/// What a pod is to be.
#[derive(Clone, Default)]
pub(crate) struct Pod {
    milli_cpu: i64,
    others: Vec<(&'static str, i64)>,
    labels: Vec<(&'static str, &'static str)>,
    needs: Vec<(&'static str, Operator, Vec<&'static str>)>,
    tolerates: Vec<&'static str>,
    spread: Vec<(&'static str, u32, &'static str, bool, Option<u32>)>,
    anti_affinity: Vec<(&'static str, &'static str)>,
    affinity: Vec<(&'static str, &'static str)>,
    ports: Vec<u16>,
    disks: Vec<(&'static str, bool)>,
    volume_in: Vec<&'static str>,
    priority: i32,
    refusal: Option<&'static str>,
}

/// A pod of so many milli-CPU and 1 GiB.
pub(crate) fn pod(milli_cpu: i64) -> Pod {
    Pod { milli_cpu, ..Pod::default() }
}

impl Pod {
    pub(crate) fn resource(mut self, name: &'static str, amount: i64) -> Self {
        self.others.push((name, amount));
        self
    }

    /// The label `app`, which terms and spreads select by.
    pub(crate) fn app(mut self, app: &'static str) -> Self {
        self.labels.push(("app", app));
        self
    }

    pub(crate) fn needs(mut self, key: &'static str, operator: Operator, values: &[&'static str]) -> Self {
        self.needs.push((key, operator, values.to_vec()));
        self
    }

    pub(crate) fn tolerates(mut self, key: &'static str) -> Self {
        self.tolerates.push(key);
        self
    }

    pub(crate) fn spread(mut self, key: &'static str, max_skew: u32, app: &'static str) -> Self {
        self.spread.push((key, max_skew, app, true, None));
        self
    }

    pub(crate) fn min_domains(mut self, domains: u32) -> Self {
        self.spread.last_mut().unwrap().4 = Some(domains);
        self
    }

    pub(crate) fn schedule_anyway(mut self) -> Self {
        self.spread.last_mut().unwrap().3 = false;
        self
    }

    pub(crate) fn anti_affinity(mut self, key: &'static str, app: &'static str) -> Self {
        self.anti_affinity.push((key, app));
        self
    }

    pub(crate) fn affinity(mut self, key: &'static str, app: &'static str) -> Self {
        self.affinity.push((key, app));
        self
    }

    pub(crate) fn port(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// A Google disk.
    pub(crate) fn disk(mut self, name: &'static str, is_read_only: bool) -> Self {
        self.disks.push((name, is_read_only));
        self
    }

    /// A claim whose volume can be made in these zones.
    pub(crate) fn volume_in(mut self, zones: &[&'static str]) -> Self {
        self.volume_in = zones.to_vec();
        self
    }

    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    pub(crate) fn refused(mut self, reason: &'static str) -> Self {
        self.refusal = Some(reason);
        self
    }
}

/// A cluster in the making.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) options: Options,
}

/// An empty cluster.
pub(crate) fn mk_world() -> World {
    World { cluster: Cluster::new(), options: Options::default() }
}

impl World {
    pub(crate) fn sym(&mut self, text: &str) -> Sym {
        self.cluster.symbols.intern(text)
    }

    fn requirement(&mut self, operator: Operator, values: &[&str]) -> Requirement {
        let values: Vec<Sym> = values.iter().map(|value| self.sym(value)).collect();
        Requirement::new(operator, values, &self.cluster.symbols)
    }

    /// An instance type with so many CPUs, 4 GiB for each, and room for 100 pods.
    pub(crate) fn mk_type(&mut self, name: &str, cpus: i64) -> TypeHandle<'_> {
        let name = self.sym(name);
        let key = self.cluster.well_known.instance_type;
        self.cluster.instance_types.push(InstanceType {
            name,
            labels: Labels::new([(key, name)]),
            operating_systems: Vec::new(),
            node_class: None,
            resources: Resources::from_amounts(&[cpus * 1000, cpus * 4 * GIB, 100]),
            offerings: Vec::new(),
            sold_out: Vec::new(),
        });
        TypeHandle { world: self }
    }

    /// A NodePool of weight 0 that admits everything.
    pub(crate) fn mk_pool(&mut self, name: &str) -> PoolHandle<'_> {
        let name = self.sym(name);
        let mut requirements = Requirements::new();
        requirements.add(self.cluster.well_known.node_pool, Requirement::value(name), &self.cluster.symbols);
        self.cluster.node_pools.push(NodePool {
            name,
            weight: 0,
            requirements,
            taints: Vec::new(),
            limits: Vec::new(),
            node_limit: None,
            used: Resources::new(),
            nodes: 0,
            reserved: Resources::new(),
            node_class: None,
            refusal: None,
        });
        PoolHandle { world: self }
    }

    /// A node of a zone with so many free CPUs, and what runs on it.
    pub(crate) fn mk_node(&mut self, name: &str, zone: &str, cpus: i64, running: &[Pod]) {
        let namespace = self.sym("default");
        let mut pods = Vec::new();
        for pod in running {
            let (spec, labels) = self.intern(pod);
            pods.push(BoundPod {
                namespace,
                name: name.into(),
                spec,
                labels,
                stage: berth_model::PodStage::Bound,
                started: i64::MAX,
                draws_from: None,
                candidate: None,
                replaced_by: None,
                assigned: None,
                has_held_room: false,
            });
        }
        let pairs = [(HOSTNAME, name), (ZONE, zone)].map(|(key, value)| (self.sym(key), self.sym(value)));
        let free = Resources::from_amounts(&[cpus * 1000, cpus * 4 * GIB, 100]);
        let node = Node {
            name: self.sym(name),
            labels: Labels::new(pairs),
            open: berth_model::Requirements::new(),
            taints: Vec::new(),
            allocatable: free.clone(),
            capacity: free.clone(),
            free,
            cordon: berth_model::Cordon::None,
            is_coming_up: false,
            is_leaving: false,
            images: Vec::new(),
            node_pool: None,
            attach_limits: Vec::new(),
            volume_pools: Vec::new(),
            holdings: Vec::new(),
            units: berth_model::Units::default(),
            pods,
        };
        self.cluster.nodes.push(node);
    }

    pub(crate) fn taint_last_node(&mut self, key: &str, effect: Effect) {
        let is_cordon = key == "node.kubernetes.io/unschedulable";
        let (key, value) = (self.sym(key), self.sym(""));
        let node = self.cluster.nodes.last_mut().unwrap();
        if is_cordon {
            node.cordon = berth_model::Cordon::Tainted;
        }
        node.taints.push(Taint { key, value, effect });
    }

    pub(crate) fn mk_daemon(&mut self, pod: &Pod) {
        let (spec, labels) = self.intern(pod);
        let namespace = self.sym("default");
        self.cluster.daemons.push(Daemon { name: "default/agent".to_owned(), namespace, spec, labels });
    }

    /// Pending pods of a controller of this name.
    pub(crate) fn mk_pods(&mut self, name: &str, count: u32, pod: &Pod) {
        let (spec, labels) = self.intern(pod);
        let namespace = self.sym("default");
        let row = self.cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap();
        row.members.push(MemberRun { name: name.into(), numbers: Some((0, count)) });
    }

    fn intern(&mut self, pod: &Pod) -> (SpecId, LabelsId) {
        let mut spec = PodSpec {
            requests: Resources::from_amounts(&[pod.milli_cpu, GIB, 1]),
            priority: pod.priority,
            refusal: pod.refusal.map(|reason| Refusal(reason.to_owned())),
            ..PodSpec::default()
        };
        for (name, amount) in &pod.others {
            let name = self.sym(name);
            spec.requests.set(self.cluster.resource_names.intern(name), *amount);
        }
        for (key, operator, values) in &pod.needs {
            let (key, requirement) = (self.sym(key), self.requirement(*operator, values));
            spec.node_selector.add(key, requirement, &self.cluster.symbols);
        }
        for key in &pod.tolerates {
            let (key, value) = (self.sym(key), self.sym(""));
            let operator = TolerationOperator::Exists;
            spec.tolerations.push(Toleration { key: Some(key), operator, value, effect: None });
        }
        for &(key, max_skew, app, is_required, min_domains) in &pod.spread {
            let (key, selector) = (self.sym(key), self.selector(app));
            spec.spread.push(SpreadConstraint {
                key,
                max_skew,
                min_domains,
                is_required,
                selector,
                match_label_keys: Vec::new(),
                honors_node_affinity: true,
                honors_taints: false,
            });
        }
        spec.anti_affinity = pod.anti_affinity.iter().map(|term| self.term(term)).collect();
        spec.affinity = pod.affinity.iter().map(|term| self.term(term)).collect();
        let protocol = self.sym("TCP");
        spec.host_ports = pod.ports.iter().map(|&port| HostPort { ip: None, protocol, port }).collect();
        let disk = |&(name, is_read_only): &(&str, bool)| Disk {
            id: DiskId::GcePersistentDisk(self.cluster.symbols.intern(name)),
            is_read_only,
        };
        spec.volumes.disks = pod.disks.iter().map(disk).collect();
        if !pod.volume_in.is_empty() {
            let (key, asked) = (self.sym(ZONE), self.requirement(Operator::In, &pod.volume_in));
            let mut place = Requirements::new();
            place.add(key, asked, &self.cluster.symbols);
            spec.volumes.unbound.push(vec![place]);
        }
        let labels: Vec<_> = pod.labels.iter().map(|(key, value)| (self.sym(key), self.sym(value))).collect();
        (self.cluster.intern_spec(spec), self.cluster.intern_labels(Labels::new(labels)))
    }

    fn selector(&mut self, app: &str) -> Selector {
        let (key, requirement) = (self.sym("app"), self.requirement(Operator::In, &[app]));
        let mut requirements = Requirements::new();
        requirements.add(key, requirement, &self.cluster.symbols);
        Selector { requirements: Some(requirements) }
    }

    fn term(&mut self, &(key, app): &(&'static str, &'static str)) -> PodTerm {
        PodTerm {
            key: self.sym(key),
            selector: self.selector(app),
            namespaces: Vec::new(),
            namespace_selector: None,
            match_label_keys: Vec::new(),
            mismatch_label_keys: Vec::new(),
        }
    }

    /// Plans it, with the least and the most effort too, and checks what holds for every plan.
    pub(crate) fn plan(self) -> Plan {
        for effort in [Effort::Low, Effort::High] {
            self.plan_with(&Options { effort, ..self.options.clone() });
        }
        self.plan_with(&self.options)
    }

    pub(crate) fn plan_with(&self, options: &Options) -> Plan {
        let mut cluster = self.cluster.clone();
        let (universe, solution) = solve(&mut cluster, options);
        let plan = Plan { cluster, universe, solution };
        plan.check();
        plan
    }
}

/// The instance type that was made last.
pub(crate) struct TypeHandle<'w> {
    world: &'w mut World,
}

impl TypeHandle<'_> {
    fn offer(self, capacity_type: CapacityType, zone: &str, prices: (u32, u32), slots: Option<SlotId>) -> Self {
        let zone = self.world.sym(zone);
        let mut pairs = vec![(self.world.cluster.well_known.zone, zone)];
        pairs.push((self.world.cluster.well_known.capacity_type, self.world.sym(capacity_type.name())));
        if let (CapacityType::Reserved, Some(slot)) = (capacity_type, slots) {
            let id = self.world.cluster.slots[slot.index()].id;
            pairs.push((self.world.cluster.well_known.reservation_id, id));
        }
        let offering = Offering {
            capacity_type,
            zone: Some(zone),
            price: milli(prices.0),
            list_price: milli(prices.1),
            slots,
            labels: Labels::new(pairs),
        };
        self.world.cluster.instance_types.last_mut().unwrap().offerings.push(offering);
        self
    }

    fn slot(&mut self, id: &str, free: u32, is_reservation: bool) -> SlotId {
        let id = self.world.sym(id);
        let slots = &mut self.world.cluster.slots;
        let at = slots.iter().position(|slots| slots.id == id).unwrap_or_else(|| {
            slots.push(Slots { id, is_reservation, free });
            slots.len() - 1
        });
        SlotId(u32::try_from(at).unwrap())
    }

    /// On demand, at milli-dollars an hour.
    pub(crate) fn on_demand(self, zone: &str, price: u32) -> Self {
        self.offer(CapacityType::OnDemand, zone, (price, price), None)
    }

    /// Spot or on demand; `free` instances are to be had, or as many as one likes.
    pub(crate) fn offered(mut self, capacity_type: CapacityType, zone: &str, price: u32, free: Option<u32>) -> Self {
        let slot = free.map(|free| self.slot(&format!("finite-{zone}-{price}"), free, false));
        self.offer(capacity_type, zone, (price, price), slot)
    }

    /// On demand, with so many instances to be had.
    pub(crate) fn finite(self, zone: &str, price: u32, free: u32) -> Self {
        self.offered(CapacityType::OnDemand, zone, price, Some(free))
    }

    pub(crate) fn spot(self, zone: &str, price: u32) -> Self {
        self.offer(CapacityType::Spot, zone, (price, price), None)
    }

    /// Reserved, with the list price; an id that was used before is the same reservation.
    pub(crate) fn reserved(mut self, zone: &str, id: &str, free: u32, list_price: u32) -> Self {
        let slot = self.slot(id, free, true);
        self.offer(CapacityType::Reserved, zone, (0, list_price), Some(slot))
    }

    pub(crate) fn with(self, name: &str, amount: i64) -> Self {
        let name = self.world.sym(name);
        let id = self.world.cluster.resource_names.intern(name);
        self.world.cluster.instance_types.last_mut().unwrap().resources.set(id, amount);
        self
    }
}

/// The NodePool that was made last.
pub(crate) struct PoolHandle<'w> {
    world: &'w mut World,
}

impl PoolHandle<'_> {
    fn pool(&mut self) -> &mut NodePool {
        self.world.cluster.node_pools.last_mut().unwrap()
    }

    pub(crate) fn weight(mut self, weight: u32) -> Self {
        self.pool().weight = weight;
        self
    }

    pub(crate) fn require(self, key: &str, values: &[&str]) -> Self {
        self.ask(key, Operator::In, values)
    }

    pub(crate) fn excludes(self, key: &str, values: &[&str]) -> Self {
        self.ask(key, Operator::NotIn, values)
    }

    pub(crate) fn bound(self, key: &str, operator: Operator, value: &str) -> Self {
        self.ask(key, operator, &[value])
    }

    fn ask(self, key: &str, operator: Operator, values: &[&str]) -> Self {
        let (key, requirement) = (self.world.sym(key), self.world.requirement(operator, values));
        let cluster = &mut self.world.cluster;
        cluster.node_pools.last_mut().unwrap().requirements.add(key, requirement, &cluster.symbols);
        self
    }

    pub(crate) fn min_values(self, key: &str, least: u32) -> Self {
        let key = self.world.sym(key);
        let cluster = &mut self.world.cluster;
        let requirement = Requirement::exists().with_min_values(Some(least));
        cluster.node_pools.last_mut().unwrap().requirements.add(key, requirement, &cluster.symbols);
        self
    }

    pub(crate) fn taint(mut self, key: &str, effect: Effect) -> Self {
        let (key, value) = (self.world.sym(key), self.world.sym(""));
        self.pool().taints.push(Taint { key, value, effect });
        self
    }

    /// At most so many CPUs.
    pub(crate) fn limit_cpus(mut self, cpus: i64) -> Self {
        self.pool().limits.push((ResourceId::CPU, cpus * 1000));
        self
    }

    pub(crate) fn limit_nodes(mut self, nodes: u32) -> Self {
        self.pool().node_limit = Some(nodes);
        self
    }
}
