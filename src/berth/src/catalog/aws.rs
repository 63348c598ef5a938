//! An account's catalogue, with a progress line where someone is watching.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use berth_catalogue::Catalogue;
use berth_cloudprovider_aws::sdk::{Aws, PriceSource, Step};
use berth_cloudprovider_aws::{NodeSettings, refresh};
use jiff::Timestamp;

/// The whole catalogue.
pub(super) fn catalogue(
    region: Option<&str>,
    profile: Option<&str>,
    prices: PriceSource,
    settings: &NodeSettings,
) -> Result<Catalogue> {
    let aws = Aws::connect(region, profile)?;
    let now = Timestamp::now();
    let progress = Progress::new(aws.region());
    let os = if settings.ami_family.is_windows() { "windows" } else { "linux" };
    let account = aws.account(os, prices, now, &|step| progress.show(step));
    progress.clear();
    let account = account?;
    let (catalogue, report) = account.catalogue(settings, now)?;
    eprintln!("{}, {}: {}", aws.region(), named(&account.id), report.lines().join("\n  "));
    account.notes.iter().for_each(|note| eprintln!("note: {note}"));
    Ok(catalogue)
}

/// The catalogue in a file with the counts of now.
pub(super) fn refreshed(file: &Path, region: Option<&str>, profile: Option<&str>) -> Result<Catalogue> {
    let text = berth_manifests::read_file(file).with_context(|| format!("unable to read {}", file.display()))?;
    let catalogue = berth_catalogue::read(&text, &file.display().to_string())?;
    let aws = Aws::connect(region, profile)?;
    let progress = Progress::new(aws.region());
    let answer = aws.reservations(&|step| progress.show(step));
    progress.clear();
    let (reservations, account) = answer?;
    let refreshed = refresh(catalogue, &reservations, aws.region(), &account, Timestamp::now())
        .with_context(|| file.display().to_string())?;
    eprintln!("{}, {}: {}", aws.region(), named(&account), refreshed.report.lines().join("\n  "));
    eprintln!("  {} of these reservations changed", refreshed.n_changed);
    if !refreshed.report.unknown_types.is_empty() {
        eprintln!("  a catalogue written anew, without --refresh, has new types too");
    }
    Ok(refreshed.catalogue)
}

fn named(account: &str) -> String {
    // Shared reservations cannot be told from one's own then.
    if account.is_empty() {
        "account unknown, as STS cannot be reached".to_owned()
    } else {
        format!("account {account}")
    }
}

/// One line that is written over.
struct Progress<'a> {
    region: &'a str,
    is_shown: bool,
    counts: RefCell<BTreeMap<&'static str, usize>>,
}

impl<'a> Progress<'a> {
    fn new(region: &'a str) -> Self {
        Self { region, is_shown: std::io::stderr().is_terminal(), counts: RefCell::default() }
    }

    fn show(&self, step: Step) {
        if !self.is_shown {
            return;
        }
        let mut counts = self.counts.borrow_mut();
        counts.insert(step.what, step.count);
        let parts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let mut stderr = std::io::stderr().lock();
        // Nobody is told that a progress line could not be written.
        let _ = write!(stderr, "\r\x1b[2Kasking EC2 in {}: {}", self.region, parts.join(", "));
        let _ = stderr.flush();
    }

    fn clear(&self) {
        if self.is_shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
        }
    }
}
