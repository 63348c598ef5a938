//! The numbers of the moment that users of Karpenter, Koordinator and kube-scheduler have dashboards for, beside those of
//! [`super::gauges`]: names and labels are theirs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::{Reservation, ReservationPhase};
use berth_cloudprovider::InstanceTypes;
use berth_convert::requests_and_limits;
use berth_decisions::quantities;
use berth_model::Cluster;
use berth_quantity::Quantity;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

use super::Core;
use super::gauges::{Sums, gauge, node_labels, number, resource_type};
use crate::metrics::{Labels, Metric};

/// Reservations that are told by name, the oldest first: a cluster may have any number of them.
const NAMED: usize = 500;
/// What those are called together that are not.
const OTHERS: &str = "(others)";
/// The phases of a Reservation. Koordinator's metric knows no Waiting.
const PHASES: [(ReservationPhase, &str); 5] = [
    (ReservationPhase::Pending, "Pending"),
    (ReservationPhase::Available, "Available"),
    (ReservationPhase::Waiting, "Waiting"),
    (ReservationPhase::Succeeded, "Succeeded"),
    (ReservationPhase::Failed, "Failed"),
];
const GIB: f64 = 1_073_741_824.0;

impl Core {
    /// All of them.
    pub(super) fn peer_metrics(&self) -> Vec<Metric> {
        let mut all = self.node_sums();
        all.extend(instance_type_metrics(self.offers.values().map(|offers| &offers.types)));
        all.extend(reservation_metrics(self.view.reservations.values().map(|known| &**known)));
        all.extend(self.condition_metrics());
        all
    }

    /// What nodes have for pods, what these request and may use at most, and what the system keeps: summed up, those that are
    /// on their way out among them.
    fn node_sums(&self) -> Vec<Metric> {
        let (mut allocatable, mut overhead) = (Sums::new(), Sums::new());
        // Requests and limits of all, and of daemons.
        let mut of_pods: [Sums; 4] = Default::default();
        let (mut names, mut known) = (Cluster::new(), BTreeMap::new());
        let mut by_node: BTreeMap<&str, [BTreeMap<String, f64>; 4]> = BTreeMap::new();
        let pods = self.state.pods_with_observed().filter_map(|(_, observed)| observed);
        for pod in pods.filter(|pod| !pod.has_ended()) {
            let Some((node, spec)) = pod.node().zip(pod.spec()) else { continue };
            // Pods of one workload share theirs.
            let asked = || requests_and_limits_of(spec, &mut names);
            let own = known.entry(std::ptr::from_ref(spec)).or_insert_with(asked);
            let is_daemon = pod.controller().is_some_and(|owner| owner.kind == "DaemonSet");
            let sums = by_node.entry(node).or_default();
            *sums[0].entry("pods".to_owned()).or_default() += 1.0;
            for (sums, amounts) in sums.iter_mut().zip(own.iter().chain(own.iter().filter(|_| is_daemon))) {
                for (resource, amount) in amounts {
                    match sums.get_mut(resource) {
                        Some(sum) => *sum += amount,
                        None => drop(sums.insert(resource.clone(), *amount)),
                    }
                }
            }
        }
        for (name, node) in self.view.nodes.iter() {
            let of_node = node_labels(node);
            let status = node.status.as_ref();
            let given = status.and_then(|status| status.allocatable.as_ref());
            for (resource, capacity) in status.and_then(|status| status.capacity.as_ref()).into_iter().flatten() {
                let kept = given.and_then(|all| all.get(resource)).map_or(0.0, amount);
                *overhead.entry(of_resource(&of_node, resource)).or_default() += amount(capacity) - kept;
            }
            let [requests, ..] = &mut of_pods;
            for (resource, has) in given.into_iter().flatten() {
                let own = of_resource(&of_node, resource);
                // Each has its name, though nobody may request it.
                requests.entry(own.clone()).or_default();
                *allocatable.entry(own).or_default() += amount(has);
            }
            for (sums, own) in of_pods.iter_mut().zip(by_node.get(name.as_str()).into_iter().flatten()) {
                for (resource, amount) in own {
                    *sums.entry(of_resource(&of_node, resource)).or_default() += amount;
                }
            }
        }
        let [requests, limits, daemon_requests, daemon_limits] = of_pods;
        let [cluster, pools] = shares(&allocatable, &requests);
        vec![
            gauge("karpenter_nodes_allocatable", "What pods may use of nodes, summed up", allocatable),
            gauge("karpenter_nodes_total_pod_requests", "What pods on nodes request, summed up", requests),
            gauge(
                "karpenter_cluster_utilization_percent",
                "What pods request of what they may use",
                cluster.into_iter().map(|(labels, share)| (labels, 100.0 * share)).collect(),
            ),
            gauge(
                "berth_packing_efficiency",
                "What pods request of what the nodes of a NodePool have for them, 0 to 1",
                pools,
            ),
            gauge("karpenter_nodes_system_overhead", "What nodes have that pods may not use, summed up", overhead),
            gauge("karpenter_nodes_total_pod_limits", "What pods on nodes may use at most, summed up", limits),
            gauge(
                "karpenter_nodes_total_daemon_requests",
                "What pods of DaemonSets on nodes request, summed up",
                daemon_requests,
            ),
            gauge(
                "karpenter_nodes_total_daemon_limits",
                "What pods of DaemonSets on nodes may use at most, summed up",
                daemon_limits,
            ),
        ]
    }

    /// How many objects have which condition. NodePools are few and named; nodes and NodeClaims are counted.
    fn condition_metrics(&self) -> Vec<Metric> {
        let (mut nodes, mut claims, mut pools) = (Sums::new(), Sums::new(), Sums::new());
        let labels = |type_: &str, status: &str, reason: &str| -> Labels {
            vec![("reason", reason.to_owned()), ("status", status.to_owned()), ("type", type_.to_owned())]
        };
        for node in self.view.nodes.values() {
            let all = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            for known in all {
                let reason = known.reason.as_deref().unwrap_or_default();
                *nodes.entry(labels(&known.type_, &known.status, reason)).or_default() += 1.0;
            }
        }
        for known in self.view.claims.values().filter_map(|claim| claim.status.as_ref()).flat_map(|own| &own.conditions)
        {
            *claims.entry(labels(&known.type_, &known.status, &known.reason)).or_default() += 1.0;
        }
        for (name, pool) in self.view.pools.iter() {
            for known in pool.status.iter().flat_map(|status| &status.conditions) {
                let mut labels = labels(&known.type_, &known.status, &known.reason);
                labels.insert(0, ("name", name.clone()));
                pools.insert(labels, 1.0);
            }
        }
        vec![
            gauge("operator_node_status_condition_count", "Nodes by condition", nodes),
            gauge("operator_nodeclaim_status_condition_count", "NodeClaims by condition", claims),
            gauge("operator_nodepool_status_condition_count", "1 for each condition of a NodePool", pools),
        ]
    }
}

/// What the cloud offers, whichever node class sees it.
fn instance_type_metrics<'t>(offers: impl Iterator<Item = &'t InstanceTypes>) -> Vec<Metric> {
    let (mut cpus, mut memory) = (Sums::new(), Sums::new());
    let mut offerings: BTreeMap<Labels, (bool, f64)> = BTreeMap::new();
    for known in offers.flat_map(|offers| offers.catalogue.types()) {
        let own = || vec![("instance_type", known.name.clone())];
        let resource = |name: &str| known.resources.get(name).map_or(0.0, |amount| number(*amount));
        let machine = known.machine.as_deref();
        cpus.insert(own(), machine.map_or_else(|| resource("cpu"), |machine| f64::from(machine.vcpus)));
        #[allow(clippy::cast_precision_loss, reason = "a chart needs no more than 52 bits")]
        let of_machine = machine.map(|machine| machine.memory_mib as f64 * 1_048_576.0);
        memory.insert(own(), of_machine.unwrap_or_else(|| resource("memory")));
        for offering in &known.offerings {
            let capacity_type = offering.capacity_type().map_or("", berth_catalogue::CapacityType::as_str);
            let labels = vec![
                ("capacity_type", capacity_type.to_owned()),
                ("instance_type", known.name.clone()),
                ("zone", offering.zone().unwrap_or_default().to_owned()),
            ];
            // Several reservations may have slots of one type and zone.
            let (is_available, price) = offerings.entry(labels).or_insert((false, f64::INFINITY));
            *is_available |= !offering.launchable().is_none();
            *price = price.min(known.marginal_price(offering).dollars());
        }
    }
    let available = offerings.iter().map(|(labels, (is, _))| (labels.clone(), f64::from(u8::from(*is)))).collect();
    let prices = offerings.into_iter().map(|(labels, (_, price))| (labels, price)).collect();
    vec![
        gauge("karpenter_cloudprovider_instance_type_cpu_cores", "CPUs of an instance type", cpus),
        gauge("karpenter_cloudprovider_instance_type_memory_bytes", "Memory of an instance type", memory),
        gauge(
            "karpenter_cloudprovider_instance_type_offering_available",
            "1 where an instance can be launched, as the cloud said last",
            available,
        ),
        gauge(
            "karpenter_cloudprovider_instance_type_offering_price_estimate",
            "What an instance costs in dollars an hour; reserved ones are paid for anyhow and cost nothing",
            prices,
        ),
    ]
}

/// The phase of each Reservation, and what it has and what owners use of that.
fn reservation_metrics<'r>(all: impl Iterator<Item = &'r Reservation>) -> Vec<Metric> {
    let (mut phases, mut resources) = (Sums::new(), Sums::new());
    let mut all: Vec<&Reservation> = all.collect();
    all.sort_by(|a, b| {
        let key = |known: &Reservation| known.metadata.creation_timestamp.as_ref().map(|time| time.0);
        // One without a time is none that a server has created.
        (Reverse(key(a).is_some()), key(a), &a.metadata.name).cmp(&(
            Reverse(key(b).is_some()),
            key(b),
            &b.metadata.name,
        ))
    });
    let mut amounts: BTreeMap<(String, String), [f64; 2]> = BTreeMap::new();
    for (at, known) in all.into_iter().enumerate() {
        let name = if at < NAMED { known.metadata.name.clone().unwrap_or_default() } else { OTHERS.to_owned() };
        let status = known.status.as_ref();
        let own = status.map(|status| status.phase).unwrap_or_default();
        for (phase, text) in PHASES {
            let labels = vec![("name", name.clone()), ("phase", text.to_owned())];
            *phases.entry(labels).or_default() += f64::from(u8::from(own == phase));
        }
        let Some(status) = status else { continue };
        for (resource, has) in &status.allocatable {
            let used = status.allocated.get(resource).map_or(0.0, |amount| number(*amount));
            let [sum_has, sum_used] = amounts.entry((name.clone(), resource.clone())).or_default();
            *sum_has += number(*has);
            *sum_used += used;
        }
    }
    for ((name, resource), [has, used]) in amounts {
        let (unit, by) = match &*resource {
            "cpu" => ("core", 1.0),
            "memory" => ("Gi", GIB),
            _ => ("raw", 1.0),
        };
        let mut put = |type_: &str, unit: &str, value: f64| {
            let (resource, type_, unit) = (resource.clone(), type_.to_owned(), unit.to_owned());
            let labels = vec![("name", name.clone()), ("resource", resource), ("type", type_), ("unit", unit)];
            resources.insert(labels, value);
        };
        put("allocatable", unit, has / by);
        put("allocated", unit, used / by);
        if has > 0.0 {
            put("utilization", "ratio", used / has);
        }
    }
    vec![
        gauge(
            "scheduler_reservation_status_phase",
            "1 for the phase that a Reservation is in, 0 for the others",
            phases,
        ),
        gauge("scheduler_reservation_resource", "What a Reservation has, and what its owners use of that", resources),
    ]
}

/// Which share of what nodes have is requested: in all, and by NodePool.
fn shares(allocatable: &Sums, requests: &Sums) -> [Sums; 2] {
    let mut sums: [BTreeMap<Labels, [f64; 2]>; 2] = Default::default();
    let [in_all, of_pools] = &mut sums;
    for (labels, has) in allocatable {
        let asked = requests.get(labels).copied().unwrap_or_default();
        let value = |name: &str| labels.iter().find(|(known, _)| *known == name).cloned();
        let Some(resource) = value("resource_type") else { continue };
        let pool = value("nodepool").filter(|(_, pool)| !pool.is_empty());
        let of_pool = pool.map(|pool| of_pools.entry(vec![pool, resource.clone()]).or_default());
        for [sum_asked, sum_has] in of_pool.into_iter().chain([in_all.entry(vec![resource]).or_default()]) {
            *sum_asked += asked;
            *sum_has += has;
        }
    }
    let share = |(labels, [asked, has]): (Labels, [f64; 2])| (has > 0.0).then(|| (labels, asked / has));
    sums.map(|sums| sums.into_iter().filter_map(share).collect())
}

fn of_resource(labels: &Labels, resource: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push(("resource_type", resource_type(resource)));
    labels
}

fn amount(written: &Written) -> f64 {
    written.0.parse::<Quantity>().map_or(0.0, number)
}

/// What a pod requests and what it is limited to, by resource.
fn requests_and_limits_of(spec: &PodSpec, names: &mut Cluster) -> [BTreeMap<String, f64>; 2] {
    // The API server takes no amounts that are none.
    let both = requests_and_limits(spec, names).unwrap_or_default();
    both.map(|amounts| {
        let amounts = quantities(names, &amounts).into_iter().filter(|(_, amount)| !amount.is_zero());
        amounts.map(|(resource, amount)| (resource.to_owned(), number(amount))).collect()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::super::tests::at_rest;
    use super::*;
    use crate::core::Input;
    use crate::metrics::Values;
    use crate::observed::{Object, Observed};

    /// `labels value`, a line each, of one metric.
    fn lines(metrics: &[Metric], name: &str) -> Vec<String> {
        let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
        let Values::Gauge(all) = &metric.values else { panic!("{metric:?}") };
        let text = |labels: &Labels| labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        all.iter().map(|(labels, value)| format!("{} {value}", text(labels).join(","))).collect()
    }

    fn reservation(name: &str, second: usize, status: &Value) -> Reservation {
        serde_json::from_value(json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60)},
            "spec": {"owners": [], "template": {"spec": {"containers": []}}}, "status": status}))
        .unwrap()
    }

    /// The regression: of a node that drained, and of its pods, some sums knew nothing.
    #[test]
    fn a_node_counts_until_it_is_gone() {
        let mut core = at_rest(2);
        let sums = |core: &Core| {
            let metrics = core.node_sums();
            let value = |name: &str, resource: &str| -> f64 {
                let all = lines(&metrics, name).into_iter().filter(|line| line.contains(resource));
                all.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
            };
            [
                value("karpenter_nodes_allocatable", "resource_type=cpu"),
                value("karpenter_nodes_total_pod_requests", "resource_type=cpu"),
                value("karpenter_nodes_total_pod_requests", "resource_type=pods"),
                value("karpenter_cluster_utilization_percent", "resource_type=cpu"),
                value("berth_packing_efficiency", "nodepool=web,resource_type=cpu"),
            ]
            .map(|sum| sum.to_string())
        };
        let expected = ["8", "4", "4", "50", "0.5"];
        assert_eq!(sums(&core), expected);
        let mut node = Node::clone(core.view.nodes.get("n0").unwrap());
        node.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:30Z".parse().unwrap()));
        node.metadata.resource_version = Some("2".to_owned());
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        core.handle(Input::Observed(Observed::Applied(Object::from(node))), now);
        assert_eq!(sums(&core), expected);
    }

    #[test]
    fn a_reservation_has_koordinator_s_metrics() {
        let half = json!({"phase": "Available", "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"},
            "allocated": {"cpu": "1", "memory": "4Gi"}});
        let metrics = reservation_metrics([&reservation("room", 0, &half)].into_iter());
        assert_eq!(
            lines(&metrics, "scheduler_reservation_status_phase"),
            [
                "name=room,phase=Available 1",
                "name=room,phase=Failed 0",
                "name=room,phase=Pending 0",
                "name=room,phase=Succeeded 0",
                "name=room,phase=Waiting 0",
            ]
        );
        let resources = lines(&metrics, "scheduler_reservation_resource");
        for expected in [
            "name=room,resource=cpu,type=allocatable,unit=core 4",
            "name=room,resource=cpu,type=allocated,unit=core 1",
            "name=room,resource=cpu,type=utilization,unit=ratio 0.25",
            "name=room,resource=memory,type=allocatable,unit=Gi 8",
            "name=room,resource=memory,type=allocated,unit=Gi 4",
            "name=room,resource=memory,type=utilization,unit=ratio 0.5",
            "name=room,resource=nvidia.com/gpu,type=allocatable,unit=raw 2",
            "name=room,resource=nvidia.com/gpu,type=allocated,unit=raw 0",
            "name=room,resource=nvidia.com/gpu,type=utilization,unit=ratio 0",
        ] {
            assert!(resources.iter().any(|line| line == expected), "{expected}: {resources:#?}");
        }
        assert_eq!(resources.len(), 9);
    }

    #[test]
    fn reservations_beyond_the_first_are_one() {
        let all: Vec<Reservation> =
            (0..NAMED + 3).map(|at| reservation(&format!("r{}", 900 - at), at, &json!({"phase": "Pending"}))).collect();
        let metrics = reservation_metrics(all.iter());
        let phases = lines(&metrics, "scheduler_reservation_status_phase");
        assert_eq!(phases.len(), (NAMED + 1) * PHASES.len());
        assert!(phases.contains(&format!("name={OTHERS},phase=Pending 3")), "{phases:#?}");
        assert!(phases.contains(&"name=r900,phase=Pending 1".to_owned()), "the oldest is named");
    }

    #[test]
    fn a_pod_asks_for_the_most_that_it_needs_at_a_time() {
        let cpu = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let spec = |init: Value| -> PodSpec {
            serde_json::from_value(json!({"containers": [cpu("a", "1"), cpu("b", "500m")], "initContainers": init,
                "overhead": {"cpu": "250m"}}))
            .unwrap()
        };
        let mut sidecar = cpu("s", "1");
        sidecar["restartPolicy"] = json!("Always");
        for (init, expected) in [
            (json!([]), 1.75),
            (json!([cpu("i", "3")]), 3.25),
            (json!([sidecar, cpu("i", "1")]), 2.75),
            (json!([sidecar, cpu("i", "3")]), 4.25),
        ] {
            let [requests, limits] = requests_and_limits_of(&spec(init.clone()), &mut Cluster::new());
            assert_eq!((requests, limits), (BTreeMap::from([("cpu".to_owned(), expected)]), BTreeMap::new()), "{init}");
        }
        // What is asked for by the pod itself counts in place of what its containers ask for.
        let mut own = spec(json!([]));
        own.resources = serde_json::from_value(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}})).unwrap();
        let [requests, limits] = requests_and_limits_of(&own, &mut Cluster::new());
        assert_eq!((requests["cpu"], limits["cpu"]), (2.25, 4.25));
    }

    #[test]
    fn what_several_reservations_offer_is_one_offering() {
        let label = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let offering = |capacity_type: &str, price: f64, more: Value| {
            let mut requirements =
                vec![label("karpenter.sh/capacity-type", capacity_type), label("topology.kubernetes.io/zone", "a")];
            requirements
                .extend(more.get("id").and_then(Value::as_str).map(|id| label("karpenter.sh/reservation-id", id)));
            json!({"Price": price, "Available": more["n"], "Requirements": requirements})
        };
        let types = json!([{"name": "m5.large", "resources": {"cpu": "1930m", "memory": "7Gi"}, "offerings": [
            offering("on-demand", 0.5, json!({"n": true})), offering("spot", 0.25, json!({"n": false})),
            offering("reserved", 0.5, json!({"n": 0, "id": "one"})), offering("reserved", 0.5, json!({"n": 2, "id": "two"}))]}]);
        let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap();
        let types = InstanceTypes { catalogue: catalogue.into(), reservations: Vec::new() };
        let metrics = instance_type_metrics([&types].into_iter());
        let of = |name: &str| lines(&metrics, &format!("karpenter_cloudprovider_instance_type_{name}"));
        assert_eq!(of("cpu_cores"), ["instance_type=m5.large 1.93"]);
        assert_eq!(of("memory_bytes"), ["instance_type=m5.large 7516192768"]);
        let three = |values: [&str; 3]| {
            let all = ["on-demand", "reserved", "spot"].into_iter().zip(values);
            let lines = all.map(|(of, value)| format!("capacity_type={of},instance_type=m5.large,zone=a {value}"));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(of("offering_available"), three(["1", "1", "0"]));
        assert_eq!(of("offering_price_estimate"), three(["0.5", "0", "0.25"]));
    }
}
