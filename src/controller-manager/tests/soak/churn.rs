//! What users do to a cluster, by dice.

use serde_json::{Value, json};

use crate::common::{World, is_live, name, send, workload};
use crate::path;

/// Namespaces in which workloads live.
const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
/// Workloads at a time.
const MOST: usize = 8;

pub(crate) struct Churn {
    dice: u64,
    count: u64,
    nodes: Vec<String>,
}

// === impl Churn ===

impl Churn {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: seed.wrapping_mul(0x517c_c1b7_2722_0a95), count: 0, nodes: Vec::new() }
    }

    /// A splitmix64 sequence.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn nodes(&self) -> &[String] {
        &self.nodes
    }

    pub(crate) fn new_node(&mut self) -> String {
        self.count += 1;
        let name = format!("node-{:05}", self.count);
        self.nodes.push(name.clone());
        name
    }

    pub(crate) fn lose_node(&mut self) -> String {
        let which = self.below(self.nodes.len());
        self.nodes.remove(which)
    }

    /// The definition and the namespaces that are there all the time.
    pub(crate) async fn prepare(&self, world: &World) {
        let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.size <= 10"}],
            "properties": {"size": {"type": "integer", "default": 1}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        world.create("customresourcedefinitions", &definition).await;
        for namespace in NAMESPACES {
            make_namespace(world, namespace).await;
        }
    }

    /// Does a few things.
    pub(crate) async fn act(&mut self, world: &World) {
        for _ in 0..=self.below(3) {
            self.act_once(world).await;
        }
    }

    async fn act_once(&mut self, world: &World) {
        let namespace = NAMESPACES[self.below(NAMESPACES.len())];
        match world.get(&format!("namespaces/{namespace}")).await {
            None => return make_namespace(world, namespace).await,
            Some(going) if !is_live(&going) => return let_go(world, namespace).await,
            Some(_) => {}
        }
        self.count += 1;
        let fresh = format!("x{}", self.count);
        let mut all = Vec::new();
        for plural in ["deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"] {
            let list = world.list(&format!("{plural}/{namespace}")).await;
            all.extend(list.into_iter().filter(is_live).map(|object| (plural, name(&object).to_owned())));
        }
        let chosen = if all.is_empty() { None } else { Some(all[self.below(all.len())].clone()) };
        match (self.below(14), chosen) {
            (0..=3, _) if all.len() < MOST => self.create(world, namespace, &fresh).await,
            (4, Some((plural @ ("deployments" | "statefulsets"), name))) => {
                let replicas = json!({"spec": {"replicas": self.below(6)}});
                world.patch(&format!("{plural}/{namespace}/{name}"), &replicas).await;
            }
            (5 | 6, Some((plural @ ("deployments" | "statefulsets" | "daemonsets"), name))) => {
                let container = json!({"name": "c", "image": format!("i:{fresh}")});
                let template = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
                world.patch(&format!("{plural}/{namespace}/{name}"), &template).await;
            }
            (7 | 8, Some((plural, name))) => {
                let policy = ["Background", "Foreground"][self.below(2)];
                world.delete_with(&format!("{plural}/{namespace}/{name}"), &json!({"propagationPolicy": policy})).await;
            }
            (9, _) => {
                let pods: Vec<Value> =
                    world.list(&format!("pods/{namespace}")).await.into_iter().filter(is_live).collect();
                if !pods.is_empty() {
                    let pod = &pods[self.below(pods.len())];
                    world.delete(&format!("pods/{namespace}/{}", name(pod))).await;
                }
            }
            (10, Some((plural @ "deployments", owner))) => {
                let owner = world.get(&format!("{plural}/{namespace}/{owner}")).await.unwrap();
                let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name(&owner),
                    "uid": owner["metadata"]["uid"]});
                let metadata = json!({"name": fresh, "ownerReferences": [reference]});
                world.create(&format!("configmaps/{namespace}"), &json!({"metadata": metadata})).await;
                let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata,
                    "spec": {"size": self.below(10)}});
                world.create(&format!("widgets/{namespace}"), &widget).await;
            }
            (11, _) => {
                let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {},
                    "metadata": {"name": fresh, "finalizers": ["example.com/held"]}});
                world.create(&format!("widgets/{namespace}"), &widget).await;
                world.delete(&format!("widgets/{namespace}/{fresh}")).await;
            }
            (12, _) => let_go(world, namespace).await,
            (13, _) if self.chance(10) => {
                let_go(world, namespace).await;
                world.delete(&format!("namespaces/{namespace}")).await;
            }
            _ => {}
        }
    }

    async fn create(&mut self, world: &World, namespace: &str, fresh: &str) {
        let replicas = i64::try_from(self.below(5)).unwrap();
        match self.below(5) {
            0 | 1 => {
                world.create(&format!("deployments/{namespace}"), &workload(fresh, replicas, "i")).await;
                let service =
                    json!({"metadata": {"name": fresh}, "spec": {"selector": {"app": fresh}, "ports": [{"port": 80}]}});
                if self.chance(30) {
                    world.create(&format!("services/{namespace}"), &service).await;
                }
            }
            2 => {
                let mut set = workload(fresh, replicas, "i");
                set["spec"]["serviceName"] = fresh.into();
                world.create(&format!("statefulsets/{namespace}"), &set).await;
            }
            3 => {
                let job = job_spec(self.below(4), self.chance(20));
                world.create(&format!("jobs/{namespace}"), &json!({"metadata": {"name": fresh}, "spec": job})).await;
            }
            _ if self.chance(50) => {
                let every = json!({"schedule": "*/10 * * * *", "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
                    "jobTemplate": {"spec": job_spec(1, false)}});
                world
                    .create(&format!("cronjobs/{namespace}"), &json!({"metadata": {"name": fresh}, "spec": every}))
                    .await;
            }
            _ => {
                let mut set = workload(fresh, 0, "i");
                set["spec"].as_object_mut().unwrap().remove("replicas");
                world.create(&format!("daemonsets/{namespace}"), &set).await;
            }
        }
    }

    /// Deletes all that was made.
    pub(crate) async fn clear(&self, world: &World) {
        for namespace in NAMESPACES {
            if world.get(&format!("namespaces/{namespace}")).await.is_some() {
                let_go(world, namespace).await;
                world.delete(&format!("namespaces/{namespace}")).await;
            }
        }
        tokio::time::sleep(crate::REST).await;
        for namespace in NAMESPACES {
            assert!(world.get(&format!("namespaces/{namespace}")).await.is_none(), "namespace {namespace} does not go");
            make_namespace(world, namespace).await;
        }
    }
}

fn job_spec(completions: usize, fails: bool) -> Value {
    let key = if fails { "berth.sh/fails-after" } else { "berth.sh/runs-for" };
    json!({"completions": completions, "parallelism": 2, "backoffLimit": 1, "ttlSecondsAfterFinished": 300, "template": {
        "metadata": {"annotations": {key: "40s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}})
}

async fn make_namespace(world: &World, namespace: &str) {
    world.create("namespaces", &json!({"metadata": {"name": namespace}})).await;
    let quota = json!({"metadata": {"name": "all"}, "spec": {"hard": {"pods": "200"}}});
    world.create(&format!("resourcequotas/{namespace}"), &quota).await;
}

/// Whoever holds the widgets of a namespace lets go of those that are to go.
async fn let_go(world: &World, namespace: &str) {
    let list = send(&world.client, "GET", &path("widgets"), "application/json", &Value::Null).await.unwrap();
    for widget in list["items"].as_array().into_iter().flatten() {
        if widget["metadata"]["namespace"] == *namespace && !is_live(widget) {
            world
                .patch(&format!("widgets/{namespace}/{}", name(widget)), &json!({"metadata": {"finalizers": null}}))
                .await;
        }
    }
}
