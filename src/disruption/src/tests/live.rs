//! A process that acts round by round: each command is decided anew in turn, its replacements come up, and its pods come to the
//! places that are held for them. What that ends with is what a plan says, and what is told to be saved adds up.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_decisions::{Decider, ExpectedNodes};

use super::whole::half_full;
use super::*;

/// A cluster in which commands are carried out.
struct Played {
    state: State,
    decider: Decider,
    /// So many nodes were launched, and pods made anew.
    n_made: usize,
    /// What every command said that it saves.
    told: Money,
    n_commands: usize,
    /// Commands that did not hold, and those whose pods found no place once replacements were up.
    n_given_up: usize,
    n_stuck: usize,
    /// Whether commands are decided in turn, each for its own pods alone, and whether places are held.
    in_turn: bool,
    holds_places: bool,
}

fn applied(state: &mut State, object: Object) {
    state.apply(Event::Applied(object)).unwrap();
}

fn deleted(state: &mut State, object: &Object) {
    let object = object.reference().unwrap();
    state.apply(Event::Deleted { object, resource_version: None }).unwrap();
}

impl Played {
    fn new(objects: &[Object], slots: &[(&str, u32, &str, u32)]) -> Self {
        let state = state_of(objects, slots);
        Played {
            state,
            decider: Decider::new(),
            n_made: 0,
            told: Money::ZERO,
            n_commands: 0,
            n_given_up: 0,
            n_stuck: 0,
            in_turn: true,
            holds_places: true,
        }
    }

    /// Does what a look lets begin. Says what all nodes cost before, and whether there was anything.
    fn act(&mut self, options: &Options) -> (Money, bool) {
        let options = Options { only_now: true, ..options.clone() };
        let found = disrupt_with(&mut self.state, &mut self.decider, &options, now()).unwrap();
        assert!(found.commands.iter().all(|command| command.batch == 0), "{:#?}", lines(&found));
        for node in found.commands.iter().flat_map(|command| &command.nodes) {
            let tainted = self.state.node(&node.key.name).unwrap();
            let mut tainted = serde_json::to_value(tainted.to_node()).unwrap();
            merge(
                &mut tainted,
                &json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}),
            );
            applied(&mut self.state, Object::from(typed::<Node>(tainted)));
        }
        for (at, command) in found.commands.iter().enumerate() {
            let later = found.commands.iter().skip(at + 1).flat_map(|command| &command.nodes);
            let undecided = later.filter(|_| self.in_turn).map(|node| node.key.name.to_string()).collect();
            self.carry_out(command, &Options { undecided, ..options.clone() });
        }
        self.n_commands += found.commands.len();
        (found.hourly_cost, !found.commands.is_empty())
    }

    fn carry_out(&mut self, command: &Command, options: &Options) {
        let mut options = options.clone();
        let mut places: BTreeMap<String, String> = BTreeMap::new();
        let name = |pod: &berth_state::Key| format!("{}/{}", pod.namespace, pod.name);
        let there = command.places.iter().filter(|(_, node)| self.state.node(node).is_some());
        places.extend(there.map(|(pod, node)| (name(pod), node.clone())));
        options.decisions.expected = self.expected(&places);
        let asked = (&command.nodes, command.method);
        let renewed = renew((&mut self.state, &mut self.decider), asked.0, asked.1, &options, now()).unwrap();
        let Ok(renewed) = renewed else {
            // Those before it found something better.
            self.n_given_up += 1;
            return self.untaint(command);
        };
        self.told += renewed.savings;
        for launch in &renewed.launches {
            self.n_made += 1;
            let new = format!("new-{:03}", self.n_made);
            if let Some(id) = &launch.offering.reservation_id {
                assert!(self.state.take_slot(id, now()), "{launch:#?}");
            }
            applied(&mut self.state, node(&new, &launch.offering.instance_type, &launch.offering.capacity_type));
            places.extend(launch.pods.iter().map(|pod| (name(&pod.key), new.clone())));
        }
        options.decisions.expected = self.expected(&places);
        let confirmed = confirm((&mut self.state, &mut self.decider), asked.0, asked.1, &options, now()).unwrap();
        let Ok(confirmed) = confirmed else {
            self.n_stuck += 1;
            return self.untaint(command);
        };
        for (pod, onto) in confirmed {
            let before = self.state.get(&pod).unwrap();
            deleted(&mut self.state, &before);
            let Object::Pod(before) = before else { panic!("a pod") };
            let mut next = (*before).clone();
            self.n_made += 1;
            next.metadata.name = Some(format!("again-{:04}", self.n_made));
            next.metadata.uid = Some(format!("uid-again-{:04}", self.n_made));
            next.spec.get_or_insert_default().node_name = Some(onto);
            applied(&mut self.state, Object::from(next));
        }
        for node in &command.nodes {
            let gone = self.state.get(&node.key).unwrap();
            deleted(&mut self.state, &gone);
        }
    }

    fn expected(&self, places: &BTreeMap<String, String>) -> ExpectedNodes {
        let mut by_node: BTreeMap<Arc<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for (pod, node) in places.iter().filter(|_| self.holds_places) {
            by_node.entry(node.as_str().into()).or_default().insert(pod.as_str().into());
        }
        by_node.into_iter().map(|(node, pods)| (node, Arc::new(pods))).collect()
    }

    fn untaint(&mut self, command: &Command) {
        for node in &command.nodes {
            let mut node = self.state.node(&node.key.name).unwrap().to_node();
            node.spec.get_or_insert_default().taints = None;
            applied(&mut self.state, Object::from(node));
        }
    }

    /// Acts until nothing is left to do; says what all nodes cost then.
    fn settle(&mut self, options: &Options) -> Money {
        let before = disrupted_cost(&mut self.state, options);
        for _ in 0..60 {
            let (cost, has_more) = self.act(options);
            if !has_more {
                assert_eq!(self.told, before - cost, "savings of all commands add up to what the bill changes by");
                return cost;
            }
        }
        panic!("it does not settle")
    }
}

fn disrupted_cost(state: &mut State, options: &Options) -> Money {
    disrupt(state, &Options { only_empty: true, ..options.clone() }, now()).unwrap().hourly_cost
}

#[test]
fn what_drifts_that_go_together_cost_adds_up_to_the_bill() {
    let objects = rolls::on_slots(3, ON_DEMAND);
    let mut played = Played::new(&objects, &rolls::FULL);
    let (cost, _) = played.act(&Options::default());
    assert_eq!((cost, played.n_commands), (Money::ZERO, 3));
    assert_eq!(played.told.to_string(), "-0.6");
    assert_eq!(disrupted_cost(&mut played.state, &Options::default()).to_string(), "0.6");
    // Where one launches for the pods of others, too, it says so: what each launches is its own to tell.
    let mut at_once = Played { in_turn: false, ..Played::new(&objects, &rolls::FULL) };
    at_once.act(&Options::default());
    assert_eq!(at_once.told, Money::ZERO - disrupted_cost(&mut at_once.state, &Options::default()));
}

#[test]
fn a_process_that_acts_ends_with_what_a_plan_says() {
    let slots = [("large", 0, "cr-1", 1)];
    let mut n_stuck = 0;
    for case in 0..12 {
        for (share, spot_to_spot) in [("100%", true), ("30%", true), ("100%", false), ("30%", false)] {
            let mut objects = half_full(case, 12);
            let budgets = json!({"budgets": [{"nodes": share}]});
            objects[0] = pool("pool", &budgets, &["spot", "on-demand", "reserved"]);
            let options = Options { spot_to_spot, ..Options::default() };
            let plan = disrupted(&objects, &slots, &options).settled_hourly_cost;
            let mut played = Played::new(&objects, &slots);
            assert_eq!(played.settle(&options), plan, "{case} {share} {spot_to_spot}");
            assert_eq!(
                (played.n_given_up, played.n_stuck),
                (0, 0),
                "of {} commands, {case} {share}",
                played.n_commands
            );
            let mut without = Played { holds_places: false, ..Played::new(&objects, &slots) };
            without.act(&options);
            n_stuck += without.n_given_up + without.n_stuck;
        }
    }
    assert!(n_stuck > 0, "places are held in vain");
}

#[test]
fn what_has_begun_goes_on_at_half_the_price_with_replacements_too() {
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1500m", &json!({}))];
    let at = |cents: i128| Options { eviction_price: Money::from_pico(cents * 10_000_000_000), ..Options::default() };
    let nodes: Vec<_> = disrupted(&objects, &[], &at(0)).commands.remove(0).nodes;
    assert_eq!(disrupted(&objects, &[], &at(80)).commands, [], "two units of disruption for $1.40");
    let renewed = |price: i128| {
        let (mut state, mut decider) = (state_of(&objects, &[]), Decider::new());
        let method = Method::SingleNodeConsolidation;
        renew((&mut state, &mut decider), &nodes, method, &at(price), now()).unwrap()
    };
    let goes_on = renewed(80).unwrap();
    assert_eq!((goes_on.launches.len(), goes_on.savings.to_string()), (1, "1.4".to_owned()));
    assert!(renewed(140).is_err());
}

#[test]
fn nodes_that_cost_nothing_stay_while_paid_ones_wait_for_their_budget() {
    // One paid node goes at a time, and the pod of the second finds a place on the empty slot alone.
    let mut objects = vec![
        pool("pool", &json!({"budgets": [{"nodes": "1", "reasons": ["Underutilized"]}]}), WITH_SLOTS),
        node("a", "large", "on-demand"),
        node("b", "large", "on-demand"),
        node("slot", "small", "reserved"),
        pod("p", "a", "7", &json!({})),
        pod("q", "b", "1500m", &json!({})),
    ];
    let only_now = Options { only_now: true, ..Options::default() };
    let first = disrupted(&objects, &[], &only_now);
    assert_eq!(lines(&first), ["0 SingleNodeConsolidation b >  $0.8000"], "its pod comes to the slot");
    // Where the budget lets none go now, the empty slot stays for those that wait.
    let going = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    let Object::Node(c) = node("c", "small", "on-demand") else { panic!("a node") };
    let mut c = serde_json::to_value(&*c).unwrap();
    merge(&mut c, &going);
    objects.push(Object::from(typed::<Node>(c)));
    assert_eq!(lines(&disrupted(&objects, &[], &only_now)), Vec::<String>::new());
    let only_empty = Options { only_empty: true, ..only_now.clone() };
    assert_eq!(lines(&disrupted(&objects, &[], &only_empty)), Vec::<String>::new());
    // Where none may ever go, nobody waits for it.
    objects[0] = pool("pool", &json!({"budgets": [{"nodes": "0", "reasons": ["Underutilized"]}]}), WITH_SLOTS);
    assert_eq!(lines(&disrupted(&objects, &[], &only_now)), ["0 Emptiness slot >  $0.0000"]);
}
