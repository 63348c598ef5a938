//! A cluster that has shrunk: what it ends with once nodes may make way is what `plan --disrupt` says beforehand.

use berth_api::{NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::{dollars, outcome, repeat};

/// What a cluster costs, in dollars an hour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    pub(crate) before: f64,
    pub(crate) planned: f64,
    pub(crate) lived: f64,
}

/// Plays the cluster of a seed, lets two in five pods of each workload go, and then nodes make way.
pub(crate) async fn play(seed: u64, share: &str) -> (Costs, String) {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let (objects, catalogue) = crate::cluster(seed, false);
    let spot_to_spot = dice.hits(50);
    let mut controllers = berth_controllers::Options::default();
    controllers.convert.spot_to_spot_consolidation = spot_to_spot;
    let mut parts = outcome::start(seed, &catalogue, controllers).await;
    outcome::make(&parts, &objects).await;
    outcome::settle(&mut parts, 7).await;
    let client = parts.client.clone();
    for object in &objects {
        let fewer = object["spec"]["replicas"].as_u64().map(|replicas| replicas * 3 / 5);
        let patch = json!({"spec": {"replicas": fewer}});
        match (object["kind"].as_str().unwrap(), fewer) {
            ("Deployment", Some(_)) => {
                change::<Deployment>(Api::default_namespaced(client.clone()), object, &patch).await;
            }
            ("StatefulSet", Some(_)) => {
                change::<StatefulSet>(Api::default_namespaced(client.clone()), object, &patch).await;
            }
            _ => {}
        }
    }
    let (shrunk, ..) = outcome::settle(&mut parts, 7).await;
    let ripe = json!({"spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": share}]}}});
    for pool in objects.iter().filter(|object| object["kind"] == "NodePool") {
        change::<NodePool>(Api::all(client.clone()), pool, &ripe).await;
    }
    let options = berth_plan::Options {
        disrupt: true,
        now: Some(parts.server.now()),
        gates: berth_plan::FeatureGates { spot_to_spot_consolidation: spot_to_spot, ..Default::default() },
        ..berth_plan::Options::default()
    };
    let (there, left) = (everything(&client).await, left_of(&catalogue, &parts));
    let plan = berth_plan::plan_documents(&there, Some(&left), &options).unwrap();
    let disruption = &plan["disruption"];
    // Commands wait for ten minutes at most.
    let (lived, _, nodes) = outcome::settle(&mut parts, 65).await;
    let costs = Costs {
        before: dollars(shrunk.cost),
        planned: disruption["settledHourlyCost"].as_f64().unwrap(),
        lived: dollars(lived.cost),
    };
    let repeat = repeat(seed, &there, &left);
    let (there, left) = (everything(&client).await, left_of(&catalogue, &parts));
    let then = berth_plan::plan_documents(&there, Some(&left), &options).unwrap();
    let then = &then["disruption"];
    (costs, format!("{disruption:#}; came {nodes:#?}, of which a plan says {then:#}; {repeat}"))
}

async fn change<K>(api: Api<K>, object: &Value, patch: &Value)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let name = object["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// All objects that say what the cluster is.
async fn everything(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    all.extend(listed::<NodePool>(client).await);
    all.extend(listed::<NodeClaim>(client).await);
    all.extend(listed::<Node>(client).await);
    all.extend(listed::<PriorityClass>(client).await);
    all.extend(listed::<DaemonSet>(client).await);
    all.extend(listed::<Deployment>(client).await);
    all.extend(listed::<StatefulSet>(client).await);
    all.extend(listed::<ReplicaSet>(client).await);
    all.extend(listed::<Pod>(client).await);
    all
}

async fn listed<K>(client: &Client) -> Vec<Value>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let mut all = Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    all.sort_by_key(|object| (object.namespace(), object.name_any()));
    let as_value = |object: &K| {
        let mut value = serde_json::to_value(object).unwrap();
        value["apiVersion"] = json!(K::api_version(&()));
        value["kind"] = json!(K::kind(&()));
        value
    };
    all.iter().map(as_value).collect()
}

/// The catalogue with what is left of slots and stocks. The slots of a reservation are of all its types together.
fn left_of(catalogue: &Value, parts: &berth_sandbox::Parts) -> Value {
    let mut catalogue = catalogue.clone();
    for instance in parts.cloud.instances().iter().filter(|instance| instance.state.is_alive()) {
        let offering = &instance.offering;
        for of_type in catalogue.as_array_mut().unwrap() {
            let is_type = of_type["name"] == json!(offering.instance_type);
            for known in of_type["offerings"].as_array_mut().unwrap() {
                let value = |key: &str| {
                    let mut all = known["Requirements"].as_array().unwrap().iter();
                    all.find(|one| one["key"] == key).map(|one| one["values"][0].as_str().unwrap().to_owned())
                };
                let reservation = value("berth.sh/capacity-reservation-id");
                let is_it = is_type
                    && value("karpenter.sh/capacity-type").as_deref() == Some(offering.capacity_type.as_str())
                    && value("topology.kubernetes.io/zone") == offering.zone
                    && reservation == instance.reservation;
                let is_of_reservation = reservation.is_some() && reservation == instance.reservation;
                for (count, is_less) in [("ReservationCapacity", is_of_reservation), ("Available", is_it)] {
                    if let Some(left) = known[count].as_u64().filter(|_| is_less) {
                        known[count] = json!(left.saturating_sub(1));
                    }
                }
            }
        }
    }
    catalogue
}
