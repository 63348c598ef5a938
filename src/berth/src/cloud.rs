//! `berth cloud`: the fake cloud as a process of its own.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_cloudprovider_fake::cloud::NODE_CLASS;
use berth_cloudprovider_remote::Server;
use berth_sandbox::{Host, HostOptions, Line};
use jiff::Timestamp;

use crate::adoption::AdoptionArgs;
use crate::controllers::stopped;
use crate::sandbox::{Format, tell};
use crate::{cluster, telemetry};

/// Run the fake cloud of a cluster as a process of its own: Berth can be stopped, and its machines live on
///
/// Its machines join the cluster as nodes that run nothing. Berth calls it on loopback, where nobody is asked who they are:
/// `berth run --provider fake --cloud-address ADDRESS:PORT`. The first line says the address, the others what happens. Ends
/// by Ctrl-C or SIGTERM, and forgets its machines then. Exits with 2 if it cannot start.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kubeconfig (default: the cluster that this process runs in, else as for kubectl)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context (default: the current one)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    patience: cluster::PatienceArgs,
    /// Where calls are answered, on loopback; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Instance catalogue, JSON or YAML; without it, the built-in one (see `berth catalog`)
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
    /// How long a machine takes to boot, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    boot_delay: u32,
    /// Machines cost and have what NodeOverlays say: for `berth run --feature-gates NodeOverlay=true`
    #[arg(long)]
    node_overlays: bool,
    #[command(flatten)]
    adoption: AdoptionArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    log: telemetry::LogArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (_, catalogue, warnings) =
        berth_sandbox::read_inputs(&[], args.instance_types.as_deref(), berth_sandbox::Reading::default())?;
    for warning in warnings {
        crate::output::to_stderr(format_args!("warning: {warning}"));
    }
    args.log.start(None);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("unable to start threads")?;
    let ran = runtime.block_on(async {
        let (client, context) = cluster::connect_long(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        args.patience.ask(async || cluster::expect_definitions(&client, &context).await).await?;
        let now = Timestamp::now();
        let options = HostOptions {
            now,
            seed: RandomState::new().hash_one(now),
            catalogue,
            boot_delay: Duration::from_secs(args.boot_delay.into()),
            adoption: args.adoption.adoption(),
            is_dry: false,
            node_overlay: args.node_overlays,
        };
        let output = args.output;
        let host = Host::start(client, options, move |line| tell(line, output)).await?;
        let (group, kind) = NODE_CLASS;
        let kinds = vec![(group.to_owned(), kind.to_owned())];
        let server = Server::start(args.listen, Arc::new(host.cloud().clone()), kinds).await?;
        let message = format!("calls of the cloud are answered at {}", server.address());
        tell(&Line { time: host.cloud().now(), event: "Serving", message }, output);
        stopped().await;
        anyhow::Ok(())
    });
    runtime.shutdown_background();
    ran.map(|()| ExitCode::SUCCESS)
}
