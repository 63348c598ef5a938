//! Nodes that are decided about together: where some of them stay after all, the others go by what that leaves.

use std::collections::BTreeMap;

use super::*;
use crate::candidate::Candidate;
use crate::simulate::{self, Baseline, what_if};

/// In a NodePool of this name.
fn of_pool(name: &str, node: Object) -> Object {
    let Object::Node(mut node) = node else { panic!("a node") };
    let known = std::sync::Arc::make_mut(&mut node);
    known.metadata.labels.get_or_insert_default().insert("karpenter.sh/nodepool".to_owned(), name.to_owned());
    node.into()
}

fn limited(name: &str, kinds: &[&str], cpus: usize) -> Object {
    let Object::NodePool(mut pool) = pool(name, &json!({"budgets": [{"nodes": "100%"}]}), kinds) else {
        panic!("a NodePool")
    };
    let known = std::sync::Arc::make_mut(&mut pool);
    let mut written = serde_json::to_value(&*known).unwrap();
    merge(&mut written, &json!({"spec": {"limits": {"cpu": cpus.to_string()}}}));
    *known = typed(written);
    pool.into()
}

/// The regression: new spot nodes for all of them are cheapest, but spot may not make way for spot. The spot node stayed,
/// and the others were replaced all the same, beside its free room.
#[test]
fn pods_move_to_the_room_of_a_node_that_stays_after_all() {
    let mut objects = vec![free_pool(&["spot", "on-demand"]), node("spot", "huge", "spot")];
    objects.push(pod("small", "spot", "3500m", &json!({})));
    for name in ["a", "b"] {
        objects.extend([node(name, "medium", "on-demand"), pod(&format!("p{name}"), name, "3", &json!({}))]);
    }
    let found = disrupted(&objects, &[], &Options::default());
    let moves = ["a", "b"].map(|name| format!("0 SingleNodeConsolidation {name} >  $0.4000"));
    assert_eq!(lines(&found), moves);
    assert_eq!(found.settled_hourly_cost.to_string(), "0.64");
}

/// The regression: as above, and new nodes took the share of the limit that the one which stays still has.
#[test]
fn a_node_that_stays_after_all_keeps_its_share_of_the_limit() {
    let mut objects = vec![free_pool(ON_DEMAND), limited("limited", &["spot"], 16)];
    objects.push(of_pool("limited", node("spot", "huge", "spot")));
    objects.push(pod("q", "spot", "3", &json!({})));
    objects.extend([node("a", "small", "on-demand"), pod("p", "a", "1500m", &json!({}))]);
    let found = disrupted(&objects, &[], &Options::default());
    let launched = found.commands.iter().flat_map(|command| &command.replacements).count();
    assert_eq!((launched, found.settled_hourly_cost.to_string()), (0, "0.64".to_owned()), "{:#?}", lines(&found));
}

/// A node: its type, whether it is a spot node of the limited NodePool, and its pods in quarters of a CPU.
type Known = (usize, bool, Vec<u32>);

const TYPES: [&str; 4] = ["small", "medium", "large", "huge"];

/// Nodes of two NodePools, one of them with limits.
fn two_pools(cluster: &[Known], cpus: usize) -> Vec<Object> {
    let mut objects = vec![free_pool(ON_DEMAND), limited("limited", &["spot"], cpus)];
    for (i, (of_type, is_spot, pods)) in cluster.iter().enumerate() {
        let name = format!("n{i}");
        let node = node(&name, TYPES[*of_type], if *is_spot { "spot" } else { "on-demand" });
        objects.push(if *is_spot { of_pool("limited", node) } else { node });
        let mut free = 1_000 * (2 << of_type);
        for (j, quarters) in pods.iter().enumerate() {
            let cpu = i64::from(*quarters) * 250;
            if cpu <= free {
                free -= cpu;
                objects.push(pod(&format!("p{i}-{j}"), &name, &format!("{cpu}m"), &json!({})));
            }
        }
    }
    objects
}

/// The same once all commands are done.
fn settled(objects: &[Object], found: &Disruption) -> Vec<Object> {
    let gone: BTreeSet<&str> =
        found.commands.iter().flat_map(|command| &command.nodes).map(|node| &*node.key.name).collect();
    let places = found.commands.iter().flat_map(|command| &command.places);
    let places: BTreeMap<&str, &str> = places.map(|(key, node)| (&*key.name, &**node)).collect();
    let mut after = Vec::new();
    for object in objects {
        match object {
            Object::Node(known) if gone.contains(known.metadata.name.as_deref().unwrap()) => {}
            Object::Pod(known) => {
                let mut written = serde_json::to_value(&**known).unwrap();
                if let Some(node) = places.get(known.metadata.name.as_deref().unwrap()) {
                    written["spec"]["nodeName"] = json!(node);
                }
                after.push(Object::from(typed::<Pod>(written)));
            }
            other => after.push(other.clone()),
        }
    }
    for (name, launch) in found.commands.iter().flat_map(|command| &command.replacements) {
        let node = node(name, &launch.offering.instance_type, &launch.offering.capacity_type);
        after.push(of_pool(&launch.node_pool.key.name, node));
    }
    after
}

/// The nodes whose pods would all find places on others.
fn needless(objects: &[Object]) -> Vec<String> {
    let (mut state, mut decider) = (state_of(objects, &[]), berth_decisions::Decider::new());
    let options = Options::default().for_what_ifs();
    let prices = Prices::of(state.cluster(now()));
    let survey = Survey::of(&state, &prices, &options, now());
    let baseline = Baseline::of((&mut state, &mut decider), &options.decisions, &prices, now()).unwrap();
    let mut is_needless = |candidate: &&Candidate| {
        let known = (&prices, &baseline);
        let verdict = what_if((&mut state, &mut decider), &[candidate], &options.decisions, known, now()).unwrap();
        matches!(verdict, simulate::Verdict::Fits(replacement) if replacement.n_more == 0)
    };
    let found = survey.candidates.iter().filter(&mut is_needless);
    found.map(|candidate| candidate.node.key.name.to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever was decided together, no launch exceeds a limit, and no node is left or launched whose pods have room on the
    /// others.
    #[test]
    fn what_is_launched_keeps_limits_and_is_needed(
        cluster in prop::collection::vec((0..4_usize, prop::bool::ANY, prop::collection::vec(1..16_u32, 1..4)), 2..7),
        cpus in 4..60_usize,
    ) {
        let objects = two_pools(&cluster, cpus);
        let found = disrupted(&objects, &[], &Options::default());
        let size = |of_type: &str| 2_usize << TYPES.iter().position(|known| *known == of_type).unwrap();
        let launches = found.commands.iter().flat_map(|command| &command.replacements);
        let launched: usize = launches.map(|(_, launch)| launch)
            .filter(|launch| &*launch.node_pool.key.name == "limited")
            .map(|launch| size(&launch.offering.instance_type)).sum();
        let kept = found.kept.iter().map(|kept| &cluster[kept.node.key.name[1..].parse::<usize>().unwrap()]);
        let kept: usize = kept.filter(|known| known.1).map(|known| size(TYPES[known.0])).sum();
        prop_assert!(launched == 0 || launched + kept <= cpus, "{launched} and {kept} of {cpus}: {:?}", lines(&found));
        let after = settled(&objects, &found);
        prop_assert_eq!(needless(&after), Vec::<String>::new(), "{:#?}", lines(&found));
    }
}
