//! Random clusters in which nothing changes any more.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

mod common;

use std::fmt::Write as _;

use berth_simulate::{Client, CloudEvent, FakeCloud, Onlooker, Simulation};
use jiff::Timestamp;
use proptest::prelude::*;

use common::Folder;

/// The last change, the end of what is done for it, and the end of the simulation, in minutes.
const CHANGE: u32 = 40;
const RESTS: u32 = 150;
const END: u32 = 240;

const CATALOGUE: &str = "
- name: of-2
  resources: {cpu: '2', memory: 8Gi, pods: '20'}
  offerings:
  - {Price: 0.1, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - {Price: 0.1, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [b]}]}
- name: of-4
  resources: {cpu: '4', memory: 16Gi, pods: '20'}
  offerings:
  - {Price: 0.2, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - {Price: 0.2, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [b]}]}
  - {Price: 0.2, ReservationCapacity: 2, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: berth.sh/capacity-reservation-id, operator: In, values: [cr]}]}
- name: of-8
  resources: {cpu: '8', memory: 32Gi, pods: '20'}
  offerings:
  - {Price: 0.4, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [b]}]}
";

/// A Deployment: its pods at first and later, which request of those there are, and its rules.
#[derive(Debug, Clone)]
struct Workload {
    replicas: (u32, u32),
    requests: usize,
    zone: Option<&'static str>,
    affinity: Option<Affinity>,
    spread: Option<Spread>,
    is_important: bool,
    kept: Option<Kept>,
}

/// What keeps its pods on their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    ByMark,
    /// By a budget that lets so many go at a time.
    ByBudget(u8),
}

/// What there is beside workloads, and what else happens.
#[derive(Debug, Clone)]
struct Ground {
    /// The NodePool's limit of CPUs.
    limit: Option<u8>,
    /// The nodes of the beginning expire.
    expires: bool,
    /// A Reservation for the pods of the first workload, and for how many of them.
    room: Option<u8>,
    consolidate_after: &'static str,
    seed: u16,
}

/// Whether it keeps apart from another's pods or comes to them, by which key, and whether it must.
#[derive(Debug, Clone)]
struct Affinity {
    is_anti: bool,
    of: usize,
    key: &'static str,
    is_required: bool,
}

/// Of its own pods.
#[derive(Debug, Clone)]
struct Spread {
    max_skew: u8,
    min_domains: Option<u8>,
    key: &'static str,
    is_required: bool,
    honors_taints: bool,
}

const REQUESTS: [&str; 5] = [
    "{cpu: 200m, memory: 3Gi}",
    "{cpu: 500m, memory: 512Mi}",
    "{cpu: 1, memory: 1Gi}",
    "{cpu: 1500m, memory: 2Gi}",
    "{cpu: 3, memory: 3Gi}",
];
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

impl Workload {
    fn write(&self, at: usize, out: &mut String) {
        let requests = REQUESTS[self.requests];
        let mut rules: Vec<String> = self.zone.iter().map(|zone| format!("nodeSelector: {{{ZONE}: {zone}}}")).collect();
        if let Some(Affinity { is_anti, of, key, is_required }) = &self.affinity {
            let kind = if *is_anti { "podAntiAffinity" } else { "podAffinity" };
            let term = format!("{{topologyKey: {key}, labelSelector: {{matchLabels: {{app: w{of}}}}}}}");
            let terms = if *is_required {
                format!("requiredDuringSchedulingIgnoredDuringExecution: [{term}]")
            } else {
                format!("preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 50, podAffinityTerm: {term}}}]")
            };
            rules.push(format!("affinity: {{{kind}: {{{terms}}}}}"));
        }
        if let Some(Spread { max_skew, min_domains, key, is_required, honors_taints }) = &self.spread {
            let when = if *is_required { "DoNotSchedule" } else { "ScheduleAnyway" };
            let taints = if *honors_taints { "Honor" } else { "Ignore" };
            let least = min_domains.filter(|_| *is_required).map(|least| format!("minDomains: {least}, "));
            rules.push(format!(
                "topologySpreadConstraints: [{{maxSkew: {max_skew}, {}topologyKey: {key}, whenUnsatisfiable: {when},
          nodeTaintsPolicy: {taints}, labelSelector: {{matchLabels: {{app: w{at}}}}}}}]",
                least.unwrap_or_default()
            ));
        }
        if self.is_important {
            rules.push("priorityClassName: important".to_owned());
        }
        let rules = rules.join("\n        ");
        let mark =
            if self.kept == Some(Kept::ByMark) { ", annotations: {karpenter.sh/do-not-disrupt: 'true'}" } else { "" };
        if let Some(Kept::ByBudget(count)) = self.kept {
            writeln!(
                out,
                "- {{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: w{at}, namespace: default}}, spec: \
                 {{maxUnavailable: {count}, selector: {{matchLabels: {{app: w{at}}}}}}}}}"
            )
            .unwrap();
        }
        write!(
            out,
            "- apiVersion: apps/v1
  kind: Deployment
  metadata: {{name: w{at}}}
  spec:
    replicas: {}
    selector: {{matchLabels: {{app: w{at}}}}}
    template:
      metadata: {{labels: {{app: w{at}}}{mark}}}
      spec:
        containers: [{{name: app, image: app, resources: {{requests: {requests}}}}}]
        {rules}
",
            self.replicas.0
        )
        .unwrap();
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    let key = || prop_oneof![Just(HOST), Just(ZONE)];
    let affinity = (any::<bool>(), 0_usize..4, key(), any::<bool>())
        .prop_map(|(is_anti, of, key, is_required)| Affinity { is_anti, of, key, is_required });
    let spread = (1_u8..3, prop::option::weighted(0.3, 2_u8..4), key(), any::<bool>(), any::<bool>()).prop_map(
        |(max_skew, min_domains, key, is_required, honors_taints)| Spread {
            max_skew,
            min_domains,
            key,
            is_required,
            honors_taints,
        },
    );
    let zone = prop::option::weighted(0.15, prop_oneof![Just("a"), Just("b")]);
    let rules = (zone, prop::option::of(affinity), prop::option::of(spread));
    let kept = prop_oneof![Just(Kept::ByMark), (0_u8..3).prop_map(Kept::ByBudget)];
    let rank = (prop::bool::weighted(0.25), prop::option::weighted(0.3, kept));
    ((0_u32..9, 0_u32..9), 0..REQUESTS.len(), rules, rank).prop_map(
        |(replicas, requests, (zone, affinity, spread), (is_important, kept))| Workload {
            replicas,
            requests,
            zone,
            affinity,
            spread,
            is_important,
            kept,
        },
    )
}

fn ground() -> impl Strategy<Value = Ground> {
    let consolidate_after = prop_oneof![Just("0s"), Just("30s"), Just("2m")];
    let limit = prop::option::weighted(0.3, 6_u8..24);
    let room = prop::option::weighted(0.4, 1_u8..4);
    (limit, any::<bool>(), room, consolidate_after, any::<u16>()).prop_map(
        |(limit, expires, room, consolidate_after, seed)| Ground { limit, expires, room, consolidate_after, seed },
    )
}

/// The NodePool, whose nodes expire or do not.
fn pool(ground: &Ground, expires: &str) -> String {
    let limits = ground.limit.map(|limit| format!("limits: {{cpu: '{limit}'}}, ")).unwrap_or_default();
    format!(
        "{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: p0}}, spec: {{{limits}disruption: {{consolidateAfter: {}, \
         budgets: [{{nodes: 100%}}]}}, template: {{spec: {{expireAfter: {expires}, nodeClassRef: {{group: berth.sh, kind: \
         FakeNodeClass, name: default}}, requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [reserved, \
         on-demand]}}]}}}}}}}}",
        ground.consolidate_after
    )
}

/// Room for so many pods of the first workload.
fn room(count: u8, requests: &str) -> String {
    let one = format!("{{name: c, image: i, resources: {{requests: {requests}}}}}");
    let all: Vec<String> = (0..count).map(|at| one.replace("name: c", &format!("name: c{at}"))).collect();
    format!(
        "- {{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {{name: room}}, spec: {{ttl: 0s, \
         allocateOnce: false, owners: [{{labelSelector: {{matchLabels: {{app: w0}}}}}}], template: {{spec: {{containers: [{}]}}}}}}}}\n",
        all.join(", ")
    )
}

fn scenario(workloads: &[Workload], ground: &Ground) -> String {
    let expires = if ground.expires { "50m" } else { "Never" };
    let mut objects = format!("- {}\n", pool(ground, expires));
    objects.push_str(
        "- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: important}, value: 1000}\n",
    );
    if let (Some(count), Some(first)) = (ground.room, workloads.first()) {
        objects.push_str(&room(count, REQUESTS[first.requests]));
    }
    let mut events = String::new();
    if ground.expires {
        writeln!(events, "- {{at: 30m, apply: {{objects: [{}]}}}}", pool(ground, "Never")).unwrap();
    }
    for (at, workload) in workloads.iter().enumerate() {
        workload.write(at, &mut objects);
        let minute = CHANGE - u32::try_from(at).unwrap() * 7;
        writeln!(events, "- {{at: {minute}m, scale: {{name: w{at}, replicas: {}}}}}", workload.replicas.1).unwrap();
    }
    format!(
        "apiVersion: berth.sh/v1alpha1\nkind: Scenario\ninstanceTypes: catalogue.yaml\nduration: {END}m\nseed: {}\ncloud: \
         {{bootDelay: 30s, bootJitter: 30s}}\nobjects:\n{objects}events:\n{events}",
        ground.seed
    )
}

/// Nodes that come or go after all was to be at rest.
struct Late(Option<Timestamp>, Vec<String>);

impl Onlooker for Late {
    fn begin(&mut self, _: &Client, cloud: &FakeCloud) {
        self.0 = Some(cloud.now() + jiff::SignedDuration::from_mins(RESTS.into()));
    }

    fn happened(&mut self, now: Timestamp, event: &CloudEvent) {
        let what = match event {
            CloudEvent::Launched { node_claim, .. } => format!("{} is launched", node_claim.name),
            CloudEvent::Terminated(id) => format!("{} ends", id.0),
            _ => return,
        };
        if self.0.is_some_and(|rests| now > rests) {
            self.1.push(format!("{now}: {what}"));
        }
    }

    fn step(&mut self, _: &str) {}
    fn end(&mut self) {}
}

/// How many clusters there are: fewer than other random cases, as each takes seconds.
fn cases() -> u32 {
    let asked: u32 = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(16);
    asked.div_ceil(2)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 60, ..ProptestConfig::default() })]

    /// The regression: for ever nodes were launched, their pods moved there, and moved back.
    #[test]
    fn still_load_ends_in_still_nodes(
        workloads in prop::collection::vec(workload(), 2..5),
        ground in ground(),
    ) {
        let folder = Folder::new("still");
        folder.write("catalogue.yaml", CATALOGUE);
        let text = scenario(&workloads, &ground);
        let mut late = Late(None, Vec::new());
        let outcome = Simulation::read(&folder.write("scenario.yaml", &text)).unwrap().run_watched(&mut late);
        let outcome = outcome.unwrap();
        prop_assert!(late.1.is_empty(), "{:?}\n{:?}\n{text}", late.1, outcome.nodes);
    }
}
