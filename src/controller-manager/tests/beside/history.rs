//! Histories by dice: a few workloads, what they own, and what users do to them.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ask;
use crate::definitions;
use crate::random::Dice;
use crate::seen::{list, path};
use crate::world::Client;

/// What is done at one time.
pub(crate) struct Step {
    pub(crate) what: What,
    /// Whether everything settles before the next step.
    pub(crate) settles: bool,
}

pub(crate) enum What {
    /// API, plural and object; owners are named, and get the UIDs that they have.
    Create(String, &'static str, Value),
    /// API, plural, name and merge patch.
    Patch(String, &'static str, String, Value),
    /// API, plural, name and propagation policy.
    Delete(String, &'static str, String, &'static str),
    /// Deletes one of the pods with a label, or takes the label away.
    Pod(String, bool),
    /// Creates the definition of this number, and waits until its objects are served.
    Define(u64),
    /// Deletes it.
    Undefine(u64),
}

pub(crate) fn of(seed: u64) -> Vec<Step> {
    let mut dice = Dice::new(seed.wrapping_mul(0x517c_c1b7_2722_0a95));
    // What there may be: each history is about few things, so that they meet.
    let subjects = [dice.below(7), dice.below(7)];
    let n_steps = 3 + dice.below(6);
    let mut steps = Vec::new();
    // What is counted is mostly what there is.
    let near = NAMES[usize::try_from(if subjects[0] < 5 { subjects[0] } else { subjects[1] }).unwrap()];
    for subject in subjects {
        steps.push(Step { what: create(&mut dice, subject, near), settles: dice.chance(60) });
    }
    for _ in 0..n_steps {
        let subject = dice.one_of(&subjects);
        let what = if dice.chance(20) { create(&mut dice, subject, near) } else { change(&mut dice, subject) };
        steps.push(Step { what, settles: dice.chance(50) });
    }
    steps
}

const NAMES: [&str; 7] = ["web", "set", "db", "log", "work", "own", "guard"];

fn template(dice: &mut Dice, name: &str, images: &[&str]) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": dice.one_of(images)}],
        "terminationGracePeriodSeconds": 0}})
}

const LASTING: [&str; 4] = ["i:1", "i:2", "i:3", "i:bad"];

fn create(dice: &mut Dice, subject: u64, near: &str) -> What {
    let name = NAMES[usize::try_from(subject).unwrap()];
    let selector = json!({"matchLabels": {"app": name}});
    let mut meta = json!({"name": name});
    if dice.chance(25) {
        meta["annotations"] = json!({"kubernetes.io/change-cause": dice.one_of(&["one", "two"])});
    }
    match subject {
        0 => {
            let strategy = dice.one_of(&[
                json!({"type": "Recreate"}),
                json!({"type": "RollingUpdate"}),
                json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
                json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}),
                json!({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "50%"}}),
            ]);
            let spec = json!({"replicas": dice.below(5), "selector": selector, "strategy": strategy,
                "revisionHistoryLimit": dice.one_of(&[0, 1, 10]), "template": template(dice, name, &LASTING)});
            What::Create("apps/v1".to_owned(), "deployments", json!({"metadata": meta, "spec": spec}))
        }
        1 => {
            let spec =
                json!({"replicas": dice.below(4), "selector": selector, "template": template(dice, name, &LASTING)});
            What::Create("apps/v1".to_owned(), "replicasets", json!({"metadata": meta, "spec": spec}))
        }
        2 => {
            let spec = json!({"replicas": dice.below(4), "selector": selector, "serviceName": name,
                "podManagementPolicy": dice.one_of(&["OrderedReady", "Parallel"]),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": dice.one_of(&[0, 0, 1])}},
                "template": template(dice, name, &LASTING[..3])});
            What::Create("apps/v1".to_owned(), "statefulsets", json!({"metadata": meta, "spec": spec}))
        }
        3 => {
            let mut template = template(dice, name, &LASTING[..3]);
            if dice.chance(50) {
                template["spec"]["nodeSelector"] = json!({"pool": "a"});
            }
            let strategy = dice.one_of(&[json!({"type": "OnDelete"}), json!({"type": "RollingUpdate"})]);
            let spec = json!({"selector": selector, "updateStrategy": strategy, "template": template});
            What::Create("apps/v1".to_owned(), "daemonsets", json!({"metadata": meta, "spec": spec}))
        }
        4 => {
            let mut template = template(dice, name, &["i:1", "i:done", "i:done", "i:fail"]);
            template["spec"]["restartPolicy"] = "Never".into();
            let mut spec = json!({"parallelism": 1 + dice.below(3), "backoffLimit": 0, "template": template});
            if dice.chance(70) {
                spec["completions"] = (1 + dice.below(4)).into();
                spec["completionMode"] = dice.one_of(&["Indexed", "NonIndexed"]).into();
            }
            What::Create("batch/v1".to_owned(), "jobs", json!({"metadata": meta, "spec": spec}))
        }
        5 => {
            // A chain or a fork of owners; some name one that never was.
            meta["name"] = format!("own-{}", dice.below(4)).into();
            let owners = (0..dice.below(3)).map(|_| {
                let owner = dice.one_of(&["own-0", "own-1", "own-2", "nobody"]);
                json!({"kind": "ConfigMap", "apiVersion": "v1", "name": owner, "blockOwnerDeletion": dice.chance(50)})
            });
            let mut owners: Vec<Value> = owners.collect();
            owners.dedup_by_key(|owner| owner["name"].clone());
            meta["ownerReferences"] = owners.into();
            if dice.chance(25) {
                meta["finalizers"] = json!(["berth.test/hold"]);
            }
            What::Create("v1".to_owned(), "configmaps", json!({"metadata": meta}))
        }
        _ => {
            if dice.chance(50) {
                let hard = json!({"pods": "50", "count/configmaps": "50", "count/replicasets.apps": "50",
                    "requests.cpu": "10", "services": "5"});
                return What::Create(
                    "v1".to_owned(),
                    "resourcequotas",
                    json!({"metadata": meta, "spec": {"hard": hard}}),
                );
            }
            let bound = dice.one_of(&[
                json!({"minAvailable": 1}),
                json!({"maxUnavailable": 1}),
                json!({"minAvailable": "50%"}),
                json!({"maxUnavailable": "50%"}),
            ]);
            let app = dice.one_of(&[near, near, near, "web", "set", "db", "log", "work"]);
            if dice.chance(30) {
                // One of nobody, unless a workload adopts it.
                let labels = json!({"app": app});
                let pod = json!({"metadata": {"generateName": "bare-", "labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i:1"}], "terminationGracePeriodSeconds": 0}});
                return What::Create("v1".to_owned(), "pods", pod);
            }
            let mut spec = json!({"selector": {"matchLabels": {"app": app}}});
            for (field, value) in bound.as_object().unwrap() {
                spec[field] = value.clone();
            }
            What::Create("policy/v1".to_owned(), "poddisruptionbudgets", json!({"metadata": meta, "spec": spec}))
        }
    }
}

fn change(dice: &mut Dice, subject: u64) -> What {
    let (api, plural, name) = [
        ("apps/v1", "deployments", "web"),
        ("apps/v1", "replicasets", "set"),
        ("apps/v1", "statefulsets", "db"),
        ("apps/v1", "daemonsets", "log"),
        ("batch/v1", "jobs", "work"),
        ("v1", "configmaps", "own"),
        ("policy/v1", "poddisruptionbudgets", "guard"),
    ][usize::try_from(subject).unwrap()];
    let policies = ["Background", "Background", "Foreground", "Orphan"];
    let own = if plural == "configmaps" { format!("own-{}", dice.below(4)) } else { name.to_owned() };
    if dice.chance(if plural == "configmaps" { 70 } else { 15 }) {
        return What::Delete(api.to_owned(), plural, own, dice.one_of(&policies));
    }
    let patch = match subject {
        5 => json!({"metadata": {"finalizers": null}}),
        6 => json!({"spec": {"maxUnavailable": null, "minAvailable": dice.one_of(&[json!(2), json!("30%")])}}),
        4 => dice.one_of(&[
            json!({"spec": {"parallelism": 2}}),
            json!({"spec": {"suspend": true}}),
            json!({"spec": {"suspend": false}}),
        ]),
        _ if dice.chance(25) && subject != 2 => return What::Pod(name.to_owned(), dice.chance(60)),
        _ => {
            let image = dice.one_of(&LASTING[..if subject < 2 { 4 } else { 3 }]);
            let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
            let replicas = json!({"spec": {"replicas": dice.below(6)}});
            let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": dice.one_of(&["x", "y"])}}});
            match subject {
                0 => dice.one_of(&[
                    image.clone(),
                    image,
                    replicas.clone(),
                    replicas,
                    cause,
                    json!({"spec": {"paused": true}}),
                    json!({"spec": {"paused": false}}),
                ]),
                3 => dice.one_of(&[image, cause]),
                _ => dice.one_of(&[image, replicas.clone(), replicas]),
            }
        }
    };
    What::Patch(api.to_owned(), plural, own, patch)
}

fn definition_path(number: u64) -> String {
    format!("{}/widgets.{}", definitions::DEFINITIONS, definitions::group(number))
}

/// Creates a definition, and waits until its objects are served, unless it is refused.
pub(crate) async fn define(client: &Client, number: u64) -> (u16, Value) {
    let answer = ask(client, "POST", definitions::DEFINITIONS, &definitions::definition(number)).await;
    let objects = definitions::path(number).replace("{ns}", "default");
    for _ in 0..600 {
        if answer.0 != 201 || ask(client, "GET", &objects, &Value::Null).await.0 == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    answer
}

/// Takes a definition away, with what is left of it.
pub(crate) async fn remove(client: &Client, namespace: &str, number: u64) {
    let objects = definitions::path(number).replace("{ns}", namespace);
    for name in ["w-0", "w-1", "w-2"] {
        ask(client, "PATCH", &format!("{objects}/{name}"), &json!({"metadata": {"finalizers": null}})).await;
    }
    ask(client, "DELETE", &definition_path(number), &Value::Null).await;
    for _ in 0..300 {
        if ask(client, "GET", &definition_path(number), &Value::Null).await.0 == 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Step {
    pub(crate) async fn play(&self, client: &Client, namespace: &str) -> String {
        let (code, body) = match &self.what {
            What::Create(api, plural, object) => {
                let mut object = object.clone();
                for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
                    let plural = if owner["kind"] == "ConfigMap" { "configmaps" } else { "widgets" };
                    let place = path(owner["apiVersion"].as_str().unwrap(), namespace, plural);
                    let place = format!("{place}/{}", owner["name"].as_str().unwrap());
                    let known = ask(client, "GET", &place, &Value::Null).await.1["metadata"]["uid"].clone();
                    let never = json!("00000000-0000-4000-8000-000000000000");
                    owner["uid"] = if known.is_null() { never } else { known };
                }
                ask(client, "POST", &path(api, namespace, plural), &object).await
            }
            What::Patch(api, plural, name, patch) => {
                ask(client, "PATCH", &format!("{}/{name}", path(api, namespace, plural)), patch).await
            }
            What::Delete(api, plural, name, policy) => {
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
                ask(client, "DELETE", &format!("{}/{name}", path(api, namespace, plural)), &options).await
            }
            What::Define(number) => define(client, *number).await,
            What::Undefine(number) => ask(client, "DELETE", &definition_path(*number), &Value::Null).await,
            What::Pod(app, is_deleted) => {
                let pods = list(client, namespace, "pods").await;
                let own = |pod: &&Value| {
                    pod["metadata"]["labels"]["app"] == **app && pod["metadata"]["deletionTimestamp"].is_null()
                };
                // Any of the newest template: in a cluster that has settled they are alike.
                let newest = pods.iter().filter(own).max_by_key(|pod| {
                    (pod["spec"]["containers"][0]["image"].to_string(), pod["status"]["phase"].to_string())
                });
                let Some(pod) = newest else { return "no pod".to_owned() };
                let name = pod["metadata"]["name"].as_str().unwrap();
                let place = format!("{}/{name}", path("v1", namespace, "pods"));
                if *is_deleted {
                    ask(client, "DELETE", &place, &json!({"gracePeriodSeconds": 0})).await
                } else {
                    ask(client, "PATCH", &place, &json!({"metadata": {"labels": {"app": "none"}}})).await
                }
            }
        };
        let message = body["message"].as_str().filter(|_| code >= 300).unwrap_or_default();
        format!("{code} {message}")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Create(_, plural, object) => write!(f, "create {plural} {object}")?,
            What::Patch(_, plural, name, patch) => write!(f, "patch {plural} {name} {patch}")?,
            What::Delete(_, plural, name, policy) => write!(f, "delete {plural} {name} {policy}")?,
            What::Pod(app, true) => write!(f, "delete a pod of {app}")?,
            What::Pod(app, false) => write!(f, "take the label of a pod of {app}")?,
            What::Define(number) => write!(f, "create {}", definitions::definition(*number))?,
            What::Undefine(number) => write!(f, "delete definition {number}")?,
        }
        write!(f, "{}", if self.settles { "; settle" } else { "" })
    }
}
