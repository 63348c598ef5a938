//! Rules on values, their cost beside the real server's, and its limits.

#![allow(clippy::needless_pass_by_value)] // So that schemas can be written in place.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::status::Cause;

/// What the rules of a schema say of a value.
fn told(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let rules = Rules::compile(schema, false).unwrap();
    let mut told = Told { path: "x", unchanged: &|| false, causes: &mut causes };
    let _ = rules.check(value, old, &mut Budget::default(), &mut told);
    causes
}

fn with_rule(mut schema: Value, rule: &str) -> Value {
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "no"}]);
    schema
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 20}, "n": {"type": "integer"}, "on": {"type": "boolean"},
        "share": {"type": "number"}, "port": {"x-kubernetes-int-or-string": true},
        "ttl": {"type": "string", "format": "duration"}, "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "labels": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 20}},
        "first-name": {"type": "string"}, "namespace": {"type": "string"}, "missing": {"type": "string"}}})
}

fn value() -> Value {
    json!({"name": "web-1", "n": 3, "on": true, "share": 0.5, "port": "80%", "ttl": "90s", "at": "2026-01-02T03:04:05Z",
        "tags": ["a", "bb", "ccc"], "set": ["x", "y"], "labels": {"app": "web", "tier": "front"},
        "first-name": "ada", "namespace": "ns"})
}

#[rstest]
#[case("self.name == 'web-1' && self.n < 4 && self.on")]
#[case("self.name.startsWith('web') && self.name.endsWith('1') && self.name.contains('b-')")]
#[case("self.name.matches('^[a-z]+-[0-9]$')")]
#[case("self.n in [1, 2, 3] && self.name in ['web-1', 'web-2'] && !('x' in ['y'])")]
#[case("self.tags.all(t, size(t) <= 3) && self.tags.exists(t, t == 'bb')")]
#[case("self.tags.exists_one(t, t.size() == 3)")]
#[case("self.tags.map(t, t + '!') == ['a!', 'bb!', 'ccc!']")]
#[case("self.tags.filter(t, size(t) > 1).size() == 2")]
#[case("self.tags.map(t, size(t) > 1, t.upperAscii()) == ['BB', 'CCC']")]
#[case("self.tags[1] == 'bb' && self.labels['app'] == 'web' && self.labels.app == 'web'")]
#[case("self.labels.all(k, k.size() >= 3) && 'app' in self.labels")]
#[case("self.labels.all(k, v, k != v) && self.tags.exists(i, t, i == 2 && t == 'ccc')")]
#[case("self.labels.transformMap(k, v, k + v)['app'] == 'appweb'")]
#[case("self.set == ['y', 'x'] && self.tags != ['bb', 'a', 'ccc'] && size(self.set + ['x', 'z']) == 3")]
#[case("has(self.name) && !has(self.missing)")]
#[case("self.?missing.orValue('none') == 'none' && self.?name.hasValue()")]
#[case("self.first__dash__name == 'ada' && self.__namespace__ == 'ns'")]
#[case("self.ttl == duration('1m30s') && self.ttl.getSeconds() == 90 && self.ttl > duration('1m')")]
#[case("self.at.getFullYear() == 2026 && self.at + self.ttl > timestamp('2026-01-02T03:05:00Z')")]
#[case("type(self.port) == string && self.port.endsWith('%') && int(self.port.replace('%', '')) == 80")]
#[case("self.share > 0.4 && double(self.n) > 2.5 && string(self.n) == '3'")]
#[case("self.n / 2 == 1 && self.n % 2 == 1 && -self.n == -3 && self.n * 2 - 1 == 5")]
#[case("self.on ? self.n == 3 : self.n == 4")]
#[case("cel.bind(n, self.n + 1, n * n == 16)")]
#[case("self.missing == 'x' || true")]
#[case("!(self.missing == 'x' && false)")]
#[case("self.name.split('-')[0] == 'web' && self.tags.join(',') == 'a,bb,ccc' && self.name.find('[0-9]') == '1'")]
#[case("self.name.find('[0-9]') == '1' && self.name.findAll('[a-z]') == ['w', 'e', 'b'] && self.name.find('x') == ''")]
#[case("self.tags.all(t, self.name.findAll(t).size() <= 1)")]
#[case("quantity('1500m').isGreaterThan(quantity('1')) && isQuantity('2Gi') && !isQuantity('x')")]
#[case("isURL('https://example.com/a') && url('https://example.com:80/a').getHost() == 'example.com:80'")]
#[case("isIP('10.0.0.1') && cidr('10.0.0.0/8').containsIP('10.1.2.3')")]
#[case("sets.contains([1, 2], [2]) && math.greatest(1, 2) == 2")]
#[case("'%s has %d'.format([self.name, self.n]) == 'web-1 has 3'")]
#[case("self.tags.isSorted() && [1, 2].sum() == 3 && self.tags.indexOf('bb') == 1")]
fn rules_that_hold(#[case] rule: &str) {
    let schema = with_rule(schema(), rule);
    assert_eq!(told(&schema, &value(), None), [], "{rule}");
    let mut causes = Vec::new();
    check_schema(&schema, "s", &mut causes);
    let texts: Vec<_> = causes.iter().map(|cause| &cause.message).collect();
    assert!(texts.iter().all(|text| !text.contains("compilation")), "{rule}: {texts:?}");
}

#[rstest]
#[case("self.n > 3", "Invalid value: no")]
#[case("self.missing == 'x'", "no such key: missing evaluating rule")]
#[case("self.tags[7] == 'x'", "index out of bounds: 7 evaluating rule")]
#[case("self.n / 0 == 1", "division by zero evaluating rule")]
#[case("self.port > 3", "call arguments did not match")]
fn rules_that_do_not_hold(#[case] rule: &str, #[case] says: &str) {
    let causes = told(&with_rule(schema(), rule), &value(), None);
    assert_eq!(causes.len(), 1, "{rule}");
    assert!(causes[0].message.contains(says), "{rule}: {}", causes[0].message);
}

#[rstest]
#[case("self.nothing == 1", "undefined field 'nothing'")]
#[case("other == 1", "undeclared reference to 'other'")]
#[case("self.name.shout() == 'X'", "undeclared reference to 'shout'")]
#[case("self.n", "must evaluate to a bool")]
#[case("self.name ==", "compilation failed")]
#[case("self.name.matches('(')", "invalid matches argument")]
#[case("self.tags.all(t, t.size())", "expected a bool")]
fn rules_that_are_none_are_refused_with_their_definition(#[case] rule: &str, #[case] says: &str) {
    let mut causes = Vec::new();
    check_schema(&with_rule(schema(), rule), "s", &mut causes);
    assert!(causes.iter().any(|cause| cause.message.contains(says)), "{rule}: {causes:?}");
}

#[test]
fn transition_rules_look_at_both_and_only_where_there_are_both() {
    let schema = with_rule(schema(), "self.n >= oldSelf.n");
    assert_eq!(told(&schema, &json!({"n": 1}), None), []);
    assert_eq!(told(&schema, &json!({"n": 2}), Some(&json!({"n": 1}))), []);
    assert_eq!(told(&schema, &json!({"n": 1}), Some(&json!({"n": 2}))).len(), 1);
    let mut optional = with_rule(self::schema(), "!oldSelf.hasValue() || oldSelf.value().n <= self.n");
    optional["x-kubernetes-validations"][0]["optionalOldSelf"] = true.into();
    assert_eq!(told(&optional, &json!({"n": 1}), None), []);
    assert_eq!(told(&optional, &json!({"n": 1}), Some(&json!({"n": 2}))).len(), 1);
}

/// The variables of a comprehension that failed are none of the other side's.
#[test]
fn what_fails_within_a_comprehension_leaves_the_other_side_alone() {
    let other = "self.tags.map(t, t + '!') == ['a!', 'bb!', 'ccc!']";
    for failing in ["self.tags.exists_one(t, t == self.missing)", "self.tags.map(t, self.missing).size() == 1"] {
        let rule = with_rule(schema(), &format!("({failing}) || ({other})"));
        assert!(told(&rule, &value(), None).is_empty(), "{failing}");
        let rule = with_rule(schema(), &format!("!(({failing}) && !({other}))"));
        assert!(told(&rule, &value(), None).is_empty(), "{failing}");
    }
}

#[test]
fn a_message_expression_speaks_for_the_rule() {
    let mut schema = with_rule(schema(), "self.n < 3");
    schema["x-kubernetes-validations"][0]["messageExpression"] = "'n is ' + string(self.n)".into();
    schema["x-kubernetes-validations"][0]["fieldPath"] = ".n".into();
    let causes = told(&schema, &value(), None);
    assert_eq!((causes[0].field.as_str(), causes[0].message.as_str()), ("x.n", "Invalid value: n is 3"));
}

/// A list of texts without any bounds.
fn unbounded() -> Value {
    json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}})
}

#[test]
fn nested_macros_over_an_unbounded_list_are_refused_with_their_definition() {
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b == c + d || a == b))))";
    let mut causes = Vec::new();
    check_schema(&with_rule(unbounded(), rule), "s", &mut causes);
    let told: Vec<_> = causes.iter().map(|cause| (cause.field.as_str(), cause.message.as_str())).collect();
    assert!(told[0].0.ends_with("x-kubernetes-validations[0].rule"), "{told:?}");
    assert!(told[0].1.contains("estimated rule cost exceeds budget by factor of more than 100x"), "{told:?}");
}

#[test]
fn nested_macros_that_were_stored_end_with_their_budget() {
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b != c))))";
    let items: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let causes = told(&with_rule(unbounded(), rule), &json!({"l": items}), None);
    assert_eq!(causes.len(), 1);
    assert!(causes[0].message.contains("actual cost limit exceeded"), "{}", causes[0].message);
}

#[test]
fn rules_of_one_object_share_a_budget() {
    let mut schema = unbounded();
    let rule = json!({"rule": "self.l.all(a, self.l.all(b, a + b != 'x'))"});
    schema["x-kubernetes-validations"] = Value::Array(vec![rule; 40]);
    let items: Vec<String> = (0..250).map(|n| n.to_string()).collect();
    let causes = told(&schema, &json!({"l": items}), None);
    assert_eq!(causes.len(), 1);
    assert!(causes[0].message.contains("running out of cost budget"), "{}", causes[0].message);
}

fn texts(max: Option<u64>) -> Value {
    bounded(json!({"type": "string"}), "maxLength", max)
}

fn list(items: Value, max: Option<u64>) -> Value {
    bounded(json!({"type": "array", "items": items}), "maxItems", max)
}

fn map(values: Value, max: Option<u64>) -> Value {
    bounded(json!({"type": "object", "additionalProperties": values}), "maxProperties", max)
}

fn bounded(mut schema: Value, bound: &str, max: Option<u64>) -> Value {
    if let Some(max) = max {
        schema[bound] = max.into();
    }
    schema
}

fn simple(kind: &str) -> Value {
    match kind {
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "date" | "date-time" | "duration" | "byte" => json!({"type": "string", "format": kind}),
        kind => json!({"type": kind}),
    }
}

/// The estimates of the real server, from the table of its own test (`TestCostEstimation` of apiextensions-apiserver):
/// without a bound, and with one.
#[rstest]
#[case(|m| list(simple("number"), m), "self.all(x, true)", 4_718_591, 10, 32)]
#[case(|m| list(simple("string"), m), "self.all(x, true)", 3_145_727, 20, 62)]
#[case(|m| list(simple("boolean"), m), "self.all(x, true)", 1_887_437, 5, 17)]
#[case(|m| list(list(simple("number"), None), m), "self.all(x, true)", 3_145_727, 100, 302)]
#[case(|m| map(simple("number"), m), "self.all(x, true)", 1_348_169, 10, 32)]
#[case(|m| map(simple("string"), m), "self.all(x, true)", 1_179_647, 3, 11)]
#[case(|m| map(simple("boolean"), m), "self.all(x, true)", 943_718, 100, 302)]
#[case(texts, "self.contains('test')", 314_574, 10, 5)]
#[case(texts, "self.startsWith('test')", 2, 15, 2)]
#[case(texts, "size(self + \"hello\") > size(\"hello\")", 314_578, 4, 7)]
#[case(|m| list(simple("number"), m), "self[1] == 0.0", 2, 5000, 2)]
#[case(|m| list(simple("string"), m), "self[1] == self[1]", 314_577, 8, 314_577)]
#[case(|m| list(simple("number"), m), "self.all(x, self.all(y, true))", 0, 10, 352)]
#[case(|m| list(simple("number"), m), "self.all(x, self.all(y, self.all(z, true)))", 0, 10, 3552)]
#[case(texts, "self.matches(\"x\")", 314_574, 50, 22)]
#[case(texts, "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7, 10, 7)]
#[case(texts, "self.matches(\"\")", 1, 100, 1)]
#[case(|m| map(texts(m), m), "self.all(x, x.contains(self[x]))", 2_752_507, 10, 72)]
#[case(|m| map(simple("number"), m), "self[\"x\"] == 0.0", 2, 0, 2)]
#[case(texts, "self == \"x\"", 2, 0, 1)]
#[case(|m| list(simple("number"), m), "self.all(x, x == 0.0)", 6_291_454, 3 * 1024 * 2048, 25_165_826)]
#[case(|m| list(simple("int-or-string"), m), "self[0] == 5", 3, 10, 3)]
#[case(|m| list(simple("boolean"), m), "self[0] == false", 2, 25, 2)]
#[case(|m| list(list(simple("number"), None), m), "self[0][0] == -1.0", 3, 51, 3)]
#[case(|m| list(map(simple("number"), None), m), "self.all(x, x.y == 25.2)", 6_291_452, 12, 74)]
#[case(|m| list(map(simple("number"), None), m), "self[0].x > 2.0", 4, 3000, 4)]
#[case(|m| list(simple("duration"), m), "self.all(x, true)", 2_359_295, 5, 17)]
#[case(|m| list(simple("duration"), m), "self[0].getHours() == 2", 4, 525, 4)]
#[case(|m| list(simple("date"), m), "self.all(x, true)", 725_936, 15, 47)]
#[case(|m| list(simple("date-time"), m), "self.all(x, true)", 428_963, 25, 77)]
#[case(|m| map(simple("int-or-string"), m), "self.all(x, true)", 1_348_169, 15, 47)]
#[case(|m| map(simple("duration"), m), "self.all(x, true)", 1_048_577, 5, 17)]
#[case(|m| map(simple("date-time"), m), "self.all(x, true)", 349_526, 25, 77)]
#[case(texts, "self.find('[0-9]+') == ''", 629_147, 10, 11)]
#[case(|m| list(texts(m), m), "self.join(' ') == 'aa bb'", 329_853_068_905, 10, 43)]
#[case(|m| list(texts(m), m), "self.isSorted() == true", 329_854_432_052, 10, 52)]
#[case(|m| json!({"type": "object", "properties": {"str": texts(m), "separator": texts(m)}}),
       "self.str.split(self.separator) == []", 629_160, 10, 22)]
#[case(texts, "self.lowerAscii() == 'lower!'", 314_575, 10, 6)]
#[case(|m| map(simple("integer"), m), "oldSelf.size() == self.size()", 5, 10, 5)]
#[case(|m| map(simple("date-time"), m), "self[\"a\"] == self[\"b\"]", 8, 7, 8)]
#[case(|m| bounded(json!({"type": "string", "enum": ["A", "B", "C", "LongValue"]}), "maxLength", m),
       "self.contains('A')", 2, 1000, 401)]
#[case(|m| bounded(simple("int-or-string"), "maxLength", m), "isQuantity(self)", 314_574, 20, 9)]
fn estimates_are_those_of_the_real_server(
    #[case] schema: fn(Option<u64>) -> Value,
    #[case] rule: &str,
    #[case] unbounded: u64,
    #[case] bound: u64,
    #[case] bounded: u64,
) {
    let estimate = |schema: &Value| {
        let ty = super::types::Type::of(schema, false).unwrap();
        super::compile::Compiler::new(&ty, false).compile(rule, super::types::Kind::Bool).unwrap().1
    };
    // There, 0 says that it is not compared.
    if unbounded > 0 {
        assert_eq!(estimate(&schema(None)), unbounded, "{rule} without a bound");
    }
    assert_eq!(estimate(&schema(Some(bound))), bounded, "{rule} of at most {bound}");
}

/// As in kube-apiserver: what is taken out of a computed value is held to be as large as `self`, and an object has no size.
/// The second is a rule of Istio.
#[rstest]
#[case("(has(self.tags) ? self.tags : []).exists(k, k.contains('/'))")]
#[case(
    "!((has(self.tags) ? self.tags : []).exists(k, k.contains('/')) && !((has(self.name) ? self.name : 'a') in ['a']))"
)]
#[case("(has(self.tags) ? self.tags : [])[0].contains('/')")]
fn what_is_taken_out_of_a_computed_list_is_as_large_as_self(#[case] rule: &str) {
    let mut causes = Vec::new();
    let mut schema = with_rule(schema(), rule);
    schema["properties"]["tags"] = list(texts(Some(64)), Some(256));
    check_schema(&schema, "s", &mut causes);
    assert_eq!(causes, [], "{rule}");
}
