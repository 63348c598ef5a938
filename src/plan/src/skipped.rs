//! What is said of objects that were passed over: nothing of kinds that never make pods, most of those that do.

use std::collections::BTreeMap;

/// Custom resources whose controllers make pods, by group; `*` stands for all kinds of a group.
const MAKERS: &[(&str, &[&str])] = &[
    ("acid.zalan.do", &["postgresql"]),
    ("apps.kruise.io", &["BroadcastJob", "CloneSet", "DaemonSet", "StatefulSet", "UnitedDeployment"]),
    ("argoproj.io", &["Application", "ApplicationSet", "CronWorkflow", "Rollout", "Workflow"]),
    ("batch.volcano.sh", &["CronJob", "Job"]),
    ("elasticsearch.k8s.elastic.co", &["*"]),
    ("flink.apache.org", &["FlinkDeployment", "FlinkSessionJob"]),
    ("helm.cattle.io", &["HelmChart"]),
    ("helm.toolkit.fluxcd.io", &["HelmRelease"]),
    ("jobset.x-k8s.io", &["JobSet"]),
    ("k8s.mariadb.com", &["MariaDB"]),
    ("kafka.strimzi.io", &["Kafka", "KafkaBridge", "KafkaConnect", "KafkaMirrorMaker2", "KafkaNodePool"]),
    ("keda.sh", &["ScaledJob"]),
    ("kibana.k8s.elastic.co", &["*"]),
    ("kubeflow.org", &["JAXJob", "MPIJob", "Notebook", "PyTorchJob", "TFJob", "XGBoostJob"]),
    ("kustomize.toolkit.fluxcd.io", &["Kustomization"]),
    ("leaderworkerset.x-k8s.io", &["LeaderWorkerSet"]),
    ("monitoring.coreos.com", &["Alertmanager", "Prometheus", "PrometheusAgent", "ThanosRuler"]),
    ("opensearch.opster.io", &["OpenSearchCluster"]),
    ("opentelemetry.io", &["OpenTelemetryCollector"]),
    ("postgresql.cnpg.io", &["Cluster", "Pooler"]),
    ("psmdb.percona.com", &["*"]),
    ("pxc.percona.com", &["*"]),
    ("ray.io", &["RayCluster", "RayJob", "RayService"]),
    ("serving.knative.dev", &["Configuration", "Service"]),
    ("serving.kserve.io", &["InferenceService"]),
    ("sparkoperator.k8s.io", &["ScheduledSparkApplication", "SparkApplication"]),
    ("tekton.dev", &["PipelineRun", "TaskRun"]),
];

/// Groups of custom resources that make no pods, but for what [`MAKERS`] lists.
const QUIET: &[&str] = &[
    "acme.cert-manager.io",
    "argoproj.io",
    "autoscaling.k8s.io",
    "cert-manager.io",
    "cilium.io",
    "config.gatekeeper.sh",
    "crd.projectcalico.org",
    "eks.amazonaws.com",
    "external-secrets.io",
    "gateway.networking.k8s.io",
    "generators.external-secrets.io",
    "helm.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
    "karpenter.azure.com",
    "karpenter.k8s.aws",
    "karpenter.kwok.sh",
    "karpenter.sh",
    "keda.sh",
    "kueue.x-k8s.io",
    "kustomize.toolkit.fluxcd.io",
    "kyverno.io",
    "metrics.k8s.io",
    "monitoring.coreos.com",
    "networking.istio.io",
    "notification.toolkit.fluxcd.io",
    "policy.networking.k8s.io",
    "projectcalico.org",
    "scheduling.koordinator.sh",
    "secrets-store.csi.x-k8s.io",
    "security.istio.io",
    "slo.koordinator.sh",
    "snapshot.storage.k8s.io",
    "source.toolkit.fluxcd.io",
    "telemetry.istio.io",
    "templates.gatekeeper.sh",
    "traefik.io",
    "velero.io",
    "vpcresources.k8s.aws",
];

/// What is said, a line each, of objects passed over, counted by group and kind. Kinds of Kubernetes make no pods.
pub(crate) fn notes(skipped: &BTreeMap<(String, String), u64>) -> Vec<String> {
    let is_custom = |group: &str| group.contains('.') && !group.ends_with(".k8s.io") || is_listed(group);
    let (makers, others): (Vec<_>, Vec<_>) = skipped
        .iter()
        .filter(|((group, _), _)| is_custom(group))
        .partition(|((group, kind), _)| makes_pods(group, kind));
    let others: Vec<_> = others.into_iter().filter(|((group, _), _)| !QUIET.contains(&group.as_str())).collect();
    let mut notes = Vec::new();
    if skipped.keys().any(is_kustomization) {
        notes.push(kustomization("a Kustomization", false));
    }
    if let Some(list) = list(&makers) {
        notes.push(format!("the pods of {list} are not in the plan: a controller makes them; plan what it makes"));
    }
    if let Some(list) = list(&others) {
        notes.push(format!("passed over: {list}; if a controller makes pods for them, these are not in the plan"));
    }
    notes
}

/// What is said of what only kustomize reads. `-k` gives what there is, not a change of it.
pub(crate) fn kustomization(which: &str, is_of_change: bool) -> String {
    let how = if is_of_change {
        "build it first, as kubectl kustomize FOLDER | berth plan … --diff - does (-k builds what there is before the change)"
    } else {
        "give its folder with -k"
    };
    format!("{which} is not built, and what it changes is not in the plan: {how}")
}

/// Whether a group and kind is what kustomize reads.
pub(crate) fn is_kustomization((group, kind): &(String, String)) -> bool {
    group == "kustomize.config.k8s.io" && kind == "Kustomization"
}

fn is_listed(group: &str) -> bool {
    MAKERS.iter().any(|(known, _)| *known == group)
}

fn makes_pods(group: &str, kind: &str) -> bool {
    MAKERS.iter().any(|(known, kinds)| *known == group && (kinds.contains(&"*") || kinds.contains(&kind)))
}

fn list(kinds: &[(&(String, String), &u64)]) -> Option<String> {
    let named: Vec<String> = kinds.iter().map(|((group, kind), count)| format!("{count} {kind}.{group}")).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kinds: &[(&str, &str)]) -> Vec<String> {
        notes(&kinds.iter().map(|(group, kind)| (((*group).to_owned(), (*kind).to_owned()), 2)).collect())
    }

    #[test]
    fn kinds_that_make_no_pods_are_passed_over_without_a_word() {
        let none = ["ConfigMap", "Service", "Secret"].map(|kind| ("", kind));
        let others = [
            ("rbac.authorization.k8s.io", "Role"),
            ("policy", "Eviction"),
            ("monitoring.coreos.com", "ServiceMonitor"),
            ("karpenter.k8s.aws", "EC2NodeClass"),
            ("networking.k8s.io", "Ingress"),
        ];
        assert!(of(&[&none[..], &others].concat()).is_empty());
    }

    #[test]
    fn custom_resources_that_make_pods_are_named_before_those_that_may() {
        let found = of(&[
            ("example.com", "Thing"),
            ("monitoring.coreos.com", "Alertmanager"),
            ("monitoring.coreos.com", "Prometheus"),
            ("argoproj.io", "Rollout"),
            ("kustomize.config.k8s.io", "Kustomization"),
        ]);
        assert_eq!(found.len(), 3);
        assert!(found[0].contains("Kustomization") && found[0].contains("-k"), "{}", found[0]);
        for kind in ["Prometheus", "Alertmanager", "Rollout"] {
            assert!(found[1].contains(kind), "{}", found[1]);
        }
        assert!(found[2].contains("2 Thing.example.com"), "{}", found[2]);
    }
}
