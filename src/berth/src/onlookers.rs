//! What `sandbox` and `run` share: who looks on, such as a recorder and a page.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use berth_cloudprovider::ProviderId;
use berth_controllers::metrics::Metrics;
use berth_page::{Explain, Page, PageOptions, Price, PriceChanges, Server};
use berth_plan::{ObjectRef, Terminal};
use berth_simulate::{FakeCloud, RecordOptions, record};
use kube::Client;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::output::to_stderr;

/// Who looks on.
#[derive(Clone, clap::Args)]
pub(crate) struct OnlookerArgs {
    /// Write what is done to the cluster to this file, as a trace that `berth simulate` plays again
    #[arg(long, value_name = "FILE")]
    record_trace: Option<PathBuf>,
    /// Serve a page on loopback that shows the cluster as it changes; without an address, on a free port
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    page: Option<SocketAddr>,
    /// Write what the page shows to this file at the end: one page that plays it again
    #[arg(long, value_name = "FILE.html")]
    record: Option<PathBuf>,
}

/// The files that are written, opened before anything begins.
pub(crate) struct Opened {
    args: OnlookerArgs,
    trace: Option<File>,
    recording: Option<File>,
}

/// The page, once there is one; told the story.
pub(crate) type Story = Arc<OnceLock<Page>>;

/// Those who look on, until they are told that it is over.
pub(crate) struct Onlookers {
    recorder: Option<(oneshot::Sender<()>, JoinHandle<std::io::Result<()>>, PathBuf)>,
    recording: Option<(File, PathBuf)>,
    page: Option<Page>,
    _server: Option<Server>,
}

// === impl OnlookerArgs ===

impl OnlookerArgs {
    /// Makes the files, so that one that cannot be made is told at once.
    pub(crate) fn open(&self) -> Result<Opened> {
        let create = |path: &Option<PathBuf>| match path {
            Some(path) => File::create(path).map(Some).with_context(|| format!("unable to write {}", path.display())),
            None => Ok(None),
        };
        Ok(Opened { args: self.clone(), trace: create(&self.record_trace)?, recording: create(&self.record)? })
    }
}

// === impl Opened ===

impl Opened {
    /// Whether anybody looks on.
    pub(crate) fn is_any(&self) -> bool {
        self.trace.is_some() || self.recording.is_some() || self.args.page.is_some()
    }

    /// Lets them begin to look.
    pub(crate) async fn begin(
        self,
        client: &Client,
        cloud: &FakeCloud,
        title: &str,
        with_events: bool,
        options: RecordOptions,
        (metrics, story): (Option<&Metrics>, &Story),
    ) -> Result<Onlookers> {
        let page = (self.recording.is_some() || self.args.page.is_some()).then(|| {
            let options = PageOptions {
                title: title.to_owned(),
                price: price(cloud),
                price_changes: price_changes(cloud),
                explain: Some(explain(client, metrics, title.trim_start_matches("Berth: "), &options)),
                with_events,
                records: self.recording.is_some(),
                tick: berth_page::TICK,
                slots: None,
            };
            Page::start(client, options)
        });
        if let Some(page) = &page {
            // There is one page.
            drop(story.set(page.clone()));
        }
        let server = match (self.args.page, &page) {
            (Some(address), Some(page)) => {
                let server = Server::start(address, page.clone()).await?;
                to_stderr(format_args!("the page: http://{}/", server.address()));
                Some(server)
            }
            _ => None,
        };
        let recorder = self.trace.zip(self.args.record_trace).map(|(file, path)| {
            let (stop, stopped) = oneshot::channel::<()>();
            let (client, cloud) = (client.clone(), cloud.clone());
            let until = async { drop(stopped.await) };
            let told = path.clone();
            let task = tokio::spawn(async move {
                let recorded = record(client, cloud, options, BufWriter::new(file), until).await.map(drop);
                if let Err(error) = &recorded {
                    // Its end may be days away.
                    to_stderr(format_args!("warning: {}: nothing more is recorded: {error}", told.display()));
                }
                recorded
            });
            (stop, task, path)
        });
        Ok(Onlookers { recorder, recording: self.recording.zip(self.args.record), page, _server: server })
    }
}

// === impl Onlookers ===

impl Onlookers {
    /// It is over: files are finished, each whatever became of the other.
    pub(crate) async fn end(self) -> Result<()> {
        let traced = match self.recorder {
            Some((stop, task, path)) => {
                // It may have ended by an error, which the task tells.
                stop.send(()).ok();
                let recorded = task.await.context("the recorder ended early");
                recorded.and_then(|recorded| recorded.with_context(|| unable_to_write(&path)))
            }
            None => Ok(()),
        };
        let recorded = self.recording.zip(self.page).map_or(Ok(()), |((file, path), page)| {
            write_recording(&page, file, &path).with_context(|| unable_to_write(&path))
        });
        traced.and(recorded)
    }
}

fn write_recording(page: &Page, file: File, path: &Path) -> std::io::Result<()> {
    let mut writer = BufWriter::new(file);
    let is_all = berth_page::write_recording(page, &mut writer)?;
    writer.flush()?;
    if !is_all {
        to_stderr(format_args!("warning: {}: too much happened, so its end is missing", path.display()));
    }
    Ok(())
}

fn unable_to_write(path: &Path) -> String {
    format!("unable to write {}", path.display())
}

/// Tells the story of an object as `berth explain` does, planned as the controllers plan: from the state that they decide by; where none
/// lead here, from the cluster.
fn explain(client: &Client, metrics: Option<&Metrics>, context: &str, options: &RecordOptions) -> Explain {
    let (client, context, catalogue) = (client.clone(), context.to_owned(), options.catalogue.clone());
    let metrics = metrics.cloned();
    let controllers = &options.controllers;
    let options = berth_plan::Options {
        effort: controllers.solve.effort,
        node_cost: controllers.solve.node_cost,
        gpu_types_for_any_pod: controllers.solve.gpu_types_for_any_pod,
        gates: controllers.convert.clone(),
        eviction_price: controllers.eviction_price,
        keeps_objects: true,
        ..berth_plan::Options::default()
    };
    Arc::new(move |of| {
        let (client, metrics, context) = (client.clone(), metrics.clone(), context.clone());
        let (catalogue, mut options) = (catalogue.clone(), options.clone());
        Box::pin(async move {
            let object: ObjectRef = of.parse().map_err(|error: berth_plan::ParseObjectError| error.to_string())?;
            options.without_node = (object.kind == berth_plan::Kind::Node).then(|| object.name.clone());
            let state = match &metrics {
                Some(metrics) => metrics.state().await,
                None => None,
            };
            let inputs = match state {
                Some(_) => Vec::new(),
                None => crate::cluster::list_all(&client, &context).await.map_err(|error| format!("{error:#}"))?,
            };
            // A plan of a large cluster takes a while.
            let told = tokio::task::spawn_blocking(move || {
                let plan = match state {
                    Some(state) => berth_plan::plan_state(*state, &options)?,
                    None => berth_plan::plan_offers(&inputs, catalogue, &options)?,
                };
                let mut text = Vec::new();
                plan.explain(&object, &options)?.write_text(false, Terminal::default(), &mut text)?;
                anyhow::Ok(String::from_utf8_lossy(&text).into_owned())
            });
            let told = told.await.map_err(|error| error.to_string())?;
            told.map_err(|error| format!("{error:#}"))
        })
    })
}

/// What instances of a cloud cost, as paid and without reservations.
pub(crate) fn price(cloud: &FakeCloud) -> Price {
    let machines = cloud.clone();
    Arc::new(move |id| {
        let prices = machines.prices(&ProviderId(id.to_owned()))?;
        let (own, list) = (prices.own.dollars(), prices.list.dollars());
        // On a slot, nothing is paid by the hour.
        Some([own, if own > 0.0 { own } else { list }])
    })
}

/// How often that may have changed of instances that run.
pub(crate) fn price_changes(cloud: &FakeCloud) -> PriceChanges {
    let cloud = cloud.clone();
    Arc::new(move || cloud.n_price_changes())
}

/// Tells the page a sentence, if there is one.
pub(crate) fn say(story: &Story, event: &str, message: &str) {
    if let Some(page) = story.get() {
        page.say(event, message);
    }
}
