//! Clusters as manifests, and what the scheduler makes of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use berth_api::{PreAllocationConfig, ReservationArgs};
use berth_model::{Cluster, ReservationId, Universe};
use berth_properties::fold;
use berth_scheduling::{Launchable, Queue, Scheduler};

/// Manifests while they are written.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) text: String,
    /// Whether pods preempt.
    pub(crate) preempts: bool,
    /// What the scheduler's configuration says.
    pub(crate) args: ReservationArgs,
}

/// What became of all of them.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// `pod → node`, or `pod → node of reservation`; Reservations likewise; a pod that is left maps to its reasons.
    places: BTreeMap<String, String>,
    /// By node: milli-CPU and MiB that are free, neither used nor held.
    pub(crate) free: BTreeMap<String, (i64, i64)>,
    /// By Reservation that holds room: owners, milli-CPU and MiB that they request of it.
    pub(crate) allocated: BTreeMap<String, (u32, i64, i64)>,
    /// Who was evicted.
    pub(crate) evicted: Vec<String>,
    /// CPUs, or devices as `gpu 0`, of pods and Reservations that have any to themselves.
    pub(crate) assigned: BTreeMap<String, String>,
    /// What pods are refused for that no node takes.
    refusals: BTreeMap<String, String>,
    /// Running pods that Reservations were bound to, `reservation: pod`.
    pub(crate) bound: Vec<String>,
}

impl Outcome {
    /// Where a pod or Reservation went, or why it is left.
    pub(crate) fn of(&self, name: &str) -> &str {
        self.places.get(name).map_or("unknown", String::as_str)
    }

    /// Why a pod is left, whatever the nodes, or because of them.
    pub(crate) fn refusal_of(&self, name: &str) -> &str {
        self.refusals.get(name).map_or_else(|| self.of(name), String::as_str)
    }
}

impl World {
    /// Nodes of so much CPU and memory in Gi, 100 pods each, in zones `z-a`, `z-b` … by turns of two.
    pub(crate) fn nodes(names: &[&str], cpu: &str, gib: u32) -> Self {
        let mut world = World::default();
        for name in names {
            world.node(name, &format!("cpu: '{cpu}', memory: {gib}Gi, pods: '100'"));
        }
        world
    }

    pub(crate) fn add(&mut self, document: &str) -> &mut Self {
        self.text.push_str(document);
        self.text.push_str("\n---\n");
        self
    }

    pub(crate) fn node(&mut self, name: &str, allocatable: &str) -> &mut Self {
        self.add(&format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, \
             topology.kubernetes.io/zone: z-{name}}}}}\nstatus: {{allocatable: {{{allocatable}}}, conditions: [{{type: \
             Ready, status: 'True'}}]}}"
        ))
    }

    /// A pod of an app. `metadata` and `spec` are more fields in flow style, each with its comma.
    pub(crate) fn pod(&mut self, name: &str, app: &str, requests: &str, extra: Extra<'_>) -> &mut Self {
        let Extra { labels, annotations, spec, container } = extra;
        // An API server asks for limits of devices.
        let devices: Vec<&str> = requests.split(',').map(str::trim).filter(|request| request.contains('/')).collect();
        let limits = devices.join(", ");
        self.add(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, uid: u-{name}, labels: {{app: \
             {app}{labels}}}, annotations: {{{annotations}}}}}\nspec: {{{spec} containers: [{{name: c, image: i, \
             {container} resources: {{requests: {{{requests}}}, limits: {{{limits}}}}}}}]}}"
        ))
    }

    /// A running pod.
    pub(crate) fn running(&mut self, name: &str, app: &str, node: &str, requests: &str, extra: Extra<'_>) -> &mut Self {
        let spec = format!("nodeName: {node}, {}", extra.spec);
        self.pod(name, app, requests, Extra { spec: &spec, ..extra })
    }

    /// A running owner.
    pub(crate) fn owner_of(&mut self, reservation: &str, name: &str, node: &str, requests: &str) -> &mut Self {
        let drawn =
            format!("scheduling.koordinator.sh/reservation-allocated: '{{\"name\":\"{reservation}\",\"uid\":\"\"}}'");
        self.running(name, "web", node, requests, Extra { annotations: &drawn, ..Extra::default() })
    }

    /// A Reservation for pods of the app `web`, or whom `spec` says.
    pub(crate) fn reservation(&mut self, reservation: &Reserve<'_>) -> &mut Self {
        let Reserve { name, requests, spec, template, container, labels, annotations, template_labels, on, phase } =
            reservation;
        let owners =
            if spec.contains("owners:") { "" } else { "owners: [{labelSelector: {matchLabels: {app: web}}}]," };
        let mut text = String::new();
        let _ = write!(
            text,
            "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {{name: {name}, uid: \
             u-{name}, labels: {{{labels}}}, annotations: {{{annotations}}}}}\nspec: {{{owners} {spec} template: \
             {{metadata: {{namespace: default, labels: {{{template_labels}}}}}, spec: {{{template} containers: [{{name: \
             c, image: i, {container} resources: {{requests: {{{requests}}}}}}}]}}}}}}"
        );
        let phase = if phase.is_empty() && on.is_some() { "Available" } else { phase };
        if !phase.is_empty() {
            let node = on.map_or_else(String::new, |node| format!("nodeName: {node}, allocatable: {{{requests}}}"));
            let _ = write!(text, "\nstatus: {{phase: {phase}, {node}}}");
        }
        self.add(&text)
    }

    pub(crate) fn read(&self) -> Cluster {
        let options = berth_convert::Options { reservations: self.args.clone(), ..berth_convert::Options::default() };
        let mut builder = berth_convert::Builder::new(options);
        let reading = berth_manifests::Options::default();
        berth_manifests::read_from("world", self.text.as_bytes(), &reading, |_, object| fold(&mut builder, &object))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.text));
        builder.finish().unwrap().cluster
    }

    /// Schedules all.
    pub(crate) fn run(&self) -> Outcome {
        let mut cluster = self.read();
        let universe = Universe::with_scores(&mut cluster);
        let mut scheduler = Scheduler::new(&cluster, &universe, Launchable::default());
        let left = scheduler.run(Queue { preempts: self.preempts, ..Queue::default() });
        let node_name = |node: usize| cluster.symbols.text(cluster.nodes[node].name);
        let reservation_name = |id: ReservationId| cluster.symbols.text(cluster.reservations[id.index()].name);
        let mut outcome = Outcome::default();
        for placement in scheduler.placements() {
            let from = placement.draws_from.map(|id| format!(" of {}", reservation_name(id))).unwrap_or_default();
            let name = placement.name.trim_start_matches("default/").to_owned();
            let assigned = &placement.assigned;
            let mut units: Vec<String> = Vec::new();
            units.extend((!assigned.cpus.is_empty()).then(|| assigned.cpus.to_string()));
            let devices = assigned.devices.iter();
            units.extend(devices.map(|(kind, minor, _)| format!("{} {minor}", cluster.symbols.text(*kind))));
            units.extend(assigned.numa.iter().map(|(id, _)| format!("numa {id}")));
            outcome.assigned.insert(name.clone(), units.join(", "));
            let known = outcome.places.insert(name, format!("{}{from}", node_name(placement.node)));
            assert_eq!(known, None, "bound twice");
        }
        for (class, count) in left {
            let known = universe.class(class).unwrap();
            let reasons = scheduler.refusals(class);
            let reasons: Vec<String> = reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
            let members = known.rows.iter().flat_map(|row| &cluster.pending[row.index()].members);
            let names: Vec<String> = members.map(|run| run.name.to_string()).collect();
            let unplaced: Vec<String> =
                names.into_iter().filter(|name| !outcome.places.contains_key(name)).take(count as usize).collect();
            let spec = &cluster.specs[known.spec.index()];
            if let Some(refusal) = &spec.refusal {
                outcome.refusals.extend(unplaced.iter().map(|name| (name.clone(), refusal.0.clone())));
            }
            outcome.places.extend(unplaced.into_iter().map(|name| (name, reasons.join(", "))));
        }
        for id in scheduler.pre_allocating() {
            let reasons = scheduler.refusals_of_pre_allocation(id);
            let reasons: Vec<String> = reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
            outcome.places.insert(reservation_name(id).to_owned(), reasons.join(", "));
        }
        for (node, state) in scheduler.state().nodes().iter().enumerate() {
            let of = |resources: &berth_model::Resources| {
                let amounts = resources.amounts();
                (amounts.first().copied().unwrap_or(0), amounts.get(1).copied().unwrap_or(0) >> 20)
            };
            outcome.free.insert(node_name(node).to_owned(), of(&state.free));
            for holding in &state.holdings {
                let (cpu, mib) = of(holding.allocated());
                let name = reservation_name(holding.reservation).to_owned();
                outcome.allocated.insert(name, (holding.owners(), cpu, mib));
            }
        }
        let pod_name = |pod: berth_scheduling::Eviction| cluster.nodes[pod.node].pods[pod.pod].name.to_string();
        outcome.evicted = scheduler.evicted().into_iter().map(pod_name).collect();
        for (id, _) in cluster.reservations_with_ids() {
            let bound = scheduler.bound_pods(id).into_iter();
            outcome.bound.extend(bound.map(|pod| format!("{}: {}", reservation_name(id), pod_name(pod))));
        }
        outcome
    }
}

/// More fields in flow style, each ending in a comma, but for labels, which begin with one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra<'a> {
    pub(crate) labels: &'a str,
    pub(crate) annotations: &'a str,
    pub(crate) spec: &'a str,
    pub(crate) container: &'a str,
}

/// A Reservation's fields in flow style, those of specs each ending in a comma.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reserve<'a> {
    pub(crate) name: &'a str,
    pub(crate) requests: &'a str,
    pub(crate) spec: &'a str,
    pub(crate) template: &'a str,
    pub(crate) container: &'a str,
    pub(crate) labels: &'a str,
    pub(crate) annotations: &'a str,
    pub(crate) template_labels: &'a str,
    /// The node where it is.
    pub(crate) on: Option<&'a str>,
    /// Its phase; where that is empty, Available if it has a node.
    pub(crate) phase: &'a str,
}

/// A pod that must draw.
pub(crate) const MUST_DRAW: Extra<'static> =
    Extra { annotations: "scheduling.koordinator.sh/reservation-affinity: '{}'", labels: "", spec: "", container: "" };

/// A configuration with mode Cluster.
pub(crate) fn cluster_mode(prefers_free_room: bool) -> ReservationArgs {
    ReservationArgs {
        pre_allocation_config: PreAllocationConfig {
            enable_cluster_mode: true,
            prefer_no_pre_allocated_pods: prefers_free_room,
            ..PreAllocationConfig::default()
        },
        ..ReservationArgs::default()
    }
}
