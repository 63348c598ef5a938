//! What reaches a terminal: colours where they are asked for, and no control characters that names bring along.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::{berth, plan};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: img, resources: \
                   {requests: {cpu: '1'}}}]}\n";

#[test]
fn colours_are_for_terminals_or_for_those_who_ask() {
    let plain = plan(POD, &[]).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    assert_eq!(plan(POD, &["--color", "never"]).stdout.lines().count(), plain.lines().count());
    let coloured = plan(POD, &["--color", "always"]).stdout;
    assert!(coloured.contains("\u{1b}[1mNodes to launch\u{1b}[0m"), "{coloured}");
    let json = plan(POD, &["--color", "always", "-o", "json"]).stdout;
    assert!(!json.contains('\u{1b}'), "a colour in JSON");
}

#[test]
fn names_of_files_reach_a_terminal_without_control_characters() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("raw-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a\u{1b}[31mred\r.yaml");
    std::fs::write(&file, POD).unwrap();
    let file = file.to_str().unwrap();
    for args in [&["plan", "-f", file][..], &["explain", "-f", file, "pod/web"]] {
        let run = berth(args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let is_raw = |text: &str| text.chars().any(|char| char.is_control() && char != '\n');
        assert!(!is_raw(&run.stdout) && !is_raw(&run.stderr), "{:?} {:?}", run.stdout, run.stderr);
    }
    let run = berth(&["plan", "-f", file]);
    assert!(run.stdout.contains("a\u{fffd}[31mred\u{fffd}.yaml"), "{:?}", run.stdout);
}
