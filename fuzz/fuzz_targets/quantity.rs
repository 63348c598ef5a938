//! Whatever the text, parsing a quantity does not panic, and what it prints reads as the same.
#![no_main]

use berth_quantity::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = text.parse::<Quantity>() {
        assert_eq!(quantity.to_string().parse::<Quantity>(), Ok(quantity));
        let _ = (quantity.milli_ceil(), quantity.value_ceil(), quantity.value_floor());
        let _ = (quantity.checked_add(quantity), quantity.checked_sub(quantity));
    }
});
