//! `berth explain` tells the story of one object: what is in `golden/` for the examples, and what it refuses to tell.

mod common;

use common::{Run, berth, with_input};
use rstest::rstest;
use serde_json::Value;

const FOUR_SLOTS: &str = "examples/catalogues/four-slots.yaml";

/// A NodePool of all types.
const POOL: &str = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: web}, spec: {template: {spec: {nodeClassRef: {group: \
                    berth.sh, kind: FakeNodeClass, name: d}, requirements: []}}}}";

fn explain(example: &str, object: &str, more: &[&str]) -> Run {
    let folder = format!("examples/{example}");
    let input = ["explain", "-f", &folder, "--instance-types", FOUR_SLOTS, "--now", "2026-01-01T00:00:00Z"];
    berth(&[&input, more, &[object]].concat())
}

#[rstest]
#[case::a_pod_without_a_place("reserved-only", "pod/web-13", "explain-pod-left", 1)]
#[case::a_pod_on_a_new_node("reserved-first", "pod/web-12", "explain-pod-placed", 0)]
#[case::a_reservation_and_its_owner("room", "reservation/release-week", "explain-reservation", 0)]
#[case::an_owner_that_goes_with_its_reservation("room", "pod/web-0", "explain-bundled", 0)]
#[case::an_owner_on_a_node_that_exists("guide-several-owners", "pod/app-demo-0", "explain-owner", 0)]
#[case::a_node_that_is_launched("reserved-only", "node/reserved-only-00001", "explain-node", 0)]
fn story(#[case] example: &str, #[case] object: &str, #[case] expected: &str, #[case] code: i32) {
    let run = explain(example, object, &[]);
    assert_eq!(run.code, code, "{}", run.stderr);
    let golden = common::root().join("src/berth/tests/golden").join(format!("{expected}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &run.stdout).unwrap();
    }
    assert_eq!(run.stdout, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn a_workload_tells_of_its_first_pod_without_a_place() {
    let run = explain("reserved-only", "deploy/web", &[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.starts_with("Pod default/web-12 is unschedulable"), "{}", run.stdout);
    let run = explain("reserved-first", "deployment/default/web", &[]);
    assert!(run.code == 0 && run.stdout.starts_with("Pod default/web-0 goes to"), "{}{}", run.stdout, run.stderr);
}

/// The regression: no pod of it was found where all draw from Reservations that are launched with them.
#[test]
fn a_workload_whose_pods_come_with_their_reservations_is_found() {
    let manifests = "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {name: room}\nspec: {owners: [{labelSelector: \
                     {matchLabels: {a: b}}}], template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}]}}}\n\
                     ---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1, selector: {matchLabels: \
                     {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, resources: {requests: \
                     {cpu: '1'}}}]}}}\n";
    let run = with_input(&["explain", "--instance-types", FOUR_SLOTS, "-f", "-", "deployment/web"], manifests);
    assert!(run.stdout.contains("drawing from Reservation room"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn the_same_story_as_json() {
    let run = explain("reserved-only", "pod/web-13", &["-o", "json"]);
    let story: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((story["kind"].as_str(), story["hasPlace"].as_bool()), (Some("Explanation"), Some(false)));
    assert_eq!(story["nodePools"][0]["offerings"], 1);
    let made = |catalogue: &str| serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "catalogue": catalogue, "inputs": ["examples/reserved-only"]});
    assert_eq!((&story["time"], &story["provenance"]), (&"2026-01-01T00:00:00Z".into(), &made(FOUR_SLOTS)));
    assert!(story["changes"][0]["change"].as_str().unwrap().contains("880m less cpu"), "{story}");
}

#[rstest]
#[case::no_such_object("pod/nobody", "no Pod \"default/nobody\" in the input")]
#[case::no_such_namespace("pod/team/web-0", "there is one in namespace default (pod/default/web-0)")]
#[case::no_such_kind("daemonset/web", "expected pod/NAME, pod/NAMESPACE/NAME, the same of deployment")]
#[case::no_such_workload("deployment/nobody", "no Pod of workload \"default/nobody\" in the input")]
fn what_is_not_there_is_an_error_and_prints_nothing(#[case] object: &str, #[case] says: &str) {
    let run = explain("reserved-only", object, &["-o", "json"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains(says), "{}", run.stderr);
}

#[test]
fn a_pod_that_is_a_reservation_is_told_of_as_one() {
    let manifests = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\nstatus: {allocatable: {cpu: '4', pods: '9'}}\n\
                     ---\napiVersion: v1\nkind: Pod\nmetadata: {name: hold, labels: \
                     {scheduling.koordinator.sh/operating-mode: Reservation}}\nspec: {nodeName: node-a, containers: \
                     [{name: c, image: i, resources: {requests: {cpu: '2'}}}]}\nstatus: {phase: Running, conditions: \
                     [{type: Ready, status: 'True'}]}\n";
    let run = with_input(&["explain", "-f", "-", "pod/hold"], manifests);
    assert!(run.code == 2 && run.stderr.contains("(reservation/hold)"), "{}", run.stderr);
    let run = with_input(&["explain", "-f", "-", "reservation/hold"], manifests);
    assert!(run.code == 0 && run.stdout.starts_with("Reservation hold is Available on node node-a"), "{}", run.stdout);
}

#[test]
fn a_workload_of_another_namespace_is_told_of() {
    let manifests = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 2, \
                     selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: \
                     [{name: c, image: i}]}}}\n";
    let run = with_input(&["explain", "-f", "-", "deployment/web"], manifests);
    assert!(run.code == 2 && run.stderr.contains("there is one in namespace shop (shop/web)"), "{}", run.stderr);
}

#[test]
fn the_object_may_follow_the_files() {
    let run = berth(&["explain", "-f", "examples/room", FOUR_SLOTS, "pod/web-0"]);
    assert_eq!(run.code, 2, "a catalogue is no manifest");
    let run = berth(&["explain", "--instance-types", FOUR_SLOTS, "-f", "examples/room", "pod/web-0"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// The regression: what was lacking was told as `999080m less cpu`.
#[test]
fn how_much_less_would_do_is_told_in_sane_units() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 920m, memory: 4Gi, pods: '9'}}}\n---\n";
    let pool = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: none}, spec: {limits: {nodes: '0'}, template: \
                {spec: {requirements: []}}}}\n---\n";
    let pod = |requests: &str| {
        format!(
            "{node}{pool}{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i, \
             resources: {{requests: {{{requests}}}}}}}]}}}}\n"
        )
    };
    let change = |requests: &str| with_input(&["explain", "-f", "-", "pod/p"], &pod(requests)).stdout;
    assert!(
        change("cpu: '1000'").contains("If it requested 999.08 less cpu (node n1 is nearest)"),
        "{}",
        change("cpu: '1000'")
    );
    // Rounded up: with so much less it has room.
    let memory = change("memory: 20094Mi");
    assert!(memory.contains("If it requested 15.63Gi less memory (node n1 is nearest)"), "{memory}");
}

#[test]
fn the_nearest_node_lacks_the_least_of_what_the_pod_requests() {
    let node = |name: &str, cpu: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{cpu: '{cpu}', pods: '9'}}}}}}\n---\n"
        )
    };
    let pod = |name: &str, node: &str, cpu: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, uid: {name}}}, spec: {{{node}containers: [{{name: c, \
                 image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}\n---\n"
        )
    };
    // The larger one has less room, and no other can be had.
    let pool = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: none}, spec: {limits: {nodes: '0'}, template: \
                {spec: {requirements: []}}}}\n---\n";
    let manifests = [
        pool.to_owned(),
        node("small", "4"),
        node("large", "8"),
        pod("on-small", "nodeName: small, ", "3280m"),
        pod("on-large", "nodeName: large, ", "7790m"),
        pod("new", "", "'3'"),
    ];
    let run = with_input(&["explain", "-f", "-", "pod/new"], &manifests.concat());
    assert!(run.stdout.contains("it requested 2.28 less cpu (node small is nearest)"), "{}{}", run.stdout, run.stderr);
}

/// The regression: what goes away or has ended was not there at all, though kubectl shows it, and of pods on such a node it was told where
/// others will run that are made in their place.
#[test]
fn what_goes_away_or_has_ended_tells_that() {
    let of_web = r#"ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: "1", controller: true}]"#;
    let pod = |name: &str, metadata: &str, spec: &str, phase: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: web}}, {metadata}}}, spec: {{{spec}containers: [{{name: \
             c, image: i, resources: {{requests: {{cpu: '1'}}}}}}]}}, status: {{phase: {phase}}}}}"
        )
    };
    let node = |name: &str, metadata: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}{metadata}}}, status: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '10'}}}}}}"
        )
    };
    let (on_old, deletion) = ("nodeName: old, ", "deletionTimestamp: 2026-01-01T00:00:00Z");
    let documents = [
        node("old", &format!(", {deletion}, finalizers: [a.b/c]")),
        node("new", ""),
        pod("moves", of_web, on_old, "Running"),
        pod("marked", &format!("{of_web}, annotations: {{karpenter.sh/do-not-disrupt: 'true'}}"), on_old, "Running"),
        pod("stops", &format!("{of_web}, {deletion}"), on_old, "Running"),
        pod("bare", "", on_old, "Running"),
        pod("done", of_web, on_old, "Succeeded"),
        "{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: over}, spec: {owners: [{labelSelector: \
         {}}], template: {spec: {containers: [{name: c, image: i}]}}}, status: {phase: Succeeded, nodeName: new}}"
            .to_owned(),
    ];
    let input = documents.join("\n---\n");
    let said = |object: &str| {
        let run = with_input(&["explain", "-f", "-", object, "--now", "2026-01-01T00:01:00Z"], &input);
        assert_eq!(run.code, 0, "{object}: {}", run.stderr);
        run.stdout
    };
    for (object, expected) in [
        ("pod/moves", "runs on node old, which goes away; the pod that is made in its place goes to node new\n"),
        (
            "pod/marked",
            "runs on node old, which goes away, and is not told to leave: pod has \"karpenter.sh/do-not-disrupt\"",
        ),
        ("pod/stops", "is being deleted on node old, which goes away\n"),
        ("pod/bare", "runs on node old, which goes away, and ends with it\n"),
        ("pod/done", "has ended (Succeeded) on node old\n"),
        ("reservation/over", "is Succeeded"),
        ("node/old", "Node old is going away\n"),
    ] {
        assert!(said(object).contains(expected), "{object}: {}", said(object));
    }
    let node = said("node/old");
    for line in [
        "Pods that run here:      4\n",
        "Waits for:               default/marked: pod has",
        "Stop now:                default/stops\n",
        "Are made anew elsewhere: default/moves goes to node new\n",
        "End with it:             default/bare\n",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&node).contains(&squeezed(line)), "{line:?} is not in {node}");
    }
    // A ReplicaSet that is not there has pods that are.
    assert!(said("replicaset/web").starts_with("Pod default/"), "{}", said("replicaset/web"));
}

/// The regression: a pod was to move to a node whose room others take who wait, and a node was to be launched for it, too.
#[test]
fn a_pod_of_a_node_that_goes_moves_or_gets_a_new_node_but_not_both() {
    let pool = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: web}, spec: {template: {spec: {nodeClassRef: {group: \
                berth.sh, kind: FakeNodeClass, name: d}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: \
                [m5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}";
    let node = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{karpenter.sh/nodepool: web, karpenter.sh/registered: \
             'true', karpenter.sh/initialized: 'true', node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: \
             on-demand, topology.kubernetes.io/zone: port-1a}}}}, status: {{allocatable: {{cpu: 1920m, memory: 7Gi, pods: '20'}}}}}}"
        )
    };
    let pod = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web, \
             uid: '1', controller: true}}]}}, spec: {{{spec}, containers: [{{name: c, image: i, resources: {{requests: {{cpu: \
             950m}}}}}}]}}}}"
        )
    };
    let story = |documents: &[String]| {
        let run = with_input(&["explain", "-f", "-", "node/a"], &documents.join("\n---\n"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    };
    let runs = ["moves", "stays"].map(|name| pod(name, if name == "moves" { "nodeName: a" } else { "nodeName: b" }));
    let mut documents = vec![pool.to_owned(), node("a"), node("b")];
    documents.extend(runs);
    let alone = story(&documents);
    assert!(alone.contains("default/moves to b\n") && !alone.contains("Would be launched"), "{alone}");
    documents.push(pod("waits", "priority: 5, nodeSelector: {kubernetes.io/hostname: b}"));
    let beside = story(&documents);
    let launched = "m5.large port-1a on-demand for default/moves\n";
    assert!(beside.contains(launched) && !beside.contains("Would move"), "{beside}");
}

#[test]
fn a_reservation_that_is_bound_to_running_pods_waits_for_them() {
    let run = explain("guide-pre-allocation-default", "reservation/reservation-prealloc", &[]);
    assert!(
        run.stdout.contains("pods that run in its room yet") && !run.stdout.contains("Left for owners"),
        "{}",
        run.stdout
    );
}

/// The regression: of a pod that waits for the node of a Reservation it was told that other taints would have offerings take it.
#[test]
fn no_offering_takes_a_pod_that_has_to_draw_from_a_reservation() {
    let pool = |name: &str, taints: &str| {
        format!(
            "{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: {name}}}, spec: {{template: {{spec: {{nodeClassRef: {{group: \
             berth.sh, kind: FakeNodeClass, name: d}}, requirements: []{taints}}}}}}}}}"
        )
    };
    let documents = [
        pool("plain", ""),
        pool("tainted", ", taints: [{key: k, effect: NoSchedule}]"),
        "{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: r}, spec: {ttl: 1h, owners: \
         [{labelSelector: {matchLabels: {app: a}}}], template: {spec: {nodeSelector: {tier: none}, containers: [{name: c, image: i, \
         resources: {requests: {cpu: '1'}}}]}}}}"
            .to_owned(),
        r#"{apiVersion: v1, kind: Pod, metadata: {name: asks, labels: {app: a}, annotations:
         {scheduling.koordinator.sh/reservation-affinity: '{"name": "r"}'}}, spec: {containers: [{name: c, image: i, resources:
         {requests: {cpu: '1'}}}]}}"#
            .to_owned(),
    ];
    let run = with_input(&["explain", "-f", "-", "pod/asks"], &documents.join("\n---\n"));
    let (_, changes) = run.stdout.split_once("What would have to change\n").unwrap();
    let changes: Vec<&str> = changes.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    assert!(
        matches!(&changes[..], [one] if one.starts_with("If it did not have to draw from a Reservation: ")),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("no node is launched for a pod that has to draw from a Reservation"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("\n0 of ").count(), 2, "{}", run.stdout);
}

#[test]
fn a_node_claim_is_told_of_as_its_node() {
    let labels = "{karpenter.sh/nodepool: web, karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true', \
                  node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: port-1a}";
    let node = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: n1, labels: {labels}}}, spec: {{providerID: 'fake://i-1'}}, status: {{allocatable: \
         {{cpu: 1920m, memory: 7Gi, pods: '20'}}}}}}"
    );
    let claim = format!(
        "{{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {{name: web-x7k2p, labels: {labels}}}, spec: {{nodeClassRef: {{group: \
         berth.sh, kind: FakeNodeClass, name: d}}, requirements: []}}, status: {{nodeName: n1, providerID: 'fake://i-1'}}}}"
    );
    let input = [POOL.to_owned(), node, claim].join("\n---\n");
    let told =
        |object: &str| with_input(&["explain", "-f", "-", object, "--now", "2026-01-01T00:00:00Z"], &input).stdout;
    let of_claim = told("nodeclaim/web-x7k2p");
    assert!(of_claim.starts_with("Node n1 exists\n") && of_claim.contains("If it went:"), "{of_claim}");
    assert_eq!(of_claim, told("node/n1"));
}

/// The regression: what an owner lacks was counted against the free room of the node alone.
#[test]
fn an_owner_lacks_what_its_reservation_has_not_and_the_node_does_not_add() {
    let lacks = |policy: &str| {
        let input = [
            "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: none}, spec: {limits: {nodes: '0'}, template: {spec: \
             {requirements: []}}}}"
                .to_owned(),
            "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 3920m, memory: 14Gi, pods: '58'}}}".to_owned(),
            format!(
                "{{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {{name: room}}, spec: {{{policy}ttl: 0s, \
                 allocateOnce: false, owners: [{{labelSelector: {{matchLabels: {{app: web}}}}}}], template: {{spec: {{containers: [{{name: \
                 c, image: i, resources: {{requests: {{cpu: '3'}}}}}}]}}}}}}, status: {{phase: Available, nodeName: n1, allocatable: \
                 {{cpu: '3'}}}}}}"
            ),
            "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: i, resources: \
             {requests: {cpu: '5'}}}]}}"
                .to_owned(),
        ];
        let run = with_input(&["explain", "-f", "-", "pod/web"], &input.join("\n---\n"));
        let line = run.stdout.lines().find(|line| line.contains("less cpu")).map(str::trim);
        line.unwrap_or_else(|| panic!("{}{}", run.stdout, run.stderr)).to_owned()
    };
    for (policy, expected) in
        [("allocatePolicy: Restricted, ", "2"), ("allocatePolicy: Aligned, ", "1.08"), ("", "1.08")]
    {
        let line = format!("If it requested {expected} less cpu (node n1 is nearest): node n1");
        assert_eq!(lacks(policy), line, "{policy}");
    }
}

/// The regression: the pod that was to do without it stood beside itself as it was, and was kept off by that.
#[test]
fn a_pod_whose_anti_affinity_can_be_met_nowhere_is_told_to_do_without() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: i, resources: \
               {requests: {cpu: '1'}}}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
               rack, labelSelector: {matchLabels: {app: web}}}]}}}}";
    let run = with_input(&["explain", "-f", "-", "pod/web"], &[POOL, pod].join("\n---\n"));
    assert!(run.stdout.contains("If it had no required pod anti-affinity: "), "{}", run.stdout);
}

/// The regression: of a pod that draws it was told that the Reservation is for others, and that its own node has no room for it.
#[test]
fn a_pod_that_runs_is_an_owner_of_what_it_draws_from() {
    let documents = [
        POOL,
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '2', memory: 4Gi, pods: '9'}}}",
        "{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: room, uid: r1}, spec: {ttl: 0s, \
         allocateOnce: false, owners: [{labelSelector: {matchLabels: {app: web}}}], template: {spec: {containers: [{name: c, image: i, \
         resources: {requests: {cpu: '2'}}}]}}}, status: {phase: Available, nodeName: n1, allocatable: {cpu: '2'}}}",
        r#"{apiVersion: v1, kind: Pod, metadata: {name: web, uid: p1, labels: {app: web}, annotations:
         {scheduling.koordinator.sh/reservation-allocated: '{"name": "room", "uid": "r1"}'}}, spec: {nodeName: n1, containers: [{name: c,
         image: i, resources: {requests: {cpu: '1'}}}]}, status: {phase: Running}}"#,
    ];
    let run = with_input(&["explain", "-f", "-", "pod/web"], &documents.join("\n---\n"));
    for expected in ["drawing from Reservation room\n", "1 of 1 nodes that exist would take it", "room on n1 matches: "]
    {
        assert!(run.stdout.contains(expected), "{expected}: {}{}", run.stdout, run.stderr);
    }
}

/// The regression: NodePools were asked about a pod that may go to one node alone, as its DaemonSet's controller says.
#[test]
fn no_new_node_is_the_one_that_a_pod_may_go_to() {
    let documents = [
        POOL,
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '1', memory: 4Gi, pods: '9'}}}",
        "{apiVersion: v1, kind: Pod, metadata: {name: agent}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}], \
         affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: \
         metadata.name, operator: In, values: [n1]}]}]}}}}}",
    ];
    let run = with_input(&["explain", "-f", "-", "pod/agent"], &documents.join("\n---\n"));
    let (_, changes) = run.stdout.split_once("What would have to change\n").unwrap();
    assert!(changes.starts_with("  If it requested 1 less cpu (node n1 is nearest): node n1\n\n"), "{}", run.stdout);
    assert!(!run.stdout.contains("NodePool"), "{}", run.stdout);
}
