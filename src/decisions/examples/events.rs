//! Measures how much CPU time a state takes for one event, with a conversion of everything beside it in the same run, and what a
//! replica takes of memory.
//!
//! `cargo run --release -p berth-decisions --example events -- [nodes] [pods] [rounds]`, 5000, 100000 and 2000 where nothing is
//! said.

mod figures;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_decisions::{Decider, Options, Replica};
use berth_state::{Event, Key, Kind, Object, Outcome, Patch, State};
use k8s_openapi::api::core::v1::NodeCondition;

use figures::{
    DEPLOYMENTS, Failure, NOW, arguments, cpu_time, filled, memory, node, node_name_of, node_with, pod, replica_set,
};

fn main() -> Result<(), Failure> {
    let [n_nodes, n_pods, n_rounds] = arguments([5_000, 100_000, 2_000])?;
    let mut state = filled(n_nodes, n_pods, DEPLOYMENTS)?;
    state.cluster(NOW);
    let mut decider = Decider::new();
    decider.decide(&mut state, &Options::default(), NOW)?;
    println!("{n_nodes} nodes, {n_pods} pods");
    tell_memory("once they are converted, and all was decided");

    let mut bench = Bench { state, n_nodes, n_pods, n_rounds, all: Vec::new() };
    bench.follow_pods()?;
    bench.change_what_is_there()?;
    bench.change_nodes()?;
    say("all of these", std::mem::take(&mut bench.all));
    let mut state = bench.state;
    for _ in 0..3 {
        state.forget_cluster();
        let start = cpu_time();
        state.cluster(NOW);
        println!("everything converted anew: {:.1} ms", cpu_time().saturating_sub(start).as_secs_f64() * 1e3);
    }
    decider.decide(&mut state, &Options::default(), NOW)?;
    with_replica(&mut state, &mut decider)
}

struct Bench {
    state: State,
    n_nodes: usize,
    n_pods: usize,
    n_rounds: usize,
    all: Vec<Duration>,
}

impl Bench {
    fn apply(&mut self, times: &mut Vec<Duration>, event: Event) -> Result<(), Failure> {
        let start = cpu_time();
        self.state.apply(event)?;
        // Brought up to date for who asks next.
        self.state.cluster(NOW);
        times.push(cpu_time().saturating_sub(start));
        Ok(())
    }

    fn say(&mut self, what: &str, times: Vec<Duration>) {
        self.all.extend(&times);
        say(what, times);
    }

    /// Pods are created, bound, seen on their nodes, run, and are deleted.
    fn follow_pods(&mut self) -> Result<(), Failure> {
        let [mut came, mut settled, mut seen, mut runs, mut ends] = <[Vec<Duration>; 5]>::default();
        for round in 0..self.n_rounds {
            let number = self.n_pods + round;
            let on_node = (round * 7) % self.n_nodes;
            let created = pod(number, round % DEPLOYMENTS, 0, None)?;
            let reference = created.reference().ok_or("no name")?;
            self.apply(&mut came, Event::Applied(created))?;
            let patch = Patch::Bind { node: node_name_of(on_node).into(), annotations: [].into() };
            let write = self.state.assume(&reference, patch).ok_or("nothing to bind")?;
            let outcome = Outcome::Written { resource_version: Some("2".to_owned()), uid: None };
            self.apply(&mut settled, Event::Settled { assumption: write.assumption, outcome })?;
            let Object::Pod(bound) = pod(number, round % DEPLOYMENTS, 0, Some(on_node))? else { continue };
            let mut bound = Arc::unwrap_or_clone(bound);
            bound.metadata.resource_version = Some("2".to_owned());
            self.apply(&mut seen, Event::Applied(bound.clone().into()))?;
            bound.metadata.resource_version = Some("3".to_owned());
            bound.status.get_or_insert_default().phase = Some("Running".to_owned());
            self.apply(&mut runs, Event::Applied(bound.into()))?;
            let resource_version = Some("4".to_owned());
            self.apply(&mut ends, Event::Deleted { object: reference, resource_version })?;
        }
        self.say("a pod is created", came);
        self.say("the write of its binding is answered", settled);
        self.say("it is seen on its node", seen);
        self.say("it runs", runs);
        self.say("it is gone", ends);
        Ok(())
    }

    /// Events that change nothing that decisions depend on.
    fn change_what_is_there(&mut self) -> Result<(), Failure> {
        let [mut beats, mut counts] = <[Vec<Duration>; 2]>::default();
        for round in 0..self.n_rounds {
            let Object::Node(known) = node((round * 11) % self.n_nodes)? else { continue };
            let mut known = Arc::unwrap_or_clone(known);
            let ready =
                NodeCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..NodeCondition::default() };
            known.status.get_or_insert_default().conditions = Some(vec![ready]);
            self.apply(&mut beats, Event::Applied(known.into()))?;
            let Object::ReplicaSet(set) = replica_set(round % DEPLOYMENTS)? else { continue };
            let mut set = Arc::unwrap_or_clone(set);
            set.status.get_or_insert_default().replicas = i32::try_from(round)?;
            self.apply(&mut counts, Event::Applied(set.into()))?;
        }
        self.say("a node's condition changes", beats);
        self.say("a ReplicaSet's status changes", counts);
        Ok(())
    }

    /// Nodes come, change with all pods on them, and go.
    fn change_nodes(&mut self) -> Result<(), Failure> {
        let [mut came, mut changed, mut full, mut went] = <[Vec<Duration>; 4]>::default();
        for round in 0..self.n_rounds / 10 {
            let name = self.n_nodes + round;
            self.apply(&mut came, Event::Applied(node(name)?))?;
            self.apply(&mut changed, Event::Applied(node_with(name, name % 3 + 1, 64_000)?))?;
            let object = Key::new(Kind::Node, "", &node_name_of(name)).with_uid(None);
            self.apply(&mut went, Event::Deleted { object, resource_version: None })?;
            let known = round * 13 % self.n_nodes;
            self.apply(&mut full, Event::Applied(node_with(known, known, 40_000 + round)?))?;
        }
        self.say("a node comes", came);
        self.say("it changes", changed);
        self.say("it goes", went);
        self.say("a node with pods changes", full);
        Ok(())
    }
}

fn with_replica(state: &mut State, decider: &mut Decider) -> Result<(), Failure> {
    tell_memory("without a replica");
    let replica = Replica::of(state);
    let (replica, ()) = replica.begin(state).ask(|_, _| ());
    tell_memory("with a replica that was asked nothing");
    let options = Options { launches: true, ..Options::default() };
    let solved = replica.begin(state).solve(&options, NOW);
    let (finished, replica) = solved.finish(state, NOW);
    finished?;
    tell_memory("with one that has decided");
    let options = Options::default();
    let (mut replica, refreshed) = replica.begin(state).refresh(&options, &BTreeSet::new(), NOW);
    tell_memory("while what it has converted is to be adopted");
    if !refreshed.adopt(state, decider, &mut replica) {
        return Err("nothing has changed".into());
    }
    let (replica, ()) = replica.begin(state).ask(|_, _| ());
    tell_memory("once that is adopted");
    drop(replica);
    tell_memory("without the replica again");
    Ok(())
}

fn tell_memory(when: &str) {
    let (now, most) = memory();
    println!("memory {when}: {now} MiB, at most {most} MiB so far");
}

fn say(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| {
        let at = times.get(times.len() * part / 100).copied().unwrap_or_default();
        at.as_secs_f64() * 1e6
    };
    println!("{what}: p50 {:.1}, p99 {:.1} µs of {}", at(50), at(99), times.len());
}
