//! Why many nodes stay is told a part at a time.

use berth_disruption::{Disruption, Kept, Reason, Why};

use super::*;

fn kept(n: usize, text: &str) -> Vec<Kept> {
    let of = |at: usize| Kept {
        node: berth_state::Key::new(berth_state::Kind::Node, "", &format!("n{at}")).with_uid(Some(&*format!("n{at}"))),
        reasons: vec![Reason::of_pods(format!("{text} {at}"), 1)],
        why: Why::Unconsolidatable,
    };
    (0..n).map(of).collect()
}

/// What is told of which object, where it is one of these.
fn told(effects: Vec<Effect>) -> Vec<(String, String)> {
    let text = |event: &Value, at: &str| event.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let told = effects.into_iter().filter_map(|effect| match effect {
        Effect::Write(None, write) => match write.op {
            Op::Create(event) if event["reason"] == "Unconsolidatable" => {
                Some((text(&event, "/involvedObject/name"), text(&event, "/message")))
            }
            _ => None,
        },
        _ => None,
    });
    told.collect()
}

fn look(core: &mut Core, kept: Vec<Kept>) {
    let found = Some(Ok(Disruption { kept, ..Disruption::default() }));
    core.handle(Input::Found(Box::new(found)), start());
}

/// What is told until nothing is left to be told, part by part.
fn parts(core: &mut Core) -> Vec<Vec<(String, String)>> {
    let mut parts = vec![told(core.work(start()))];
    for at in 1..=20 {
        parts.push(told(core.work(after(start(), Duration::from_millis(10 * at)))));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn the_same_is_told_of_many_nodes_in_parts_as_at_once() {
    let (mut whole, mut sliced) = (at_rest(120), at_rest(120));
    whole.tell_some_kept(&kept(120, "no room"), start());
    let whole = told(whole.work(start()));
    assert_eq!(whole.len(), 240, "of each node and its NodeClaim");
    look(&mut sliced, kept(120, "no room"));
    let parts = parts(&mut sliced);
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 40], "pods are bound between two of them");
    assert_eq!(parts.concat(), whole);
}

#[test]
fn what_a_later_look_finds_is_told_in_place_of_what_is_left() {
    let mut core = at_rest(120);
    look(&mut core, kept(120, "no room"));
    let first = told(core.work(start()));
    look(&mut core, kept(60, "no place"));
    let later = parts(&mut core).concat();
    assert_eq!((first.len(), later.len()), (100, 120));
    assert!(later.iter().all(|(_, message)| message.starts_with("no place")), "{later:?}");
}
