//! `berth sandbox`: a whole cluster in this process.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use berth_sandbox::{Ended, Line, Options, Reading};
use berth_simulate::RecordOptions;
use clap::ValueEnum;

use crate::adoption::AdoptionArgs;
use crate::controllers::{ControllerArgs, stopped};
use crate::input::{FileArgs, SolveArgs};
use crate::onlookers::{self, OnlookerArgs, Story};
use crate::output::to_stderr;
use crate::telemetry::TelemetryArgs;

/// Run a cluster in this process: API server, controllers, a cloud in memory, nodes that join, and Berth
///
/// Without -f and --kubeconfig it plays a story: slots that run out and come back, a stock-out, a Reservation with its
/// owner, a rollout, and the end of it all. Says what happens, one line for each thing. Exits with 0 if everything has a
/// place, 1 if something is left over, and 2 if an input cannot be used; without --exit-when-settled it runs until Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,
    /// Instance catalogue, JSON or YAML; without it, the built-in one (see `berth catalog`)
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
    /// Write a kubeconfig here once the API server answers on loopback; it is removed at the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// End once everything has its place, or nothing changes any more
    #[arg(long)]
    exit_when_settled: bool,
    #[command(flatten)]
    solve: SolveArgs,
    #[command(flatten)]
    controllers: ControllerArgs,
    /// Leave Berth and its cloud to another process, such as berth run: a cluster alone
    #[arg(long, requires = "kubeconfig")]
    without_berth: bool,
    #[command(flatten)]
    adoption: AdoptionArgs,
    #[command(flatten)]
    onlookers: OnlookerArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Decides names, ids and chance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A sentence a line
    Text,
    /// A JSON object a line
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let solve = args.solve.options()?;
    // Without anything to begin with, and nobody who could add to it.
    let story = args.files.is_empty() && args.kubeconfig.is_none();
    if story && args.instance_types.is_some() {
        bail!(
            "--instance-types without objects: the built-in story has a catalogue of its own; give objects with -f FILE, \
             or --kubeconfig FILE to use kubectl\n\n  \
             berth sandbox -f manifests/ --kubeconfig /tmp/sandbox.kubeconfig"
        );
    }
    let reading = Reading { validate: args.files.validate(), recursive: args.files.recursive };
    let (objects, catalogue, warnings) =
        berth_sandbox::read_inputs(&args.files.inputs()?, args.instance_types.as_deref(), reading)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let catalogue = if story { berth_sandbox::story_catalogue()? } else { catalogue };
    let mut options = Options {
        story,
        seed: args.seed,
        objects,
        catalogue,
        kubeconfig: args.kubeconfig.clone(),
        settle: args.exit_when_settled,
        without_berth: args.without_berth,
        adoption: args.adoption.adoption(),
        ..Options::new(jiff::Timestamp::now())
    };
    let timings = options.controllers.timings.clone();
    options.controllers = args.controllers.options(&solve, timings);
    let onlookers = args.onlookers.open()?;
    let record_options = RecordOptions::from(&options);
    args.telemetry.start_log(None);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("unable to start threads")?;
    let ended = runtime.block_on(async {
        let (on_metrics, mut metrics) = tokio::sync::mpsc::unbounded_channel();
        options.on_metrics = Some(on_metrics);
        let (on_begun, mut begun) = tokio::sync::mpsc::unbounded_channel();
        options.on_begun = Some(on_begun);
        let story = Story::default();
        let look_on = async {
            let mut beside = (None, None);
            // Without Berth there are none.
            let metrics = if args.without_berth { None } else { metrics.recv().await };
            if let Some(metrics) = &metrics {
                beside.0 = args.telemetry.serve(metrics.clone()).await?;
            }
            if onlookers.is_any()
                && let Some((client, cloud)) = begun.recv().await
            {
                let title = "Berth sandbox";
                let told = (metrics.as_ref(), &story);
                beside.1 = Some(onlookers.begin(&client, &cloud, title, false, record_options, told).await?);
            }
            anyhow::Ok(beside)
        };
        let tell = |line: &Line| {
            tell(line, args.output);
            onlookers::say(&story, line.event, &line.message);
        };
        let sandbox = berth_sandbox::run(options, tell, stopped());
        tokio::pin!(sandbox, look_on);
        let (ended, beside) = tokio::select! {
            biased;
            beside = &mut look_on => {
                let beside = beside?;
                (sandbox.await?, Some(beside))
            }
            ended = &mut sandbox => (ended?, None),
        };
        if let Some((_, Some(onlookers))) = beside {
            onlookers.end().await?;
        }
        anyhow::Ok(ended)
    });
    // Nothing is left to wait for: what ran has ended with the sandbox.
    runtime.shutdown_background();
    Ok(match ended? {
        _ if IS_UNWRITTEN.load(Ordering::Relaxed) => ExitCode::from(2),
        Ended::Interrupted | Ended::Settled => ExitCode::SUCCESS,
        Ended::LeftOver(left) => {
            for object in left {
                eprintln!("left over: {object}");
            }
            ExitCode::FAILURE
        }
    })
}

/// Prints a line at once. Whoever reads may have gone; that a line is lost otherwise is told once, and no success.
pub(crate) fn tell(line: &Line, format: Format) {
    let mut out = std::io::stdout().lock();
    let text = match format {
        Format::Json => line.json().to_string(),
        Format::Text if out.is_terminal() => line.coloured(),
        Format::Text => line.text(),
    };
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !IS_UNWRITTEN.swap(true, Ordering::Relaxed)
    {
        to_stderr(format_args!("error: unable to write to standard output: {error}"));
    }
}

/// Whether a line was lost, for another reason than that nobody reads them any more.
static IS_UNWRITTEN: AtomicBool = AtomicBool::new(false);
