//! Koordinator's Reservations, planned by the binary.

mod common;

use common::{berth, plan, plan_json};

const CATALOGUE: &str = "examples/catalogues/four-slots.yaml";

fn node(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/arch: amd64, \
         kubernetes.io/os: linux}}}}\nstatus: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '10'}}}}\n---\n"
    )
}

/// Room of two cores for `app: web`, with more of the template's spec.
fn reservation(name: &str, template: &str, status: &str) -> String {
    format!(
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {{name: {name}}}\nspec:\n  \
         allocateOnce: false\n  owners: [{{labelSelector: {{matchLabels: {{app: web}}}}}}]\n  template: {{spec: \
         {{{template}containers: [{{name: a, image: a, resources: {{requests: {{cpu: '2'}}}}}}]}}}}\n{status}---\n"
    )
}

#[test]
fn a_pinned_reservation_goes_to_its_node_or_nowhere() {
    let manifests = node("node-a") + &node("node-b") + &reservation("r", "nodeName: node-b, ", "");
    let plan = plan_json(&manifests, &["--instance-types", CATALOGUE]);
    let nodes: Vec<_> = plan["nodes"].as_array().unwrap().iter().filter(|node| node["name"] == "node-b").collect();
    assert_eq!(nodes[0]["reservations"][0], "r", "{plan}");
    let plan =
        plan_json(&(node("node-a") + &reservation("r", "nodeName: node-b, ", "")), &["--instance-types", CATALOGUE]);
    assert_eq!(plan["summary"]["nodeClaims"], 0, "nothing is launched for it: {plan}");
    assert_eq!(plan["unschedulable"][0]["object"], "r");
}

/// The regression: the table said "1 placed", and of the node nothing, or that it had no CPU left.
#[test]
fn the_table_shows_reservations_on_nodes_that_exist() {
    let room = |name: &str, cpu: &str| {
        reservation(name, "nodeName: node-a, ", "").replace("cpu: '2'", &format!("cpu: '{cpu}'"))
    };
    let flags = ["--instance-types", CATALOGUE];
    let rows = |manifests: &str| {
        let run = plan(manifests, &flags);
        let of_nodes = run.stdout.split("\nExisting nodes that get pods").nth(1).unwrap_or_default();
        let table = of_nodes.split("\n\n").next().unwrap();
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let heads = [" or Reservations", "NODE NODEPOOL NEW PODS CPU LEFT MEMORY LEFT RESERVATIONS"];
    let one = rows(&(node("node-a") + &room("release-week", "4")));
    assert_eq!(one[..2], heads.map(|head| head.trim().to_owned()), "{one:?}");
    assert_eq!(one[2], "node-a - 0 0 8Gi release-week");
    let several: String = ["a", "b", "c", "d"].map(|name| room(name, "500m")).concat();
    let several = rows(&(node("node-a") + &several));
    assert_eq!(several[2], "node-a - 0 2 8Gi a, b and 2 more");
    // Where there is none, there is no column.
    let pod = owner("w", "1", "", "");
    assert_eq!(rows(&(node("node-a") + &pod)), ["", "NODE NODEPOOL NEW PODS CPU LEFT MEMORY LEFT", "node-a - 1 3 8Gi"]);
}

#[test]
fn what_a_reservation_holds_is_not_for_others() {
    let status = "status: {phase: Available, nodeName: node-a, allocatable: {cpu: '2'}}\n";
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: a, \
             resources: {{requests: {{cpu: '1'}}}}}}]}}\n---\n"
        )
    };
    let pods: String = ["a", "b", "c"].map(pod).concat();
    let plan = plan_json(&(node("node-a") + &reservation("r", "", status) + &pods), &["--instance-types", CATALOGUE]);
    assert_eq!(plan["nodes"][0]["pods"].as_array().map(Vec::len), Some(2), "{plan}");
    assert_eq!(plan["summary"]["nodeClaims"], 1);
}

/// A pod with the label `app: web`, with more of its metadata and spec.
fn owner(name: &str, cpu: &str, metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}{metadata}}}\nspec: {{{spec}containers: \
         [{{name: a, image: a, resources: {{requests: {{cpu: '{cpu}'}}}}}}]}}\n---\n"
    )
}

const AVAILABLE: &str = "status: {phase: Available, nodeName: node-a, allocatable: {cpu: '2'}}\n";
const MUST_DRAW: &str = ", annotations: {scheduling.koordinator.sh/reservation-affinity: '{}'}";

/// `(pods, allocations)` of an entry of the plan, as text.
fn placed(entry: &serde_json::Value) -> (Vec<String>, Vec<String>) {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let pods = entry["pods"].as_array().into_iter().flatten().map(text).collect();
    let drawn = entry["allocations"].as_array().into_iter().flatten();
    (pods, drawn.map(|pair| format!("{} of {}", text(&pair["pod"]), text(&pair["reservation"]))).collect())
}

/// A NodePool of one type without slots and spot.
const PAID: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: paid}\nspec: {template: {spec: {nodeClassRef: {group: \
                    berth.sh, kind: FakeNodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, \
                    values: [on-demand]}, {key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}]}}}\n---\n";

fn run(manifests: &str) -> serde_json::Value {
    plan_json(manifests, &["--instance-types", CATALOGUE])
}

#[test]
fn owners_draw_from_the_room_that_is_held_for_them_and_others_get_the_rest() {
    // Four cores, two of them held; three of the pods are owners. Pods of equal rank come by name.
    let owners: String = ["b", "c", "d"].map(|name| owner(name, "1", "", "")).concat();
    let other = owner("another", "2", "", "").replace("app: web", "app: other");
    let plan = run(&(node("node-a") + &other + &owners + &reservation("r", "", AVAILABLE)));
    let (pods, drawn) = placed(&plan["nodes"][0]);
    assert_eq!(drawn, ["default/b of r", "default/c of r"], "{plan}");
    assert_eq!(pods, ["default/another", "default/b", "default/c"]);
    let (pods, drawn) = placed(&plan["nodeClaims"][0]);
    assert_eq!((pods, drawn), (vec!["default/d".to_owned()], vec![]), "what is left over is launched for");
    assert_eq!((plan["summary"]["pods"].as_u64(), plan["summary"]["placed"].as_u64()), (Some(4), Some(4)));
}

#[test]
fn owners_get_more_than_is_reserved_of_the_node_that_is_launched() {
    // Of memory the Reservation has enough for one of them, and the node for many.
    let small = "memory: 100Mi, ";
    let asks = |text: String| text.replace("requests: {", &format!("requests: {{{small}"));
    let owners: String = ["b", "c"].map(|name| asks(owner(name, "1", "", ""))).concat();
    let plan = run(&(asks(reservation("r", "", "")) + &owners));
    assert_eq!(placed(&plan["nodeClaims"][0]).1, ["default/b of r", "default/c of r"], "{plan}");
    assert_eq!(plan["summary"]["nodeClaims"], 1);
    // Of a Restricted one nobody gets more.
    let restricted =
        asks(reservation("r", "", "")).replace("allocateOnce", "allocatePolicy: Restricted\n  allocateOnce");
    let plan = run(&(restricted + &owners));
    let drawn: usize = plan["nodeClaims"].as_array().unwrap().iter().map(|claim| placed(claim).1.len()).sum();
    assert_eq!((drawn, plan["summary"]["placed"].as_u64()), (1, Some(2)), "{plan}");
}

#[test]
fn pending_owners_go_with_the_reservation_that_is_launched_for_them() {
    let owners: String = ["a", "b", "c"].map(|name| owner(name, "1", "", "")).concat();
    let plan = run(&(owners + &reservation("r", "", "")));
    assert_eq!(plan["summary"]["nodeClaims"], 1, "two of three need no room of their own: {plan}");
    let claim = &plan["nodeClaims"][0];
    let (pods, drawn) = placed(claim);
    assert_eq!(claim["reservations"][0], "r");
    assert_eq!(drawn, ["default/a of r", "default/b of r"]);
    assert_eq!(pods, ["default/c", "default/a", "default/b"]);
    assert_eq!(claim["requests"]["cpu"], "3");
}

/// The regression: owners with any rule about other pods, even a preference, had nodes of their own beside those of their Reservations.
#[test]
fn owners_with_rules_about_other_pods_go_with_their_reservations() {
    let selector = "labelSelector: {matchLabels: {app: web}}";
    let spread = |key: &str, how: &str| {
        format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: {how}, {selector}}}], "
        )
    };
    let (zone, host) = ("topology.kubernetes.io/zone", "kubernetes.io/hostname");
    let required = format!("requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {host}, {selector}}}]");
    let preferred = format!(
        "preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, podAffinityTerm: {{topologyKey: {host}, \
         {selector}}}}}]"
    );
    let apart = |rule: &str| format!("affinity: {{podAntiAffinity: {{{rule}}}}}, ");
    let together = format!("affinity: {{podAffinity: {{{}}}}}, ", required.replace(host, zone));
    // With one owner for each of three Reservations, and with three for one.
    for (spec, n_of_three, n_of_one) in [
        (String::new(), 3, 1),
        (spread(zone, "ScheduleAnyway"), 3, 1),
        (spread(zone, "DoNotSchedule"), 3, 2),
        (spread(host, "DoNotSchedule"), 3, 3),
        (apart(&preferred), 3, 1),
        (apart(&required), 3, 3),
        (together, 3, 1),
    ] {
        let owners: String = ["a", "b", "c"].map(|name| owner(name, "1100m", "", &spec)).concat();
        let rooms: String =
            ["r", "s", "t"].map(|name| reservation(name, "", "").replace("cpu: '2'", "cpu: '3'")).concat();
        let drawn = |plan: &serde_json::Value| {
            let claims = plan["nodeClaims"].as_array().unwrap();
            (claims.len(), claims.iter().map(|claim| placed(claim).1.len()).sum::<usize>())
        };
        let plan = run(&(PAID.to_owned() + &owners + &rooms));
        assert_eq!(plan["summary"]["placed"], 3, "{spec}{plan}");
        let n_left = if spec.is_empty() { 2 } else { n_of_three };
        let (n_claims, n_drawn) = drawn(&plan);
        assert!(n_claims == n_of_three && n_drawn >= n_left, "{spec}{plan}");
        let plan = run(&(PAID.to_owned() + &owners + &reservation("r", "", "").replace("cpu: '2'", "cpu: 3300m")));
        assert_eq!((plan["summary"]["placed"].as_u64(), drawn(&plan).0), (Some(3), n_of_one), "{spec}{plan}");
    }
    // Where no place is left for one of them by its rules, the others go with their Reservations nevertheless.
    let must_be = apart(&required.replace(host, "kubernetes.io/arch"));
    let owners: String = ["a", "b"].map(|name| owner(name, "1100m", "", &must_be)).concat();
    let rooms: String = ["r", "s"].map(|name| reservation(name, "", "")).concat();
    let plan = run(&(PAID.to_owned() + &owners + &rooms));
    let drawn: usize = plan["nodeClaims"].as_array().unwrap().iter().map(|claim| placed(claim).1.len()).sum();
    assert_eq!((plan["summary"]["placed"].as_u64(), drawn), (Some(1), 1), "{plan}");
    // A template with rules of its own is placed by these.
    let apart_from = apart(&required.replace("app: web", "app: other"));
    let plan = run(&(PAID.to_owned()
        + &owner("a", "1", "", &spread(zone, "DoNotSchedule"))
        + &reservation("r", &apart_from, "")));
    assert_eq!(
        (plan["summary"]["placed"].as_u64(), plan["unschedulable"].as_array().map(Vec::len)),
        (Some(1), Some(0))
    );
}

/// The regression: rules of their owners kept Reservations on nodes of their own that fit on one node with another.
#[test]
fn owners_with_rules_go_with_their_reservations_only_where_that_costs_no_more() {
    let zone = "topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}";
    let apart =
        format!("affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{zone}}}]}}}}, ");
    let owners: String = ["a", "b"].map(|name| owner(name, "300m", "", &apart)).concat();
    let rooms = [("r", "900m"), ("s", "1900m"), ("t", "3600m")].map(|(name, cpu)| {
        reservation(name, "", "")
            .replace("cpu: '2'", &format!("cpu: {cpu}"))
            .replace("allocateOnce", "allocatePolicy: Aligned\n  allocateOnce")
    });
    let plan = run(&(PAID.to_owned() + &owners + &rooms.concat()));
    let counts = (plan["summary"]["placed"].as_u64(), plan["summary"]["nodeClaims"].as_u64());
    assert_eq!(counts, (Some(2), Some(2)), "{plan}");
}

/// The regression: a Reservation counted in the rules of its owners where nodes are planned, which it does not where they are placed: one was
/// launched where its pod was refused, or none, for good.
#[test]
fn a_reservation_counts_in_no_rule_of_its_owners() {
    let zone = "topologyKey: topology.kubernetes.io/zone";
    let selector = "labelSelector: {matchLabels: {app: web}}";
    let of = |name: &str, zone: &str| {
        node(name).replace("labels: {", &format!("labels: {{topology.kubernetes.io/zone: {zone}, "))
    };
    let nodes = of("node-a", "port-1b") + &of("node-b", "port-1a");
    let labelled = |room: String| room.replace("template: {spec", "template: {metadata: {labels: {app: web}}, spec");
    let held =
        labelled(reservation("r", "", AVAILABLE)).replace("allocateOnce", "allocatePolicy: Restricted\n  allocateOnce");
    let running = owner("v", "4", "", "nodeName: node-b, ");
    let apart = format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{zone}, {selector}}}]}}}}, "
    );
    let spread =
        format!("topologySpreadConstraints: [{{maxSkew: 1, {zone}, whenUnsatisfiable: DoNotSchedule, {selector}}}], ");
    for rule in [&apart, &spread] {
        let plan = run(&(PAID.to_owned() + &nodes + &held + &running + &owner("w", "3", "", rule)));
        let claim = &plan["nodeClaims"][0];
        assert_eq!(
            (plan["summary"]["placed"].as_u64(), &claim["offering"]["zone"]),
            (Some(1), &"port-1b".into()),
            "{plan}"
        );
        // One that is pending and has the labels of its owners goes with the first of them.
        let pending = labelled(reservation("r", "", ""));
        let plan = run(&(PAID.to_owned() + &pending + &owner("w", "1", "", rule)));
        let drawn = placed(&plan["nodeClaims"][0]).1;
        assert_eq!((plan["summary"]["nodeClaims"].as_u64(), drawn.len()), (Some(1), 1), "{plan}");
    }
}

/// The regressions: who may come elsewhere took the room of one that has to draw; and one that asks for a Reservation by its name drew from
/// another that is like it in all else.
#[test]
fn owners_that_have_to_draw_come_first_and_draw_from_what_they_ask_for() {
    let must = owner("b", "1500m", MUST_DRAW, "");
    let restricted = reservation("r", "", "").replace("allocateOnce", "allocatePolicy: Restricted\n  allocateOnce");
    let plan = run(&(owner("a", "1500m", "", "") + &must + &restricted));
    let drawn = |plan: &serde_json::Value| {
        let claims = plan["nodeClaims"].as_array().unwrap();
        claims.iter().flat_map(|claim| placed(claim).1).collect::<Vec<_>>()
    };
    assert_eq!(
        (plan["summary"]["placed"].as_u64(), drawn(&plan)),
        (Some(2), vec!["default/b of r".to_owned()]),
        "{plan}"
    );
    let by_name = MUST_DRAW.replace("'{}'", r#"'{"name": "s"}'"#);
    let owners: String = ["a", "b", "c"].map(|name| owner(name, "1", &by_name, "")).concat();
    let plan = run(&(owners + &reservation("r", "", "") + &reservation("s", "", "")));
    assert_eq!(drawn(&plan), ["default/a of s", "default/b of s"], "{plan}");
    assert_eq!(plan["summary"]["unschedulable"], 1, "{plan}");
}

#[test]
fn owners_and_reservation_go_where_both_may_be() {
    let zone = |zone: &str| format!("nodeSelector: {{topology.kubernetes.io/zone: {zone}}}, ");
    let plan = run(&(owner("a", "1", "", &zone("port-1b")) + &reservation("r", "", "")));
    let claim = &plan["nodeClaims"][0];
    assert_eq!((&claim["offering"]["zone"], placed(claim).1.len()), (&"port-1b".into(), 1), "{plan}");
    // Where there is no such place, each gets its own.
    let plan = run(&(owner("a", "1", "", &zone("port-1b")) + &reservation("r", &zone("port-1a"), "")));
    assert_eq!(
        (plan["summary"]["placed"].as_u64(), plan["summary"]["nodeClaims"].as_u64()),
        (Some(1), Some(2)),
        "{plan}"
    );
    assert!(plan["nodeClaims"].as_array().unwrap().iter().all(|claim| placed(claim).1.is_empty()));
}

#[test]
fn a_pod_that_must_draw_launches_nothing_and_is_told_why() {
    let alone = run(&owner("a", "1", MUST_DRAW, ""));
    assert_eq!(alone["summary"]["nodeClaims"], 0);
    let reasons = |plan: &serde_json::Value| -> Vec<String> {
        let reasons = plan["unschedulable"][0]["reasons"].as_array().unwrap();
        reasons.iter().map(|entry| format!("{} {}", entry["count"], entry["reason"].as_str().unwrap())).collect()
    };
    let none = "0 node(s) no reservations match reservation affinity";
    assert_eq!(reasons(&alone), [none, "0 Reservation(s) matched owner total"]);
    let closed = reservation("r", "", AVAILABLE).replace("spec:\n", "spec:\n  unschedulable: true\n");
    let plan = run(&(node("node-a") + &closed + &owner("a", "1", MUST_DRAW, "")));
    let by_node = "1 node(s) no reservations match reservation affinity";
    assert_eq!(reasons(&plan), [by_node, "1 Reservation(s) is unschedulable", "1 Reservation(s) matched owner total"]);
    let restricted = reservation("r", "", AVAILABLE).replace("spec:\n", "spec:\n  allocatePolicy: Restricted\n");
    let plan = run(&(node("node-a") + &restricted + &owner("a", "3", MUST_DRAW, "")));
    assert_eq!(reasons(&plan), ["1 Reservation(s) Insufficient cpu", "1 Reservation(s) matched owner total"]);
    let plan = run(&(node("node-a") + &restricted + &owner("a", "2", MUST_DRAW, "")));
    assert_eq!(placed(&plan["nodes"][0]).1, ["default/a of r"]);
}

#[test]
fn a_pod_that_asks_for_a_reservation_that_takes_no_owners_yet_is_told_its_phase() {
    let reasons = |manifests: String| -> Vec<String> {
        let plan = run(&manifests);
        let left = plan["unschedulable"].as_array().unwrap().iter().find(|entry| entry["object"] != "r").unwrap();
        let reasons = left["reasons"].as_array().unwrap();
        reasons.iter().map(|entry| format!("{} {}", entry["count"], entry["reason"].as_str().unwrap())).collect()
    };
    let none = "1 node(s) no reservations match reservation affinity";
    let waiting = reservation("r", "", &AVAILABLE.replace("Available", "Waiting"));
    let expected = [none, "0 Reservation r is Waiting: its room is not free yet"];
    assert_eq!(reasons(node("node-a") + &waiting + &owner("a", "1", MUST_DRAW, "")), expected);
    let by_name = MUST_DRAW.replace("{}", r#"{"name":"r"}"#);
    assert_eq!(reasons(node("node-a") + &waiting + &owner("a", "1", &by_name, "")), expected);
    // Nobody is told of another than the one that it asks for.
    let other = MUST_DRAW.replace("{}", r#"{"name":"other"}"#);
    let nothing = [none, "0 Reservation(s) matched owner total"];
    assert_eq!(reasons(node("node-a") + &waiting + &owner("a", "1", &other, "")), nothing);
    let pending = reservation("r", "nodeName: nowhere, ", "");
    let expected = [none, "0 Reservation r is Pending: it has no node yet"];
    assert_eq!(reasons(node("node-a") + &pending + &owner("a", "1", MUST_DRAW, "")), expected);
}

/// The regression: from its first owner on, pods that the template keeps away came beside the rest of the room.
#[test]
fn what_a_reservation_keeps_away_stays_away_while_it_has_room_for_more_owners() {
    let keeps_away = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                      kubernetes.io/hostname, labelSelector: {matchLabels: {app: other}}}]}}, ";
    let drawn = r#", annotations: {scheduling.koordinator.sh/reservation-allocated: '{"name":"r"}'}"#;
    let other = owner("other", "1", "", "").replace("app: web", "app: other");
    let plan = |cpu: &str| {
        let first = owner("first", cpu, drawn, "nodeName: node-a, ");
        let next = owner("next", "500m", "", "");
        run(&(node("node-a") + &reservation("r", keeps_away, AVAILABLE) + &first + &other + &next))
    };
    let with_room = plan("1");
    assert_eq!(placed(&with_room["nodes"][0]), (vec!["default/next".to_owned()], vec!["default/next of r".to_owned()]));
    assert_eq!(with_room["summary"]["nodeClaims"], 1, "the other one gets a node of its own: {with_room}");
    let full = plan("2");
    assert!(placed(&full["nodes"][0]).0.contains(&"default/other".to_owned()), "{full}");
}

#[test]
fn a_restricted_reservation_that_is_too_small_leaves_its_owner_to_free_room() {
    let restricted = reservation("r", "", AVAILABLE).replace("spec:\n", "spec:\n  allocatePolicy: Restricted\n");
    let big = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a, labels: {kubernetes.io/arch: amd64, \
               kubernetes.io/os: linux}}\nstatus: {allocatable: {cpu: '8', memory: 8Gi, pods: '10'}}\n---\n";
    let plan = run(&(big.to_owned() + &restricted + &owner("a", "3", "", "")));
    assert_eq!(placed(&plan["nodes"][0]), (vec!["default/a".to_owned()], vec![]), "{plan}");
}

#[test]
fn the_reservation_with_the_lowest_order_is_drawn_from_first() {
    let order = |name: &str, order: &str| {
        let labels = format!("{{name: {name}, labels: {{scheduling.koordinator.sh/reservation-order: '{order}'}}}}");
        reservation(name, "", AVAILABLE).replace(&format!("{{name: {name}}}"), &labels)
    };
    let manifests = node("node-a") + &order("first", "2") + &order("second", "1") + &owner("a", "1", "", "");
    assert_eq!(placed(&run(&manifests)["nodes"][0]).1, ["default/a of second"]);
}

#[test]
fn the_guides_quick_start_gives_the_reservation_and_its_owner_one_node() {
    let run = common::berth(&["plan", "-f", "examples/guide-quick-start", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &plan["nodes"][0]["name"]), (0, &"node-0".into()), "{plan}");
    assert_eq!(plan["nodes"][0]["reservations"][0], "reservation-demo");
    assert_eq!(placed(&plan["nodes"][0]).1, ["default/pod-demo-0 of reservation-demo"]);
}

#[test]
fn the_guides_deployment_shares_one_reservation() {
    let run = common::berth(&["plan", "-f", "examples/guide-several-owners", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &plan["nodes"][0]["name"]), (0, &"node-1".into()), "{plan}");
    let drawn = ["default/app-demo-0 of reservation-demo-big", "default/app-demo-1 of reservation-demo-big"];
    assert_eq!(placed(&plan["nodes"][0]).1, drawn);
    assert_eq!(plan["summary"]["nodeClaims"], 0);
}

/// The Reservations of a guide that go to its node, and the reasons for what is left.
fn guide(name: &str, more: &[&str]) -> (i32, Vec<String>, Vec<String>) {
    let folder = format!("examples/guide-{name}");
    let run = common::berth(&[&["plan", "-f", &folder, "-o", "json"], more].concat());
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let placed = plan["nodes"][0]["reservations"].as_array().into_iter().flatten().map(text).collect();
    let left = plan["unschedulable"].as_array().into_iter().flatten();
    let left = left.map(|left| format!("{}: {}", text(&left["object"]), text(&left["reasons"][0]["reason"])));
    (run.code, placed, left.collect())
}

#[test]
fn the_guides_pre_allocating_reservations_go_where_the_pods_run_that_they_are_bound_to() {
    const CONFIG: [&str; 2] = ["--scheduler-config", "examples/scheduler-config.yaml"];
    let placed = |name: &str| (0, vec![name.to_owned()], Vec::<String>::new());
    assert_eq!(guide("pre-allocation-default", &[]), placed("reservation-prealloc"));
    assert_eq!(guide("pre-allocation-cluster", &CONFIG), placed("reservation-cluster-mode"));
    assert_eq!(guide("pre-allocation-multiple", &CONFIG), placed("reservation-multi-pods"));
    let (code, _, left) = guide("pre-allocation-cluster", &[]);
    let why = "reservation-cluster-mode: reservation requires cluster mode pre-allocation which is disabled";
    assert_eq!((code, left), (1, vec![why.to_owned()]), "without the configuration");
}

#[test]
fn owners_on_a_new_node_with_several_reservations_draw_as_the_scheduler_lets_them() {
    let small = reservation("small", "", "").replace("allocateOnce: false", "allocateOnce: true");
    let small = small.replace("cpu: '2'", "cpu: 500m");
    let plan = run(&(small + &reservation("large", "", "") + &owner("a", "1", "", "") + &owner("b", "1", "", "")));
    let claims = plan["nodeClaims"].as_array().unwrap();
    assert_eq!(claims.len(), 1, "{plan}");
    // Either is more than the small one has, and both together fill the large one.
    assert_eq!(placed(&claims[0]).1, ["default/a of large", "default/b of large"]);
    assert_eq!(claims[0]["requests"]["cpu"], "2500m", "the small one still holds what it reserves");
}

#[test]
fn an_owner_that_goes_to_another_reservation_of_its_new_node_is_listed_there() {
    let small = reservation("a-small", "", "").replace("cpu: '2'", "cpu: 500m");
    let plan = run(&(small + &reservation("large", "", "") + &owner("a", "1", "", "")));
    assert_eq!(plan["summary"]["placed"], 1);
    assert_eq!(placed(&plan["nodeClaims"][0]).1, ["default/a of large"]);
}

#[test]
fn a_node_that_is_launched_for_a_reservation_alone_is_among_those_that_wide_lists() {
    let run = berth(&["plan", "-f", "examples/room", "--wide", "--now", "2026-01-01T00:00:00Z"]);
    let (_, nodes) = run.stdout.split_once("\nPods by node\n").unwrap();
    assert!(nodes.contains("Reservation "), "{nodes}");
}
