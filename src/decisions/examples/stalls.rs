//! Measures how long the loop is kept that takes in events and binds pods: by decisions that look at the whole cluster, as they are
//! made at once and as they are made elsewhere, and by the copy that a look at the nodes begins with.
//!
//! `cargo run --release -p berth-decisions --example stalls -- [nodes] [pods] [rounds]`, 5000, 100000 and 50 where nothing is said.

mod figures;

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::NodePool;
use berth_decisions::{Decider, Options, Replica};
use berth_state::{Event, Key, Kind, Object, ObjectRef, State};
use serde_json::{Value, json};

use figures::{DEPLOYMENTS, Failure, NOW, arguments, cpu_time, filled, node_name_of, object, pod_with, reservation_on};

/// Objects that the replica is told of in one go, as the controllers do.
const PART: usize = 2_000;

fn main() -> Result<(), Failure> {
    let [n_nodes, n_pods, n_rounds] = arguments([5_000, 100_000, 50])?;
    let mut state = filled(n_nodes, n_pods, DEPLOYMENTS)?;
    state.apply(Event::Applied(pool()?))?;
    let types = json!([{"name": "large", "resources": {"cpu": "96", "memory": "384Gi", "pods": "250"}, "offerings": [
        {"Price": 4.0, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}]}]);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json")?;
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None })?;
    let mut bench = Bench { state, decider: Decider::new(), replica: None, n_rounds };
    bench.decide(false)?;
    println!("{n_nodes} nodes, {n_pods} pods; CPU time of {n_rounds}: p50, p99, max");
    bench.tell_replica();

    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "large"}}}]);
    let small = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]});
    let large = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "60"}}}]});
    let mut spreading = large.clone();
    spreading["topologySpreadConstraints"] = spread;
    let mut urgent = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "31"}}}]});
    urgent["priority"] = 1000.into();
    bench.ask_after_reservation(&small)?;
    bench.ask_after_new_rule(&small)?;
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
    bench.copy();
    Ok(())
}

struct Bench {
    state: State,
    decider: Decider,
    replica: Option<Replica>,
    n_rounds: usize,
}

/// How long the loop is kept at a stretch, and how long it takes elsewhere.
#[derive(Default)]
struct Spent {
    kept: Vec<Duration>,
    elsewhere: Vec<Duration>,
}

impl Bench {
    fn decide(&mut self, launches: bool) -> Result<usize, Failure> {
        let options = Options { launches, ..Options::default() };
        let decision = self.decider.decide(&mut self.state, &options, NOW)?;
        Ok(decision.bindings.len() + decision.launches.len() + decision.evictions.len())
    }

    fn take_replica(&mut self) -> Replica {
        self.replica.take().unwrap_or_else(|| Replica::of(&mut self.state))
    }

    /// Tells the replica everything, a part at a time.
    fn tell_replica(&mut self) {
        let mut spent = Spent::default();
        let mut replica = self.take_replica();
        while !self.state.is_almost_told(PART) {
            let start = cpu_time();
            let problem = replica.catch_up(&mut self.state, PART);
            spent.kept.push(cpu_time().saturating_sub(start));
            let start = cpu_time();
            replica = problem.ask(|_, _| ()).0;
            spent.elsewhere.push(cpu_time().saturating_sub(start));
        }
        self.replica = Some(replica);
        say(&format!("the replica is told of {PART} objects at a time"), spent);
    }

    /// The copy of the state for a look at the nodes.
    fn copy(&mut self) {
        let mut at_once = Spent::default();
        let mut elsewhere = Spent::default();
        for _ in 0..self.n_rounds {
            let start = cpu_time();
            let copy = self.state.snapshot();
            at_once.kept.push(cpu_time().saturating_sub(start));
            drop(copy);
            let replica = self.take_replica();
            let start = cpu_time();
            let problem = replica.begin(&mut self.state);
            elsewhere.kept.push(cpu_time().saturating_sub(start));
            let start = cpu_time();
            let (replica, copy) = problem.ask(|state, _| state.snapshot());
            elsewhere.elsewhere.push(cpu_time().saturating_sub(start));
            drop(copy);
            self.replica = Some(replica);
        }
        println!("the state is copied for a look at the nodes");
        say("  at once", at_once);
        say("  elsewhere", elsewhere);
    }

    // An object comes, what to do about it is decided, and it goes.
    fn ask(
        &mut self,
        what: &str,
        make: impl Fn(usize) -> Result<Object, Failure>,
        launches: bool,
    ) -> Result<(), Failure> {
        println!("{what}");
        for is_elsewhere in [false, true] {
            let (mut spent, mut n_done) = (Spent::default(), 0);
            let (made_anew, whole) = (self.decider.n_made_anew(), self.decider.n_whole());
            for round in 0..self.n_rounds {
                let object = make(round)?;
                let key = key_of(&object);
                self.state.apply(Event::Applied(object))?;
                if is_elsewhere {
                    n_done += self.decide_elsewhere(launches, &mut spent)?;
                } else {
                    let start = cpu_time();
                    n_done += self.decide(launches)?;
                    spent.kept.push(cpu_time().saturating_sub(start));
                }
                self.delete([key])?;
            }
            let (made_anew, whole) = (self.decider.n_made_anew() - made_anew, self.decider.n_whole() - whole);
            let how = if is_elsewhere { "elsewhere" } else { "at once" };
            say(&format!("  {how} ({n_done} done, {whole} from the whole, {made_anew} made anew)"), spent);
        }
        Ok(())
    }

    // A Reservation came to a node since the last pod was bound.
    fn ask_after_reservation(&mut self, small: &Value) -> Result<(), Failure> {
        println!("a pod is bound after a Reservation came to a node");
        let (mut spent, made_anew) = (Spent::default(), self.decider.n_made_anew());
        for round in 0..self.n_rounds {
            let room = reservation_on(3_000 + round, Some(&node_name_of(round)))?;
            let pod = pod_with(&format!("after-{round}"), small)?;
            let keys = [key_of(&pod), key_of(&room)];
            self.state.apply(Event::Applied(room))?;
            self.state.apply(Event::Applied(pod))?;
            let start = cpu_time();
            assert_eq!(self.decide(false)?, 1, "the pod is bound");
            spent.kept.push(cpu_time().saturating_sub(start));
            self.delete(keys)?;
        }
        say(&format!("  at once ({} made anew)", self.decider.n_made_anew() - made_anew), spent);
        Ok(())
    }

    // A pod comes that is to keep away from pods that are there, which nobody asked for so far: everything is looked at again.
    fn ask_after_new_rule(&mut self, small: &Value) -> Result<(), Failure> {
        println!("a pod is bound that asks for others which nobody asked for so far");
        for is_elsewhere in [false, true] {
            let mut spent = Spent::default();
            for round in 0..self.n_rounds {
                let deployment = (2 * round + usize::from(is_elsewhere)) * 10 % DEPLOYMENTS;
                let mut spec = small.clone();
                spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "namespaces": [format!("ns-{}", deployment % 50)],
                        "labelSelector": {"matchLabels": {"app": format!("app-{deployment}")}}}]}});
                let pod = pod_with(&format!("rule-{is_elsewhere}-{round}"), &spec)?;
                let key = key_of(&pod);
                self.state.apply(Event::Applied(pod))?;
                let start = cpu_time();
                if is_elsewhere {
                    let options = Options { launches: false, ..Options::default() };
                    let found = self.decider.decide_at_once(&mut self.state, &options, &BTreeSet::new(), NOW)?;
                    assert!(found.is_stale, "everything is looked at again");
                    let problem = self.take_replica().begin(&mut self.state);
                    let kept = cpu_time().saturating_sub(start);
                    let start = cpu_time();
                    let (mut replica, refreshed) = problem.refresh(&options, &BTreeSet::new(), NOW);
                    spent.elsewhere.push(cpu_time().saturating_sub(start));
                    let start = cpu_time();
                    assert!(refreshed.adopt(&mut self.state, &mut self.decider, &mut replica));
                    let found = self.decider.decide_at_once(&mut self.state, &options, &BTreeSet::new(), NOW)?;
                    spent.kept.push(kept.max(cpu_time().saturating_sub(start)));
                    assert_eq!(found.decision.bindings.len(), 1, "the pod is bound");
                    self.replica = Some(replica);
                } else {
                    assert_eq!(self.decide(false)?, 1, "the pod is bound");
                    spent.kept.push(cpu_time().saturating_sub(start));
                }
                self.delete([key])?;
            }
            say(if is_elsewhere { "  elsewhere" } else { "  at once" }, spent);
        }
        Ok(())
    }

    fn delete(&mut self, objects: impl IntoIterator<Item = ObjectRef>) -> Result<(), Failure> {
        for object in objects {
            self.state.apply(Event::Deleted { object, resource_version: None })?;
        }
        Ok(())
    }

    // What fits is bound at once, and the rest decided elsewhere. The longest of what keeps the loop counts.
    fn decide_elsewhere(&mut self, launches: bool, spent: &mut Spent) -> Result<usize, Failure> {
        let options = Options { launches, ..Options::default() };
        let start = cpu_time();
        let at_once = self.decider.decide_at_once(&mut self.state, &options, &BTreeSet::new(), NOW)?;
        let n_bound = at_once.decision.bindings.len();
        let kept = cpu_time().saturating_sub(start);
        if at_once.is_all && !launches {
            spent.kept.push(kept);
            return Ok(n_bound);
        }
        let start = cpu_time();
        let problem = self.take_replica().begin(&mut self.state);
        let kept = kept.max(cpu_time().saturating_sub(start));
        let start = cpu_time();
        let solved = problem.solve(&options, NOW);
        spent.elsewhere.push(cpu_time().saturating_sub(start));
        let start = cpu_time();
        let (finished, replica) = solved.finish(&mut self.state, NOW);
        spent.kept.push(kept.max(cpu_time().saturating_sub(start)));
        self.replica = Some(replica);
        let decision = finished?.decision;
        Ok(decision.bindings.len() + decision.launches.len() + decision.evictions.len())
    }
}

fn say(what: &str, spent: Spent) {
    let in_words = |mut spent: Vec<Duration>| {
        spent.sort_unstable();
        let at = |percent: usize| {
            let at = (spent.len() * percent).div_ceil(100).saturating_sub(1);
            spent.get(at).copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        format!("{:.2}, {:.2}, {:.2} ms", at(50), at(99), at(100))
    };
    let Spent { kept, elsewhere } = spent;
    let beside =
        if elsewhere.is_empty() { String::new() } else { format!("; in another thread {}", in_words(elsewhere)) };
    println!("{what}: the loop is kept for {}{beside}", in_words(kept));
}

fn key_of(object: &Object) -> ObjectRef {
    let namespace = if object.kind() == Kind::Pod { "default" } else { "" };
    Key::new(object.kind(), namespace, object.metadata().name.as_deref().unwrap_or_default()).with_uid(None)
}

fn pool() -> Result<Object, Failure> {
    object::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "pool"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
            "requirements": []}}}}))
}
