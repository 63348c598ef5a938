//! `berth catalog`: what a cloud offers, as a file that `plan --instance-types` reads.

#[cfg(feature = "aws")]
mod aws;
mod file;
mod nodes;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use berth_catalogue::Catalogue;
use berth_cloudprovider_aws::{NodeSettings, iam_policy, snapshot};
use clap::ValueEnum;

use crate::output::to_stdout;

/// Print an instance catalogue, in the format that `plan --instance-types` reads
///
/// Of the fake provider's made-up types; of an AWS account, with its prices and capacity reservations; or of EC2's
/// public list, without an account.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose catalogue
    #[arg(long, value_enum, default_value_t = Provider::Fake)]
    provider: Provider,
    /// Output format (default: that of the --refresh file's or --to file's name, else YAML)
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    /// Write to this file in place of standard output, at once and whole
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// AWS region (default: that of environment and profile)
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// AWS profile (default: that of the environment)
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Zones of the snapshot, which does not know which types each has
    #[arg(long, value_name = "ZONE,…", value_delimiter = ',')]
    zones: Vec<String>,
    /// Read the account's capacity reservations alone, into this catalogue, which is written back
    #[arg(long, value_name = "FILE")]
    refresh: Option<PathBuf>,
    /// Use the bundled on-demand prices rather than AWS' price list
    #[arg(long)]
    bundled_prices: bool,
    /// Print the rights that `--provider aws` takes, all of them reading ones, as an IAM policy
    #[arg(long)]
    print_iam_policy: bool,
    #[command(flatten)]
    nodes: nodes::NodeArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Provider {
    /// The fake provider: made-up types, for tries
    Fake,
    /// An AWS account: its types, prices and capacity reservations
    Aws,
    /// EC2's types and on-demand prices of us-east-1 on a day, bundled; spot is an estimate
    Ec2Snapshot,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.print_iam_policy {
        to_stdout(|out| std::io::Write::write_all(out, iam_policy().as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    let catalogue = match args.provider {
        Provider::Fake => berth_plan::default_catalogue(),
        Provider::Ec2Snapshot => snapshot_of(args, &args.nodes.settings()?)?,
        Provider::Aws => account(args)?,
    };
    let to = args.to.as_ref().or(args.refresh.as_ref());
    let format = args.output.or_else(|| to.and_then(|file| Format::of_file(file))).unwrap_or(Format::Yaml);
    let text = format.write(&catalogue)?;
    match to {
        Some(file) => file::replace(file, text.as_bytes())?,
        None => to_stdout(|out| std::io::Write::write_all(out, text.as_bytes()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn snapshot_of(args: &Args, settings: &NodeSettings) -> Result<Catalogue> {
    let zones = if args.zones.is_empty() { snapshot::ZONES.map(str::to_owned).to_vec() } else { args.zones.clone() };
    let catalogue = snapshot::catalogue(args.region.as_deref().unwrap_or(snapshot::REGION), &zones, settings)?;
    if let Some(first) = catalogue.types().first() {
        first.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(catalogue)
}

#[cfg(feature = "aws")]
fn account(args: &Args) -> Result<Catalogue> {
    let prices = if args.bundled_prices {
        berth_cloudprovider_aws::sdk::PriceSource::Bundled
    } else {
        berth_cloudprovider_aws::sdk::PriceSource::PriceList
    };
    let (region, profile) = (args.region.as_deref(), args.profile.as_deref());
    match &args.refresh {
        Some(file) => aws::refreshed(file, region, profile),
        None => aws::catalogue(region, profile, prices, &args.nodes.settings()?),
    }
}

#[cfg(not(feature = "aws"))]
fn account(_: &Args) -> Result<Catalogue> {
    bail!(
        "this berth was built without AWS; `cargo install --path src/berth --features aws` builds it with (Rust 1.94.1 or \
         later, some ten minutes); `--provider ec2-snapshot` needs no account"
    )
}

// === impl Args ===

impl Args {
    /// Refuses flags that another provider would obey.
    fn check(&self) -> Result<()> {
        let is_aws = self.provider == Provider::Aws;
        let flags = [
            ("--region", self.region.is_some() && self.provider == Provider::Fake),
            ("--profile", self.profile.is_some() && !is_aws),
            ("--refresh", self.refresh.is_some() && !is_aws),
            ("--bundled-prices", self.bundled_prices && !is_aws),
            ("--zones", !self.zones.is_empty() && self.provider != Provider::Ec2Snapshot),
            (
                self.nodes.first_flag().unwrap_or_default(),
                self.nodes.first_flag().is_some() && self.provider == Provider::Fake,
            ),
        ];
        if let Some((flag, _)) = flags.iter().find(|(_, is_wrong)| *is_wrong) {
            let provider = self.provider.to_possible_value().map(|value| value.get_name().to_owned());
            bail!("{flag}: --provider {} has no use for it", provider.unwrap_or_default());
        }
        if let Some(flag) = self.nodes.first_flag().filter(|_| self.refresh.is_some()) {
            bail!("{flag}: --refresh changes counts alone; leave one of them out");
        }
        Ok(())
    }
}

// === impl Format ===

impl Format {
    fn of_file(file: &std::path::Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    fn write(self, catalogue: &Catalogue) -> Result<String> {
        match self {
            Self::Json => Ok(format!("{}\n", catalogue.to_json().context("unable to write the catalogue")?)),
            Self::Yaml => serde_saphyr::to_string(catalogue).context("unable to write the catalogue"),
        }
    }
}
