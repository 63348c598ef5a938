//! Flags of the log and of metrics.

use std::net::SocketAddr;

use anyhow::Result;
use berth_controllers::metrics::Metrics;
use berth_telemetry::{Format, LevelFilter, Server};
use clap::ValueEnum;

/// The log.
#[derive(Clone, clap::Args)]
pub(crate) struct LogArgs {
    /// From where on the log is written to standard error
    #[arg(long, value_enum)]
    log_level: Option<Level>,
    /// How its lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// What is told of the process itself.
#[derive(Clone, clap::Args)]
pub(crate) struct TelemetryArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Serve /metrics, /healthz and /readyz here, such as 127.0.0.1:8080; port 0 takes a free one, which the log names
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_address: Option<SocketAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// A JSON object a line
    Json,
}

impl LogArgs {
    /// Starts the log, from `usual` on where no level is given; without either there is none.
    pub(crate) fn start(&self, usual: Option<Level>) {
        let level = match self.log_level.or(usual) {
            None | Some(Level::Off) => return,
            Some(Level::Error) => LevelFilter::ERROR,
            Some(Level::Warn) => LevelFilter::WARN,
            Some(Level::Info) => LevelFilter::INFO,
            Some(Level::Debug) => LevelFilter::DEBUG,
            Some(Level::Trace) => LevelFilter::TRACE,
        };
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        berth_telemetry::log_to_stderr(level, format);
    }
}

impl TelemetryArgs {
    /// Starts the log, as [`LogArgs::start`].
    pub(crate) fn start_log(&self, usual: Option<Level>) {
        self.log.start(usual);
    }

    /// Serves the metrics of controllers, if that is asked for.
    pub(crate) async fn serve(&self, metrics: Metrics) -> Result<Option<Server>> {
        let Some(address) = self.metrics_address else { return Ok(None) };
        let server = Server::start(address, metrics).await?;
        tracing::info!(address = %server.address(), "serving /metrics, /healthz and /readyz");
        Ok(Some(server))
    }
}
