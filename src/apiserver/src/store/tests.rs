use serde_json::{Value, json};

use super::*;

fn draft(name: &str, note: &str) -> Draft {
    let value = json!({"metadata": {"name": name, "resourceVersion": "", "annotations": {"note": note}}});
    Draft::new(&value, Fields::default())
}

fn changes(changes: usize) -> HistoryLimit {
    HistoryLimit { changes, bytes: usize::MAX }
}

fn names(page: &Page) -> Vec<&str> {
    page.items.iter().map(|object| object.name()).collect()
}

#[test]
fn one_version_counts_the_writes_of_all_resources() {
    let store = Store::new(changes(10));
    let pod = store.create("pods", "a/x", draft("x", "")).unwrap();
    let node = store.create("nodes", "n", draft("n", "")).unwrap();
    assert_eq!((pod.revision, node.revision), (2, 3));
    assert_eq!(node.value().pointer("/metadata/resourceVersion"), Some(&Value::from("3")));
    assert_eq!(store.create("pods", "a/x", draft("x", "")).unwrap_err(), Refused::Exists);
    assert_eq!(store.revision(), 3);
    assert_eq!(store.update("pods", "a/x", 1, draft("x", "")).unwrap_err(), Refused::Moved);
    assert_eq!(store.update("pods", "a/x", 2, draft("x", "")).unwrap().revision, 4);
}

#[test]
fn pages_show_the_state_of_one_version_while_writes_go_on() {
    let store = Store::new(changes(100));
    for name in ["a/1", "a/2", "a/3", "b/1"] {
        store.create("pods", name, draft(name, "old")).unwrap();
    }
    let first = store.list("pods", &Range { prefix: "a/", limit: 2, ..Range::default() }).unwrap();
    assert_eq!(names(&first), ["1", "2"]);
    assert_eq!(first.rest, Some(Rest { after: "a/2".to_owned(), remaining: 1 }));
    let third = store.get("pods", "a/3").unwrap();
    store.delete("pods", "a/3", third.revision, draft("a/3", "")).unwrap();
    store.create("pods", "a/25", draft("a/25", "new")).unwrap();
    let next = Range { prefix: "a/", after: Some("a/2"), at: Some(first.revision), limit: 2 };
    let second = store.list("pods", &next).unwrap();
    assert_eq!(names(&second), ["3"]);
    assert_eq!(second.rest, None);
    store.compact();
    assert!(store.list("pods", &next).is_err());
}

#[test]
fn what_is_selected_ends_with_its_page() {
    let store = Store::new(changes(10));
    for name in ["a/1", "a/2", "a/3", "b/2"] {
        store.create("pods", name, draft(name, "")).unwrap();
    }
    let asked = std::cell::Cell::new(0);
    let page = store.select("pods", "a/", 1, |object| {
        asked.set(asked.get() + 1);
        object.name() != "1"
    });
    assert_eq!((names(&page), page.rest.as_ref().unwrap().after.as_str(), asked.get()), (vec!["2"], "a/2", 3));
    let page = store.select("pods", "", 0, |object| object.name() == "2");
    assert_eq!((names(&page), page.rest.is_none(), page.revision), (vec!["2", "2"], true, 5));
}

#[test]
fn history_beyond_its_limit_is_compacted() {
    let store = Store::new(changes(2));
    for n in 0..4 {
        store.create("pods", &format!("a/{n}"), draft("x", "")).unwrap();
    }
    assert_eq!(store.changes_after("pods", 2, 10).unwrap_err(), Compacted { oldest: 3 });
    assert_eq!(store.changes_after("pods", 3, 10).unwrap().len(), 2);
}

#[test]
fn history_is_bounded_by_bytes_and_keeps_the_last_change() {
    let store = Store::new(HistoryLimit { changes: 10_000, bytes: 1_000_000 });
    let large = "x".repeat(100_000);
    store.create("maps", "a/x", draft("x", "")).unwrap();
    for n in 0..100 {
        let revision = store.revision();
        store.update("maps", "a/x", revision, draft("x", &format!("{large}{n}"))).unwrap();
        let kept = store.inner.read().collections["maps"].history.iter().map(Change::bytes).sum::<usize>();
        assert!(kept <= 1_000_000, "{kept} bytes after {n} updates");
    }
    // Each change keeps the text before it; the last text is the object's own.
    assert_eq!(store.changes_after("maps", 1, 10).unwrap_err(), Compacted { oldest: 93 });
    assert_eq!(store.changes_after("maps", 93, 10).unwrap().len(), 9);
    // One change that is larger than the bound is still seen by who is up to date.
    let revision = store.revision();
    store.update("maps", "a/x", revision, draft("x", &"x".repeat(2_000_000))).unwrap();
    assert_eq!(store.changes_after("maps", revision, 10).unwrap().len(), 1);
    store.compact();
    assert_eq!(store.inner.read().collections["maps"].history_bytes, 0);
}

#[test]
fn pages_of_one_list_share_a_state_that_is_put_together_once() {
    let store = Store::new(changes(1000));
    for n in 0..100 {
        store.create("pods", &format!("a/{n:03}"), draft("x", "")).unwrap();
    }
    let frozen = |store: &Store, at| store.inner.read().collections["pods"].frozen.lock().at(at);
    let first = store.list("pods", &Range { limit: 10, ..Range::default() }).unwrap();
    assert_eq!(first.rest.as_ref().unwrap().remaining, 90);
    // A list that nobody has gone on with costs as much as its page.
    assert!(frozen(&store, first.revision).is_none());
    let next = |at| Range { after: Some("a/009"), at: Some(at), limit: 1, ..Range::default() };
    store.list("pods", &next(first.revision)).unwrap();
    let state = frozen(&store, first.revision).unwrap();
    // Writes to others make no other state, and those to its own no difference.
    store.create("nodes", "n", draft("n", "")).unwrap();
    let beside = store.list("pods", &next(store.revision())).unwrap();
    assert!(Arc::ptr_eq(&state, &frozen(&store, beside.revision).unwrap()));
    for n in 0..100 {
        let known = store.get("pods", &format!("a/{n:03}")).unwrap();
        store.delete("pods", &known.key, known.revision, draft("x", "")).unwrap();
    }
    let (mut page, mut n_seen) = (first, 10);
    while let Some(rest) = page.rest.take() {
        assert_eq!(rest.remaining, 100 - n_seen);
        let range = Range { after: Some(&rest.after), at: Some(page.revision), limit: 10, ..Range::default() };
        page = store.list("pods", &range).unwrap();
        n_seen += page.items.len();
    }
    assert_eq!(n_seen, 100);
    store.compact();
    assert!(frozen(&store, page.revision).is_none());
}

#[test]
fn pages_of_the_past_show_what_there_was_whatever_has_changed_since() {
    let store = Store::new(changes(1000));
    let mut dice = 1_u64;
    let mut seen: Vec<(u64, Vec<String>)> = Vec::new();
    for _ in 0..300 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("{}/{}", ["a", "b"][(dice >> 40) as usize % 2], (dice >> 50) % 9);
        match store.get("pods", &key) {
            Some(known) if (dice >> 33).is_multiple_of(2) => {
                store.delete("pods", &key, known.revision, draft("x", "")).unwrap();
            }
            Some(known) => drop(store.update("pods", &key, known.revision, draft("x", "")).unwrap()),
            None => drop(store.create("pods", &key, draft("x", "")).unwrap()),
        }
        let all = store.list("pods", &Range { prefix: "a/", ..Range::default() }).unwrap();
        let said = |object: &Arc<Object>| format!("{}@{}", object.key, object.revision);
        seen.push((all.revision, all.items.iter().map(said).collect()));
        let (at, there) = &seen[(dice >> 20) as usize % seen.len()];
        let mut paged: Vec<String> = Vec::new();
        let mut after = None;
        loop {
            let range = Range { prefix: "a/", after: after.as_deref(), at: Some(*at), limit: 2 };
            let page = store.list("pods", &range).unwrap();
            paged.extend(page.items.iter().map(said));
            let Some(rest) = page.rest else { break };
            assert_eq!(rest.remaining, there.len() - paged.len());
            after = Some(rest.after);
        }
        assert_eq!(paged, *there);
    }
}

#[test]
fn what_comes_after_a_prefix_does_not_begin_with_it() {
    let max = char::MAX;
    assert_eq!(after_all("a/"), Some("a0".to_owned()));
    assert_eq!(after_all(&format!("a{max}{max}")), Some("b".to_owned()));
    assert_eq!(after_all("a\u{d7ff}"), Some("a\u{e000}".to_owned()));
    assert_eq!((after_all(""), after_all(&max.to_string())), (None, None));
}

#[test]
fn a_field_of_a_text_is_found_without_reading_the_others() {
    let object = json!({"apiVersion": "v1", "kind": "X", "data": {"metadata": "{\"metadata\":1}", "a\\": "\\\"}"},
        "metadata": {"name": "a", "labels": {"x": "}"}, "list": [1, [2, {"y": "]"}]]}, "n": -1.5e3, "last": null});
    let text = text_of(&object);
    for field in ["apiVersion", "data", "metadata", "n", "last"] {
        let found = member(&text, field).map(|value| serde_json::from_slice::<Value>(value).unwrap());
        assert_eq!(found.as_ref(), object.get(field), "{field}");
    }
    assert_eq!(member(&text, "name"), None);
    // What is no object has no fields, and ends nothing.
    for text in ["", "{", "{}", "{\"a", "{\"a\":", "{\"a\":1", "{\"a\":\"\\", "[1]", "{\"a\":}"] {
        assert!(member(text.as_bytes(), "b").is_none(), "{text}");
    }
}

#[test]
fn who_has_seen_all_but_a_few_changes_is_told_those_as_who_has_seen_none() {
    let store = Store::new(changes(100));
    for n in 0..3 * FEW {
        store.create("pods", &format!("a/{n}"), draft("x", "")).unwrap();
    }
    let all = 2..=u64::try_from(3 * FEW + 1).unwrap();
    for seen in 0..=all.clone().last().unwrap() {
        let told = store.changes_after("pods", seen, usize::MAX).unwrap();
        let told: Vec<u64> = told.iter().map(|change| change.object.revision).collect();
        assert_eq!(told, all.clone().filter(|revision| *revision > seen).collect::<Vec<_>>(), "after {seen}");
    }
    assert_eq!(store.changes_after("pods", 2, 3).unwrap().len(), 3);
}

#[test]
fn what_was_written_lately_is_read_without_its_text_once() {
    let store = Store::new(changes(10));
    let kept = |note: &str| {
        let value = json!({"metadata": {"name": "x", "resourceVersion": "", "annotations": {"note": note}}});
        Draft::new(&value, Fields::default()).keeping(value)
    };
    let created = store.create("pods", "a/x", kept("")).unwrap();
    assert!(created.is_fresh());
    let read = created.value();
    assert_eq!(read.pointer("/metadata/resourceVersion"), Some(&Value::from("2")));
    assert!(!created.is_fresh() && created.value() == read, "then its text is read");
    let updated = store.update("pods", "a/x", 2, kept("new")).unwrap();
    assert_eq!(updated.value(), serde_json::from_slice::<Value>(&updated.body).unwrap());
    let long = store.update("pods", "a/x", 3, kept(&"x".repeat(20_000))).unwrap();
    assert!(!long.is_fresh(), "of large objects the text alone is kept");
}

#[test]
fn only_what_was_written_last_is_kept_beside_its_text() {
    let store = Store::new(changes(10));
    let create = |n: usize| {
        let value = json!({"metadata": {"name": n, "resourceVersion": ""}});
        store.create("pods", &format!("a/{n}"), Draft::new(&value, Fields::default()).keeping(value)).unwrap()
    };
    let all: Vec<Arc<Object>> = (0..FRESH + 2).map(create).collect();
    assert_eq!(all.iter().filter(|object| object.is_fresh()).count(), FRESH);
    assert!(!all[1].is_fresh() && all[2].is_fresh());
}
