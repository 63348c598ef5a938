//! Whatever the bytes, reading ends without a panic and the same way on any number of threads.

use berth_manifests::{ManifestError, Options, read_from};
use proptest::collection::vec;
use proptest::prelude::*;

const GOOD: &str = include_str!("good.yaml");

fn outcome(bytes: &[u8], is_parallel: bool, max_object_bytes: usize) -> (u64, Option<String>) {
    let mut options = Options::default();
    options.parallel = is_parallel;
    options.max_object_bytes = max_object_bytes;
    let mut n_objects = 0;
    let read = read_from("in", bytes, &options, |_, _| {
        n_objects += 1;
        Ok::<(), ManifestError>(())
    });
    (n_objects, read.err().map(|error| error.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_end_the_same_way(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(outcome(&bytes, true, 100), outcome(&bytes, false, 100));
    }

    #[test]
    fn arbitrary_structure_ends(
        tokens in vec(prop::sample::select(vec![
            "{", "}", "[", "]", "\"", ",", ":", "\n", " ", "- ", "---\n", "...\n", "items:\n",
            "\"items\":", "\"kind\":", "\"List\"", "kind: List\n", "apiVersion: v1\n", "&a", "*a",
            "|", ">", "#", "'", "\\", "\t", "\r\n", "%", "? ", "<<: ", "a", "1", "~", "\u{feff}",
        ]), 0..60),
    ) {
        let text = tokens.concat();
        prop_assert_eq!(outcome(text.as_bytes(), true, 40), outcome(text.as_bytes(), false, 40));
    }

    #[test]
    fn mutated_documents_end(
        edits in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut bytes = GOOD.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => { bytes.remove(at); }
            }
        }
        let (n_objects, error) = outcome(&bytes, false, 4096);
        // An edit may hide documents from each other, but never makes more of them.
        prop_assert!(n_objects > 0 || error.is_some());
    }
}

#[test]
fn unmutated_document_is_good() {
    assert_eq!(outcome(GOOD.as_bytes(), true, 4096), (6, None));
}
