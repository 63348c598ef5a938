//! `berth catalog`: the fake provider's instance catalogue.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use crate::output::to_stdout;

/// Print the fake provider's instance catalogue, in the format that `plan --instance-types` reads
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let catalogue = berth_plan::default_catalogue()?;
    let text = match args.output {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&catalogue)?),
        Format::Yaml => serde_saphyr::to_string(&catalogue)?,
    };
    to_stdout(|out| out.write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}
