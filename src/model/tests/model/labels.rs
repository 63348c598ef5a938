//! Labels and label selectors.

use berth_model::{Labels, Operator, Requirement, Requirements, Selector, Symbols};

#[test]
fn the_last_of_several_values_of_a_key_holds() {
    let mut symbols = Symbols::default();
    let [z, a, one, two, three] = ["z", "a", "1", "2", "3"].map(|text| symbols.intern(text));
    let labels = Labels::new([(a, one), (z, one), (a, two), (a, three)]);
    assert_eq!(labels.get(a), Some(three));
    assert_eq!(labels.get(z), Some(one));
    assert_eq!(labels.iter().count(), 2);
    assert_eq!(labels.get(one), None);
    assert_eq!(labels, Labels::new([(z, one), (a, three)]), "in any order");
}

#[test]
fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
    let mut symbols = Symbols::default();
    let (app, web) = (symbols.intern("app"), symbols.intern("web"));
    let (absent, empty) = (Selector { requirements: None }, Selector { requirements: Some(Requirements::new()) });
    for labels in [Labels::default(), Labels::new([(app, web)])] {
        assert!(!absent.matches(&labels, &symbols));
        assert!(empty.matches(&labels, &symbols));
    }
}

#[test]
fn a_selector_selects_by_all_its_expressions() {
    let mut symbols = Symbols::default();
    let [app, tier, web, db, gold] = ["app", "tier", "web", "db", "gold"].map(|text| symbols.intern(text));
    let mut requirements = Requirements::new();
    requirements.add(app, Requirement::one_of([web, db]), &symbols);
    requirements.add(tier, Requirement::new(Operator::DoesNotExist, [], &symbols), &symbols);
    let selector = Selector { requirements: Some(requirements) };
    for (pairs, expected) in [
        (vec![(app, web)], true),
        (vec![(app, db)], true),
        (vec![(app, gold)], false),
        (vec![(app, web), (tier, gold)], false),
        (vec![], false),
    ] {
        assert_eq!(selector.matches(&Labels::new(pairs.clone()), &symbols), expected, "{pairs:?}");
    }
}
