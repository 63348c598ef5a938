//! One good plan, and for each rule a plan that breaks it: the checker can fail.

#![allow(clippy::expect_used, clippy::panic, reason = "builders of a test may fail as the test itself")]

use berth_checker::{MaxShare, Options, check};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

struct Fixture {
    objects: Vec<Value>,
    catalogue: Value,
    plan: Value,
}

impl Fixture {
    fn object(&mut self, kind: &str, name: &str) -> &mut Value {
        let is_it = |o: &&mut Value| o["kind"] == kind && o["metadata"]["name"] == name;
        self.objects.iter_mut().find(is_it).expect("an object of the fixture")
    }

    fn pod_spec(&mut self, name: &str) -> &mut Value {
        &mut self.object("Pod", name)["spec"]
    }

    fn claim(&mut self, index: usize) -> &mut Value {
        &mut self.plan["nodeClaims"][index]
    }

    fn violations(&self) -> Vec<String> {
        let found = check(&self.objects, &self.catalogue, &self.plan, &Options::default());
        found.iter().map(ToString::to_string).collect()
    }
}

fn offering(capacity_type: &str, zone: &str, price: f64) -> Value {
    json!({"Price": price, "Available": true, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": ZONE, "operator": "In", "values": [zone]},
    ]})
}

fn reserved(zone: &str, id: &str, count: u64) -> Value {
    let mut value = offering("reserved", zone, 0.000_001);
    value["ReservationCapacity"] = count.into();
    value["Requirements"]
        .as_array_mut()
        .expect("requirements")
        .push(json!({"key": "karpenter.sh/reservation-id", "operator": "In", "values": [id]}));
    value
}

fn pod(name: &str, app: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
    })
}

fn claim(name: &str, capacity_type: &str, zone: &str, price: f64, pods: &[&str], cpu: &str) -> Value {
    let types = if capacity_type == "reserved" { json!(["small"]) } else { json!(["small", "large"]) };
    json!({
        "name": name, "nodePool": "main",
        "offering": {"instanceType": "small", "zone": zone, "capacityType": capacity_type,
            "reservationID": if capacity_type == "reserved" { json!("cr-1") } else { Value::Null }, "price": price},
        "instanceTypes": types,
        "requirements": [
            {"key": ZONE, "operator": "In", "values": [zone]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        ],
        "taints": [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}],
        "requests": {"cpu": cpu, "memory": format!("{}Gi", pods.len()), "pods": pods.len().to_string()},
        "pods": pods, "reservations": [], "allocations": [],
    })
}

/// Two types in two zones; a reservation of one `small` in zone a; one NodePool with a taint; one node that runs.
///
/// Pods slot, paid-a and paid-b go to new nodes (zones a, a and b), pod fits to the node, pod huge nowhere.
fn good() -> Fixture {
    let tolerate = json!([{"key": "dedicated", "operator": "Exists"}]);
    let mut pods = vec![
        pod("slot", "web", "1500m"),
        pod("paid-a", "web", "1500m"),
        pod("paid-b", "db", "1500m"),
        pod("fits", "db", "1"),
        pod("huge", "huge", "100"),
    ];
    for pod in &mut pods {
        pod["spec"]["tolerations"] = tolerate.clone();
    }
    let mut running = pod("running", "old", "2");
    running["spec"]["nodeName"] = "node-1".into();
    running["status"] = json!({"phase": "Running"});
    let daemon = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}},
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "main"},
        "spec": {"limits": {"cpu": "20", "nodes": "4"}, "template": {
            "metadata": {"labels": {"tier": "gold"}},
            "spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
                "taints": [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}],
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}}},
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1", ZONE: "b", "karpenter.sh/nodepool": "main"}},
        "spec": {},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "10"}, "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"}},
    });
    let mut objects = vec![pool, node, daemon, running];
    objects.extend(pods);
    let size = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory, "pods": "10"});
    let catalogue = json!([
        {"name": "small", "architecture": "amd64", "operatingSystems": ["linux"], "resources": size("2", "8Gi"), "offerings": [
            offering("on-demand", "a", 0.10), offering("on-demand", "b", 0.10), offering("spot", "a", 0.04), reserved("a", "cr-1", 1)]},
        {"name": "large", "architecture": "amd64", "operatingSystems": ["linux"], "resources": size("8", "32Gi"), "offerings": [
            offering("on-demand", "a", 0.40), offering("on-demand", "b", 0.40)]},
    ]);
    let plan = json!({
        "apiVersion": "berth.sh/v1alpha1", "kind": "Plan",
        "summary": {"pods": 5, "placed": 4, "unschedulable": 1, "nodeClaims": 3, "hourlyCost": 0.2, "listCost": 0.3, "nodeCost": 0.0,
            "lowerBound": null, "solveSeconds": null, "reservedSlots": {"total": 1, "used": 1}},
        "reservations": [{"id": "cr-1", "total": 1, "used": 1}],
        "nodeClaims": [
            claim("main-1", "reserved", "a", 0.0, &["default/slot"], "1600m"),
            claim("main-2", "on-demand", "a", 0.1, &["default/paid-a"], "1600m"),
            claim("main-3", "on-demand", "b", 0.1, &["default/paid-b"], "1600m"),
        ],
        "nodes": [{"name": "node-1", "pods": ["default/fits"], "reservations": [], "allocations": [], "preempted": []}],
        "unschedulable": [{"kind": "Pod", "object": "default/huge", "count": 1, "reasons": [{"reason": "Insufficient cpu", "count": 2}]}],
    });
    Fixture { objects, catalogue, plan }
}

#[test]
fn good_plan_has_no_violations() {
    assert_eq!(good().violations(), Vec::<String>::new());
}

/// The plan, broken in one way, has a violation of this rule that names this.
fn assert_caught(rule: &str, named: &str, mutate: impl FnOnce(&mut Fixture)) {
    let mut fixture = good();
    mutate(&mut fixture);
    let found = fixture.violations();
    assert!(
        found.iter().any(|v| v.starts_with(&format!("{rule}: ")) && v.contains(named)),
        "no {rule} about {named} in {found:#?}"
    );
}

/// The good plan stays good with this change to the input.
fn assert_fine(mutate: impl FnOnce(&mut Fixture)) {
    let mut fixture = good();
    mutate(&mut fixture);
    assert_eq!(fixture.violations(), Vec::<String>::new());
}

fn spread(key: &str, app: &str) -> Value {
    json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}])
}

fn required(kind: &str, key: &str, app: &str) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}})
}

#[test]
fn every_pod_is_placed_once_or_refused() {
    assert_caught("coverage", "default/slot", |f| f.claim(1)["pods"] = json!(["default/paid-a", "default/slot"]));
    assert_caught("coverage", "no such pod", |f| f.claim(1)["pods"] = json!(["default/paid-a", "default/ghost"]));
    assert_caught("coverage", "runs on", |f| f.claim(1)["pods"] = json!(["default/paid-a", "default/running"]));
    assert_caught("coverage", "are not 5 pods", |f| f.plan["unschedulable"] = json!([]));
    assert_caught("coverage", "placed is 5", |f| f.plan["summary"]["placed"] = 5.into());
    assert_caught("coverage", "the input has 6", |f| f.objects.push(pod("new", "new", "1")));
    assert_caught("coverage", "without a reason", |f| f.plan["unschedulable"][0]["reasons"] = json!([]));
    assert_caught("coverage", "placed and refused", |f| f.plan["unschedulable"][0]["object"] = "default/slot".into());
}

#[test]
fn workload_gets_as_many_pods_as_it_wants() {
    let deployment = |replicas: u64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}},
                "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod("w", "w", "100m")["spec"]}}})
    };
    let place = |f: &mut Fixture, replicas: u64| {
        f.objects.push(deployment(replicas));
        f.plan["nodes"][0]["pods"] = json!(["default/fits", "default/w-0", "default/w-1"]);
        f.plan["summary"]["pods"] = 7.into();
        f.plan["summary"]["placed"] = 6.into();
    };
    assert_fine(|f| place(f, 2));
    assert_caught("coverage", "default/w-1", |f| place(f, 1));
    assert_caught("coverage", "the input has 8", |f| place(f, 3));
}

#[test]
fn costs_add_up() {
    assert_caught("cost", "hourlyCost", |f| f.plan["summary"]["hourlyCost"] = 0.3.into());
    assert_caught("cost", "listCost", |f| f.plan["summary"]["listCost"] = 0.2.into());
    assert_caught("cost", "nodeCost", |f| f.plan["summary"]["nodeCost"] = 0.2.into());
    assert_caught("slots", "summary", |f| f.plan["summary"]["reservedSlots"]["used"] = 0.into());
    assert_caught("slots", "cr-1", |f| f.plan["reservations"][0]["used"] = 0.into());
}

#[test]
fn planned_offering_is_the_cheapest_of_an_ordered_list() {
    assert_caught("offering", "price", |f| f.claim(1)["offering"]["price"] = 0.05.into());
    assert_caught("offering", "not in the catalogue", |f| f.claim(1)["offering"]["zone"] = "c".into());
    assert_caught("offering", "not available", |f| f.catalogue[0]["offerings"][0]["Available"] = false.into());
    assert_caught("offering", "exclude the slot", |f| f.claim(0)["requirements"][0]["values"] = json!(["b"]));
    assert_caught("instance-types", "listed after", |f| f.claim(1)["instanceTypes"] = json!(["large", "small"]));
    assert_caught("instance-types", "not in its list", |f| f.claim(1)["instanceTypes"] = json!(["large"]));
    assert_caught("instance-types", "has an offering at 0.1", |f| {
        f.claim(1)["offering"]["instanceType"] = "large".into();
        f.claim(1)["offering"]["price"] = 0.4.into();
    });
    assert_caught("instance-types", "fallback", |f| {
        f.claim(0)["instanceTypes"] = json!(["large", "small"]);
    });
}

#[test]
fn pods_fit_every_type_of_the_list() {
    assert_caught("resources", "main-2", |f| {
        f.pod_spec("paid-a")["containers"][0]["resources"]["requests"]["cpu"] = "1950m".into();
    });
    assert_caught("resources", "main-1", |f| f.claim(0)["pods"] = json!(["default/slot", "default/paid-a"]));
    assert_caught("resources", "pods: 2 used of 1", |f| f.catalogue[0]["resources"]["pods"] = "1".into());
    assert_caught("resources", "main-2", |f| {
        f.pod_spec("paid-a")["initContainers"] =
            json!([{"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]);
    });
    assert_caught("requests", "main-2", |f| f.claim(1)["requests"]["cpu"] = "1".into());
}

#[test]
fn pods_fit_every_zone_and_capacity_type_left_open() {
    let in_zone_a = |f: &mut Fixture| f.pod_spec("paid-a")["nodeSelector"] = json!({ZONE: "a"});
    assert_fine(in_zone_a);
    assert_caught("node-selection", "default/paid-a", |f| {
        in_zone_a(f);
        f.claim(1)["requirements"][0]["values"] = json!(["a", "b"]);
    });
    assert_caught("node-selection", "default/paid-a", |f| {
        f.pod_spec("paid-a")["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"});
        f.claim(1)["requirements"] = json!([{"key": ZONE, "operator": "In", "values": ["a"]}]);
    });
}

#[test]
fn pods_that_select_on_demand_never_land_on_reserved() {
    assert_caught("node-selection", "default/slot", |f| {
        f.pod_spec("slot")["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"});
    });
    let not_spot = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}]}]}}});
    assert_fine(|f| f.pod_spec("slot")["affinity"] = not_spot);
}

#[test]
fn node_affinity_terms_are_alternatives() {
    let terms = |zones: [&str; 2]| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zones[0]]}]},
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}, {"key": ZONE, "operator": "In", "values": [zones[1]]}]},
        ]}}})
    };
    assert_fine(|f| f.pod_spec("paid-a")["affinity"] = terms(["c", "a"]));
    assert_caught("node-selection", "default/paid-a", |f| f.pod_spec("paid-a")["affinity"] = terms(["c", "b"]));
}

#[test]
fn taints_of_the_pool_and_the_node_hold() {
    assert_caught("taints", "default/paid-a", |f| f.pod_spec("paid-a")["tolerations"] = json!([]));
    assert_caught("taints", "default/fits", |f| f.object("Node", "node-1")["spec"]["unschedulable"] = true.into());
    assert_caught("claim", "lacks its NodePool's taint", |f| f.claim(1)["taints"] = json!([]));
}

#[test]
fn requirements_of_the_pool_hold() {
    let require = |f: &mut Fixture, requirement: Value| {
        f.object("NodePool", "main")["spec"]["template"]["spec"]["requirements"] = json!([requirement]);
    };
    assert_caught("pool-requirements", "main-2", |f| {
        require(f, json!({"key": ZONE, "operator": "In", "values": ["b"]}));
    });
    assert_caught("pool-requirements", "team", |f| {
        require(f, json!({"key": "team", "operator": "In", "values": ["red"]}));
    });
    assert_caught("pool-requirements", "main-1", |f| {
        require(f, json!({"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["reserved"]}));
    });
}

#[test]
fn custom_label_left_open_fits_only_pods_that_take_every_value() {
    let open = |f: &mut Fixture, values: Value| {
        let requirement = json!({"key": "team", "operator": "In", "values": values});
        f.object("NodePool", "main")["spec"]["template"]["spec"]["requirements"] = json!([requirement]);
        for index in 0..3 {
            f.claim(index)["requirements"].as_array_mut().expect("requirements").push(requirement.clone());
        }
        f.pod_spec("paid-a")["nodeSelector"] = json!({"team": "red"});
    };
    assert_fine(|f| open(f, json!(["red"])));
    assert_caught("node-selection", "default/paid-a", |f| open(f, json!(["red", "blue"])));
}

#[test]
fn host_ports_do_not_clash() {
    let port = json!([{"containerPort": 80, "hostPort": 80}]);
    assert_caught("host-ports", "default/fits", |f| {
        f.pod_spec("fits")["containers"][0]["ports"] = port.clone();
        f.pod_spec("running")["containers"][0]["ports"] = port.clone();
    });
    assert_caught("host-ports", "agent", |f| {
        f.pod_spec("paid-a")["containers"][0]["ports"] = port.clone();
        f.object("DaemonSet", "agent")["spec"]["template"]["spec"]["containers"][0]["ports"] = port.clone();
    });
}

#[test]
fn disks_are_not_shared_unless_all_read_only() {
    let disk = |read_only: bool| json!([{"name": "d", "gcePersistentDisk": {"pdName": "x", "readOnly": read_only}}]);
    let share = |f: &mut Fixture, (a, b): (bool, bool)| {
        f.pod_spec("fits")["volumes"] = disk(a);
        f.pod_spec("running")["volumes"] = disk(b);
    };
    assert_fine(|f| share(f, (true, true)));
    assert_caught("disks", "default/fits", |f| share(f, (true, false)));
    assert_caught("disks", "default/fits", |f| share(f, (false, true)));
    let ebs = json!([{"name": "d", "awsElasticBlockStore": {"volumeID": "x", "readOnly": true}}]);
    assert_caught("disks", "agent", |f| {
        f.pod_spec("paid-a")["volumes"] = ebs.clone();
        f.object("DaemonSet", "agent")["spec"]["template"]["spec"]["volumes"] = ebs.clone();
    });
    let image = |monitors: Value| json!([{"name": "d", "rbd": {"monitors": monitors, "image": "x"}}]);
    let images = |f: &mut Fixture, monitor: &str| {
        f.pod_spec("fits")["volumes"] = image(json!(["10.0.0.1", "10.0.0.2"]));
        f.pod_spec("running")["volumes"] = image(json!([monitor]));
    };
    assert_fine(|f| images(f, "10.0.0.3"));
    assert_caught("disks", "default/fits", |f| images(f, "10.0.0.2"));
}

fn with_volume(f: &mut Fixture, pod: &str, class: &str, bound_in: Option<&str>, mode: &str) {
    f.pod_spec(pod)["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
    let mut spec =
        json!({"accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
    if let Some(zone) = bound_in {
        spec["volumeName"] = "pv".into();
        f.objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
            "csi": {"driver": "d", "volumeHandle": "v"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}}}}));
    }
    f.objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": spec, "status": {"phase": "Pending"}}));
    for (name, mode, zones) in [("late", "WaitForFirstConsumer", json!(["a"])), ("now", "Immediate", json!(["a", "b"]))]
    {
        f.objects.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "d", "volumeBindingMode": mode,
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]}));
    }
}

#[test]
fn volumes_decide_where_pods_go() {
    assert_fine(|f| with_volume(f, "paid-a", "late", None, "ReadWriteOnce"));
    assert_fine(|f| with_volume(f, "paid-b", "late", Some("b"), "ReadWriteOnce"));
    assert_caught("volumes", "default/paid-b", |f| with_volume(f, "paid-b", "late", None, "ReadWriteOnce"));
    assert_caught("volumes", "default/paid-b", |f| with_volume(f, "paid-b", "late", Some("a"), "ReadWriteOnce"));
    assert_caught("volumes", "unbound immediate", |f| with_volume(f, "paid-a", "now", None, "ReadWriteOnce"));
    assert_fine(|f| {
        with_volume(f, "paid-a", "now", None, "ReadWriteOnce");
        f.object("PersistentVolumeClaim", "data")["status"].take();
    });
    assert_caught("volumes", "default/fits", |f| with_volume(f, "fits", "late", Some("a"), "ReadWriteOnce"));
    assert_caught("volumes", "not found", |f| {
        f.pod_spec("paid-a")["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "none"}}]);
    });
    assert_caught("read-write-once-pod", "default/data", |f| {
        with_volume(f, "slot", "late", None, "ReadWriteOncePod");
        let volumes = f.pod_spec("slot")["volumes"].clone();
        f.pod_spec("paid-a")["volumes"] = volumes;
    });
    assert_caught("attach-limit", "node-1", |f| {
        with_volume(f, "fits", "late", Some("b"), "ReadWriteOnce");
        f.objects.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-1"},
            "spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 0}}]}}));
    });
}

#[test]
fn gated_pods_are_not_placed() {
    assert_caught("scheduling-gates", "default/paid-a", |f| {
        f.pod_spec("paid-a")["schedulingGates"] = json!([{"name": "wait"}]);
    });
}

#[test]
fn anti_affinity_holds_both_ways() {
    // paid-a and slot (both app web) share zone a, not a host.
    assert_fine(|f| f.pod_spec("paid-a")["affinity"] = required("podAntiAffinity", "kubernetes.io/hostname", "web"));
    assert_caught("pod-anti-affinity", "default/paid-a", |f| {
        f.pod_spec("paid-a")["affinity"] = required("podAntiAffinity", ZONE, "web");
    });
    // A running pod's anti-affinity keeps others away.
    assert_caught("pod-anti-affinity", "default/running", |f| {
        f.pod_spec("running")["affinity"] = required("podAntiAffinity", ZONE, "db");
    });
    // In another namespace nothing matches, unless the term looks there.
    let apart = |f: &mut Fixture| {
        f.object("Pod", "running")["metadata"]["namespace"] = "other".into();
        f.pod_spec("running")["affinity"] = required("podAntiAffinity", ZONE, "db");
    };
    assert_fine(apart);
    assert_caught("pod-anti-affinity", "other/running", |f| {
        apart(f);
        f.pod_spec("running")["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
            json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    });
}

#[test]
fn affinity_needs_a_matching_pod_in_the_domain() {
    assert_fine(|f| f.pod_spec("paid-a")["affinity"] = required("podAffinity", ZONE, "web"));
    assert_caught("pod-affinity", "default/paid-a", |f| {
        f.pod_spec("paid-a")["affinity"] = required("podAffinity", ZONE, "db");
    });
    // The first of its own kind may start anywhere; a second one elsewhere may not.
    let itself = required("podAffinity", "kubernetes.io/hostname", "huge");
    assert_fine(|f| {
        f.object("Pod", "paid-b")["metadata"]["labels"] = json!({"app": "huge"});
        f.pod_spec("paid-b")["affinity"] = itself.clone();
    });
    assert_caught("pod-affinity", "1 pods", |f| {
        for name in ["paid-a", "paid-b"] {
            f.object("Pod", name)["metadata"]["labels"] = json!({"app": "huge"});
            f.pod_spec(name)["affinity"] = itself.clone();
        }
    });
}

#[test]
fn spread_holds_in_some_order() {
    let web = |f: &mut Fixture, names: &[&str], key: &str| {
        for name in names {
            f.object("Pod", name)["metadata"]["labels"] = json!({"app": "web"});
            f.pod_spec(name)["topologySpreadConstraints"] = spread(key, "web");
        }
    };
    let no_limits =
        |f: &mut Fixture| drop(f.object("NodePool", "main")["spec"].as_object_mut().and_then(|s| s.remove("limits")));
    // a: slot and paid-a, b: paid-b.
    assert_fine(|f| {
        no_limits(f);
        web(f, &["slot", "paid-a", "paid-b"], ZONE);
    });
    assert_caught("topology-spread", "no order", |f| {
        no_limits(f);
        web(f, &["slot", "paid-a"], ZONE);
    });
    // So does one that runs there, of a DaemonSet or not.
    assert_fine(|f| {
        no_limits(f);
        web(f, &["slot", "paid-a"], ZONE);
        f.object("Pod", "running")["metadata"] = json!({"name": "running", "namespace": "default", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true}]});
    });
    // A pod that only counts, in b, comes first.
    assert_fine(|f| {
        no_limits(f);
        web(f, &["slot", "paid-a"], ZONE);
        f.object("Pod", "paid-b")["metadata"]["labels"] = json!({"app": "web"});
    });
    assert_caught("topology-spread", "open", |f| {
        no_limits(f);
        web(f, &["slot", "paid-a", "paid-b"], ZONE);
        f.claim(2)["requirements"][0]["values"] = json!(["a", "b"]);
    });
}

#[test]
fn spread_over_hosts_counts_an_empty_one_where_a_node_can_be_launched() {
    let two_on_a_host = |f: &mut Fixture| {
        for name in ["fits", "running"] {
            f.object("Pod", name)["metadata"]["labels"] = json!({"app": "web"});
            f.pod_spec(name)["topologySpreadConstraints"] = spread("kubernetes.io/hostname", "web");
        }
    };
    let alone = |f: &mut Fixture| {
        f.objects.retain(|o| !["slot", "paid-a", "paid-b"].iter().any(|name| o["metadata"]["name"] == *name));
        f.plan["nodeClaims"] = json!([]);
        f.plan["reservations"][0]["used"] = 0.into();
        let zero = json!({"pods": 2, "placed": 1, "nodeClaims": 0, "hourlyCost": 0.0, "listCost": 0.0});
        for (name, value) in zero.as_object().into_iter().flatten() {
            f.plan["summary"][name] = value.clone();
        }
        f.plan["summary"]["reservedSlots"]["used"] = 0.into();
    };
    let no_limits =
        |f: &mut Fixture| drop(f.object("NodePool", "main")["spec"].as_object_mut().and_then(|s| s.remove("limits")));
    let pool_of_nothing = |f: &mut Fixture| {
        f.object("NodePool", "main")["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["windows"]);
    };
    assert_caught("topology-spread", "over nodes: counts", two_on_a_host);
    assert_caught("topology-spread", "over nodes: counts", |f| {
        alone(f);
        no_limits(f);
        two_on_a_host(f);
    });
    // One node, and never another: there is nothing to balance with.
    assert_fine(|f| {
        alone(f);
        pool_of_nothing(f);
        two_on_a_host(f);
    });
    // A second node, of no such pod.
    assert_caught("topology-spread", "over nodes: counts", |f| {
        alone(f);
        pool_of_nothing(f);
        two_on_a_host(f);
        let mut node = f.object("Node", "node-1").clone();
        node["metadata"]["name"] = "node-2".into();
        node["metadata"]["labels"]["kubernetes.io/hostname"] = "node-2".into();
        f.objects.push(node);
    });
}

#[test]
fn running_node_has_room_for_what_it_gets() {
    assert_caught("resources", "node-1", |f| {
        f.pod_spec("running")["containers"][0]["resources"]["requests"]["cpu"] = "3500m".into();
    });
}

fn hold(f: &mut Fixture, cpu: &str, policy: &str) {
    f.objects.push(json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "held"},
        "spec": {"template": {"spec": pod("t", "t", cpu)["spec"]}, "owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}],
            "allocateOnce": false, "allocatePolicy": policy},
        "status": {"phase": "Available", "nodeName": "node-1", "allocatable": {"cpu": cpu, "memory": "1Gi"}, "allocated": {}},
    }));
}

#[test]
fn room_of_reservations_is_kept_for_owners() {
    let draw = |f: &mut Fixture, cpu: &str, policy: &str| {
        hold(f, cpu, policy);
        f.plan["nodes"][0]["allocations"] = json!([{"pod": "default/fits", "reservation": "held"}]);
    };
    assert_fine(|f| hold(f, "1", "Aligned"));
    assert_caught("resources", "node-1", |f| hold(f, "1500m", "Aligned"));
    // More is held than pods that run have left: owners may have theirs of it, as long as pods fit.
    assert_fine(|f| draw(f, "2500m", "Aligned"));
    assert_caught("resources", "node-1", |f| {
        draw(f, "2500m", "Aligned");
        f.pod_spec("running")["containers"][0]["resources"]["requests"]["cpu"] = "3500m".into();
    });
    assert_fine(|f| draw(f, "1500m", "Aligned"));
    assert_caught("reservation", "Restricted", |f| draw(f, "500m", "Restricted"));
    assert_caught("reservation", "none of its owners", |f| {
        draw(f, "1500m", "Aligned");
        f.object("Pod", "fits")["metadata"]["labels"] = json!({"app": "other"});
    });
    assert_caught("coverage", "1 Reservations are pending", |f| {
        hold(f, "1", "Aligned");
        f.object("Reservation", "held")["status"] = json!({});
    });
}

#[test]
fn limits_count_running_and_planned_nodes() {
    assert_caught("limits", "nodes 4 of limit 3", |f| {
        f.object("NodePool", "main")["spec"]["limits"]["nodes"] = "3".into();
    });
    assert_caught("limits", "cpu 10 of limit 9", |f| {
        f.object("NodePool", "main")["spec"]["limits"]["cpu"] = "9".into();
    });
    assert_caught("limits", "lists large", |f| f.object("NodePool", "main")["spec"]["limits"]["cpu"] = "11".into());
}

#[test]
fn min_values_count_the_listed_types() {
    let least = |f: &mut Fixture, n: u64| {
        f.object("NodePool", "main")["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": n}]);
    };
    assert_fine(|f| least(f, 2));
    assert_caught("min-values", "2 values", |f| least(f, 3));
}

#[test]
fn reservation_is_never_overdrawn() {
    assert_caught("slots", "cr-1: 2 claims, 1 slots", |f| {
        f.claim(1)["offering"] = f.claim(0)["offering"].clone();
        f.claim(1)["instanceTypes"] = json!([]);
        f.claim(1)["requirements"] = json!([]);
    });
    let fixture = good();
    let off = Options { reserved_capacity: false, ..Options::default() };
    let found = check(&fixture.objects, &fixture.catalogue, &fixture.plan, &off);
    assert!(found.iter().any(|v| v.rule == "gate"), "{found:?}");
}

#[test]
fn free_slot_never_stays_beside_a_paid_node_that_could_use_it() {
    let another = |f: &mut Fixture, zone: &str| {
        f.catalogue[0]["offerings"].as_array_mut().expect("offerings").push(reserved(zone, "cr-2", 1));
        f.plan["reservations"].as_array_mut().expect("reservations").push(json!({"id": "cr-2", "total": 1, "used": 0}));
        f.plan["summary"]["reservedSlots"]["total"] = 2.into();
    };
    assert_caught("augmenting-path", "main-2", |f| another(f, "a"));
    // Only by way of the slot in zone a: paid-a must stay there, slot may go to b.
    let stay = |f: &mut Fixture| {
        f.pod_spec("paid-a")["nodeSelector"] = json!({ZONE: "a"});
        f.pod_spec("paid-b")["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"});
    };
    assert_caught("augmenting-path", "cr-1 then cr-2", |f| {
        another(f, "b");
        stay(f);
    });
    assert_fine(|f| {
        another(f, "b");
        stay(f);
        f.pod_spec("slot")["nodeSelector"] = json!({ZONE: "a"});
    });
}

#[test]
fn preempted_pod_gives_way_only_to_a_higher_priority() {
    let preempt = |f: &mut Fixture, priority: i32| {
        f.pod_spec("fits")["priority"] = priority.into();
        f.plan["nodes"][0]["preempted"] = json!(["default/running"]);
    };
    assert_fine(|f| preempt(f, 10));
    assert_caught("preemption", "default/running", |f| preempt(f, 0));
}

/// A pod that runs on node-1 gives way to one of priority 10; a controller makes it anew if it is `owned`.
fn gives_way(f: &mut Fixture, owned: bool) {
    f.pod_spec("fits")["priority"] = 10.into();
    f.plan["nodes"][0]["preempted"] = json!(["default/running"]);
    if owned {
        f.object("Pod", "running")["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]);
    }
}

#[test]
fn who_gives_way_is_planned_anew_if_its_controller_makes_it_anew() {
    let again = |f: &mut Fixture| {
        f.plan["unschedulable"].as_array_mut().expect("a list").push(json!(
            {"kind": "Pod", "object": "default/running", "count": 1, "reasons": [{"reason": "Insufficient cpu", "count": 2}]}
        ));
        f.plan["summary"]["pods"] = 6.into();
        f.plan["summary"]["unschedulable"] = 2.into();
    };
    assert_fine(|f| {
        gives_way(f, true);
        again(f);
    });
    assert_caught("coverage", "pods is 5, the input has 6 to 6", |f| gives_way(f, true));
    assert_caught("coverage", "pods is 6, the input has 5 to 5", |f| {
        gives_way(f, false);
        again(f);
    });
}

#[test]
fn nobody_gives_way_whom_budgets_do_not_let_go() {
    let budget = |name: &str, allowed: i64| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "old"}}}, "status": {"disruptionsAllowed": allowed}})
    };
    assert_fine(|f| {
        gives_way(f, false);
        f.objects.push(budget("one", 1));
    });
    assert_caught("preemption", "1 of its pods are preempted, 0 may go", |f| {
        gives_way(f, false);
        f.objects.push(budget("none", 0));
    });
    assert_caught("preemption", "2 PodDisruptionBudgets protect it", |f| {
        gives_way(f, false);
        f.objects.extend([budget("one", 1), budget("two", 1)]);
    });
}

#[test]
fn nobody_gives_way_to_who_never_preempts_or_where_it_does_not_run() {
    assert_caught("preemption", "for none of a higher priority", |f| {
        gives_way(f, false);
        f.pod_spec("fits")["preemptionPolicy"] = "Never".into();
    });
    assert_caught("preemption", "where it does not run", |f| {
        gives_way(f, false);
        f.pod_spec("running")["nodeName"] = "node-2".into();
    });
    assert_caught("preemption", "and may not be", |f| {
        gives_way(f, false);
        f.object("Pod", "running")["metadata"]["labels"]["scheduling.koordinator.sh/disable-preemptible"] =
            "true".into();
    });
}

#[test]
fn plan_outside_the_contract_is_refused() {
    assert_caught("plan", "unknown field", |f| f.plan["extra"] = 1.into());
    assert_caught("plan", "missing field", |f| drop(f.plan.as_object_mut().and_then(|p| p.remove("nodes"))));
}

#[test]
fn value_with_more_than_its_share_is_caught() {
    // Three claims of one pod each: two in zone a, one in b.
    let check_with = |f: &Fixture, billionths: u32, key: &str| {
        let share = MaxShare { key: key.to_owned(), value: None, billionths };
        let options = Options { max_shares: vec![share], ..Options::default() };
        let found = check(&f.objects, &f.catalogue, &f.plan, &options);
        found.iter().filter(|v| v.rule == "max-share").map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut fixture = good();
    fixture.plan["restrictions"] = json!([{"name": "--max-share zone", "hourlyCost": null,
        "unschedulable": null, "values": [{"value": "a", "nodes": 2, "share": 0.666_666_667},
            {"value": "b", "nodes": 1, "share": 0.333_333_334}]}]);
    assert_eq!(check_with(&fixture, 400_000_000, "zone"), Vec::<String>::new());
    let found = check_with(&fixture, 300_000_000, "zone");
    assert!(found.iter().any(|v| v.contains("zone a")), "{found:?}");
    fixture.plan["restrictions"][0]["values"][0]["nodes"] = 1.into();
    let found = check_with(&fixture, 400_000_000, "zone");
    assert!(found.iter().any(|v| v.contains("other shares")), "{found:?}");
}

#[test]
fn gpu_type_that_nothing_asks_for_is_caught() {
    let listed = |f: &mut Fixture| f.catalogue[1]["resources"]["nvidia.com/gpu"] = "1".into();
    assert_caught("accelerators", "large", listed);
    let mut fixture = good();
    listed(&mut fixture);
    let options = Options { gpu_types_for_any_pod: true, ..Options::default() };
    assert!(check(&fixture.objects, &fixture.catalogue, &fixture.plan, &options).is_empty());
}

#[test]
fn the_room_of_a_terminating_pod_is_its_own_but_for_who_is_nominated_there() {
    let going = |f: &mut Fixture| {
        f.object("Pod", "running")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        f.pod_spec("fits")["containers"][0]["resources"]["requests"]["cpu"] = "3".into();
    };
    assert_caught("resources", "node-1", going);
    assert_fine(|f| {
        going(f);
        f.object("Pod", "fits")["status"] = json!({"nominatedNodeName": "node-1"});
    });
}

/// Two NUMA nodes of two CPUs each on node-1, of which every pod must lie on one, and what the plan says of pod fits there.
fn on_numa_nodes(f: &mut Fixture, cpus: &str, status: &str) {
    let cpu = |id: u32| json!({"id": id, "core": id, "socket": 0, "node": id / 2});
    let zone = |id: u32| {
        let of_cpu = json!([{"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2"}]);
        json!({"name": format!("node-{id}"), "type": "Node", "resources": of_cpu})
    };
    let detail = json!({"detail": (0..4).map(cpu).collect::<Vec<_>>()}).to_string();
    f.objects.push(json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
        "metadata": {"name": "node-1", "annotations": {"node.koordinator.sh/cpu-topology": detail}},
        "zones": [zone(0), zone(1)],
    }));
    f.object("Node", "node-1")["metadata"]["labels"]["node.koordinator.sh/numa-topology-policy"] =
        "SingleNUMANode".into();
    f.pod_spec("fits")["containers"][0]["resources"]["requests"]["cpu"] = cpus.into();
    if !status.is_empty() {
        f.plan["nodes"][0]["assigned"] = json!([
            {"pod": "default/fits", "annotations": {"scheduling.koordinator.sh/resource-status": status}},
        ]);
    }
}

#[test]
fn who_must_lie_on_one_numa_node_does() {
    const ON_ONE: &str = r#"{"numaNodeResources":[{"node":1,"resources":{"cpu":"2"}}]}"#;
    const ON_TWO: &str =
        r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"1"}},{"node":1,"resources":{"cpu":"1"}}]}"#;
    assert_fine(|f| on_numa_nodes(f, "2", ON_ONE));
    assert_caught("units", "must lie on one", |f| on_numa_nodes(f, "2", ON_TWO));
    assert_caught("units", "must lie on one", |f| on_numa_nodes(f, "2", ""));
    let too_much = ON_ONE.replace("\"2\"", "\"3\"");
    assert_caught("units", "3 CPUs on NUMA node 1 of 2", |f| on_numa_nodes(f, "3", &too_much));
}

#[test]
fn cpus_that_pods_have_to_themselves_are_there_and_nobody_elses() {
    let own = |f: &mut Fixture, cpuset: &str| {
        let status = json!({"cpuset": cpuset, "numaNodeResources": [{"node": 0, "resources": {"cpu": "1"}}]});
        on_numa_nodes(f, "1", &status.to_string());
        for name in ["fits", "running"] {
            f.object("Pod", name)["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR".into();
        }
        f.object("Pod", "running")["metadata"]["annotations"] =
            json!({"scheduling.koordinator.sh/resource-status": r#"{"cpuset":"2-3"}"#});
    };
    assert_fine(|f| own(f, "0"));
    assert_caught("units", "CPU 2, which another has", |f| own(f, "2"));
    assert_caught("units", "CPU 7, which the node does not", |f| own(f, "7"));
    assert_caught("units", "to itself, not", |f| own(f, "0-1"));
}

#[test]
fn of_several_reservations_the_lowest_order_comes_first() {
    let held = |name: &str, order: &str| {
        let mut reservation = json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": {"name": name, "labels": {}},
            "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}], "allocatePolicy": "Aligned",
                "template": {"spec": {"containers": []}}},
            "status": {"phase": "Available", "nodeName": "node-1", "allocatable": {"cpu": "1", "memory": "1Gi"}},
        });
        if !order.is_empty() {
            reservation["metadata"]["labels"]["scheduling.koordinator.sh/reservation-order"] = order.into();
        }
        reservation
    };
    let draws = |f: &mut Fixture, first: &str, second: &str| {
        f.pod_spec("running")["containers"][0]["resources"]["requests"]["cpu"] = "500m".into();
        f.objects.extend([held("first", first), held("second", second)]);
        f.plan["nodes"][0]["allocations"] = json!([{"pod": "default/fits", "reservation": "first"}]);
    };
    for (first, second) in [("", ""), ("5", ""), ("5", "7"), ("", "0")] {
        assert_fine(|f| draws(f, first, second));
    }
    for (first, second) in [("", "5"), ("7", "5")] {
        assert_caught("reservation", "second comes first by its order", |f| draws(f, first, second));
    }
}
