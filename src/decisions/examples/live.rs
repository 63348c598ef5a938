//! Measures decisions over a large cluster that changes, with a decision from the whole beside them in the same run.
//!
//! `cargo run --release -p berth-decisions --example live -- [nodes] [pods] [ReplicaSets]`, 5000, 100000 and 3000 where nothing
//! is said: a ReplicaSet for each Deployment, so that all pods are spread by default. Without any (0) few have rules.

mod figures;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_decisions::{Decider, Decision, Options, decide};
use berth_state::{Event, Kind, Object, Outcome, Patch, State};

use figures::{DEPLOYMENTS, Failure, NOW, arguments, cpu_time, filled, memory, node, node_with, pod};

const ROUNDS: usize = 2_000;

fn main() -> Result<(), Failure> {
    let [n_nodes, n_pods, n_sets] = arguments([5_000, 100_000, DEPLOYMENTS + 1_000])?;
    let mut state = filled(n_nodes, n_pods, n_sets)?;
    tell_memory("once it was told the objects");
    let start = Instant::now();
    state.cluster(NOW);
    println!("{n_nodes} nodes, {n_pods} pods: converted in {:?}", start.elapsed());
    tell_memory("once they are converted");

    let mut live = Bench { state, decider: Decider::new(), next: n_pods };
    let first = live.pod_of(0)?;
    live.state.apply(Event::Applied(first))?;
    let start = Instant::now();
    decide(&mut live.state, &Options::default(), NOW)?;
    println!("a decision from the whole: {:?}", start.elapsed());
    let start = Instant::now();
    let decision = live.decider.decide(&mut live.state, &Options::default(), NOW)?;
    println!("the first that is kept: {:?}", start.elapsed());
    tell_memory("after the first decisions");
    live.carry_out(&decision)?;

    live.measure("a class asked before", ROUNDS, |round| round % 20)?;
    live.measure("every class for the first time", DEPLOYMENTS, |round| round)?;
    live.measure("a class asked 2,000 decisions ago", DEPLOYMENTS, |round| round)?;
    live.measure("a class asked before", ROUNDS, |round| round % 20)?;
    live.measure("a class never seen", 100, |round| DEPLOYMENTS + round * 10)?;
    live.measure("one never seen, with a spread", 20, |round| DEPLOYMENTS + round * 10 + 1)?;

    live.change_nodes(n_nodes)?;

    // Many at once.
    for _ in 0..1_000 {
        let pod = live.pod_of(live.next % 20)?;
        live.state.apply(Event::Applied(pod))?;
    }
    let start = Instant::now();
    let decision = live.decider.decide(&mut live.state, &Options::default(), NOW)?;
    println!("1,000 pods at once: {:?}, {} bound", start.elapsed(), decision.bindings.len());
    live.carry_out(&decision)?;
    live.remove_in_turn(n_nodes)?;
    let start = Instant::now();
    decide(&mut live.state, &Options::default(), NOW)?;
    println!("a decision from the whole again: {:?}", start.elapsed());
    tell_memory("at the end");
    Ok(())
}

fn tell_memory(when: &str) {
    let (now, most) = memory();
    println!("memory {when}: {now} MiB, at most {most} MiB so far");
}

struct Bench {
    state: State,
    decider: Decider,
    next: usize,
}

impl Bench {
    fn pod_of(&mut self, deployment: usize) -> Result<Object, Failure> {
        self.next += 1;
        pod(self.next, deployment, 0, None)
    }

    // One pod is added, placed, written, and seen on its node.
    fn measure(&mut self, what: &str, rounds: usize, deployment: impl Fn(usize) -> usize) -> Result<(), Failure> {
        let (mut decided, mut whole) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
        let mut bound = 0;
        for round in 0..rounds {
            let pod = self.pod_of(deployment(round))?;
            let start = cpu_time();
            self.state.apply(Event::Applied(pod))?;
            let decision = self.decider.decide(&mut self.state, &Options::default(), NOW)?;
            decided.push(cpu_time().saturating_sub(start));
            bound += decision.bindings.len();
            let spent = self.carry_out(&decision)?;
            whole.push(cpu_time().saturating_sub(start).min(decided.last().copied().unwrap_or_default() + spent));
        }
        decided.sort_unstable();
        whole.sort_unstable();
        let at = |times: &[Duration], part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        println!(
            "{what}: added and placed p50 {:?} p99 {:?}; with its binding assumed, written and seen p50 {:?} p99 {:?}; \
             {bound} of {rounds} bound",
            at(&decided, 50),
            at(&decided, 99),
            at(&whole, 50),
            at(&whole, 99)
        );
        Ok(())
    }

    // A node comes, changes or goes, and a pod is placed after it.
    fn change_nodes(&mut self, n_nodes: usize) -> Result<(), Failure> {
        let before = self.decider.n_made_anew();
        for what in ["comes", "changes", "goes"] {
            let mut decided = Vec::with_capacity(200);
            for round in 0..200 {
                let pod = self.pod_of(round % 20)?;
                let start = cpu_time();
                let name = n_nodes + round;
                match what {
                    "comes" => self.state.apply(Event::Applied(node(name)?))?,
                    "changes" => self.state.apply(Event::Applied(node_with(name, name % 3 + 1, 64_000)?))?,
                    _ => {
                        let object = berth_state::Key::new(Kind::Node, "", &format!("node-{name}")).with_uid(None);
                        self.state.apply(Event::Deleted { object, resource_version: None })?
                    }
                };
                self.state.apply(Event::Applied(pod))?;
                let decision = self.decider.decide(&mut self.state, &Options::default(), NOW)?;
                decided.push(cpu_time().saturating_sub(start));
                self.carry_out(&decision)?;
            }
            decided.sort_unstable();
            let at = |part: usize| decided.get(decided.len() * part / 100).copied().unwrap_or_default();
            println!("a node {what}, and a pod is placed: p50 {:?} p99 {:?}", at(50), at(99));
        }
        println!("made anew meanwhile: {} times", self.decider.n_made_anew() - before);
        Ok(())
    }

    // What if this node went, asked of each in turn.
    fn remove_in_turn(&mut self, n_nodes: usize) -> Result<(), Failure> {
        // Each class finds its nodes when it is asked for first: most of that falls to the first nodes.
        let n_first = n_nodes.min(2_000);
        let first = self.remove_each("for the first time", 0..n_first)?;
        self.remove_each("again", 0..n_first)?;
        if n_first < n_nodes {
            let rest = self.remove_each("the others for the first time", n_first..n_nodes)?;
            let (asked, cpu) = (first.0 + rest.0, first.1 + rest.1);
            println!(
                "all nodes for the first time: {:.0} a CPU second of {asked}",
                f64::from(asked) / cpu.as_secs_f64()
            );
        }
        let mut fork = self.state.fork();
        let node = berth_state::Key::new(Kind::Node, "", "node-1000").with_uid(None);
        let start = Instant::now();
        fork.remove_node(&node, NOW)?;
        let options = Options { launches: true, ..Options::default() };
        decide(fork.state(), &options, NOW)?;
        println!("the same by a fork that is converted anew: {:?} a node", start.elapsed());
        Ok(())
    }

    // How many were asked for, and the CPU time of that.
    fn remove_each(&mut self, what: &str, nodes: Range<usize>) -> Result<(u32, Duration), Failure> {
        let (mut asked, mut moved, mut left) = (0_u32, 0, 0);
        let (start, cpu) = (Instant::now(), cpu_time());
        for node in nodes {
            let name = format!("node-{node}");
            let found = self.decider.without_node(&mut self.state, &name, NOW)?;
            let Some(displaced) = found else { continue };
            (asked, moved, left) = (asked + 1, moved + displaced.moves().count(), left + displaced.left().count());
        }
        let cpu = cpu_time().saturating_sub(cpu);
        let rate = f64::from(asked) / start.elapsed().as_secs_f64();
        let of_cpu = f64::from(asked) / cpu.as_secs_f64();
        println!(
            "without a node, each in turn, {what}: {rate:.0} nodes/s of {asked}, {of_cpu:.0} a CPU second; {moved} pods move, \
             {left} stay"
        );
        Ok((asked, cpu))
    }

    // How long the state took.
    fn carry_out(&mut self, decision: &Decision) -> Result<Duration, Failure> {
        let mut spent = Duration::ZERO;
        for binding in &decision.bindings {
            let seen = self.state.get(&binding.object.key);
            let Some(Object::Pod(mut seen)) = seen else { continue };
            let changed = Arc::make_mut(&mut seen);
            changed.spec.get_or_insert_default().node_name = Some(binding.node.key.name.to_string());
            changed.metadata.resource_version = Some("2".to_owned());
            let start = cpu_time();
            let patch =
                Patch::Bind { node: Arc::clone(&binding.node.key.name), annotations: binding.annotations.clone() };
            let write = self.state.assume(&binding.object, patch).ok_or("nothing to bind")?;
            let outcome = Outcome::Written { resource_version: Some("2".to_owned()), uid: None };
            self.state.apply(Event::Settled { assumption: write.assumption, outcome })?;
            self.state.apply(Event::Applied(Object::Pod(seen)))?;
            spent += cpu_time().saturating_sub(start);
        }
        Ok(spent)
    }
}
