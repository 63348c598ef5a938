//! What is kept between decisions follows nodes and classes that come, change and go, without being made anew.

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A state with a decider, which is held to a decision from the whole after each change.
pub(super) struct Followed {
    state: State,
    decider: Decider,
}

impl Followed {
    pub(super) fn new(objects: &[Object]) -> Self {
        let mut followed = Followed { state: state_of(objects), decider: Decider::new() };
        followed.hold("at first");
        followed
    }

    pub(super) fn hold(&mut self, when: &str) {
        let kept = self.decider.decide(&mut self.state, &Options::default(), NOW).unwrap();
        let whole = decide(&mut self.state, &Options::default(), NOW).unwrap();
        assert_eq!(format!("{kept:#?}"), format!("{whole:#?}"), "{when}");
        assert_eq!(self.decider.n_made_anew(), 1, "{when}: made anew");
        assert_eq!(self.state.n_conversions(), 1, "{when}: converted anew");
    }

    pub(super) fn tell(&mut self, objects: Vec<Object>) {
        for object in objects {
            self.state.apply(Event::Applied(object)).unwrap();
        }
    }

    pub(super) fn put(&mut self, when: &str, objects: Vec<Object>) {
        self.tell(objects);
        self.hold(when);
    }

    pub(super) fn take(&mut self, kind: Kind, namespace: &str, name: &str) {
        let object = Key::new(kind, namespace, name).with_uid(None);
        self.state.apply(Event::Deleted { object, resource_version: None }).unwrap();
    }
}

pub(super) fn mk_zonal(name: &str, cpu: &str, zone: &str, more: Value) -> Object {
    let mut node = serde_json::to_value(match mk_node(name, cpu, &json!({ZONE: zone})) {
        Object::Node(node) => (*node).clone(),
        _ => unreachable!(),
    })
    .unwrap();
    merge(&mut node, more);
    Object::from(typed::<Node>(node))
}

fn image(size: i64) -> Value {
    json!({"status": {"images": [{"names": ["app:latest"], "sizeBytes": size}]}})
}

/// A pod of an app that is spread over zones.
fn mk_spread(name: &str, app: &str, more: Value) -> Object {
    let mut with = json!({"metadata": {"labels": {"app": app}}, "spec": {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}}}]}});
    merge(&mut with, more);
    mk_pod(name, "100m", with)
}

pub(super) fn on(node: &str) -> Value {
    json!({"spec": {"nodeName": node}})
}

fn cluster() -> Vec<Object> {
    vec![
        mk_zonal("b", "4", "z1", image(900_000_000)),
        mk_zonal("d", "4", "z2", json!({})),
        mk_zonal("f", "2", "z3", json!({})),
        mk_zonal("h", "2", "z3", json!({})),
        mk_spread("s1", "s", on("b")),
        mk_spread("s2", "s", on("d")),
        mk_spread("s3", "s", on("f")),
        mk_pod("r1", "500m", on("h")),
        // Those that ask for a place, again and again.
        mk_pod("p1", "100m", json!({})),
        mk_pod("p2", "1500m", json!({})),
        mk_spread("s4", "s", json!({})),
        mk_spread("s5", "s", json!({})),
        mk_spread("s6", "s", json!({"spec": {"nodeSelector": {"disk": "ssd"}}})),
        mk_pod(
            "by-name",
            "100m",
            json!({"spec": {"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference": {"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["e", "f"]}]}}]}}}}),
        ),
        mk_pod(
            "named",
            "100m",
            json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["e"]}]}]}}}}}),
        ),
    ]
}

#[test]
fn nodes_that_come_change_and_go_are_taken_in_where_they_are() {
    let mut followed = Followed::new(&cluster());
    followed.put("a node comes between others by name", vec![mk_zonal("c", "4", "z1", json!({}))]);
    followed.put("one in a domain of its own", vec![mk_zonal("a", "8", "z4", image(900_000_000))]);
    followed.put("one that pods name", vec![mk_zonal("e", "1", "z2", json!({}))]);
    followed.put("one by a filter", vec![mk_zonal("g", "1", "z2", json!({"metadata": {"labels": {"disk": "ssd"}}}))]);
    followed.put("a pod on the new one", vec![mk_spread("s7", "s", on("a"))]);
    followed.put("it changes its zone", vec![mk_zonal("a", "8", "z1", image(900_000_000))]);
    followed.put("its room", vec![mk_zonal("a", "1", "z1", image(900_000_000))]);
    followed.put("its images", vec![mk_zonal("a", "1", "z1", image(300_000_000))]);
    followed.put("its filter", vec![mk_zonal("g", "1", "z2", json!({}))]);
    let cordoned = json!({"spec": {"unschedulable": true}});
    followed.put("it is cordoned", vec![mk_zonal("a", "8", "z4", cordoned)]);
    followed.put("and open again", vec![mk_zonal("a", "8", "z4", json!({}))]);
    followed.take(Kind::Node, "", "b");
    followed.hold("the first goes, with a pod");
    followed.take(Kind::Pod, "default", "s2");
    followed.take(Kind::Node, "", "d");
    followed.hold("a pod goes, and its node");
    followed.take(Kind::Node, "", "e");
    followed.hold("one that pods name goes");
    followed.tell(vec![
        mk_zonal("d", "4", "z5", json!({})),
        mk_spread("s8", "s", on("d")),
        mk_zonal("e", "1", "z5", json!({})),
    ]);
    followed.take(Kind::Node, "", "a");
    followed.tell(vec![mk_zonal("h", "4", "z1", image(5)), mk_spread("s9", "s", on("h"))]);
    followed.take(Kind::Node, "", "d");
    followed.put("several come, change and go at once", vec![mk_zonal("a", "8", "z2", json!({}))]);
    for name in ["c", "e", "f", "g", "h", "a"] {
        followed.take(Kind::Node, "", name);
        followed.hold("they go one by one");
    }
    followed.put("one comes to nothing", vec![mk_zonal("f", "2", "z3", json!({}))]);
}

#[test]
fn a_node_that_takes_the_place_of_one_that_went_keeps_what_its_images_are_worth() {
    let others = || vec![mk_zonal("a", "2", "z2", json!({})), mk_zonal("b", "4", "z1", json!({}))];
    let mut objects = others();
    objects.push(mk_zonal("c", "1500m", "z2", image(2_000_000_000)));
    objects.push(mk_pod("first", "300m", json!({"spec": {"priority": 1}})));
    objects.push(mk_pod("second", "100m", json!({})));
    let mut followed = Followed::new(&objects);
    for name in ["a", "b"] {
        followed.take(Kind::Node, "", name);
    }
    followed.hold("the last one is alone");
    followed.put("others come again", others());
}

#[test]
fn a_class_with_a_spread_of_its_own_leaves_others_as_they_are() {
    let mut followed = Followed::new(&cluster());
    followed.put("a spread", vec![mk_spread("n1", "new", json!({})), mk_spread("n2", "new", json!({}))]);
    followed.put("one of them runs", vec![mk_spread("n1", "new", on("d"))]);
    followed.put("a node comes", vec![mk_zonal("a", "8", "z4", json!({}))]);
    let of_ssd = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    followed.put("with a filter", vec![mk_spread("o1", "of-ssd", of_ssd)]);
    followed.put("by the filter", vec![mk_zonal("c", "8", "z1", json!({"metadata": {"labels": {"disk": "ssd"}}}))]);
    let alone = |name: &str| {
        mk_pod(
            name,
            "100m",
            json!({"metadata": {"labels": {"app": "alone"}}, "spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "alone"}}}]}}}}),
        )
    };
    followed.put("anti-affinity", vec![alone("x1"), alone("x2")]);
    let elsewhere = json!({"metadata": {"namespace": "elsewhere", "uid": "elsewhere"}});
    followed.put("in a namespace that nobody knew", vec![mk_spread("n1", "new", elsewhere)]);
    followed.take(Kind::Node, "", "c");
    followed.hold("a node goes");
}

fn offered(price: &str, reserved: u32) -> Event {
    let types = json!([
        {"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi", "pods": "9"}, "offerings": [
            {"Price": price.parse::<f64>().unwrap(), "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}]},
        {"name": "m5.xlarge", "resources": {"cpu": "4", "memory": "16Gi", "pods": "9"}, "offerings": [
            {"Price": 0.3, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]},
            {"Price": 0.3, "Available": reserved, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
                {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-2"]}]}]}]);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap();
    Event::Offered { catalogue: catalogue.into(), seen: None }
}

fn mk_pool_of(name: &str, weight: u32, cpu: &str) -> Object {
    Object::from(typed::<NodePool>(json!({"metadata": {"name": name, "uid": name}, "spec": {"weight": weight,
        "limits": {"cpu": cpu}, "template": {"spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}, "requirements": []}}}})))
}

/// A NodeClaim that is not launched as far as it shows, on a supply of this id.
fn mk_claim(name: &str, reservation: &str) -> Object {
    Object::from(typed::<berth_api::NodeClaim>(json!({
        "metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": "a"}},
        "spec": {"resources": {"requests": {"cpu": "1"}}, "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge", "m5.large"]},
            {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": [reservation]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}]}})))
}

#[test]
fn nodepools_and_the_catalogue_are_taken_in_where_they_are() {
    let mut objects = cluster();
    objects.extend([
        mk_pool_of("b", 1, "100"),
        mk_zonal("j", "1", "z1", json!({"metadata": {"labels": {"karpenter.sh/nodepool": "a"}}})),
    ]);
    objects.extend((0..8).map(|i| mk_pod(&format!("large-{i}"), "3200m", json!({}))));
    let mut state = state_of(&objects);
    decide(&mut state, &full(), NOW).unwrap();
    let events = [
        ("a dearer type", offered("0.4", 1)),
        ("a NodePool comes before the other", Event::Applied(mk_pool_of("a", 7, "3"))),
        ("a NodeClaim takes an instance", Event::Applied(mk_claim("c1", "cr-2"))),
        ("no instance is left", offered("0.4", 0)),
        ("more are", offered("0.01", 3)),
        ("a NodePool has other limits", Event::Applied(mk_pool_of("a", 7, "64"))),
        ("another weight", Event::Applied(mk_pool_of("b", 90, "100"))),
        (
            "it goes",
            Event::Deleted { object: Key::new(Kind::NodePool, "", "a").with_uid(None), resource_version: None },
        ),
    ];
    for (when, event) in events {
        let n_conversions = state.n_conversions();
        state.apply(event).unwrap();
        let kept = decide(&mut state, &full(), NOW).unwrap();
        assert_eq!(state.n_conversions(), n_conversions, "{when}: converted anew");
        state.forget_cluster();
        let anew = decide(&mut state, &full(), NOW).unwrap();
        assert_eq!(format!("{kept:#?}"), format!("{anew:#?}"), "{when}");
        assert!(!anew.launches.is_empty(), "{when}");
    }
}

/// The regression: whoever needed a new node had the whole cluster copied and looked at.
#[test]
fn new_nodes_are_planned_without_a_look_at_those_that_are_there() {
    let mut objects = vec![mk_pool()];
    objects.extend((0..4).map(|at| mk_node(&format!("n{at}"), "2", &json!({}))));
    let mut state = state_of(&objects);
    let mut decider = Decider::new();
    for at in 0..9 {
        let tolerates = json!({"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}});
        let pod = mk_pod(&format!("p{at}"), "1500m", tolerates);
        state.apply(Event::Applied(pod)).unwrap();
    }
    let options = Options { launches: true, ..Options::default() };
    let kept = decider.decide(&mut state, &options, NOW).unwrap();
    let whole = decide(&mut state, &options, NOW).unwrap();
    assert_eq!(format!("{kept:#?}"), format!("{whole:#?}"));
    assert!(kept.bindings.len() == 4 && !kept.launches.is_empty(), "{kept:#?}");
    assert_eq!(decider.n_whole(), 0);
}

/// The regression: a NodePool that was paused, or full, kept pods waiting for a zone in which it could launch nothing, where
/// kube-scheduler binds them to the nodes that there are.
#[test]
fn zones_in_which_limits_let_nothing_be_launched_are_no_domains() {
    let pool = |cpu: &str| {
        Object::from(typed::<NodePool>(json!({"metadata": {"name": "limited", "uid": "limited"}, "spec": {
            "limits": {"cpu": cpu}, "template": {"spec": {
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
                "requirements": [{"key": ZONE, "operator": "In", "values": ["z1", "z9"]}]}}}})))
    };
    let of_pool =
        json!({"metadata": {"labels": {"karpenter.sh/nodepool": "limited", "karpenter.sh/initialized": "true"}}});
    let spread = |app: &str| (0..3).map(|at| mk_spread(&format!("{app}-{at}"), app, json!({}))).collect::<Vec<_>>();
    let n_bound = |followed: &mut Followed| {
        followed.decider.decide(&mut followed.state, &Options::default(), NOW).unwrap().bindings.len()
    };
    // The node has 4 CPUs, the instance type 2.
    for (limit, bound) in [("0", 3), ("5", 3), ("6", 1), ("100", 1)] {
        let mut objects = vec![pool(limit), mk_zonal("a", "4", "z1", of_pool.clone())];
        objects.extend(spread("x"));
        let mut followed = Followed::new(&objects);
        assert_eq!(n_bound(&mut followed), bound, "limits.cpu {limit}");
    }
    let mut objects = vec![pool("6"), mk_zonal("a", "4", "z1", of_pool.clone())];
    objects.extend(spread("x"));
    let mut followed = Followed::new(&objects);
    followed.put("a node takes what the limit left", vec![mk_zonal("b", "4", "z1", of_pool)]);
    assert_eq!(n_bound(&mut followed), 3);
    followed.take(Kind::Node, "", "b");
    followed.hold("it goes");
    assert_eq!(n_bound(&mut followed), 1);
}
