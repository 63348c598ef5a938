//! Requests by dice: a few names, a few kinds, every way of writing, so that they meet each other.

use serde_json::{Value, json};

use crate::scene::Step;

/// A splitmix64 sequence.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_of<T: Clone>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).unwrap()].clone()
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn texts(dice: &mut Dice, keys: &[&str]) -> Value {
    let mut map = serde_json::Map::new();
    for key in keys {
        if dice.chance(50) {
            map.insert((*key).to_owned(), dice.one_of(&["1", "2", "three"]).into());
        }
    }
    Value::Object(map)
}

fn metadata(dice: &mut Dice, name: &str) -> Value {
    let mut out = json!({"name": name});
    for field in ["labels", "annotations"] {
        if dice.chance(40) {
            out[field] = texts(dice, &["a", "b", "c.io/d"]);
        }
    }
    if dice.chance(10) {
        out["finalizers"] = json!(["berth.test/hold"]);
    }
    out
}

fn containers(dice: &mut Dice) -> Value {
    let mut list = Vec::new();
    for name in ["main", "side", "log"] {
        if name == "main" || dice.chance(30) {
            let mut container = json!({"name": name, "image": dice.one_of(&["i:1", "i:2", "i"])});
            if dice.chance(40) {
                container["env"] =
                    json!([{"name": "A", "value": dice.one_of(&["x", "y"])}, {"name": "B", "value": "z"}]);
            }
            if dice.chance(40) {
                let cpu = dice.one_of(&["100m", "0.5", "2"]);
                container["resources"] = json!({"requests": {"cpu": cpu, "memory": "64Mi"}});
            }
            if dice.chance(30) {
                container["ports"] = json!([{"containerPort": dice.one_of(&[80, 443]), "name": "p"}]);
            }
            list.push(container);
        }
    }
    Value::Array(list)
}

fn object(dice: &mut Dice, kind: &str, name: &str) -> Value {
    let metadata = metadata(dice, name);
    match kind {
        "configmaps" => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
                               "data": texts(dice, &["x", "y", "z"])}),
        "deployments" => {
            let mut spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers(dice)}}});
            if dice.chance(60) {
                spec["replicas"] = dice.below(4).into();
            }
            if dice.chance(30) {
                spec["strategy"] = json!({"type": dice.one_of(&["Recreate", "RollingUpdate"])});
            }
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        }
        "services" => {
            let mut spec = json!({"selector": texts(dice, &["app", "tier"]),
                "ports": [{"port": dice.one_of(&[80, 81]), "name": "a"}, {"port": 443, "name": "b"}]});
            if dice.chance(60) {
                spec["type"] = dice.one_of(&["ClusterIP", "NodePort", "NodePort", "LoadBalancer"]).into();
                spec["ports"][0]["nodePort"] = node_port(dice);
            }
            if dice.chance(15) {
                // Without a selector it would be of both families, and no change of that is told as the real server does.
                spec["selector"]["app"] = "x".into();
                spec["clusterIP"] = dice.one_of(&["None", "10.96.0.77", "10.96.0.78"]).into();
            }
            if dice.chance(15) {
                spec["externalTrafficPolicy"] = dice.one_of(&["Cluster", "Local"]).into();
            }
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        }
        "poddisruptionbudgets" => {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
            "spec": {"minAvailable": dice.one_of(&[1, 2]), "selector": {"matchLabels": texts(dice, &["app"])}}})
        }
        _ => json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                    "spec": {"containers": containers(dice), "nodeName": dice.one_of(&["", "n1"])}}),
    }
}

/// None, one of few that meet each other, or one that no Service can have.
fn node_port(dice: &mut Dice) -> Value {
    dice.one_of(&[json!(null), json!(0), json!(30_001), json!(30_001), json!(30_002), json!(443)])
}

/// What an applier says: a part of an object.
fn config(dice: &mut Dice, kind: &str, name: &str) -> Value {
    let mut out = object(dice, kind, name);
    if dice.chance(50)
        && let Some(template) = out.pointer_mut("/spec/template")
    {
        *template = json!({"spec": {"containers": [{"name": dice.one_of(&["main", "side"]), "image": "i:3"}]}});
    }
    out
}

fn json_patch(dice: &mut Dice) -> Value {
    let path =
        dice.one_of(&["/metadata/labels/a", "/metadata/annotations", "/data/x", "/spec/replicas", "/nothing/here"]);
    let value = if path.ends_with("replicas") {
        json!(dice.below(5))
    } else if path.ends_with("annotations") {
        json!({"k": "v"})
    } else {
        json!("patched")
    };
    match dice.below(4) {
        0 => json!([{"op": "remove", "path": path}]),
        1 => json!([{"op": "test", "path": path, "value": value}, {"op": "replace", "path": path, "value": value}]),
        2 => json!([{"op": "replace", "path": path, "value": value}]),
        _ => json!([{"op": "add", "path": path, "value": value}]),
    }
}

fn merge_patch(dice: &mut Dice, kind: &str) -> Value {
    let mut out = json!({"metadata": {"labels": {"a": dice.one_of(&[Some("m"), None])}}});
    match kind {
        "configmaps" => out["data"] = json!({"x": dice.one_of(&[Some("m"), None]), "y": "m"}),
        "deployments" => {
            out["spec"] = if dice.chance(50) {
                json!({"replicas": dice.below(5)})
            } else {
                json!({"template": {"spec": {"containers": containers(dice)}}})
            };
        }
        "services" if dice.chance(50) => {
            out["spec"] = json!({"type": dice.one_of(&["ClusterIP", "NodePort", "LoadBalancer"])});
        }
        "services" => {
            out["spec"] = json!({"ports": [{"port": dice.one_of(&[80, 82]), "name": "a"}]});
        }
        _ => {}
    }
    out
}

/// The next request.
pub(crate) fn step(dice: &mut Dice) -> Step {
    let kinds = ["configmaps", "deployments", "services", "pods", "poddisruptionbudgets"];
    let kind = dice.one_of(&kinds);
    let name = dice.one_of(&["one", "two"]);
    let base = match kind {
        "deployments" => "/apis/apps/v1/namespaces/{ns}/deployments".to_owned(),
        "poddisruptionbudgets" => "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets".to_owned(),
        other => format!("/api/v1/namespaces/{{ns}}/{other}"),
    };
    let manager = dice.one_of(&["alice", "bob"]);
    let dry = if dice.chance(10) { "&dryRun=All" } else { "" };
    let at = format!("{base}/{name}?fieldManager={manager}{dry}");
    let mut out = Step { title: "random".to_owned(), ..Step::default() };
    let (method, path, body) = match dice.below(12) {
        0..=2 => ("POST", format!("{base}?fieldManager={manager}{dry}"), object(dice, kind, name)),
        3 => ("PUT", at, object(dice, kind, name)),
        4 => ("MERGE", at, merge_patch(dice, kind)),
        5 => ("STRATEGIC", at, merge_patch(dice, kind)),
        6 => ("JSONPATCH", at, json_patch(dice)),
        7 | 8 => {
            let force = if dice.chance(40) { "&force=true" } else { "" };
            ("APPLY", format!("{at}{force}"), config(dice, kind, name))
        }
        9 => ("DELETE", format!("{base}/{name}{}", dry.replace('&', "?")), Value::Null),
        10 => ("GET", base, Value::Null),
        _ => ("MERGE", at, json!({"metadata": {"finalizers": null}})),
    };
    (out.method, out.path) = (method.to_owned(), path);
    if !body.is_null() {
        out.body = body.to_string();
    }
    out
}
