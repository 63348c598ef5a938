//! Pods whose volumes can be in some zones alone.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::with_input;
use serde_json::Value;

/// A NodePool of all zones, six pods of a StatefulSet that are spread over zones, and a class of volumes of two zones.
fn set(claims: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: p}}
spec:
  template:
    spec:
      nodeClassRef: {{group: berth.sh, kind: FakeNodeClass, name: default}}
      requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: fast}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
- matchLabelExpressions: [{{key: topology.kubernetes.io/zone, values: [port-1a, port-1c]}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  replicas: 6
  serviceName: db
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec:
      containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1500m}}}}}}]
      topologySpreadConstraints:
      - {{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule,
          labelSelector: {{matchLabels: {{app: db}}}}}}
  volumeClaimTemplates:
  - metadata: {{name: d}}
    spec: {{accessModes: [ReadWriteOnce], storageClassName: fast, resources: {{requests: {{storage: 1Gi}}}}}}
{claims}"
    )
}

fn bound(ordinal: usize, zone: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: d-db-{ordinal}, uid: claim-{ordinal}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: fast, volumeName: pv-{ordinal}, resources: {{requests: {{storage: 1Gi}}}}}}
status: {{phase: Bound}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv-{ordinal}}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {{storage: 1Gi}}
  storageClassName: fast
  csi: {{driver: ebs.csi.aws.com, volumeHandle: vol-{ordinal}}}
  claimRef: {{namespace: default, name: d-db-{ordinal}, uid: claim-{ordinal}}}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{{matchExpressions: [{{key: topology.kubernetes.io/zone, operator: In, values: [{zone}]}}]}}]
status: {{phase: Bound}}
"
    )
}

/// How many pods are placed in each zone, and how many have no place.
fn zones(manifests: &str) -> ([usize; 3], u64) {
    let run = with_input(&["plan", "-f", "-", "-o", "json"], manifests);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    let mut zones = [0; 3];
    for claim in plan["nodeClaims"].as_array().unwrap() {
        let zone = ["port-1a", "port-1b", "port-1c"].iter().position(|zone| claim["offering"]["zone"] == *zone);
        zones[zone.unwrap()] += claim["pods"].as_array().unwrap().len();
    }
    (zones, plan["summary"]["unschedulable"].as_u64().unwrap())
}

/// The regression: a zone in which nothing could be launched for the pods was one over which they had to be spread.
#[test]
fn a_spread_counts_no_zone_that_the_volumes_of_its_pods_cannot_be_in() {
    assert_eq!(zones(&set("")), ([3, 0, 3], 0), "volumes that are to be made");
    let claims: String = (0..6).map(|n| bound(n, if n < 2 { "port-1a" } else { "port-1c" })).collect();
    assert_eq!(
        zones(&set(&claims)),
        ([2, 0, 3], 1),
        "each where its volume is, as many as the other zone has and one more"
    );
}
