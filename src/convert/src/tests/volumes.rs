//! What volumes ask of a node, and kube-scheduler's reasons why a pod with them is not scheduled.

use berth_model::{Disk, DiskId, Volumes};
use rstest::rstest;
use serde_json::{Value, json};

use super::{convert, first_refusal, first_spec, mk, mk_node, mk_pod, mk_workload, pending, with};

fn pod_with_claim(name: &str, claim: &str) -> Value {
    mk_pod(name, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
}

fn claim(spec: Value) -> Value {
    mk("PersistentVolumeClaim", "data", json!({"spec": spec}))
}

fn class(name: &str, rest: Value) -> Value {
    let base = json!({"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
    mk("StorageClass", name, with(base, rest))
}

fn volume(name: &str, rest: Value) -> Value {
    let base = json!({"spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}});
    mk("PersistentVolume", name, with(base, rest))
}

fn in_zones(zones: &[&str]) -> Value {
    let terms: Vec<Value> = zones
        .iter()
        .map(|zone| json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}))
        .collect();
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
}

fn limited_node() -> [Value; 2] {
    let drivers =
        json!({"spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "n", "allocatable": {"count": 25}}]}});
    [mk_node("n1", json!({})), mk("CSINode", "n1", drivers)]
}

#[rstest]
#[case::missing(vec![], "persistentvolumeclaim \"data\" not found")]
#[case::being_deleted(vec![with(claim(json!({})), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))],
    "persistentvolumeclaim \"data\" is being deleted")]
#[case::lost(vec![with(claim(json!({"volumeName": "pv1"})), json!({"status": {"phase": "Lost"}}))],
    "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv1\"")]
#[case::its_volume_is_missing(vec![claim(json!({"volumeName": "pv1"}))],
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")]
#[case::its_class_is_missing(vec![claim(json!({"storageClassName": "gp3"}))], "storageclass.storage.k8s.io \"gp3\" not found")]
#[case::immediate(vec![known(claim(json!({"storageClassName": "now"}))), class("now", json!({"volumeBindingMode": "Immediate"}))],
    "pod has unbound immediate PersistentVolumeClaims")]
#[case::immediate_is_the_default(vec![known(claim(json!({"storageClassName": "now"}))), class("now", json!({"volumeBindingMode": null}))],
    "pod has unbound immediate PersistentVolumeClaims")]
#[case::no_default_where_there_are_nodes(vec![claim(json!({})), mk_node("n1", json!({}))],
    "pod has unbound immediate PersistentVolumeClaims")]
#[case::no_default_among_the_classes(vec![claim(json!({})), class("gp3", json!({}))],
    "pod has unbound immediate PersistentVolumeClaims")]
#[case::nothing_to_bind(vec![claim(json!({"storageClassName": "local"})), class("local", json!({"provisioner": "kubernetes.io/no-provisioner"}))],
    "node(s) didn't find available persistent volumes to bind")]
fn a_claim_that_cannot_be_used_refuses_the_pod(#[case] objects: Vec<Value>, #[case] reason: &str) {
    let objects = [pod_with_claim("a", "data")].into_iter().chain(objects);
    assert_eq!(first_refusal(&convert(objects).cluster), Some(reason));
}

/// A claim that an API server knows.
fn known(claim: Value) -> Value {
    with(claim, json!({"metadata": {"uid": "u"}, "status": {"phase": "Pending"}}))
}

#[rstest]
#[case::of_its_labels(json!({"metadata": {"labels": {"disk": "fast"}}}), true)]
#[case::of_others(json!({"metadata": {"labels": {"disk": "slow"}}}), false)]
#[case::of_none(json!({}), false)]
#[case::bound_to_it(json!({"metadata": {"labels": {"disk": "fast"}}, "spec": {"claimRef": {"namespace": "default", "name": "data"}},
    "status": {"phase": "Bound"}}), true)]
#[case::bound_to_another(json!({"metadata": {"labels": {"disk": "fast"}},
    "spec": {"claimRef": {"namespace": "default", "name": "d"}}, "status": {"phase": "Bound"}}), false)]
fn a_claim_finds_the_volumes_that_its_selector_selects(#[case] volume_is: Value, #[case] finds: bool) {
    let asks = json!({"storageClassName": "local", "selector": {"matchLabels": {"disk": "fast"}}});
    let there = with(volume("pv1", json!({"spec": {"storageClassName": "local"}})), volume_is);
    let class = class("local", json!({"provisioner": "kubernetes.io/no-provisioner"}));
    let refusal = convert([pod_with_claim("a", "data"), known(claim(asks)), class, there]);
    let expected = (!finds).then_some("node(s) didn't find available persistent volumes to bind");
    assert_eq!(first_refusal(&refusal.cluster), expected);
}

/// The regression: a pod with two claims was sent where one volume was left, and waited there.
#[rstest]
#[case::one_has_enough(&[("a", Some("n1")), ("b", Some("n2")), ("c", Some("n2"))], Some(vec!["n2"]))]
#[case::with_one_that_is_anywhere(&[("a", Some("n1")), ("b", Some("n2")), ("c", None)], Some(vec!["n1", "n2"]))]
#[case::all_are_anywhere(&[("a", None), ("b", None)], Some(vec![]))]
#[case::none_has_enough(&[("a", Some("n1")), ("b", Some("n2"))], None)]
#[case::there_is_one(&[("a", Some("n1"))], None)]
fn several_claims_of_a_pod_need_a_volume_each_in_one_place(
    #[case] there: &[(&str, Option<&str>)],
    #[case] places: Option<Vec<&str>>,
) {
    let uses = ["data", "log"].map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let spec = json!({"volumes": uses});
    let claim = |name: &str| known(mk("PersistentVolumeClaim", name, json!({"spec": {"storageClassName": "local"}})));
    let volumes = there.iter().map(|(name, node)| {
        let on = |node: &&str| {
            json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}})
        };
        let spec = with(json!({"storageClassName": "local"}), node.as_ref().map_or(json!({}), on));
        volume(name, json!({"spec": spec}))
    });
    let class = class("local", json!({"provisioner": "kubernetes.io/no-provisioner"}));
    let objects = [mk_pod("a", spec), claim("data"), claim("log"), class].into_iter().chain(volumes);
    let cluster = convert(objects).cluster;
    let refusal = places.is_none().then_some("node(s) didn't find available persistent volumes to bind");
    assert_eq!(first_refusal(&cluster), refusal);
    let Some(places) = places else { return };
    let hostname = cluster.symbols.get("kubernetes.io/hostname");
    let all = &first_spec(&cluster).volumes.unbound;
    let reaches = |node: &str| {
        all.iter().all(|any| {
            any.iter().any(|one| {
                one.match_labels(&cluster.symbols, |key| cluster.symbols.get(node).filter(|_| Some(key) == hostname))
            })
        })
    };
    let reached: Vec<&str> = ["n1", "n2"].into_iter().filter(|node| !places.is_empty() && reaches(node)).collect();
    assert_eq!(reached, places);
    assert_eq!(all.is_empty(), places.is_empty());
}

/// A claim whose volume is being made for a node.
fn made_for(node: &str, rest: Value) -> Value {
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
    with(with(known(claim(json!({"storageClassName": "gp3"}))), chosen), rest)
}

#[rstest]
#[case::being_made(made_for("n1", json!({})), class("gp3", json!({})), true)]
#[case::from_what_is_there(made_for("n1", json!({})), class("gp3", json!({"provisioner": "kubernetes.io/no-provisioner"})), true)]
#[case::of_a_node_that_is_gone(made_for("n2", json!({})), class("gp3", json!({})), false)]
#[case::of_no_node(made_for("", json!({})), class("gp3", json!({})), false)]
#[case::made_by_now(made_for("n1", json!({"spec": {"volumeName": "pv1"}})), class("gp3", json!({})), false)]
fn a_volume_that_is_being_made_for_a_node_keeps_its_pod_off_others(
    #[case] claim: Value,
    #[case] class: Value,
    #[case] is_kept: bool,
) {
    let there = with(volume("pv1", json!({})), json!({"spec": {"storageClassName": "gp3"}}));
    let cluster = convert([pod_with_claim("a", "data"), claim, class, there, mk_node("n1", json!({}))]).cluster;
    assert_eq!(first_refusal(&cluster), None);
    let kept =
        first_spec(&cluster).volumes.unbound.iter().flatten().find_map(|place| {
            place.get(cluster.well_known.field_name)?.single().map(|name| cluster.symbols.text(name))
        });
    assert_eq!(kept, is_kept.then_some("n1"));
}

fn at_once(zone: &str) -> Value {
    let zones = json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]}]);
    class("now", json!({"volumeBindingMode": null, "allowedTopologies": zones}))
}

#[rstest]
#[case::of_a_manifest(vec![pod_with_claim("a", "data"), claim(json!({"storageClassName": "now"}))])]
#[case::of_a_stateful_set(vec![mk_workload("StatefulSet", "a", json!({"volumeClaimTemplates": [
    {"metadata": {"name": "data"}, "spec": {"storageClassName": "now"}}]}))])]
#[case::ephemeral(vec![mk_pod("a", json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {
    "spec": {"storageClassName": "now"}}}}]}))])]
fn a_new_claim_that_is_bound_at_once_is_bound_where_its_class_makes_volumes(#[case] objects: Vec<Value>) {
    let converted = convert(objects.into_iter().chain([at_once("b")]));
    let cluster = &converted.cluster;
    assert_eq!(first_refusal(cluster), None);
    let zones = first_spec(cluster).volumes.unbound[0][0].get(cluster.well_known.zone).unwrap();
    assert_eq!(zones.single(), cluster.symbols.get("b"));
    let told = converted.warnings.iter().filter(|text| text.starts_with("StorageClass now: binds volumes before"));
    assert_eq!(told.count(), 1);
}

#[rstest]
#[case::of_no_class("")]
#[case::of_a_class_that_makes_none("local")]
fn a_new_claim_is_bound_at_once_to_a_volume_that_is_there(#[case] name: &str) {
    let objects = |is_there: bool| {
        let local = json!({"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"});
        let own = with(volume("pv1", in_zones(&["b"])), json!({"spec": {"storageClassName": name}}));
        let asks = claim(json!({"storageClassName": name, "accessModes": ["ReadWriteOnce"]}));
        let volumes = is_there.then_some(own);
        [pod_with_claim("a", "data"), asks, class("local", local)].into_iter().chain(volumes)
    };
    let cluster = convert(objects(true)).cluster;
    assert_eq!(first_refusal(&cluster), None);
    let zones = first_spec(&cluster).volumes.unbound[0][0].get(cluster.well_known.zone).unwrap();
    assert_eq!(zones.single(), cluster.symbols.get("b"));
    let cluster = convert(objects(false)).cluster;
    assert_eq!(first_refusal(&cluster), Some("pod has unbound immediate PersistentVolumeClaims"));
}

#[test]
fn manifests_alone_are_planned_with_a_default_class() {
    let converted = convert([pod_with_claim("a", "data"), claim(json!({}))]);
    assert_eq!(first_refusal(&converted.cluster), None);
    let told: Vec<&str> =
        converted.warnings.iter().map(String::as_str).filter(|text| text.contains("StorageClass")).collect();
    assert_eq!(
        told,
        ["no StorageClass given: planning with a default one that makes volumes where their pods come to be"]
    );
}

#[test]
fn node_affinity_terms_of_a_bound_volume_are_alternatives() {
    let cluster = convert([
        pod_with_claim("a", "data"),
        claim(json!({"volumeName": "pv1"})),
        volume("pv1", in_zones(&["a", "b"])),
    ])
    .cluster;
    let topologies = &first_spec(&cluster).volumes.topologies;
    assert_eq!(topologies.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_volumes_old_zone_label_binds_it_to_its_zones() {
    let label = json!({"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}});
    let cluster =
        convert([pod_with_claim("p", "data"), claim(json!({"volumeName": "pv1"})), volume("pv1", label)]).cluster;
    let topologies = &first_spec(&cluster).volumes.zones;
    let zones = topologies[0][0].get(cluster.well_known.zone).unwrap();
    assert_eq!(zones.finite_values().map(<[_]>::len), Some(2));
}

#[test]
fn allowed_topologies_of_the_default_class_are_alternatives() {
    let term =
        |zone: &str| json!({"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]});
    let default = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "allowedTopologies": [term("a"), term("b"), {}]});
    let cluster = convert([pod_with_claim("p", "data"), claim(json!({})), class("gp3", default)]).cluster;
    assert_eq!(first_refusal(&cluster), None);
    assert_eq!(first_spec(&cluster).volumes.unbound.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_local_claim_goes_where_a_large_enough_free_volume_is() {
    let local = |name: &str, zone: &str, size: &str, phase: &str| {
        let rest =
            json!({"spec": {"storageClassName": "local", "capacity": {"storage": size}}, "status": {"phase": phase}});
        volume(name, with(in_zones(&[zone]), rest))
    };
    let cluster = convert([
        pod_with_claim("p", "data"),
        claim(json!({"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}})),
        class("local", json!({"provisioner": "kubernetes.io/no-provisioner"})),
        local("small", "a", "1Gi", "Available"),
        local("taken", "b", "10Gi", "Bound"),
        local("fits", "c", "20Gi", "Available"),
    ])
    .cluster;
    let topologies = &first_spec(&cluster).volumes.unbound;
    assert_eq!(topologies.len(), 1);
    assert_eq!(topologies[0][0].get(cluster.well_known.zone).unwrap().single(), cluster.symbols.get("c"));
}

#[test]
fn attachments_count_for_drivers_with_a_limit_alone() {
    let objects = || [pod_with_claim("p", "data"), claim(json!({"volumeName": "pv1"})), volume("pv1", json!({}))];
    assert_eq!(first_spec(&convert(objects()).cluster).volumes, Volumes::default());
    let cluster = convert(objects().into_iter().chain(limited_node())).cluster;
    let (driver, handle) = first_spec(&cluster).volumes.attachments[0];
    assert_eq!((cluster.symbols.text(driver), cluster.symbols.text(handle)), ("ebs.csi.aws.com", "vol-1"));
    assert_eq!(cluster.nodes[0].attach_limits, [(driver, 25)]);
}

#[test]
fn an_in_tree_class_attaches_through_its_csi_driver() {
    let objects = [
        pod_with_claim("p", "data"),
        claim(json!({"storageClassName": "old"})),
        class("old", json!({"provisioner": "kubernetes.io/aws-ebs"})),
    ];
    let cluster = convert(objects.into_iter().chain(limited_node())).cluster;
    let (driver, handle) = first_spec(&cluster).volumes.attachments[0];
    assert_eq!((cluster.symbols.text(driver), cluster.symbols.text(handle)), ("ebs.csi.aws.com", "default/data"));
}

#[test]
fn a_claim_for_one_pod_is_not_shared_with_a_running_one() {
    let exclusive = || claim(json!({"storageClassName": "gp3", "accessModes": ["ReadWriteOncePod"]}));
    let pending = || [pod_with_claim("p", "data"), exclusive(), class("gp3", json!({}))];
    let cluster = convert(pending()).cluster;
    assert_eq!(first_refusal(&cluster), None);
    assert_eq!(cluster.symbols.text(first_spec(&cluster).volumes.exclusive_claims[0]), "default/data");

    let running = with(pod_with_claim("q", "data"), json!({"spec": {"nodeName": "n1"}}));
    let with_node = pending().into_iter().chain([running.clone(), mk_node("n1", json!({}))]);
    let cluster = convert(with_node).cluster;
    let held = &cluster.specs[cluster.nodes[0].pods[0].spec.index()].volumes.exclusive_claims;
    assert_eq!((first_refusal(&cluster), held), (None, &first_spec(&cluster).volumes.exclusive_claims));
    // Nobody can make the one go that runs where nothing is planned.
    let cluster = convert(pending().into_iter().chain([running])).cluster;
    assert_eq!(
        first_refusal(&cluster),
        Some("node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode")
    );
}

#[test]
fn an_ephemeral_volume_is_a_claim_made_for_the_pod() {
    let volume = json!({"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}}]});
    let objects = || [mk_pod("p", volume.clone()), mk_pod("q", volume.clone()), class("gp3", json!({}))];
    let cluster = convert(objects()).cluster;
    assert_eq!((first_refusal(&cluster), cluster.specs.len()), (None, 1));
    let cluster = convert(objects().into_iter().chain(limited_node())).cluster;
    let (_, handle) = first_spec(&cluster).volumes.attachments[0];
    assert_eq!((cluster.symbols.text(handle), cluster.specs.len()), ("default/p-tmp", 2));
}

#[test]
fn an_ordinals_own_claim_counts_before_its_template() {
    let templates = json!({"replicas": 3, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}]});
    let bound = mk("PersistentVolumeClaim", "data-web-1", json!({"spec": {"volumeName": "pv1"}}));
    let cluster = convert([
        mk_workload("StatefulSet", "web", templates),
        class("gp3", json!({})),
        bound,
        volume("pv1", in_zones(&["a"])),
    ])
    .cluster;
    assert_eq!(pending(&cluster), ["default/web-0..0", "default/web-2..2", "default/web-1..1"]);
    let bound = &cluster.specs[cluster.pending[1].spec.index()];
    assert_eq!((first_spec(&cluster).volumes.places().count(), bound.volumes.topologies.len()), (0, 1));
}

#[test]
fn an_inline_csi_volume_is_not_attached_but_an_in_tree_disk_is() {
    let volumes = json!({"volumes": [{"name": "a", "csi": {"driver": "ebs.csi.aws.com"}},
        {"name": "b", "awsElasticBlockStore": {"volumeID": "vol-9"}}]});
    let cluster = convert([mk_pod("p", volumes)].into_iter().chain(limited_node())).cluster;
    let attachments = &first_spec(&cluster).volumes.attachments;
    assert_eq!(attachments.len(), 1);
    assert_eq!(cluster.symbols.text(attachments[0].1), "vol-9");
}

#[test]
fn disks_that_a_pod_mounts_without_a_claim_are_known_by_what_kube_scheduler_compares() {
    let volumes = json!({"volumes": [
        {"name": "a", "gcePersistentDisk": {"pdName": "x", "readOnly": true, "partition": 1}},
        {"name": "b", "awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"name": "c", "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "readOnly": true}},
        {"name": "d", "rbd": {"monitors": ["10.0.0.2", "10.0.0.1"], "image": "i"}},
        {"name": "e", "azureDisk": {"diskName": "x", "diskURI": "y"}},
    ]});
    let cluster = convert([mk_pod("a", volumes)]).cluster;
    let sym = |text: &str| cluster.symbols.get(text).unwrap();
    let mut monitors = vec![sym("10.0.0.1"), sym("10.0.0.2")];
    monitors.sort_unstable();
    let mut disks = vec![
        Disk { id: DiskId::GcePersistentDisk(sym("x")), is_read_only: true },
        Disk { id: DiskId::AwsElasticBlockStore(sym("vol-1")), is_read_only: false },
        Disk { id: DiskId::Iscsi(sym("iqn.2001-04.com.example:a")), is_read_only: true },
        Disk { id: DiskId::Rbd { monitors, pool: sym("rbd"), image: sym("i") }, is_read_only: false },
    ];
    disks.sort_unstable();
    assert_eq!(first_spec(&cluster).volumes.disks, disks);
}
