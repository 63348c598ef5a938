//! The README and the manual: links lead somewhere, flags exist, and the first command prints what the page shows.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let root = common::root();
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// The anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).any(|known| known == wanted)
}

#[test]
fn links_of_the_manual_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for after in text.split("](").skip(1) {
            let target = after.split(')').next().unwrap();
            if target.starts_with("http") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            if !file.exists() || (!fragment.is_empty() && !has_anchor(&file, fragment)) {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_page_is_in_the_index() {
    let index = std::fs::read_to_string(common::root().join("docs/README.md")).unwrap();
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name == "README.md" || index.contains(&format!("({name})")), "docs/README.md does not list {name}");
    }
}

#[test]
fn every_flag_is_in_the_manual() {
    for command in ["plan", "sandbox"] {
        let page = format!("docs/{command}.md");
        let manual = std::fs::read_to_string(common::root().join(&page)).unwrap();
        let help = common::berth(&[command, "--help"]).stdout;
        let flags = help.split_whitespace().filter(|word| word.starts_with("--"));
        let flags = flags.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
        for flag in flags.filter(|flag| !matches!(*flag, "--help" | "--version")) {
            assert!(manual.contains(flag), "{page} does not name {flag}");
        }
    }
}

#[test]
fn the_readme_shows_what_its_example_prints() {
    let readme = std::fs::read_to_string(common::root().join("README.md")).unwrap();
    let golden = common::root().join("src/berth/tests/golden/reserved-first.txt");
    let golden = std::fs::read_to_string(golden).unwrap();
    let shown = readme.split("```").map(str::trim).find(|block| block.starts_with("Time:")).unwrap();
    assert_eq!(shown, golden.trim());
}
