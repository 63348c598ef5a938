//! `simulate --record`: the page of a simulation, with a slider for its time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_cloudprovider::{Instance, ProviderId};
use berth_page::{Page, PageOptions};
use berth_simulate::{Client, CloudEvent, FakeCloud, Onlooker};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::onlookers::{price, price_changes};
use crate::output::to_stderr;

/// A recording has so many moments, or one a second where there would be more.
const MOMENTS: u32 = 2_000;

/// What happens within this time is told together.
const TOGETHER: Duration = Duration::from_secs(1);

/// A page that looks on while a simulation runs, and the file that it is written to.
pub(crate) struct Recording {
    title: String,
    tick: Duration,
    file: File,
    path: PathBuf,
    page: Option<Page>,
    happened: Arc<Mutex<Happened>>,
    /// What each instance is, for when it goes.
    instances: BTreeMap<ProviderId, String>,
    written: std::io::Result<bool>,
}

/// What happened and has not been told yet: alike things together, with the names of the nodes.
type Happened = BTreeMap<(&'static str, String), Vec<String>>;

// === impl Recording ===

impl Recording {
    /// Makes the file, so that one that cannot be made is told before a long simulation.
    pub(crate) fn create(path: &Path, title: &str, duration: Duration) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("unable to write {}", path.display()))?;
        Ok(Self {
            title: format!("Berth: {title}"),
            tick: (duration / MOMENTS).max(Duration::from_secs(1)),
            file,
            path: path.to_owned(),
            page: None,
            happened: Arc::default(),
            instances: BTreeMap::new(),
            written: Ok(true),
        })
    }

    /// Says what became of the file.
    pub(crate) fn end(self) -> Result<()> {
        let is_all = self.written.with_context(|| format!("unable to write {}", self.path.display()))?;
        if !is_all {
            to_stderr(format_args!("warning: {}: too much happened, so its end is missing", self.path.display()));
        }
        Ok(())
    }

    /// Notes what happened, of a node where it has a name; it is told a moment later.
    fn note(&self, event: &'static str, what: String, node: &str) {
        let Some(page) = &self.page else { return };
        let mut happened = self.happened.lock();
        if happened.is_empty() {
            let (page, happened) = (page.clone(), Arc::clone(&self.happened));
            tokio::spawn(async move {
                tokio::time::sleep(TOGETHER).await;
                tell(&page, &happened);
            });
        }
        happened.entry((event, what)).or_default().push(node.to_owned());
    }
}

impl Onlooker for Recording {
    fn begin(&mut self, client: &Client, cloud: &FakeCloud) {
        let counted = cloud.clone();
        let slots = move || {
            let counts = counted.reservation_counts().into_iter();
            counts.map(|slots| (slots.id, slots.used, slots.total)).collect()
        };
        let options = PageOptions {
            title: self.title.clone(),
            price: price(cloud),
            price_changes: price_changes(cloud),
            explain: None,
            with_events: false,
            records: true,
            tick: self.tick,
            slots: Some(Arc::new(slots)),
        };
        self.page = Some(Page::start(client, options));
    }

    fn happened(&mut self, _at: Timestamp, event: &CloudEvent) {
        match event {
            CloudEvent::Launched { instance, .. } => {
                let what = shown(instance);
                self.note("Launched", format!("{what} launched"), "");
                self.instances.insert(instance.provider_id.clone(), what);
            }
            CloudEvent::Refused { error, .. } => {
                self.note("LaunchRefused", format!("a launch was refused: {error}"), "");
            }
            CloudEvent::Interrupted { node_name, .. } => {
                self.note("Interrupted", "the cloud takes it back".to_owned(), node_name);
            }
            CloudEvent::Relabelled { node_name, instance } => {
                let what = match &instance.reservation {
                    Some(reservation) => format!("it has come under {reservation}"),
                    None => "its reservation has ended".to_owned(),
                };
                self.note("Relabelled", what, node_name);
                self.instances.insert(instance.provider_id.clone(), shown(instance));
            }
            CloudEvent::Stopped { node_name, died: true, .. } => {
                self.note("MachineDied", "its machine died".to_owned(), node_name);
            }
            CloudEvent::Terminated(id) => {
                let what = self.instances.remove(id).unwrap_or_else(|| "an instance".to_owned());
                self.note("Terminated", format!("{what} terminated"), "");
            }
            CloudEvent::Booted(_) | CloudEvent::Stopped { .. } => {}
        }
    }

    fn step(&mut self, what: &str) {
        if let Some(page) = &self.page {
            // What came before it is told before it.
            tell(page, &self.happened);
            page.say("Scenario", what);
        }
    }

    fn end(&mut self) {
        if let Some(page) = self.page.take() {
            tell(&page, &self.happened);
            // The slider goes to the end, even if nothing happens there.
            page.say("Scenario", "the end");
            let mut writer = BufWriter::new(&self.file);
            let written = berth_page::write_recording(&page, &mut writer);
            self.written = written.and_then(|is_all| writer.flush().map(|()| is_all));
        }
    }
}

/// Tells the page what has happened.
fn tell(page: &Page, happened: &Mutex<Happened>) {
    for ((event, what), names) in std::mem::take(&mut *happened.lock()) {
        let message = match names.as_slice() {
            [only] if only.is_empty() => what,
            [only] => format!("node {only}: {what}"),
            all => format!("{} × {what}", all.len()),
        };
        page.say(event, &message);
    }
}

/// `m5.xlarge on cr-web`, or `spot m5.xlarge in port-1a`.
fn shown(instance: &Instance) -> String {
    let offering = &instance.offering;
    if let Some(reservation) = &instance.reservation {
        return format!("{} on {reservation}", offering.instance_type);
    }
    let zone = offering.zone.as_ref().map_or_else(String::new, |zone| format!(" in {zone}"));
    format!("{} {}{zone}", offering.capacity_type, offering.instance_type)
}
