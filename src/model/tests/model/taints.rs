//! Taints and tolerations.

use berth_model::{Effect, Symbols, Taint, Toleration, TolerationOperator, first_untolerated};

use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
use TolerationOperator::{Equal, Exists, Gt, Lt};

fn mk_taint(symbols: &mut Symbols, key: &str, value: &str, effect: Effect) -> Taint {
    Taint { key: symbols.intern(key), value: symbols.intern(value), effect }
}

type Row = (Option<&'static str>, TolerationOperator, &'static str, Option<Effect>);

fn mk_toleration(symbols: &mut Symbols, (key, operator, value, effect): Row) -> Toleration {
    Toleration { key: key.map(|key| symbols.intern(key)), operator, value: symbols.intern(value), effect }
}

#[test]
fn a_toleration_tolerates_by_key_operator_value_and_effect() {
    let table: [(Row, (&str, &str, Effect), bool); 22] = [
        ((Some("gpu"), Equal, "a100", Some(NoSchedule)), ("gpu", "a100", NoSchedule), true),
        ((Some("gpu"), Equal, "a100", None), ("gpu", "a100", NoExecute), true),
        ((Some("gpu"), Equal, "a100", Some(NoSchedule)), ("gpu", "a100", NoExecute), false),
        ((Some("gpu"), Equal, "h100", None), ("gpu", "a100", NoSchedule), false),
        ((Some("gpu"), Equal, "", None), ("gpu", "", NoSchedule), true),
        ((Some("gpu"), Equal, "", None), ("gpu", "a100", NoSchedule), false),
        ((Some("gpu"), Exists, "", None), ("gpu", "a100", PreferNoSchedule), true),
        ((Some("gpu"), Exists, "", Some(PreferNoSchedule)), ("gpu", "a100", NoSchedule), false),
        ((Some("cpu"), Exists, "", None), ("gpu", "a100", NoSchedule), false),
        ((None, Exists, "", None), ("gpu", "a100", NoSchedule), true),
        ((None, Exists, "", Some(NoExecute)), ("gpu", "a100", NoExecute), true),
        ((None, Exists, "", Some(NoExecute)), ("gpu", "a100", NoSchedule), false),
        ((Some("sla"), Gt, "950", None), ("sla", "999", NoSchedule), true),
        ((Some("sla"), Gt, "950", None), ("sla", "950", NoSchedule), false),
        ((Some("sla"), Gt, "950", None), ("sla", "900", NoSchedule), false),
        ((Some("sla"), Lt, "950", None), ("sla", "900", NoSchedule), true),
        ((Some("sla"), Lt, "950", None), ("sla", "950", NoSchedule), false),
        ((Some("sla"), Lt, "-5", None), ("sla", "-6", NoSchedule), true),
        ((Some("sla"), Gt, "950", None), ("sla", "high", NoSchedule), false),
        ((Some("sla"), Gt, "high", None), ("sla", "999", NoSchedule), false),
        ((Some("sla"), Gt, "950", Some(NoExecute)), ("sla", "999", NoSchedule), false),
        ((Some("other"), Gt, "950", None), ("sla", "999", NoSchedule), false),
    ];
    for (toleration, (key, value, effect), expected) in table {
        let mut symbols = Symbols::default();
        let taint = mk_taint(&mut symbols, key, value, effect);
        let made = mk_toleration(&mut symbols, toleration);
        assert_eq!(made.tolerates(&taint, &symbols), expected, "{toleration:?} of {key}={value}:{effect:?}");
    }
}

#[test]
fn the_first_untolerated_taint_is_named_and_preferences_count_only_where_asked() {
    let mut symbols = Symbols::default();
    let taints = [
        mk_taint(&mut symbols, "a", "", PreferNoSchedule),
        mk_taint(&mut symbols, "b", "1", NoExecute),
        mk_taint(&mut symbols, "c", "", NoSchedule),
    ];
    let tolerates_b = [mk_toleration(&mut symbols, (Some("b"), Exists, "", None))];
    let first = |tolerations: &[Toleration], prefer| {
        first_untolerated(&taints, tolerations, prefer, &symbols).map(|taint| taint.in_words(&symbols))
    };
    assert_eq!(first(&[], true).as_deref(), Some("{a: }"));
    assert_eq!(first(&[], false).as_deref(), Some("{b: 1}"));
    assert_eq!(first(&tolerates_b, false).as_deref(), Some("{c: }"));
    let everything = Toleration { key: None, operator: Exists, value: taints[0].value, effect: None };
    assert_eq!(first(&[everything], true), None);
}
