//! Random spread constraints, affinities and node selection.

use serde_json::{Map, Value, json};

use super::rng::Rng;
use super::{APPS, CUSTOM_KEY, NAMESPACES, NUMBER_KEY, Size, TEAMS, ZONES};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";

fn selector(rng: &mut Rng, own: &str) -> Value {
    let app = if rng.percent(75) { own } else { rng.pick(&APPS) };
    if rng.percent(80) {
        json!({"matchLabels": {"app": app}})
    } else {
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]})
    }
}

fn key(rng: &mut Rng, size: Size) -> &'static str {
    if size == Size::Tiny {
        return rng.pick::<&str>(&[ZONE, HOST]);
    }
    rng.pick::<&str>(&[ZONE, ZONE, ZONE, HOST, HOST, CAPACITY, CUSTOM_KEY])
}

fn spread(rng: &mut Rng, size: Size, app: &str) -> Value {
    let key = key(rng, size);
    let hard = rng.percent(75);
    let mut constraint = json!({
        "maxSkew": rng.between(1, 2),
        "topologyKey": key,
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        "labelSelector": selector(rng, app),
    });
    if hard && key != HOST && rng.percent(15) {
        constraint["minDomains"] = rng.between(1, 3).into();
    }
    if rng.percent(12) {
        constraint["nodeAffinityPolicy"] = (*rng.pick(&["Honor", "Ignore"])).into();
    }
    if rng.percent(12) {
        constraint["nodeTaintsPolicy"] = (*rng.pick(&["Honor", "Ignore"])).into();
    }
    if rng.percent(10) {
        constraint["matchLabelKeys"] = json!(["version"]);
    }
    constraint
}

fn term(rng: &mut Rng, size: Size, app: &str) -> Value {
    let mut term = json!({"topologyKey": key(rng, size), "labelSelector": selector(rng, app)});
    match rng.between(0, 9) {
        0 => term["namespaces"] = json!(rng.some(&NAMESPACES)),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({"matchLabels": {"env": rng.pick(&["prod", "test"])}}),
        3 if size != Size::Tiny => term["matchLabelKeys"] = json!(["version"]),
        _ => {}
    }
    term
}

fn node_term(rng: &mut Rng) -> Value {
    let expression = match rng.between(0, 6) {
        0 => json!({"key": ZONE, "operator": "In", "values": rng.some(&ZONES)}),
        1 => json!({"key": ZONE, "operator": "NotIn", "values": [rng.pick(&ZONES)]}),
        2 => json!({"key": CAPACITY, "operator": "NotIn", "values": ["spot"]}),
        3 => json!({"key": CUSTOM_KEY, "operator": rng.pick(&["Exists", "DoesNotExist"])}),
        4 => json!({"key": NUMBER_KEY, "operator": rng.pick(&["Gt", "Lt"]), "values": [rng.between(1, 4).to_string()]}),
        5 => json!({"key": CUSTOM_KEY, "operator": "In", "values": rng.some(&TEAMS)}),
        _ => json!({"key": "kubernetes.io/arch", "operator": "In", "values": [rng.pick(&["amd64", "arm64"])]}),
    };
    json!({"matchExpressions": [expression]})
}

fn preferred(rng: &mut Rng, what: &str, value: &Value) -> Value {
    json!([{"weight": rng.between(1, 100), what: value}])
}

/// Node selection, affinities and spreads for a pod of this app; most pods get few or none.
pub(super) fn constrain(rng: &mut Rng, size: Size, app: &str, spec: &mut Value) {
    if rng.percent(20) {
        let choices = [
            (ZONE, *rng.pick(&ZONES)),
            ("kubernetes.io/arch", "amd64"),
            (CAPACITY, *rng.pick(&["on-demand", "spot", "reserved"])),
            (CUSTOM_KEY, *rng.pick(&TEAMS)),
            ("example.com/tier", "gold"),
        ];
        let (key, value) = rng.pick(&choices);
        spec["nodeSelector"] = json!({ *key: value });
    }
    let mut affinity = Map::new();
    let mut node = Map::new();
    if rng.percent(18) {
        let terms: Vec<Value> = (0..rng.between(1, 2)).map(|_| node_term(rng)).collect();
        node.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!({"nodeSelectorTerms": terms}));
    }
    if rng.percent(10) {
        let term = node_term(rng);
        node.insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), preferred(rng, "preference", &term));
    }
    if !node.is_empty() {
        affinity.insert("nodeAffinity".to_owned(), Value::Object(node));
    }
    for (name, hard_chance) in [("podAffinity", 10), ("podAntiAffinity", 18)] {
        let mut pod = Map::new();
        if rng.percent(hard_chance) {
            pod.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!([term(rng, size, app)]));
        }
        if rng.percent(8) {
            let term = term(rng, size, app);
            pod.insert(
                "preferredDuringSchedulingIgnoredDuringExecution".to_owned(),
                preferred(rng, "podAffinityTerm", &term),
            );
        }
        if !pod.is_empty() {
            affinity.insert(name.to_owned(), Value::Object(pod));
        }
    }
    if !affinity.is_empty() {
        spec["affinity"] = Value::Object(affinity);
    }
    if rng.percent(30) {
        let mut constraints = vec![spread(rng, size, app)];
        let second = spread(rng, size, app);
        let pair = |c: &Value| (c["topologyKey"].clone(), c["whenUnsatisfiable"].clone());
        if rng.percent(20) && pair(&second) != pair(&constraints[0]) {
            constraints.push(second);
        }
        spec["topologySpreadConstraints"] = constraints.into();
    }
}
