//! `berth crds`: the CustomResourceDefinitions.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::output::to_stdout;

/// Print the CustomResourceDefinitions that Berth reads and writes, for `kubectl apply -f -`
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    to_stdout(|out| berth_api::CRDS.iter().try_for_each(|(_, text)| out.write_all(text.as_bytes())))?;
    Ok(ExitCode::SUCCESS)
}
