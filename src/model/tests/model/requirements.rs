//! The requirement algebra against a naive model: the set of values, and of no value, that satisfy it.

use berth_model::{Operator, Requirement, Sym, Symbols};
use proptest::collection::vec;
use proptest::prelude::*;

const VALUES: [&str; 9] = ["a", "b", "-3", "0", "1", "2", "5", "05", ""];

fn symbols() -> (Symbols, Vec<Sym>) {
    let mut symbols = Symbols::default();
    let values = VALUES.iter().map(|value| symbols.intern(value)).collect();
    (symbols, values)
}

/// An operator and the indices of its values, as validation lets them through.
type Asked = (Operator, Vec<usize>);

fn asked() -> impl Strategy<Value = Asked> {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    prop_oneof![
        (prop::sample::select(vec![In, NotIn]), vec(0..VALUES.len(), 1..4)),
        (prop::sample::select(vec![Gt, Lt, Gte, Lte]), vec(0..VALUES.len(), 1)),
        (prop::sample::select(vec![Exists, DoesNotExist]), Just(Vec::new())),
    ]
}

fn made(asked: &Asked, symbols: &Symbols, values: &[Sym]) -> Requirement {
    Requirement::new(asked.0, asked.1.iter().map(|&at| values[at]), symbols)
}

/// Whether Kubernetes would let a label with this value, or its absence, pass.
fn passes(asked: &Asked, label: Option<&str>) -> bool {
    let (operator, given) = (asked.0, asked.1.iter().map(|&at| VALUES[at]).collect::<Vec<_>>());
    let integers = || Some((label?.parse::<i64>().ok()?, given.first()?.parse::<i64>().ok()?));
    match operator {
        Operator::In => label.is_some_and(|label| given.contains(&label)),
        Operator::NotIn => label.is_none_or(|label| !given.contains(&label)),
        Operator::Exists => label.is_some(),
        Operator::DoesNotExist => label.is_none(),
        Operator::Gt => integers().is_some_and(|(label, bound)| label > bound),
        Operator::Lt => integers().is_some_and(|(label, bound)| label < bound),
        Operator::Gte => integers().is_some_and(|(label, bound)| label >= bound),
        Operator::Lte => integers().is_some_and(|(label, bound)| label <= bound),
    }
}

/// What a requirement allows, of the values and of no value.
fn allowed(requirement: &Requirement, symbols: &Symbols, values: &[Sym]) -> Vec<Option<Sym>> {
    let mut out: Vec<Option<Sym>> =
        values.iter().copied().filter(|&value| requirement.has(value, symbols)).map(Some).collect();
    out.extend(requirement.allows_absent().then_some(None));
    out
}

fn all_of(requirements: &[Requirement], symbols: &Symbols) -> Requirement {
    let (first, rest) = requirements.split_first().unwrap();
    rest.iter().fold(first.clone(), |both, next| both.intersect(next, symbols))
}

proptest! {
    #[test]
    fn an_operator_allows_what_kubernetes_lets_pass(asked in asked()) {
        let (symbols, values) = symbols();
        let requirement = made(&asked, &symbols, &values);
        for (text, &value) in VALUES.iter().zip(&values) {
            prop_assert_eq!(requirement.has(value, &symbols), passes(&asked, Some(text)), "{:?} of {:?}", asked, text);
        }
        prop_assert_eq!(requirement.allows_absent(), passes(&asked, None));
    }

    #[test]
    fn an_intersection_allows_what_all_allow(many in vec(asked(), 1..6)) {
        let (symbols, values) = symbols();
        let requirements: Vec<Requirement> = many.iter().map(|asked| made(asked, &symbols, &values)).collect();
        let both = all_of(&requirements, &symbols);
        for (text, &value) in VALUES.iter().zip(&values) {
            let expected = many.iter().all(|asked| passes(asked, Some(text)));
            prop_assert_eq!(both.has(value, &symbols), expected, "{:?} of {:?}", many, text);
        }
        prop_assert_eq!(both.allows_absent(), many.iter().all(|asked| passes(asked, None)), "{:?}", many);
    }

    #[test]
    fn an_intersection_does_not_depend_on_order_or_grouping(a in asked(), b in asked(), c in asked(), least in 0..4_u32) {
        let (symbols, values) = symbols();
        let [a, b, c] = [a, b, c].map(|asked| made(&asked, &symbols, &values));
        let a = a.with_min_values((least > 0).then_some(least));
        let and = |a: &Requirement, b: &Requirement| a.intersect(b, &symbols);
        prop_assert_eq!(and(&a, &b), and(&b, &a));
        prop_assert_eq!(and(&and(&a, &b), &c), and(&a, &and(&b, &c)));
        prop_assert_eq!(and(&b, &b), b);
    }

    // Where it is not empty some value may still be missing (an open range between its own exceptions), so only one
    // direction holds for infinite sets.
    #[test]
    fn what_is_empty_allows_nothing_and_a_finite_set_that_allows_nothing_is_empty(many in vec(asked(), 1..6)) {
        let (symbols, values) = symbols();
        let requirements: Vec<Requirement> = many.iter().map(|asked| made(asked, &symbols, &values)).collect();
        let both = all_of(&requirements, &symbols);
        let allowed = allowed(&both, &symbols, &values);
        prop_assert!(!both.is_empty() || allowed.is_empty());
        if let Some(finite) = both.finite_values() {
            prop_assert_eq!(both.is_empty(), allowed.is_empty(), "{:?}", many);
            prop_assert_eq!(finite.len(), allowed.iter().flatten().count(), "no value beside the allowed ones");
        }
    }

    #[test]
    fn operators_printed_and_read_again_allow_the_same(many in vec(asked(), 1..5)) {
        let (mut symbols, values) = symbols();
        let requirements: Vec<Requirement> = many.iter().map(|asked| made(asked, &symbols, &values)).collect();
        let printed = all_of(&requirements, &symbols);
        let mut read: Vec<Requirement> = Vec::new();
        for (operator, bounds, values) in printed.to_operators() {
            let bounds = bounds.iter().map(|bound| symbols.intern(bound)).collect::<Vec<_>>();
            read.push(Requirement::new(operator, bounds.into_iter().chain(values), &symbols));
        }
        let read = all_of(&read, &symbols);
        prop_assert_eq!(allowed(&read, &symbols, &values), allowed(&printed, &symbols, &values), "{:?}", many);
    }
}

#[test]
fn bounds_at_the_ends_of_the_integers_allow_nothing_beyond() {
    let mut symbols = Symbols::default();
    let (least, most) = (symbols.intern("-9223372036854775808"), symbols.intern("9223372036854775807"));
    for (operator, bound) in [(Operator::Gt, most), (Operator::Lt, least)] {
        let requirement = Requirement::new(operator, [bound], &symbols);
        assert!(requirement.is_empty() && !requirement.has(bound, &symbols) && !requirement.allows_absent());
    }
    for (operator, bound) in [(Operator::Gte, most), (Operator::Lte, least)] {
        let requirement = Requirement::new(operator, [bound], &symbols);
        assert!(!requirement.is_empty() && requirement.has(bound, &symbols));
    }
}

#[test]
fn the_larger_min_values_holds() {
    let (symbols, values) = symbols();
    let some = |least| Requirement::one_of(values.iter().copied()).with_min_values(least);
    assert_eq!(some(Some(2)).intersect(&some(Some(3)), &symbols).min_values(), Some(3));
    assert_eq!(some(None).intersect(&some(Some(1)), &symbols).min_values(), Some(1));
    assert_eq!(some(None).intersect(&some(None), &symbols).min_values(), None);
}

#[test]
fn requirements_on_one_key_are_narrowed_and_a_missing_label_passes_only_where_absence_is_allowed() {
    let (mut symbols, values) = symbols();
    let (zone, arch) = (symbols.intern("zone"), symbols.intern("arch"));
    let mut requirements = berth_model::Requirements::new();
    requirements.add(zone, Requirement::one_of([values[0], values[1]]), &symbols);
    requirements.add(zone, Requirement::new(Operator::NotIn, [values[0]], &symbols), &symbols);
    requirements.add(arch, Requirement::new(Operator::NotIn, [values[0]], &symbols), &symbols);
    assert_eq!(requirements.get(zone).and_then(Requirement::single), Some(values[1]));
    let matches = |label: &dyn Fn(Sym) -> Option<Sym>| requirements.match_labels(&symbols, label);
    assert!(matches(&|key| (key == zone).then_some(values[1])), "without arch");
    assert!(!matches(&|key| (key == zone).then_some(values[0])), "zone a was taken out");
    assert!(!matches(&|_| None), "zone must be there");
    assert!(!matches(&|key| Some(if key == zone { values[1] } else { values[0] })), "arch a was taken out");
    assert!(!requirements.is_contradiction());
    requirements.add(zone, Requirement::value(values[2]), &symbols);
    assert!(requirements.is_contradiction());
}
