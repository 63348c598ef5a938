//! Whatever the text, reading it as a selector does not panic.
#![no_main]

use berth_apiserver::{FieldSelector, LabelSelector};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.matches(|key| (key.len() % 2 == 0).then_some("1"));
    }
    let _ = FieldSelector::parse(text);
});
