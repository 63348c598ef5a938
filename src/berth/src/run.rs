//! `berth run`: the controllers, in a cluster that exists.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_cloudprovider::{CloudProvider, ReservationAdoption};
use berth_cloudprovider_remote::RemoteCloud;
use berth_controllers::{Clock, Controllers, LeaseOptions};
use berth_sandbox::{Host, HostOptions};
use berth_simulate::RecordOptions;
use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::controllers::{ControllerArgs, stopped};
use crate::input::SolveArgs;
use crate::onlookers::{self, OnlookerArgs, Story};
use crate::{cluster, telemetry};

/// Run Berth's controllers against a cluster: pending pods become nodes, and nodes go when nobody needs them
///
/// One process leads, by a Lease; others stand by. With --dry-run it decides and says what it would do, and writes nothing.
/// Ends by Ctrl-C or SIGTERM and gives the Lease back. Exits with 2 if it cannot start.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kubeconfig (default: the cluster that this process runs in, else as for kubectl)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context (default: the current one)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The cloud
    #[arg(long, value_enum)]
    provider: Provider,
    /// Instance catalogue of the fake cloud, JSON or YAML; without it, the built-in one (see `berth catalog`)
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
    #[command(flatten)]
    patience: cluster::PatienceArgs,
    /// The fake cloud that `berth cloud` serves here, instead of one in this process
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["instance_types", "page", "record", "record_trace"])]
    cloud_address: Option<SocketAddr>,
    /// Decide, and say what would be done; write nothing and launch nothing. Needs no Lease
    #[arg(long)]
    dry_run: bool,
    /// The schedulers whose pods are bound here, or * for all; pods of others are planned once they are marked unschedulable
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "berth-scheduler,koord-scheduler")]
    scheduler_names: Vec<String>,
    /// Lead without a Lease: only where no other process can run
    #[arg(long)]
    no_leader_election: bool,
    /// The namespace of the Lease
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    lease_namespace: String,
    /// The name of the Lease; Karpenter's, so that only one of both acts
    #[arg(long, value_name = "NAME", default_value = "karpenter-leader-election")]
    lease_name: String,
    #[command(flatten)]
    solve: SolveArgs,
    #[command(flatten)]
    controllers: ControllerArgs,
    #[command(flatten)]
    onlookers: OnlookerArgs,
    #[command(flatten)]
    telemetry: telemetry::TelemetryArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Provider {
    /// A cloud in this process: its machines join the cluster as nodes that run nothing, and go with the process
    Fake,
}

/// Where the cloud is.
enum Cloud {
    Here(Host),
    Elsewhere(Box<RemoteCloud>),
}

// === impl Cloud ===

impl Cloud {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        match self {
            Self::Here(host) => Arc::new(host.cloud().clone()),
            Self::Elsewhere(cloud) => Arc::new((**cloud).clone()),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let solve = args.solve.options()?;
    let (_, catalogue, warnings) =
        berth_sandbox::read_inputs(&[], args.instance_types.as_deref(), berth_sandbox::Reading::default())?;
    for warning in warnings {
        crate::output::to_stderr(format_args!("warning: {warning}"));
    }
    let onlookers = args.onlookers.open()?;
    args.telemetry.start_log(Some(telemetry::Level::Info));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("unable to start threads")?;
    let ran = runtime.block_on(async {
        let (client, context) = cluster::connect_long(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        args.patience.ask(async || check(&client, &context, args).await).await?;
        let now = Timestamp::now();
        let Provider::Fake = args.provider;
        let options = HostOptions {
            now,
            seed: RandomState::new().hash_one(now),
            catalogue: catalogue.clone(),
            boot_delay: Duration::from_secs(2),
            adoption: ReservationAdoption::Never,
            is_dry: args.dry_run,
            node_overlay: solve.gates.node_overlay,
        };
        let (seed, boot_delay, adoption) = (options.seed, options.boot_delay, options.adoption);
        let story = Story::default();
        let told = Arc::clone(&story);
        let cloud = match args.cloud_address {
            Some(address) => Cloud::Elsewhere(Box::new(RemoteCloud::connect(address).await?)),
            None => Cloud::Here(
                Host::start(client.clone(), options, move |line| {
                    tracing::info!(target: "berth_sandbox::cloud", event = line.event, "{}", line.message);
                    onlookers::say(&told, line.event, &line.message);
                })
                .await?,
            ),
        };
        let mut options = args.controllers.options(&solve, berth_controllers::Timings::default());
        let is_any = args.scheduler_names.iter().any(|name| name == "*");
        options.scheduler_names = (!is_any).then(|| args.scheduler_names.iter().cloned().collect());
        options.seed = RandomState::new().hash_one(now);
        options.lease = (!args.no_leader_election && !args.dry_run).then(|| LeaseOptions {
            namespace: args.lease_namespace.clone(),
            name: args.lease_name.clone(),
            identity: identity(),
            ..LeaseOptions::default()
        });
        let record =
            RecordOptions { seed, controllers: options.clone(), boot_delay, stop_delay: None, adoption, catalogue };
        let controllers = Controllers::new(client.clone(), cloud.provider(), Clock::starting_at(now), options);
        let (controllers, metrics) = controllers.with_metrics();
        let beside = if let Cloud::Here(host) = &cloud
            && onlookers.is_any()
        {
            let title = format!("Berth: {context}");
            Some(onlookers.begin(&client, host.cloud(), &title, true, record, (Some(&metrics), &story)).await?)
        } else {
            None
        };
        let would = move |line: &str| {
            say(line);
            onlookers::say(&story, "WouldDo", line);
        };
        let controllers = if args.dry_run { controllers.dry(would) } else { controllers };
        let _server = args.telemetry.serve(metrics).await?;
        tracing::info!(context, provider = "fake", dry_run = args.dry_run, "started");
        Box::pin(controllers.run(stopped())).await;
        if let Some(beside) = beside {
            beside.end().await?;
        }
        tracing::info!("ended");
        anyhow::Ok(())
    });
    runtime.shutdown_background();
    ran.map(|()| ExitCode::SUCCESS)
}

/// Whether this cluster is one to act in.
async fn check(client: &Client, context: &str, args: &Args) -> Result<()> {
    cluster::expect_definitions(client, context).await?;
    if args.dry_run {
        return Ok(());
    }
    // Two that do the same undo each other's work.
    let leases = Api::<Lease>::all(client.clone()).list(&ListParams::default()).await;
    let leases = leases.map_err(|error| cluster::told(&error, context).context("unable to list leases"))?;
    let now = Timestamp::now();
    for lease in leases.items.iter().filter(|lease| is_held(lease, now)) {
        let (namespace, name) = (lease.metadata.namespace.as_deref(), lease.metadata.name.as_deref());
        let is_own = namespace == Some(&args.lease_namespace) && name == Some(&args.lease_name);
        let serves = match name {
            Some("karpenter-leader-election") => !is_own,
            Some(scheduler @ "koord-scheduler") => {
                args.scheduler_names.iter().any(|own| own == scheduler || own == "*")
            }
            _ => false,
        };
        if serves {
            bail!(
                "cluster of context {context}: Lease {}/{} is held, so another controller does the same work; stop it, leave its \
                 pods to it with --scheduler-names, or look on with --dry-run",
                namespace.unwrap_or_default(),
                name.unwrap_or_default()
            );
        }
    }
    Ok(())
}

/// Whether somebody renewed a Lease within its duration.
fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let is_somebody = spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
    let duration = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(15)));
    is_somebody && spec.renew_time.as_ref().is_some_and(|renewed| now.duration_since(renewed.0) < duration)
}

/// Who this process is: the machine's or the pod's name, and what no other process has.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.as_deref().map(str::trim).filter(|host| !host.is_empty()).unwrap_or("berth").to_owned();
    format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Prints what would be done, at once; whoever reads may have gone.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{} {line}", Timestamp::now().strftime("%H:%M:%S")).and_then(|()| out.flush()));
}
