//! Whatever the bytes, reading a catalogue ends without a panic, and what it writes reads again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(catalogue) = berth_catalogue::read(bytes, "fuzz") {
        let json = catalogue.to_json();
        assert!(json.is_ok_and(|json| berth_catalogue::read(json.as_bytes(), "fuzz").is_ok()));
    }
});
