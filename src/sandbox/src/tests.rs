//! The sandbox in virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_api::{FakeNodeClass, NodeClaim};
use berth_apiserver::{ApiServer, Config, RequestLog};
use berth_cloudprovider::ReservationAdoption;
use berth_controllers::{Ceiling, Ceilings, Controllers};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

use berth_manifests::{Input, Object, Options as Manifests, read_from};

use crate::observer::Observer;
use crate::story::Moment;
use crate::{Ended, Host, HostOptions, Line, Options, Parts, PartsOptions, SandboxError, run};

fn objects(text: &str) -> Vec<Object> {
    let mut objects = Vec::new();
    read_from("test.yaml", text.as_bytes(), &Manifests::default(), |_, object| {
        objects.push(object);
        Ok::<(), SandboxError>(())
    })
    .unwrap();
    objects
}

async fn play(text: &str) -> (Ended, Vec<String>) {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options { objects: objects(text), settle: true, ..Options::new(now) };
    let mut lines = Vec::new();
    let tell = |line: &Line| lines.push(line.message.clone());
    let limit = tokio::time::sleep(Duration::from_secs(600));
    let ended = run(options, tell, limit).await.unwrap();
    (ended, lines)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_tried_again_after_a_pause() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let log = RequestLog::new(move |_| assert!(counter.fetch_add(1, Ordering::Relaxed) < 1000, "without a pause"));
    // Nobody has defined the kind.
    let server = ApiServer::new(Config { log: Some(log), ..Config::default() });
    let client = Client::new(server, "default");
    let seen = crate::cluster::watch::<FakeNodeClass, _>(&client, crate::cluster::Seen::Class);
    drop(tokio::time::timeout(Duration::from_secs(60), seen.for_each(|_| async {})).await);
    let count = count.load(Ordering::Relaxed);
    assert!((30..100).contains(&count), "{count} requests in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_job_on_an_existing_node_runs_to_its_end() {
    let (ended, lines) = play(
        "
apiVersion: v1
kind: Node
metadata: {name: old}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: once, annotations: {berth.sh/runs-for: 3s}}
spec:
  nodeName: old
  restartPolicy: Never
  containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]
",
    )
    .await;
    assert_eq!(ended, Ended::Settled);
    assert_eq!(lines, ["node old is ready", "1 pod of once runs", "1 pod of once is done"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_place_is_left_over_with_its_name() {
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {nodeSelector: {there-is: none}, containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
";
    let (ended, lines) = play(pod).await;
    let Ended::LeftOver(left) = ended else { panic!("{ended:?}") };
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(
        left[0].starts_with("pod default/big: 0/0 nodes are available. No new node: NodePool default: "),
        "{left:?}"
    );
    let (last, before) = lines.split_last().unwrap();
    assert!(last.starts_with("1 pod of big finds no node: NodePool default: "), "{last}");
    assert_eq!(
        before,
        [
            "no NodePool is among the objects: NodePool default is made, which is open to linux on amd64",
            "1 pod of big waits for a node",
        ]
    );
}

/// The regression: where a quota let no pod in, nothing was said at all.
#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_created_are_told_with_the_reason_once() {
    let (_, lines) = play(
        "
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: '1'}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
",
    )
    .await;
    let told: Vec<&String> = lines.iter().filter(|line| line.contains("cannot be created")).collect();
    assert_eq!(
        told,
        [
            "pods of ReplicaSet web cannot be created: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_ceiling_keeps_waiting_is_left_over_with_the_reason() {
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: late}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
";
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut options = Options { objects: objects(pod), settle: true, ..Options::new(now) };
    let none = Ceiling { launches_per_hour: Some(0), dollars_per_hour: None };
    options.controllers.ceilings = Ceilings { of_each_pool: none, ..Ceilings::default() };
    let ended = run(options, |_| {}, tokio::time::sleep(Duration::from_secs(600))).await.unwrap();
    let Ended::LeftOver(left) = ended else { panic!("{ended:?}") };
    let expected = "pod default/late: 0/0 nodes are available. No new node: NodePool default: 0 nodes were launched within \
                    an hour, and 0 is the ceiling.";
    assert_eq!(left, [expected]);
}

/// The regression: only a plan said so.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_zone_is_sold_out_is_told_so() {
    let types = r#"[{"name": "big", "resources": {"cpu": "4", "memory": "16Gi"}, "offerings": [
        {"Price": 0.4, "Available": false, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z-a"]}]},
        {"Price": 0.4, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z-b"]}]}]}]"#;
    let of_zone = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: disks
  claimRef: {name: data, namespace: default}
  csi: {driver: d, volumeHandle: x}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: topology.kubernetes.io/zone, operator: In, values: [z-a]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: disks, volumeName: v, resources: {requests: {storage: 1Gi}}}
status: {phase: Bound}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeSelector: {topology.kubernetes.io/zone: z-a}
  containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]
";
    let catalogue = berth_catalogue::read(types.as_bytes(), "test").unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options { objects: objects(of_zone), catalogue, settle: true, ..Options::new(now) };
    let ended = run(options, |_| {}, tokio::time::sleep(Duration::from_secs(600))).await.unwrap();
    let Ended::LeftOver(left) = ended else { panic!("{ended:?}") };
    let says = "no instance is left of the types that have topology.kubernetes.io/zone=z-a.";
    assert!(left.len() == 2 && left.iter().all(|left| left.ends_with(says)), "{left:#?}");
}

/// Berth, with a cloud of its own, for so long; then both die.
async fn live_for(seconds: u64, parts: &Parts, seed: u64) {
    let now = parts.server.now();
    let catalogue = berth_cloudprovider_fake::catalogue();
    let options = HostOptions {
        now,
        seed,
        catalogue,
        boot_delay: Duration::from_secs(2),
        adoption: ReservationAdoption::Never,
        is_dry: false,
        node_overlay: false,
    };
    let host = Host::start(parts.client.clone(), options, |_| {}).await.unwrap();
    let cloud = Arc::new(host.cloud().clone());
    let clock = berth_controllers::Clock::starting_at(now);
    let options = berth_controllers::Options { seed, ..berth_controllers::Options::default() };
    let berth = tokio::spawn(Controllers::new(parts.client.clone(), cloud, clock, options).run(std::future::pending()));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    berth.abort();
}

#[tokio::test(start_paused = true)]
async fn machines_of_a_cloud_that_forgot_others_are_not_taken_for_them() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let parts = Parts::start(PartsOptions { without_berth: true, ..PartsOptions::new(now) }).await.unwrap();
    let web = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}
      containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]
";
    parts.begin(&objects(web), true).await.unwrap();
    live_for(60, &parts, 1).await;
    let before = provider_ids(&parts.client).await;
    assert_eq!(before.len(), 3);
    // The machines went with their cloud; pods come again elsewhere once their nodes are known to be gone.
    live_for(900, &parts, 2).await;
    let after = provider_ids(&parts.client).await;
    assert_eq!((after.len(), after.is_disjoint(&before)), (3, true), "{before:?} and {after:?}");
    let pods = Api::<Pod>::all(parts.client.clone()).list(&ListParams::default()).await.unwrap();
    let nodes: BTreeSet<&str> = pods.items.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
    assert_eq!((pods.items.len(), nodes.len()), (3, 3));
}

async fn provider_ids(client: &Client) -> BTreeSet<String> {
    let claims = Api::<NodeClaim>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let ids: Vec<String> = claims.items.into_iter().filter_map(|claim| claim.status?.provider_id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an instance of two NodeClaims: {ids:?}");
    ids.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn reservations_show_their_counts() {
    let (ended, lines) = play(
        "
apiVersion: berth.sh/v1alpha1
kind: FakeCapacityReservation
metadata: {name: cr-web}
spec: {instanceTypes: [m5.large], zones: [port-1a], count: 3, usedByOthers: 1}
",
    )
    .await;
    assert_eq!((ended, lines), (Ended::Settled, vec!["reservation cr-web: 1 of 3 slots used".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_of_someone_else_is_not_overwritten() {
    let path = std::env::temp_dir().join(format!("berth-sandbox-test-{}", std::process::id()));
    std::fs::write(&path, "apiVersion: v1\nkind: Config\ncurrent-context: production\n").unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options { kubeconfig: Some(path.clone()), settle: true, ..Options::new(now) };
    let error = run(options, |_| {}, std::future::pending()).await.unwrap_err();
    assert!(error.to_string().starts_with("unable to write the kubeconfig"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap().contains("production"));
    std::fs::remove_file(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_kubeconfig_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("berth-sandbox-mode-{}", std::process::id()));
    std::fs::write(&path, "older and longer").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    crate::cluster::write_private(&path, b"new").unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, std::fs::read_to_string(&path).unwrap().as_str()), (0o600, "new"));
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test(start_paused = true)]
async fn volumes_of_no_class_are_made_as_clouds_make_them() {
    let (ended, _) = play(
        "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db, resources: {requests: {cpu: 500m}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
",
    )
    .await;
    assert_eq!(ended, Ended::Settled);
}

/// The regression: the cloud heard of it after the NodePool, which warned that its node class was not found.
#[tokio::test(start_paused = true)]
async fn a_node_class_that_comes_with_its_node_pool_is_ready_from_the_start() {
    let text = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: own}
spec:
  template:
    spec:
      nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: std}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
apiVersion: berth.sh/v1alpha1
kind: FakeNodeClass
metadata: {name: std}
spec: {registrationDelay: 1s}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
";
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let (begun, mut parts) = tokio::sync::mpsc::unbounded_channel();
    let options = Options { objects: objects(text), settle: true, on_begun: Some(begun), ..Options::new(now) };
    let ended = run(options, |_| {}, tokio::time::sleep(Duration::from_secs(600))).await.unwrap();
    assert_eq!(ended, Ended::Settled);
    let (client, _) = parts.recv().await.unwrap();
    let events = Api::<k8s_openapi::api::core::v1::Event>::all(client).list(&ListParams::default()).await.unwrap();
    let of_pool = events.items.iter().filter(|event| event.involved_object.kind.as_deref() == Some("NodePool"));
    let warned: Vec<_> = of_pool.filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    assert!(warned.is_empty(), "{warned:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_claim_becomes_a_node() {
    let (ended, lines) = play(
        "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: mine}
spec:
  nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  - {key: topology.kubernetes.io/zone, operator: In, values: [port-1b]}
",
    )
    .await;
    assert_eq!(ended, Ended::Settled);
    assert_eq!(
        lines,
        ["1 node launched: 1 × m5.large on-demand in port-1b; all nodes $0.096/h", "node m5-large-0001 is ready",]
    );
}

#[tokio::test(start_paused = true)]
async fn a_reservation_whose_count_the_catalogue_has_otherwise_is_told() {
    let catalogue = r"[{name: a.large, architecture: amd64, operatingSystems: [linux], resources: {cpu: '2', memory: 4Gi},
        offerings: [{Price: 0.1, ReservationCapacity: 4, Requirements: [
            {key: karpenter.sh/capacity-type, operator: In, values: [reserved]},
            {key: topology.kubernetes.io/zone, operator: In, values: [port-1a]},
            {key: berth.sh/capacity-reservation-id, operator: In, values: [cr-a]}]}]}]";
    for (count, told) in [(2, true), (4, false)] {
        let text = format!(
            "apiVersion: berth.sh/v1alpha1
kind: FakeCapacityReservation
metadata: {{name: cr-a}}
spec: {{instanceTypes: [a.large], zones: [port-1a], count: {count}}}"
        );
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let catalogue = berth_catalogue::read(catalogue.as_bytes(), "test").unwrap();
        let options = Options { objects: objects(&text), catalogue, settle: true, ..Options::new(now) };
        let mut lines = Vec::new();
        let tell = |line: &Line| lines.push(line.message.clone());
        run(options, tell, tokio::time::sleep(Duration::from_secs(600))).await.unwrap();
        let expected = "reservation cr-a: spec.count of FakeCapacityReservation cr-a is 2, the instance catalogue has 4: the \
                        object's counts";
        assert_eq!(lines.iter().any(|line| line == expected), told, "{lines:?}");
        assert!(lines.contains(&format!("reservation cr-a: 0 of {count} slots used")), "{lines:?}");
    }
}

#[test]
fn more_pods_than_a_sandbox_holds_are_refused_by_object_and_field() {
    let web = |name: &str, replicas: u32| {
        format!(
            "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
---"
        )
    };
    let job = "
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  parallelism: 2000000000
  completions: 4
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
";
    crate::size::check(&objects(&(web("a", 199_996) + job))).unwrap();
    let error = crate::size::check(&objects(&(web("a", 10) + &web("b", 2_000_000_000)))).unwrap_err();
    let expected = "Deployment shop/b: spec.replicas: expected at most 200000 pods in a sandbox, found 2000000000 beside 10 of \
                    objects before it";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_startup_taint_that_nobody_removes_is_told_to_the_pods_that_wait() {
    let (ended, lines) = play(
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}
      startupTaints: [{key: example.com/agent, effect: NoSchedule}]
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
",
    )
    .await;
    let why = "to come up: StartupTaint \"example.com/agent:NoSchedule\" still exists";
    let Ended::LeftOver(left) = ended else { panic!("{ended:?}: {lines:?}") };
    assert!(left.len() == 1 && left[0].starts_with("pod default/web: waiting for nodeclaim default-"), "{left:?}");
    assert!(left[0].ends_with(why), "{left:?}");
    let told = lines.iter().filter(|line| line.starts_with("1 pod of web waits for nodeclaim default-"));
    assert_eq!(told.filter(|line| line.ends_with(why)).count(), 1, "{lines:?}");
}

#[test]
fn a_wait_for_a_volume_is_no_want_of_a_node() {
    let pod = |message: Option<&str>| -> Pod {
        let conditions: Vec<_> = message
            .into_iter()
            .map(|message| serde_json::json!({"type": "PodScheduled", "status": "False", "message": message}))
            .collect();
        let pod = serde_json::json!({"metadata": {"name": "db", "namespace": "default", "uid": "u"},
            "spec": {"containers": []}, "status": {"phase": "Pending", "conditions": conditions}});
        serde_json::from_value(pod).unwrap()
    };
    let (mut observer, mut moment) = (Observer::default(), Moment::default());
    observer.pod(&pod(None), &mut moment);
    observer
        .pod(&pod(Some("waiting for persistentvolumeclaim \"data\" to be bound on node m5-large-0001")), &mut moment);
    let lines = moment.tell(jiff::Timestamp::UNIX_EPOCH, berth_api::PlannedFor::default(), "$0.00");
    let lines: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
    let expected = "1 pod of db waits for persistentvolumeclaim \"data\" to be bound on node m5-large-0001";
    assert_eq!(lines, ["1 pod of db waits for a node", expected]);
}

/// The regression: the story said that a pod waits which had its node by then.
#[test]
fn a_wait_is_told_while_it_lasts() {
    let pod = |name: &str, node: Option<&str>| -> Pod {
        let owner = serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r",
            "controller": true});
        let pod = serde_json::json!({"metadata": {"name": name, "namespace": "default", "uid": name,
            "ownerReferences": [owner]}, "spec": {"containers": [], "nodeName": node}, "status": {"phase": "Pending"}});
        serde_json::from_value(pod).unwrap()
    };
    let told = |moment: &mut Moment| -> Vec<String> {
        let lines = moment.tell(jiff::Timestamp::UNIX_EPOCH, berth_api::PlannedFor::default(), "$0.00");
        lines.into_iter().map(|line| line.message).collect()
    };
    let (mut observer, mut moment) = (Observer::default(), Moment::default());
    for name in ["a", "b", "c", "d"] {
        observer.pod(&pod(name, None), &mut moment);
    }
    for name in ["a", "b"] {
        observer.pod(&pod(name, Some("n")), &mut moment);
    }
    observer.pod_gone("c", &mut moment);
    assert_eq!(told(&mut moment), ["1 pod of web waits for a node", "1 pod of web is gone"]);
    observer.pod(&pod("d", Some("n")), &mut moment);
    assert!(moment.is_empty(), "it waited in an earlier moment: {moment:?}");
}

#[test]
fn alike_pods_that_wait_for_node_claims_are_one_line() {
    let pod = |name: &str, claim: Option<&str>| -> Pod {
        let message = claim.map(|claim| format!("waiting for nodeclaim {claim} to come up: Node not registered"));
        let conditions = message.map(|message| {
            vec![serde_json::json!({"type": "PodScheduled", "status": "False",
            "message": message})]
        });
        let owner = serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r",
            "controller": true});
        let pod = serde_json::json!({"metadata": {"name": name, "namespace": "default", "uid": name,
            "ownerReferences": [owner]}, "spec": {"containers": []},
            "status": {"phase": "Pending", "conditions": conditions.unwrap_or_default()}});
        serde_json::from_value(pod).unwrap()
    };
    let (mut observer, mut moment) = (Observer::default(), Moment::default());
    for claim in [None, Some("default-a"), Some("default-b")] {
        for (name, claim) in [("a", claim), ("b", claim), ("c", claim.map(|_| "default-b"))] {
            observer.pod(&pod(name, claim), &mut moment);
        }
    }
    let lines = moment.tell(jiff::Timestamp::UNIX_EPOCH, berth_api::PlannedFor::default(), "$0.00");
    let lines: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
    let expected = "3 pods of web wait for nodeclaims default-a and default-b to come up: Node not registered";
    assert_eq!(lines, ["3 pods of web wait for nodes", expected], "that the NodeClaim is another one is nothing new");
}

/// The regression: each further NodeClaim was given its whole minute, and a pod that lost its places to others heard nothing.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_waited_for_long_is_told_of_a_young_node_claim() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let (on_begun, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let options = Options { on_begun: Some(on_begun), ..Options::new(now) };
    let end = async move {
        let (client, _) = begun.recv().await.unwrap();
        let classes = Api::<berth_api::FakeNodeClass>::all(client.clone());
        let delay = serde_json::json!({"spec": {"registrationDelay": "30s"}});
        classes.patch("default", &PatchParams::default(), &Patch::Merge(&delay)).await.unwrap();
        let pods = Api::<Pod>::default_namespaced(client.clone());
        // No other NodePool has such nodes.
        let pod = serde_json::json!({"metadata": {"name": "web"},
            "spec": {"nodeSelector": {"tier": "web"}, "containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(70)).await;
        let pool = serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
            "spec": {"template": {"metadata": {"labels": {"tier": "web"}}, "spec": {"requirements": [],
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}});
        let pools = Api::<berth_api::NodePool>::all(client);
        pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(25)).await;
        let pod = pods.get("web").await.unwrap();
        assert_eq!(pod.spec.unwrap().node_name, None, "its machine boots");
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let told: Vec<String> = conditions.into_iter().filter_map(|condition| condition.message).collect();
        assert!(told.iter().any(|told| told.starts_with("waiting for nodeclaim web-")), "{told:?}");
    };
    assert_eq!(Box::pin(run(options, |_| {}, end)).await.unwrap(), Ended::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_class_that_is_gone_were_not_launched_in_vain() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let (on_begun, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let options = Options { on_begun: Some(on_begun), ..Options::new(now) };
    let end = async move {
        let (client, _) = begun.recv().await.unwrap();
        let pool = serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}});
        let pools = Api::<berth_api::NodePool>::all(client.clone());
        pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(70)).await;
        Api::<berth_api::FakeNodeClass>::all(client.clone()).delete("default", &DeleteParams::default()).await.unwrap();
        let pods = Api::<Pod>::default_namespaced(client);
        let pod =
            serde_json::json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let mut told = BTreeSet::new();
        for _ in 0..240 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let status = pods.get("web").await.unwrap().status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            told.extend(conditions.into_iter().filter_map(|condition| condition.message));
        }
        assert!(told.iter().any(|message| message.contains("FakeNodeClass default not found")), "{told:?}");
        assert!(!told.iter().any(|message| message.contains("nodes were launched for it")), "{told:?}");
    };
    assert_eq!(Box::pin(run(options, |_| {}, end)).await.unwrap(), Ended::Interrupted);
}

/// A node class that takes its instance types from a ConfigMap, a NodePool of it, and a pod.
const CATALOGUED: &str = "
apiVersion: berth.sh/v1alpha1
kind: FakeNodeClass
metadata: {name: default}
spec: {instanceTypes: {namespace: default, name: types, key: types.yaml}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  template:
    spec:
      nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}
      requirements: []
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
";

fn types(text: &str) -> ConfigMap {
    let data = [("types.yaml".to_owned(), text.to_owned())].into();
    let metadata = ObjectMeta { name: Some("types".to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

const CATALOGUE: &str = include_str!("../../../examples/catalogues/four-slots.yaml");

/// The regression: it was read once, when the class was seen.
#[tokio::test(start_paused = true)]
async fn the_config_map_of_a_node_class_may_come_later_and_change() {
    let (on_begun, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options { objects: objects(CATALOGUED), on_begun: Some(on_begun), ..Options::new(now) };
    let changes = async {
        let (client, _) = begun.recv().await.unwrap();
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        let ready = async |says: &str| {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let class = Api::<FakeNodeClass>::all(client.clone()).get("default").await.unwrap();
            let conditions = class.status.unwrap().conditions;
            let condition = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
            let told = format!("{} {}", condition.status, condition.message);
            assert!(told.starts_with(says), "{told}");
        };
        ready("False spec.instanceTypes: ConfigMap default/types not found").await;
        maps.create(&PostParams::default(), &types("")).await.unwrap();
        ready("False unable to read default/types/types.yaml").await;
        maps.replace("types", &PostParams::default(), &types(CATALOGUE)).await.unwrap();
        ready("True").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let pod = Api::<Pod>::default_namespaced(client.clone()).get("p").await.unwrap();
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
        maps.delete("types", &DeleteParams::default()).await.unwrap();
        ready("False spec.instanceTypes: ConfigMap default/types not found").await;
    };
    assert_eq!(Box::pin(run(options, |_| {}, changes)).await.unwrap(), Ended::Interrupted);
}

/// The regression: all ConfigMaps were passed over.
#[tokio::test(start_paused = true)]
async fn the_config_map_of_a_node_class_is_read_with_it_and_others_are_not() {
    let mut catalogue = types(CATALOGUE);
    let of = |map: &ConfigMap| serde_json::to_string(map).unwrap();
    let first = of(&catalogue);
    catalogue.metadata.name = Some("other".to_owned());
    // What is not needed may be as wrong as it likes.
    let odd = "{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, data: {n: 1}}";
    let text = format!("{CATALOGUED}---\n{first}\n---\n{}\n---\n{odd}\n", of(&catalogue));
    let input = Input::Text { name: "test.yaml".to_owned(), text: text.into_bytes(), is_of_server: false };
    let (objects, _, warnings) = crate::read_inputs(&[input], None, crate::Reading::default()).unwrap();
    assert_eq!(warnings, ["2 objects of kind ConfigMap (v1) are passed over: nothing here needs them"]);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options { objects, settle: true, ..Options::new(now) };
    let ended = Box::pin(run(options, |_| {}, std::future::pending())).await;
    assert_eq!(ended.unwrap(), Ended::Settled);
}
