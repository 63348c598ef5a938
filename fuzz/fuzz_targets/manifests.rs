//! Whatever the bytes, reading manifests ends without a panic; streamed Lists agree with whole ones.
#![no_main]

use berth_manifests::{ManifestError, Options, read_from};
use libfuzzer_sys::fuzz_target;

fn n_objects(bytes: &[u8], max_object_bytes: usize) -> Result<u64, ManifestError> {
    let mut options = Options::default();
    options.parallel = false;
    options.max_object_bytes = max_object_bytes;
    read_from("fuzz", bytes, &options, |_, _| Ok::<(), ManifestError>(())).map(|read| read.objects)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = n_objects(bytes, 1 << 20);
    // A small limit makes Lists be streamed by item. What both read, they read alike.
    if let (Ok(whole), Ok(streamed)) = (whole, n_objects(bytes, 64)) {
        assert_eq!(whole, streamed);
    }
});
