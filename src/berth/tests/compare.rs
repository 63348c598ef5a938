//! `--repack`, `--diff` and `--max-cost`.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::{plan, plan_json};

const CATALOGUE: &str = "
- name: small
  architecture: amd64
  operatingSystems: [linux]
  resources: {cpu: 2, memory: 8Gi, pods: 110}
  offerings:
  - {Price: 0.1, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
- name: large
  architecture: amd64
  operatingSystems: [linux]
  resources: {cpu: 8, memory: 32Gi, pods: 110}
  offerings:
  - {Price: 0.3, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - Price: 0.3
    ReservationCapacity: 0
    Requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [reserved]}
    - {key: topology.kubernetes.io/zone, operator: In, values: [a]}
    - {key: berth.sh/capacity-reservation-id, operator: In, values: [cr-1]}
";

fn catalogue(name: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{}-{name}", std::process::id()));
    std::fs::write(&file, CATALOGUE).unwrap();
    file.display().to_string()
}

fn node(name: &str, instance_type: &str, cpu: u32, labels: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/os: linux, kubernetes.io/arch: amd64, \
         node.kubernetes.io/instance-type: {instance_type}, topology.kubernetes.io/zone: a{labels}}}}}\n\
         status: {{allocatable: {{cpu: {cpu}, memory: 32Gi, pods: 110}}}}\n"
    )
}

fn running(name: &str, node: &str, owner: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{owner}}}\nspec: {{nodeName: {node}, containers: \
         [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}\nstatus: {{phase: Running}}\n"
    )
}

fn deployment(name: &str, replicas: u32, cpu: u32) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
    )
}

#[test]
fn a_cluster_planned_from_scratch_stands_beside_what_it_costs() {
    // Two pods on four nodes of known types and one unknown: one small node would do, but for the pod of the DaemonSet that
    // comes with each node.
    let daemon = ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]";
    let manifests = [
        node("n1", "large", 8, ""),
        node("n2", "large", 8, ""),
        node("n3", "small", 2, ""),
        node("n4", "metal", 64, ""),
        running("p1", "n1", ""),
        running("p2", "n2", ""),
        running("agent", "n2", daemon),
    ]
    .concat();
    let plan = plan_json(&manifests, &["--repack", "--instance-types", &catalogue("scratch"), "--node-cost", "0.01"]);
    assert_eq!(plan["nodeClaims"].as_array().unwrap().len(), 0, "the plan itself launches nothing");
    let now = &plan["repack"]["now"];
    assert_eq!(
        (&now["nodes"], now["hourlyCost"].as_f64(), now["nodeCost"].as_f64()),
        (&4.into(), Some(0.7), Some(0.04))
    );
    assert_eq!(now["unpricedNodes"], serde_json::json!(["n4"]));
    let scratch = &plan["repack"]["fromScratch"];
    assert_eq!((&scratch["pods"], &scratch["nodeClaims"]), (&2.into(), &2.into()));
    assert_eq!((scratch["hourlyCost"].as_f64(), scratch["nodeCost"].as_f64()), (Some(0.2), Some(0.02)));
}

#[test]
fn a_slot_that_a_node_takes_is_free_from_scratch() {
    let labels = ", karpenter.sh/capacity-type: reserved, berth.sh/capacity-reservation-id: cr-1";
    let manifests = [node("n1", "large", 8, labels), running("p1", "n1", "")].concat();
    let plan = plan_json(&manifests, &["--repack", "--instance-types", &catalogue("slots")]);
    let (now, scratch) = (&plan["repack"]["now"], &plan["repack"]["fromScratch"]);
    assert_eq!((now["hourlyCost"].as_f64(), now["listCost"].as_f64()), (Some(0.0), Some(0.3)));
    assert_eq!((scratch["hourlyCost"].as_f64(), scratch["listCost"].as_f64()), (Some(0.0), Some(0.3)), "{plan}");
}

#[test]
fn a_change_takes_the_place_of_what_it_names_and_adds_the_rest() {
    let changes = [deployment("web", 4, 2), deployment("new", 1, 2)].concat();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{}.yaml", std::process::id()));
    std::fs::write(&file, changes).unwrap();
    let file = file.display().to_string();
    let args = ["--instance-types", &catalogue("diff"), "--diff", &file];
    let before = deployment("web", 1, 2);
    let run = plan(&before, &args);
    assert!(!run.stderr.contains("more than once"), "a change is no repetition: {}", run.stderr);
    for word in ["What the change does", "difference", "New nodes that differ"] {
        assert!(run.stdout.contains(word), "{word} is not in {}", run.stdout);
    }
    let plan = plan_json(&before, &args);
    let diff = &plan["diff"];
    assert_eq!((&diff["before"]["pods"], &diff["after"]["pods"]), (&1.into(), &5.into()), "{diff}");
    assert_eq!((&plan["summary"]["pods"], diff["before"]["hourlyCost"].as_f64()), (&5.into(), Some(0.1)));
    let adds: f64 = diff["nodes"].as_array().unwrap().iter().map(|one| one["addsHourlyCost"].as_f64().unwrap()).sum();
    let cost = |of: &str| diff[of]["hourlyCost"].as_f64().unwrap();
    assert!((adds - (cost("after") - cost("before"))).abs() < 1e-9, "{diff}");
}

/// Running pods of a Deployment, and of its ReplicaSet that the files do not have.
fn rolled(n: usize, node: &str) -> String {
    let owner = ", labels: {app: web, pod-template-hash: abc}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, \
                 name: web-abc, uid: u, controller: true}]";
    (0..n).map(|i| running(&format!("web-abc-{i}"), node, owner)).collect()
}

/// The regression: what changed requests cost was not seen, so that `--max-cost` let it pass.
#[test]
fn a_change_of_what_pods_ask_for_makes_those_anew_that_run() {
    let cluster = [node("n1", "small", 2, ""), deployment("web", 2, 1), rolled(2, "n1")].concat();
    let change = |name: &str, manifest: &str| {
        let file =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("roll-{}-{name}", std::process::id()));
        std::fs::write(&file, manifest).unwrap();
        let run = plan(
            &cluster,
            &["--instance-types", &catalogue("roll"), "--diff", &file.display().to_string(), "-o", "json"],
        );
        let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        (run.stderr, found["diff"]["after"]["pods"].clone(), found["diff"]["after"]["hourlyCost"].clone())
    };
    // One of two on the node that is there, and one on another: 0.1 dollars.
    let (told, pods, cost) = change("more", &deployment("web", 2, 2));
    assert_eq!((pods, cost.as_f64()), (2.into(), Some(0.1)), "{told}");
    let warning =
        "Deployment default/web: the change makes 2 of its pods anew: its template asks nodes for something else";
    assert!(told.contains(warning), "{told}");
    // Another image rolls nothing that a plan sees, nor does a template without a count; a paused one waits.
    let image = deployment("web", 2, 1).replace("image: i", "image: other");
    let uncounted = deployment("web", 2, 1).replace("  replicas: 2\n", "");
    let paused = deployment("web", 2, 2).replace("replicas: 2", "replicas: 2\n  paused: true");
    for (name, manifest) in [("image", image), ("uncounted", uncounted), ("paused", paused)] {
        let (told, pods, cost) = change(name, &manifest);
        assert_eq!((pods, cost.as_f64()), (0.into(), Some(0.0)), "{name}: {told}");
        assert!(!told.contains("the change"), "{name}: {told}");
    }
}

/// The regression: a change that lets a rollout go on which the cluster holds back was not seen.
#[test]
fn a_change_that_lets_a_rollout_go_on_makes_pods_anew() {
    let set = |cpu: u32| {
        let owner = "ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]";
        let labelled = "labels: {app: web, pod-template-hash: abc}";
        deployment("web", 2, cpu)
            .replace("kind: Deployment", "kind: ReplicaSet")
            .replace("metadata: {name: web}", &format!("metadata: {{name: web-abc, {owner}}}"))
            .replace("labels: {app: web}", labelled)
    };
    let paused = deployment("web", 2, 2).replace("replicas: 2", "replicas: 2\n  paused: true");
    let cluster = [node("n1", "small", 2, ""), paused, set(1), rolled(2, "n1")].concat();
    let revision = "controller-revision-hash: old";
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s, controller: true}]";
    let member = |i: u32| running(&format!("db-{i}"), "n1", &format!(", labels: {{app: db, {revision}}}, {owner}"));
    let members = |partition: u32| {
        let strategy = format!("replicas: 2\n  updateStrategy: {{rollingUpdate: {{partition: {partition}}}}}");
        deployment("db", 2, 2).replace("kind: Deployment", "kind: StatefulSet").replace("replicas: 2", &strategy)
    };
    let status = "status: {updateRevision: new, currentRevision: old, replicas: 2}\n";
    let cluster = [cluster, members(2), status.to_owned(), member(0), member(1)].concat();
    for (name, change, n) in [
        ("unpaused", deployment("web", 2, 2).replace("replicas: 2", "replicas: 2\n  paused: false"), 2),
        ("back", deployment("web", 2, 1), 0),
        ("partition", members(1), 1),
        ("same", members(2), 0),
    ] {
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("on-{}-{name}", std::process::id()));
        std::fs::write(&file, change).unwrap();
        let plan = plan_json(&cluster, &["--instance-types", &catalogue("on"), "--diff", &file.display().to_string()]);
        assert_eq!(plan["diff"]["after"]["pods"], n, "{name}: {}", plan["diff"]);
    }
}

/// The regression: pods were planned from the template that a paused Deployment does not roll out, and pods that go were told to
/// be made anew.
#[test]
fn what_a_change_makes_anew_and_lets_go_is_told_apart() {
    let cluster = [node("n1", "small", 2, ""), deployment("web", 2, 1), rolled(2, "n1")].concat();
    let change = |name: &str, manifest: &str| {
        let file =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("told-{}-{name}", std::process::id()));
        std::fs::write(&file, manifest).unwrap();
        plan(&cluster, &["--instance-types", &catalogue("told"), "--diff", &file.display().to_string(), "-o", "json"])
    };
    let told = change("fewer", &deployment("web", 1, 2)).stderr;
    assert!(told.contains("makes 1 of its pods anew") && told.contains("lets 1 of its pods go"), "{told}");
    let paused = deployment("web", 3, 2).replace("replicas: 3", "replicas: 3\n  paused: true");
    let run = change("paused", &paused);
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let asked = &found["nodeClaims"][0]["requests"]["cpu"];
    assert_eq!((&found["diff"]["after"]["pods"], asked), (&1.into(), &"1".into()), "{}", run.stderr);
}

/// The regression: pods that are made anew were counted beside those that take their place.
#[test]
fn a_quota_counts_pods_that_are_made_anew_once() {
    let quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.cpu: 4}}\n\
                 status: {hard: {requests.cpu: 4}, used: {requests.cpu: 2}}\n";
    let cluster = [node("n1", "small", 2, ""), deployment("web", 2, 1), rolled(2, "n1"), quota.to_owned()].concat();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("quota-{}.yaml", std::process::id()));
    std::fs::write(&file, deployment("web", 2, 2)).unwrap();
    let plan = plan_json(&cluster, &["--instance-types", &catalogue("quota"), "--diff", &file.display().to_string()]);
    assert_eq!(plan["diff"]["after"]["pods"], 2, "{}", plan["diff"]);
}

/// The regression: of a pod with annotations nothing was counted, which nearly every pod has.
#[test]
fn a_quota_counts_pods_with_annotations_as_others() {
    let quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.cpu: 4}}\n";
    let status = "status: {hard: {requests.cpu: 4}, used: {requests.cpu: 2}}\n";
    let noted = |text: String| text.replace("labels: {app: web, ", "annotations: {a: b}, labels: {app: web, ");
    let pods = noted(rolled(2, "n1")).replace("controller: true}]", "controller: true}], uid: own");
    let cluster = [node("n1", "small", 2, ""), noted(deployment("web", 2, 1)), pods].concat();
    for (name, status, change, pods) in [
        // Two of 1 CPU go, two of 2 come: 4 in all.
        ("counted", status, deployment("web", 2, 2), 2),
        ("uncounted", "", deployment("web", 2, 2), 2),
        // Two of 1 CPU stay, so that one of 2 may come.
        ("beside", "", deployment("new", 2, 2), 1),
    ] {
        let file =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("noted-{}-{name}", std::process::id()));
        std::fs::write(&file, change).unwrap();
        let cluster = [&cluster, quota, status].concat();
        let args = ["--instance-types", &catalogue("noted"), "--diff", &file.display().to_string()];
        assert_eq!(plan_json(&cluster, &args)["diff"]["after"]["pods"], pods, "{name}");
    }
}

/// The regression: manifests as a repository has them, without status, undid what had become of the objects: Jobs ran again,
/// Reservations held room anew, claims lost their volumes, and pods that run were planned.
#[test]
fn manifests_that_a_cluster_was_made_from_change_nothing() {
    let requests = "resources: {requests: {cpu: 2}}";
    let job = format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: once}}\nspec: {{completions: 2, parallelism: 2, template: \
         {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i, {requests}}}]}}}}}}\n"
    );
    let reservation = |once: bool, ttl: &str| {
        format!(
            "---\napiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {{name: room-{once}-{ttl}}}\n\
             spec: {{owners: [{{labelSelector: {{matchLabels: {{app: web}}}}}}], ttl: {ttl}, allocateOnce: {once}, \
             template: {{spec: {{containers: [{{name: c, image: i, {requests}}}]}}}}}}\n"
        )
    };
    let bare = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: bare}}\nspec: {{containers: [{{name: c, image: i, {requests}}}]}}\n"
    );
    let complete = "status: {succeeded: 2, conditions: [{type: Complete, status: \"True\"}]}\n";
    let cluster = [
        node("n1", "large", 8, ""),
        job.clone() + complete,
        reservation(true, "0s") + "status: {phase: Succeeded, nodeName: n1}\n",
        reservation(false, "1h") + "status: {phase: Failed}\n",
        reservation(false, "0s")
            + "status: {phase: Available, nodeName: n1, allocatable: {cpu: 2}, allocated: {cpu: 0}}\n",
        bare.replace("spec: {", "spec: {nodeName: n1, ") + "status: {phase: Running}\n",
    ]
    .concat();
    let change = |name: &str, manifests: String| {
        let file =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("same-{}-{name}", std::process::id()));
        std::fs::write(&file, manifests).unwrap();
        let run = plan(
            &cluster,
            &["--instance-types", &catalogue("same"), "--diff", &file.display().to_string(), "-o", "json"],
        );
        (serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap(), run.stderr)
    };
    let all = [job, reservation(true, "0s"), reservation(false, "1h"), reservation(false, "0s"), bare.clone()].concat();
    let (found, told) = change("all", all);
    assert_eq!(found["diff"]["before"], found["diff"]["after"], "{told}");
    assert_eq!(found["nodeClaims"].as_array().unwrap().len(), 0, "{found}");
    let (_, told) = change("other", bare.replace("cpu: 2", "cpu: 3"));
    assert!(told.contains("Pod default/bare: it runs, and what it requests cannot be changed"), "{told}");
}

/// The `diff` and warnings of a plan with a change.
fn changed(name: &str, cluster: &str, change: &str) -> (serde_json::Value, String) {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("merge-{}-{name}", std::process::id()));
    std::fs::write(&file, change).unwrap();
    let args = ["--instance-types", &catalogue(name), "--diff", &file.display().to_string(), "-o", "json"];
    let run = plan(cluster, &args);
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    (found["diff"].clone(), run.stderr)
}

/// The same object as `kubectl apply` leaves it, which notes the manifest.
fn applied(object: &str, manifest: &serde_json::Value) -> String {
    let last = serde_json::Value::String(manifest.to_string());
    object.replace(
        "metadata: {",
        &format!("metadata: {{annotations: {{kubectl.kubernetes.io/last-applied-configuration: {last}}}, "),
    )
}

/// The regression: labels that another tool had set were gone with a change that gives the object without them.
#[test]
fn labels_stay_that_neither_a_change_nor_what_was_applied_last_names() {
    let namespace =
        |labels: &str| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: default{labels}}}\n");
    let labelled = namespace(", labels: {tier: x}");
    // It avoids `web` where the namespace has the label.
    let avoids = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                  kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {tier: x}}}]}}";
    let other = deployment("other", 1, 1).replace("spec: {containers", &format!("spec: {{{avoids}, containers"));
    let rest = [node("n1", "large", 8, ""), deployment("web", 2, 1), rolled(2, "n1"), other].concat();
    let n_new = |diff: &serde_json::Value| diff["after"]["nodeClaims"].clone();
    let (diff, told) = changed("kept", &[labelled.clone(), rest.clone()].concat(), &namespace(""));
    assert_eq!((n_new(&diff), &diff["before"]), (1.into(), &diff["after"]), "{told}");
    let last = serde_json::json!({"metadata": {"name": "default", "labels": {"tier": "x"}}});
    let (diff, told) = changed("taken", &[applied(&labelled, &last), rest].concat(), &namespace(""));
    assert_eq!(n_new(&diff), 0, "{told}");

    let team = node("n1", "small", 2, ", team: blue");
    let picky = deployment("web", 1, 1).replace("spec: {containers", "spec: {nodeSelector: {team: blue}, containers");
    let cluster = [team, picky].concat();
    for (name, given) in [("none", ""), ("more", ", labels: {q: x}")] {
        let change = format!("---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1{given}}}\n");
        let (diff, told) = changed(name, &cluster, &change);
        assert_eq!((n_new(&diff), &diff["before"]), (0.into(), &diff["after"]), "{name}: {told}");
        assert_eq!(diff["after"]["unschedulable"], 0, "{name}: {told}");
    }
}

/// The regression: what a hand or Kueue had paused or suspended went on where the manifest says nothing of it.
#[test]
fn what_is_paused_or_suspended_stays_so_unless_what_was_applied_last_said_so() {
    let paused = deployment("web", 2, 1).replace("replicas: 2", "replicas: 2\n  paused: true");
    let rest = [node("n1", "large", 8, ""), rolled(2, "n1")].concat();
    let (diff, told) = changed("paused", &[paused.clone(), rest.clone()].concat(), &deployment("web", 2, 4));
    assert_eq!(diff["before"], diff["after"], "{told}");
    let last = serde_json::json!({"spec": {"paused": true}});
    let (_, told) = changed("resumed", &[applied(&paused, &last), rest].concat(), &deployment("web", 2, 4));
    assert!(told.contains("makes 2 of its pods anew"), "{told}");

    let template =
        "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}";
    let job = |suspend: &str| {
        format!(
            "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{{suspend}parallelism: 2, completions: 2, {template}}}\n"
        )
    };
    let cron = |suspend: &str| {
        format!(
            "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: j}}\nspec: {{{suspend}schedule: \"0 * * * *\", \
             jobTemplate: {{spec: {{{template}}}}}}}\n"
        )
    };
    let n_pods = |diff: &serde_json::Value| diff["after"]["pods"].clone();
    let last = serde_json::json!({"spec": {"suspend": true}});
    let node = node("n1", "large", 8, "");
    for (name, held, given) in [("job", job("suspend: true, "), job("")), ("cron", cron("suspend: true, "), cron(""))] {
        let (diff, told) = changed(name, &[node.clone(), held.clone()].concat(), &given);
        assert_eq!(n_pods(&diff), 0, "{name}: {told}");
        let (diff, told) = changed(name, &[node.clone(), applied(&held, &last)].concat(), &given);
        assert_ne!(n_pods(&diff), 0, "{name}: {told}");
    }
}

/// The regression: a claim that a change gives again counted as unbound, so that its pod was planned in another zone.
#[test]
fn a_claim_that_is_given_again_stays_bound() {
    let volume = "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {capacity: {storage: 1Gi}, \
                  accessModes: [ReadWriteOnce], storageClassName: any, claimRef: {namespace: default, name: data}, csi: {driver: \
                  d, volumeHandle: h}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: \
                  topology.kubernetes.io/zone, operator: In, values: [b]}]}]}}}\n";
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: \
                 [ReadWriteOnce], storageClassName: any, resources: {requests: {storage: 1Gi}}}\n";
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: any}\nprovisioner: d\n\
                 volumeBindingMode: WaitForFirstConsumer\n";
    let bound = claim.replace("spec: {", "spec: {volumeName: pv, ");
    let cluster = [node("n1", "small", 2, ""), volume.to_owned(), bound, class.to_owned()].concat();
    let pod = deployment("db", 1, 3).replace(
        "spec: {containers",
        "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers",
    );
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bound-{}.yaml", std::process::id()));
    std::fs::write(&file, [claim, &pod].concat()).unwrap();
    // Nodes of zone a alone can be had.
    let args = ["--instance-types", &catalogue("bound"), "--diff", &file.display().to_string(), "-o", "json"];
    let run = plan(&cluster, &args);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(
        run.stdout.contains("volume node affinity conflict") || run.stdout.contains("node affinity"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_change_that_wants_fewer_pods_makes_room() {
    let cluster = [node("n1", "small", 2, ""), deployment("web", 2, 1), rolled(2, "n1")].concat();
    let changes = [deployment("web", 1, 1), deployment("new", 1, 1)].concat();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fewer-{}.yaml", std::process::id()));
    std::fs::write(&file, changes).unwrap();
    let file = file.display().to_string();
    let args = ["--instance-types", &catalogue("fewer"), "--diff", &file];
    let plan = plan_json(&cluster, &args);
    assert_eq!(plan["nodeClaims"].as_array().unwrap().len(), 0, "{plan}");
    assert_eq!(plan["nodes"][0]["pods"], serde_json::json!(["default/new-0"]), "{plan}");
}

#[test]
fn an_object_repeated_before_the_change_is_told() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("repeat-{}.yaml", std::process::id()));
    std::fs::write(&file, deployment("new", 1, 1)).unwrap();
    let twice = [deployment("web", 1, 1), deployment("web", 2, 1)].concat();
    let run = plan(&twice, &["--diff", &file.display().to_string()]);
    let told = "Deployment default/web: given more than once; the last counts (standard input: document 2)";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_plan_above_its_most_exits_with_1_and_is_printed() {
    let catalogue = catalogue("max");
    let args = |most| ["--instance-types", catalogue.as_str(), "--max-cost", most];
    let run = plan(&deployment("web", 1, 2), &args("0.1"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = plan(&deployment("web", 1, 2), &args("0.09"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("the new nodes cost $0.1/h, more than --max-cost $0.09/h"), "{}", run.stderr);
    assert!(run.stdout.contains("Nodes to launch"));
}

#[test]
fn replicas_of_an_autoscaler_are_planned_by_choice() {
    let hpa = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {minReplicas: 2, \
               maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n";
    let manifests = [&deployment("web", 5, 1), hpa].concat();
    for (choice, pods) in [("current", 5), ("min", 2), ("max", 9)] {
        assert_eq!(plan_json(&manifests, &["--replicas", choice])["summary"]["pods"], pods, "{choice}");
    }
    let off = [&deployment("web", 0, 1), hpa].concat();
    assert_eq!(plan_json(&off, &["--replicas", "max"])["summary"]["pods"], 0, "scaled to nothing, it is off");
}

#[test]
fn yaml_holds_what_json_holds() {
    let manifests = deployment("web", 3, 1);
    let run = plan(&manifests, &["-o", "yaml", "--now", "2026-01-01T00:00:00Z"]);
    let yaml: serde_json::Value = serde_saphyr::from_str(&run.stdout).unwrap();
    assert_eq!(yaml, plan_json(&manifests, &["--now", "2026-01-01T00:00:00Z"]));
}

/// The regression: the warning came with every change.
#[test]
fn disruption_beside_a_change_warns_where_the_change_ends_pods() {
    let cluster = [node("n1", "small", 2, ""), deployment("web", 2, 1), rolled(2, "n1")].concat();
    for (replicas, is_told) in [(2, false), (1, true)] {
        let file =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ends-{}-{replicas}", std::process::id()));
        std::fs::write(&file, deployment("web", replicas, 1)).unwrap();
        let args = ["--disrupt", "--instance-types", &catalogue("ends"), "--diff", &file.display().to_string()];
        let told = plan(&cluster, &args).stderr;
        assert_eq!(told.contains("--disrupt looks at pods as they run"), is_told, "{replicas}: {told}");
    }
}

#[test]
fn a_kustomization_in_a_change_is_told_how_to_be_built() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kustomized-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("web.yaml"), deployment("web", 1, 1)).unwrap();
    for kustomization in
        ["resources: [web.yaml]\n", "kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\n"]
    {
        std::fs::write(folder.join("kustomization.yaml"), kustomization).unwrap();
        let told = plan(&deployment("web", 2, 1), &["--diff", &folder.display().to_string()]).stderr;
        assert!(told.contains("kubectl kustomize FOLDER"), "{told}");
    }
}
