//! `berth completions` and `berth man`: what the shell and `man` know of the command line, from the same definition.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

use crate::output::to_stdout;

/// Print completions for a shell, such as `berth completions bash > /etc/bash_completion.d/berth`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the man page of berth, or of one of its commands, such as `berth man plan | man -l -`
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The command (default: berth itself)
    command: Option<String>,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "berth", &mut text);
    to_stdout(|out| std::io::Write::write_all(out, &text))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write_pages(args: &ManArgs, mut command: Command) -> Result<ExitCode> {
    command.build();
    let page = match &args.command {
        None => command,
        Some(name) => {
            let known = || command.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(", ");
            let found = command.find_subcommand(name);
            let found = found.with_context(|| format!("no command {name:?}: expected one of {}", known()))?;
            found.clone()
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).context("unable to write a man page")?;
    to_stdout(|out| std::io::Write::write_all(out, &text))?;
    Ok(ExitCode::SUCCESS)
}
