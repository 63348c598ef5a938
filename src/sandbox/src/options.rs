//! What a sandbox is started with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_catalogue::Catalogue;
use berth_cloudprovider::ReservationAdoption;
use berth_controllers::Timings;
use berth_manifests::{Input, Object, Validate};
use jiff::Timestamp;

use crate::{SandboxError, size};

/// What a sandbox is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every clock shows at the start; they go with tokio's time.
    pub now: Timestamp,
    /// Decides names, ids and chance.
    pub seed: u64,
    /// The objects to begin with, in this order within their kinds.
    pub objects: Vec<Object>,
    /// What the cloud offers.
    pub catalogue: Catalogue,
    /// Where to write a kubeconfig once the server answers on loopback; without it, nothing listens.
    pub kubeconfig: Option<PathBuf>,
    /// Whether to end once everything has its place or nothing changes any more; a story ends by itself.
    pub settle: bool,
    /// How long nothing may change until the cluster counts as settled.
    pub quiet: Duration,
    /// How long a machine takes to boot.
    pub boot_delay: Duration,
    /// How long pods take to stop that do not say so. Half of the time that provisioning waits for more pods by default: in a
    /// rollout it hangs on no chance whether the old ones have made room for the new by then.
    pub stop_delay: Duration,
    /// The most that a request takes to reach the API server, by chance; nothing by default.
    pub request_delay: Duration,
    /// How running instances come under a reservation.
    pub adoption: ReservationAdoption,
    /// How Berth plans and acts.
    pub controllers: berth_controllers::Options,
    /// Whether to play the built-in story, and to end with it.
    pub story: bool,
    /// Whether Berth and its cloud run elsewhere: there is a cluster alone.
    pub without_berth: bool,
    /// Where metrics and health of Berth's controllers are asked for, once they run.
    pub on_metrics: Option<tokio::sync::mpsc::UnboundedSender<berth_controllers::metrics::Metrics>>,
    /// Who is told once the cluster runs and has the objects to begin with: a recorder, a page.
    pub on_begun:
        Option<tokio::sync::mpsc::UnboundedSender<(kube::Client, berth_cloudprovider_fake::cloud::FakeCloud)>>,
}

impl Options {
    /// An empty cluster on the built-in catalogue, which never ends by itself.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            seed: 0,
            objects: Vec::new(),
            catalogue: berth_cloudprovider_fake::catalogue(),
            kubeconfig: None,
            settle: false,
            quiet: Duration::from_secs(5),
            boot_delay: Duration::from_secs(2),
            stop_delay: Duration::from_millis(500),
            request_delay: Duration::ZERO,
            adoption: ReservationAdoption::Never,
            controllers: berth_controllers::Options { timings: timings(), ..berth_controllers::Options::default() },
            story: false,
            without_berth: false,
            on_metrics: None,
            on_begun: None,
        }
    }
}

/// The cloud is in memory and may be asked often; what is changed by hand shows soon.
fn timings() -> Timings {
    Timings { offers_period: Duration::from_secs(5), exhausted_for: Duration::from_secs(20), ..Timings::default() }
}

/// How objects are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// What becomes of fields that a kind does not have.
    pub validate: Validate,
    /// Whether the folders in folders are read, too.
    pub recursive: bool,
}

/// Reads manifests and a catalogue, as `plan` does. What was passed over is said in the warnings.
///
/// # Errors
/// Names the file, document and field that cannot be used.
pub fn read_inputs(
    inputs: &[Input],
    catalogue: Option<&Path>,
    reading: Reading,
) -> Result<(Vec<Object>, Catalogue, Vec<String>), SandboxError> {
    let mut objects = Vec::new();
    let mut manifests = berth_manifests::Options::default();
    manifests.validate = reading.validate;
    manifests.recursive = reading.recursive;
    manifests.config_maps = true;
    let mut summary = berth_manifests::read(inputs, &manifests, |_, object| {
        objects.push(object);
        Ok::<(), SandboxError>(())
    })?;
    let before = objects.len();
    keep_catalogues(&mut objects);
    if let Some(dropped @ 1..) = before.checked_sub(objects.len()) {
        let count = summary.skipped.entry((String::new(), "ConfigMap".to_owned())).or_default();
        *count += u64::try_from(dropped).unwrap_or_default();
    }
    size::check(&objects)?;
    let mut warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    for ((group, kind), count) in &summary.skipped {
        let group = if group.is_empty() { "v1" } else { group };
        warnings.push(format!("{count} objects of kind {kind} ({group}) are passed over: nothing here needs them"));
    }
    let catalogue = match catalogue {
        None => berth_cloudprovider_fake::catalogue(),
        Some(path) => {
            let text = berth_manifests::read_file(path)
                .map_err(|source| SandboxError::Read { path: path.to_owned(), source })?;
            let catalogue = berth_catalogue::read(&text, &path.display().to_string())?;
            warnings.extend(catalogue.warnings().iter().map(|warning| warning.message.clone()));
            catalogue
        }
    };
    Ok((objects, catalogue, warnings))
}

/// Takes out the ConfigMaps from which no node class takes its instance types.
fn keep_catalogues(objects: &mut Vec<Object>) {
    let mut wanted = BTreeSet::new();
    for object in &*objects {
        if let Object::FakeNodeClass(class) = object
            && let Some(reference) = &class.spec.instance_types
        {
            wanted.insert((reference.namespace.clone(), reference.name.clone()));
        }
    }
    objects.retain(|object| {
        let metadata = object.metadata();
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        let name = metadata.name.as_deref().unwrap_or_default();
        !matches!(object, Object::ConfigMap(_)) || wanted.contains(&(namespace.to_owned(), name.to_owned()))
    });
}
