//! What holds of every value: the evaluator agrees with kube-cel's.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compile::Compiler;
use super::eval::Evaluation;
use super::types::{Kind, Type};
use super::value::{Val, wrap};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}, "m": {"type": "integer"},
        "on": {"type": "boolean"},
        "tags": {"type": "array", "maxItems": 6, "items": {"type": "string", "maxLength": 8}},
        "labels": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 8}},
        "items": {"type": "array", "maxItems": 4, "items": {"type": "object", "properties": {
            "key": {"type": "string", "maxLength": 8}, "count": {"type": "integer"}}}}}})
}

/// Objects that the schema allows; optional fields may be missing.
fn object() -> impl Strategy<Value = Value> {
    let text = "[a-c0-1-]{0,8}";
    let item = (text, proptest::option::of(-3_i64..4)).prop_map(|(key, count)| match count {
        Some(count) => json!({"key": key, "count": count}),
        None => json!({"key": key}),
    });
    let parts = (
        proptest::option::of("[a-c1-]{0,12}"),
        -3_i64..4,
        -3_i64..4,
        any::<bool>(),
        proptest::collection::vec(text, 0..6),
        proptest::collection::btree_map("[a-c]{1,3}", text, 0..5),
        proptest::collection::vec(item, 0..4),
    );
    parts.prop_map(|(name, n, m, on, tags, labels, items)| {
        let mut object = json!({"n": n, "m": m, "on": on, "tags": tags, "labels": labels, "items": items});
        if let (Some(name), Some(map)) = (name, object.as_object_mut()) {
            map.insert("name".to_owned(), name.into());
        }
        object
    })
}

/// Conditions of every form that both evaluators know.
fn condition() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("self.n".to_owned()),
        Just("self.m".to_owned()),
        Just("size(self.tags)".to_owned()),
        Just("self.labels.size()".to_owned()),
        Just("size(self.tags.filter(t, t.startsWith('a')))".to_owned()),
        (-2_i64..3).prop_map(|n| n.to_string()),
        (-2_i64..3).prop_map(|n| format!("(self.n * {n} - self.m)")),
        (1_i64..3).prop_map(|n| format!("(self.n / {n} + self.m % {n})")),
    ];
    let text = prop_oneof![
        Just("self.name".to_owned()),
        Just("self.tags[0]".to_owned()),
        Just("self.labels['a']".to_owned()),
        Just("(self.on ? 'a' : 'b1')".to_owned()),
        Just("string(self.n)".to_owned()),
        Just("self.name.lowerAscii()".to_owned()),
        Just("self.tags.join('-')".to_owned()),
        "[a-c1]{0,3}".prop_map(|text| format!("'{text}'")),
    ];
    let compare = prop_oneof![Just("=="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">=")];
    let leaf = prop_oneof![
        (number.clone(), compare.clone(), number).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (text.clone(), compare, text.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (text.clone(), text.clone()).prop_map(|(a, b)| format!("{a}.contains({b})")),
        text.clone().prop_map(|a| format!("{a}.matches('^[a-b]*1?$')")),
        text.clone().prop_map(|a| format!("{a} in ['a', 'b', 'c1']")),
        text.clone().prop_map(|a| format!("{a} in self.tags")),
        text.clone().prop_map(|a| format!("self.tags.exists(t, t == {a})")),
        text.clone().prop_map(|a| format!("self.tags.all(t, t != {a})")),
        text.prop_map(|a| format!("self.items.exists_one(i, i.key == {a})")),
        Just("has(self.name)".to_owned()),
        Just("self.items.all(i, has(i.count) ? i.count > -3 : i.key != 'a')".to_owned()),
        Just("self.tags.map(t, t + '!').size() == size(self.tags)".to_owned()),
        Just("self.on".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || ({b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
            inner.prop_map(|a| format!("!({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_evaluator_agrees_with_kube_cels(object in object(), rule in condition()) {
        let ty = Type::of(&schema(), false).unwrap();
        let (node, _) = Compiler::new(&ty, false).compile(&rule, Kind::Bool).unwrap();
        let mut evaluation = Evaluation::new(wrap(&object, &ty), Val::Null, u64::MAX);
        let found = match evaluation.value(&node) {
            Ok(Val::Bool(holds)) => Some(holds),
            _ => None,
        };
        let mut schema = schema();
        schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "does not hold"}]);
        let expected = match kube_cel::validate(&schema, &object, None) {
            Ok(()) => Some(true),
            Err(errors) => {
                let failed = errors.into_vec().into_iter().all(|error| error.kind == kube_cel::ErrorKind::ValidationFailure);
                failed.then_some(false)
            }
        };
        prop_assert_eq!(found, expected, "{} of {}", rule, object);
    }
}
