//! Names of resources that come and go beyond what is told apart.

use std::collections::BTreeMap;

use berth_model::ResourceLimit;
use jiff::ToSpan;

use super::*;

/// cpu, memory, pods, and two more that pods may ask for.
const FEW: ResourceLimit = ResourceLimit { asked: 5, all: 8 };

fn few() -> State {
    State::new(Options { resource_limit: FEW, ..Options::default() })
}

fn mk_asking(name: &str, version: u64, created: u64, resources: &[String]) -> Object {
    let mut requests = json!({"cpu": "1"});
    for resource in resources {
        requests[format!("example.com/{resource}")] = "1".into();
    }
    let created = format!("1970-01-01T00:{:02}:{:02}Z", created / 60 % 60, created % 60);
    Object::from(typed::<Pod>(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-{created}"),
            "resourceVersion": version.to_string(), "creationTimestamp": created},
        "spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}})))
}

fn asking(name: &str, version: u64, resource: &str) -> Event {
    Event::Applied(mk_asking(name, version, version, &[resource.to_owned()]))
}

/// Who waits, with what they ask for by name and why they have no place.
fn waiting(state: &mut State, now: Time) -> Vec<String> {
    let cluster = state.cluster(now);
    let of_row = |row: &berth_model::PendingRow| {
        let spec = &cluster.specs[row.spec.index()];
        let amounts = cluster.resource_names.iter().filter(|(id, _)| spec.requests.get(*id) > 0);
        let mut asked: Vec<&str> = amounts.map(|(_, name)| cluster.symbols.text(name)).collect();
        asked.sort_unstable();
        let names = row.members.iter().map(|run| run.name.to_string());
        names.map(|name| format!("{name}: {asked:?} {:?}", spec.refusal)).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = cluster.pending.iter().flat_map(of_row).collect();
    lines.sort();
    lines
}

fn refused(state: &mut State, now: Time) -> Vec<String> {
    let lines = waiting(state, now).into_iter().filter(|line| line.contains("beyond the first"));
    lines.map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn the_pod_that_asks_for_one_resource_too_many_is_refused_alone_until_another_is_free() {
    let mut state = few();
    for (version, name) in (1..).zip(["c", "b", "a"]) {
        state.apply(asking(name, version, name)).unwrap();
        assert!(version < 3 || refused(&mut state, NOW) == ["a"], "the youngest, whatever its name");
    }
    state.apply(asking("d", 4, "c")).unwrap();
    assert_eq!(refused(&mut state, NOW), ["a"], "what is counted may be asked for by others");
    state.apply(deleted(&mk_asking("b", 5, 2, &[]), 5)).unwrap();
    assert_eq!(refused(&mut state, NOW), Vec::<String>::new());
    state.apply(asking("e", 6, "e")).unwrap();
    assert_eq!(refused(&mut state, NOW), ["e"]);
}

#[test]
fn a_pod_that_names_too_many_resources_takes_none_from_others() {
    let mut state = few();
    state.cluster(NOW);
    let many: Vec<String> = (0..9).map(|at| format!("many-{at}")).collect();
    state.apply(Event::Applied(mk_asking("many", 1, 1, &many))).unwrap();
    for (version, name) in (2..).zip(["a", "b"]) {
        state.apply(asking(name, version, name)).unwrap();
    }
    assert_eq!(refused(&mut state, NOW), ["many"]);
    assert_eq!(waiting(&mut state, NOW), waiting(&mut state.snapshot(), NOW));
}

#[test]
fn a_pod_takes_no_name_by_its_annotations_that_nodes_may_need() {
    let mut state = few();
    let Object::Pod(mut pod) = mk_asking("p", 1, 1, &[]) else { unreachable!() };
    let names: Vec<String> = (0..20).map(|at| format!("example.com/r{at}")).collect();
    let exact = json!({"resourceNames": names}).to_string();
    let key = "scheduling.koordinator.sh/exact-match-reservation";
    Arc::make_mut(&mut pod).metadata.annotations = Some([(key.to_owned(), exact)].into());
    state.apply(Event::Applied(Object::Pod(pod))).unwrap();
    assert_eq!(state.cluster(NOW).resource_names.len(), FEW.asked);
}

#[test]
fn after_any_changes_beyond_the_limit_the_cluster_is_as_converted_anew() {
    let mut seed = 7_u64;
    let mut roll = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..60 {
        let mut state = few();
        let mut known: BTreeMap<String, Object> = BTreeMap::new();
        for version in 1..40 {
            let name = format!("p{}", roll(8));
            let event = match known.remove(&name) {
                Some(object) if roll(2) == 0 => deleted(&object, version),
                _ => {
                    let resources: Vec<String> = (0..roll(3)).map(|_| format!("r{}", roll(6))).collect();
                    let object = mk_asking(&name, version, roll(50), &resources);
                    known.insert(name, object.clone());
                    Event::Applied(object)
                }
            };
            state.apply(event).unwrap();
            assert_eq!(waiting(&mut state, NOW), waiting(&mut state.snapshot(), NOW));
        }
    }
}

#[test]
fn a_resource_that_nobody_named_before_has_nothing_converted_anew() {
    let mut state = State::new(Options::default());
    state.cluster(NOW);
    for version in 1..50 {
        state.apply(asking("p", version, &format!("r{version}"))).unwrap();
        assert_eq!(waiting(&mut state, NOW), waiting(&mut state.snapshot(), NOW));
    }
    assert_eq!(state.n_conversions(), 1, "{:?}", state.conversions());
}

#[test]
fn who_keeps_naming_new_resources_has_everything_converted_anew_once_a_minute() {
    let mut state = few();
    for at in 0..4_000 {
        state.apply(Event::Applied(mk_pod(&format!("p{at}"), "u", 1, None))).unwrap();
    }
    state.cluster(NOW);
    for version in 1..100 {
        state.apply(asking(&format!("own-{version}"), version, &version.to_string())).unwrap();
        state.cluster(NOW);
    }
    assert_eq!(state.n_conversions(), 1, "{:?}", state.conversions());
    // Of a hundred all but two are refused; these go.
    for (version, at) in (100..).zip([1, 2]) {
        let gone = mk_asking(&format!("own-{at}"), version, at, &[]);
        state.apply(deleted(&gone, version)).unwrap();
    }
    assert_eq!(refused(&mut state, NOW).len(), 97);
    let later = NOW + 1.minute();
    assert!(!state.is_converted(later), "so that another thread may do it");
    assert_eq!(refused(&mut state, later).len(), 95);
    assert_eq!(state.n_conversions(), 2, "{:?}", state.conversions());
    assert!(state.is_converted(later + 1.hour()), "nothing has changed since");
}
