//! Measures what holds up the loop longest that takes in events and binds pods: decisions that look at the whole cluster, and
//! the copy that a look at the nodes begins with.
//!
//! `cargo run --release -p berth-decisions --example stalls -- [nodes] [pods]`, 5000 and 100000 where nothing is said.

mod figures;

use std::time::Duration;

use berth_api::NodePool;
use berth_decisions::{Decider, Options};
use berth_state::{Event, Kind, Object, State};
use serde_json::json;

use figures::{DEPLOYMENTS, Failure, NOW, cpu_time, filled, node_name_of, object, pod_with, reservation_on};

const ROUNDS: usize = 20;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let n_nodes = arguments.next().transpose()?.unwrap_or(5_000);
    let n_pods = arguments.next().transpose()?.unwrap_or(100_000);
    let mut state = filled(n_nodes, n_pods, DEPLOYMENTS)?;
    state.apply(Event::Applied(pool()?), NOW)?;
    let types = json!([{"name": "large", "resources": {"cpu": "96", "memory": "384Gi", "pods": "250"}, "offerings": [
        {"Price": 4.0, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}]}]);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json")?;
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None }, NOW)?;
    let mut bench = Bench { state, decider: Decider::new() };
    bench.decide(false)?;
    println!("{n_nodes} nodes, {n_pods} pods; CPU time, in the middle and at most, of {ROUNDS}:");

    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "large"}}}]);
    let small = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]});
    let large = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "60"}}}]});
    let mut spreading = large.clone();
    spreading["topologySpreadConstraints"] = spread;
    let mut urgent = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "31"}}}]});
    urgent["priority"] = 1000.into();
    bench.ask("a pod is bound", |round| pod_with(&format!("small-{round}"), &small), false)?;
    bench.ask(
        "a node is launched for a pod without rules",
        |round| pod_with(&format!("large-{round}"), &large),
        true,
    )?;
    bench.ask("for one with a spread over zones", |round| pod_with(&format!("spread-{round}"), &spreading), true)?;
    bench.ask("a pod makes others give way", |round| pod_with(&format!("urgent-{round}"), &urgent), false)?;
    bench.ask("a Reservation gets a node", |round| reservation_on(1_000 + round, None), false)?;
    let on = |round: usize| reservation_on(2_000 + round, Some(&node_name_of(round)));
    bench.ask("a Reservation is on a node, and nothing else waits", on, false)?;
    let mut copied: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let start = cpu_time();
        let copy = bench.state.snapshot();
        copied.push(cpu_time().saturating_sub(start));
        drop(copy);
    }
    say("the state is copied for a look at the nodes", copied);
    let mut cloned: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let start = cpu_time();
        let copy = bench.state.cluster(NOW).clone();
        cloned.push(cpu_time().saturating_sub(start));
        drop(copy);
    }
    say("of which decisions from the whole copy the cluster", cloned);
    Ok(())
}

struct Bench {
    state: State,
    decider: Decider,
}

impl Bench {
    fn decide(&mut self, launches: bool) -> Result<usize, Failure> {
        let options = Options { launches, ..Options::default() };
        let decision = self.decider.decide(&mut self.state, &options, NOW)?;
        Ok(decision.bindings.len() + decision.launches.len() + decision.evictions.len())
    }

    // An object comes, what to do about it is decided, and it goes.
    fn ask(
        &mut self,
        what: &str,
        make: impl Fn(usize) -> Result<Object, Failure>,
        launches: bool,
    ) -> Result<(), Failure> {
        let (mut spent, mut n_done) = (Vec::new(), 0);
        let (made_anew, whole) = (self.decider.n_made_anew(), self.decider.n_whole());
        for round in 0..ROUNDS {
            let object = make(round)?;
            let key = berth_state::Key::new(object.kind(), namespace(&object), &name(&object)).with_uid(None);
            let start = cpu_time();
            self.state.apply(Event::Applied(object), NOW)?;
            n_done += self.decide(launches)?;
            spent.push(cpu_time().saturating_sub(start));
            self.state.apply(Event::Deleted { object: key, resource_version: None }, NOW)?;
        }
        let (made_anew, whole) = (self.decider.n_made_anew() - made_anew, self.decider.n_whole() - whole);
        say(&format!("{what} ({n_done} done, {whole} from the whole, {made_anew} made anew)"), spent);
        Ok(())
    }
}

fn say(what: &str, mut spent: Vec<Duration>) {
    spent.sort_unstable();
    let middle = spent.get(spent.len() / 2).copied().unwrap_or_default();
    println!("{what}: {middle:?}, {:?}", spent.last().copied().unwrap_or_default());
}

fn namespace(object: &Object) -> &str {
    if object.kind() == Kind::Pod { "default" } else { "" }
}

fn name(object: &Object) -> String {
    object.metadata().name.clone().unwrap_or_default()
}

fn pool() -> Result<Object, Failure> {
    object::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "pool"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
            "requirements": []}}}}))
}
