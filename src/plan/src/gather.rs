//! From inputs to one cluster: objects are folded in as they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::{NodeClassRef, NodePool};
use berth_catalogue::Catalogue;
use berth_cloudprovider_aws::NodeClass;
use berth_convert::{Builder, ConvertError, Converted, Problem};
use berth_manifests::{ManifestError, Object, Source, Summary};
use jiff::Timestamp;

use crate::applied::Applied;
use crate::closed::without_closed;
use crate::disrupt::Live;
use crate::{Options, PlanError, repack, skipped};

/// A cluster with what was noticed on the way.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) converted: Converted,
    /// About unknown fields and passed-over objects, a line each.
    pub(crate) notes: Vec<String>,
    /// By warning of an object that is given more than once: where it was given last.
    pub(crate) repeats: BTreeMap<String, Source>,
    /// What the catalogue says of itself, a line each.
    pub(crate) catalogue_notes: Vec<String>,
    /// The cluster without what is to change.
    pub(crate) before: Option<Converted>,
    /// The cluster as if it had no nodes.
    pub(crate) scratch: Option<Converted>,
    /// The cluster as it stands, where disruption asks about it.
    pub(crate) live: Option<Live>,
    /// Time spent converting, reading and parsing aside.
    pub(crate) time: Duration,
    /// How many nodes each static NodePool is to have, and was to have before the change.
    pub(crate) replicas: BTreeMap<String, u32>,
    pub(crate) replicas_before: BTreeMap<String, u32>,
}

/// Folds objects into a cluster and takes the time.
pub(crate) struct Gatherer {
    builder: Builder,
    /// What is given before the change.
    before: Option<Builder>,
    /// Everything as if there were no nodes.
    scratch: Option<Builder>,
    /// What the cluster has said of objects that the change may give again.
    applied: Applied,
    /// Whether what comes now is the change.
    is_change: bool,
    time: Duration,
    notes: Vec<String>,
    repeats: BTreeMap<String, Source>,
    skipped: BTreeMap<(String, String), u64>,
    catalogue: Catalogue,
    node_classes: NodeClasses,
    /// Objects that cannot be used, which are told together.
    faults: Vec<ManifestError>,
    n_faults: usize,
    live: Option<Live>,
    /// How many nodes each static NodePool is to have, where they are launched at all.
    replicas: BTreeMap<String, u32>,
    replicas_before: BTreeMap<String, u32>,
    has_static: bool,
    /// The time of the plan.
    now: Option<Timestamp>,
}

/// The node classes that decide what their NodePools may launch.
#[derive(Default)]
struct NodeClasses {
    /// By group, kind and name.
    known: BTreeMap<(String, String, String), NodeClass>,
    /// Those that NodePools name.
    named: BTreeSet<(String, String, String)>,
}

/// Faults that are kept; the rest is counted.
const KEPT_FAULTS: usize = 20;

/// Names of files that a note lists.
const LISTED_FILES: usize = 5;

impl Gatherer {
    pub(crate) fn new(options: &Options) -> Self {
        Gatherer {
            builder: Builder::new(options.gates.clone()),
            before: None,
            scratch: options.repack.then(|| Builder::new(options.gates.clone())),
            applied: Applied::default(),
            is_change: false,
            time: Duration::ZERO,
            notes: Vec::new(),
            repeats: BTreeMap::new(),
            skipped: BTreeMap::new(),
            catalogue: Catalogue::default(),
            node_classes: NodeClasses::default(),
            faults: Vec::new(),
            n_faults: 0,
            live: options.asks_state().then(Live::default),
            replicas: BTreeMap::new(),
            replicas_before: BTreeMap::new(),
            has_static: options.gates.static_capacity,
            now: options.now,
        }
    }

    /// Keeps what has been given apart from the change that is to come. To be called before anything is added.
    pub(crate) fn expect_change(&mut self, options: &Options) {
        self.builder.expect_change();
        self.scratch.iter_mut().for_each(Builder::expect_change);
        self.before = Some(Builder::new(options.gates.clone()));
    }

    /// What comes now is the change.
    pub(crate) fn begin_change(&mut self) {
        self.is_change = true;
        self.builder.begin_change();
        self.scratch.iter_mut().for_each(Builder::begin_change);
        self.live.iter_mut().for_each(Live::begin_change);
        self.replicas_before = self.replicas.clone();
    }

    /// One object, as the reader delivers it. What is wrong with it is told by [`Gatherer::note`].
    pub(crate) fn add(&mut self, source: Source, object: &Object) {
        let start = Instant::now();
        let merged = if self.is_change { self.applied.merged(object) } else { None };
        let object = merged.as_ref().map_or(object, |merged| &merged.object);
        self.notes.extend(merged.as_ref().and_then(|merged| merged.warning.clone()));
        if self.before.is_some() && !self.is_change {
            self.applied.keep(object);
        }
        let added = fold(&mut self.builder, object);
        // What is wrong with it is told once.
        if let Some(before) = self.before.as_mut().filter(|_| !self.is_change) {
            let _ = fold(before, object);
        }
        if let Some(scratch) = &mut self.scratch
            && let Some(object) = repack::without_nodes(object)
        {
            let _ = fold(scratch, &object);
        }
        self.node_classes.add(object);
        if let Object::NodePool(pool) = object {
            self.add_replicas(pool);
        }
        if let Some(live) = &mut self.live {
            live.add(object);
        }
        self.time += start.elapsed();
        if let Some(warning) = self.builder.take_repeated() {
            self.repeats.insert(warning, source.clone());
        }
        if let Err(error) = added {
            self.n_faults += 1;
            if self.faults.len() < KEPT_FAULTS {
                self.faults.push(located(source, &error));
            }
        }
    }

    /// Time spent converting so far.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// How many nodes a NodePool is to have: what is given last counts.
    fn add_replicas(&mut self, pool: &NodePool) {
        let Some(name) = &pool.metadata.name else { return };
        let is_there = self.has_static && pool.metadata.deletion_timestamp.is_none();
        match pool.spec.replicas.filter(|_| is_there).and_then(|replicas| u32::try_from(replicas).ok()) {
            Some(replicas) => drop(self.replicas.insert(name.clone(), replicas)),
            None => drop(self.replicas.remove(name)),
        }
    }

    /// What the reader says at the end of its inputs.
    ///
    /// # Errors
    /// What is wrong with the inputs, by place.
    pub(crate) fn note(&mut self, read: Result<Summary, ManifestError>) -> Result<(), PlanError> {
        let reading = berth_manifests::Options::default();
        let faults = std::mem::take(&mut self.faults).into_iter();
        let mut faults: Vec<_> = faults.map(|fault| berth_manifests::with_places(fault, &reading)).collect();
        let mut n_faults = self.n_faults;
        let summary = match read {
            Ok(summary) => Some(summary),
            Err(error) => {
                let (of_reader, n_all) = error.into_faults();
                faults.extend(of_reader);
                n_faults += n_all;
                None
            }
        };
        faults.sort_by(|a, b| (a.source_document(), a.file()).cmp(&(b.source_document(), b.file())));
        if let Some(error) = ManifestError::several(faults, n_faults) {
            return Err(error.into());
        }
        let Some(summary) = &summary else { return Ok(()) };
        self.notes.extend(summary.warnings.iter().map(ToString::to_string));
        let unlisted = summary.n_warnings.saturating_sub(summary.warnings.len() as u64);
        if unlisted > 0 {
            self.notes.push(format!("and {unlisted} more objects with unknown fields"));
        }
        let (kustomizations, foreign): (Vec<_>, Vec<_>) =
            summary.foreign.iter().partition(|file| berth_manifests::is_kustomization(Path::new(file)));
        if let Some(first) = kustomizations.first() {
            self.notes.push(skipped::kustomization(first, self.is_change));
        }
        let listed: Vec<_> = foreign.iter().take(LISTED_FILES).map(|file| file.as_str()).collect();
        if !listed.is_empty() {
            let rest = match foreign.len() - listed.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            self.notes.push(format!("passed over, since they hold no Kubernetes objects: {}{rest}", listed.join(", ")));
        }
        let is_of_change = |kind: &(String, String)| self.is_change && skipped::is_kustomization(kind);
        if summary.skipped.keys().any(is_of_change) {
            self.notes.push(skipped::kustomization("a Kustomization", true));
        }
        for (kind, count) in summary.skipped.iter().filter(|(kind, _)| !is_of_change(kind)) {
            *self.skipped.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }

    pub(crate) fn set_catalogue(&mut self, catalogue: Catalogue) -> Result<(), PlanError> {
        let start = Instant::now();
        let (catalogue, note) = match self.now {
            Some(now) => without_closed(catalogue, now),
            None => (catalogue, None),
        };
        self.notes.extend(note);
        for builder in self.builders() {
            builder.set_catalogue(&catalogue)?;
        }
        self.catalogue = catalogue;
        self.time += start.elapsed();
        Ok(())
    }

    fn builders(&mut self) -> impl Iterator<Item = &mut Builder> {
        [Some(&mut self.builder), self.before.as_mut(), self.scratch.as_mut()].into_iter().flatten()
    }

    /// What the catalogue says a plan must tell, each once.
    fn catalogue_notes(&self) -> Vec<String> {
        let mut told = BTreeSet::new();
        let notes = self.catalogue.types().iter().flat_map(|known| &known.notes);
        notes.filter(|note| told.insert(note.as_str())).cloned().collect()
    }

    pub(crate) fn finish(mut self) -> Result<Gathered, PlanError> {
        self.notes.extend(skipped::notes(&self.skipped));
        let start = Instant::now();
        for class in self.node_classes.in_use() {
            let view = class.view(&self.catalogue)?;
            self.notes.extend(view.warnings);
            for builder in [Some(&mut self.builder), self.before.as_mut(), self.scratch.as_mut()].into_iter().flatten()
            {
                builder.add_class_catalogue(&class.reference(), &view.catalogue)?;
            }
            if let Some(live) = &mut self.live {
                live.add_class(class.reference(), view.catalogue);
            }
        }
        let catalogue_notes = self.catalogue_notes();
        if let Some(live) = &mut self.live {
            live.set_catalogue(self.catalogue);
        }
        let converted = self.builder.finish()?;
        let before = self.before.map(Builder::finish).transpose()?;
        let mut scratch = self.scratch.map(Builder::finish).transpose()?;
        if let Some(scratch) = &mut scratch {
            repack::free_slots(&mut scratch.cluster, &converted.cluster);
        }
        let time = self.time + start.elapsed();
        let (notes, repeats, live) = (self.notes, self.repeats, self.live);
        let (replicas, replicas_before) = (self.replicas, self.replicas_before);
        Ok(Gathered {
            converted,
            notes,
            repeats,
            catalogue_notes,
            before,
            scratch,
            live,
            time,
            replicas,
            replicas_before,
        })
    }
}

// === impl NodeClasses ===

impl NodeClasses {
    fn add(&mut self, object: &Object) {
        let key = |class: &NodeClassRef| (class.group.clone(), class.kind.clone(), class.name.clone());
        let class = match object {
            Object::EC2NodeClass(class) => NodeClass::Ec2(class.clone()),
            Object::NodeClass(class) => NodeClass::Eks(class.clone()),
            Object::NodePool(pool) => {
                self.named.extend(pool.spec.template.spec.node_class_ref.as_ref().map(key));
                return;
            }
            _ => return,
        };
        self.known.insert(key(&class.reference()), class);
    }

    fn in_use(&self) -> impl Iterator<Item = &NodeClass> {
        self.named.iter().filter_map(|name| self.known.get(name))
    }
}

/// The catalogue in a file, or the fake provider's.
pub(crate) fn read_catalogue(file: Option<&Path>) -> Result<Catalogue, PlanError> {
    let Some(file) = file else {
        return Ok(berth_cloudprovider_fake::catalogue());
    };
    let text = berth_manifests::read_file(file)
        .map_err(|source| PlanError::ReadCatalogue { file: file.to_path_buf(), source })?;
    Ok(berth_catalogue::read(&text, &file.display().to_string())?)
}

fn fold(builder: &mut Builder, object: &Object) -> Result<(), ConvertError> {
    match object {
        Object::Pod(object) => builder.add_pod(object),
        Object::Node(object) => builder.add_node(object),
        Object::Namespace(object) => builder.add_namespace(object),
        Object::ReplicationController(object) => builder.add_replication_controller(object),
        Object::Service(object) => builder.add_service(object),
        Object::LimitRange(object) => builder.add_limit_range(object),
        Object::ResourceQuota(object) => builder.add_resource_quota(object),
        Object::PersistentVolume(object) => builder.add_persistent_volume(object),
        Object::PersistentVolumeClaim(object) => builder.add_persistent_volume_claim(object),
        Object::Deployment(object) => builder.add_deployment(object),
        Object::StatefulSet(object) => builder.add_stateful_set(object),
        Object::ReplicaSet(object) => builder.add_replica_set(object),
        Object::DaemonSet(object) => builder.add_daemon_set(object),
        Object::Job(object) => builder.add_job(object),
        Object::CronJob(object) => builder.add_cron_job(object),
        Object::RuntimeClass(object) => builder.add_runtime_class(object),
        Object::PriorityClass(object) => builder.add_priority_class(object),
        Object::PodDisruptionBudget(object) => builder.add_pod_disruption_budget(object),
        Object::HorizontalPodAutoscaler(object) => builder.add_horizontal_pod_autoscaler(object),
        Object::StorageClass(object) => builder.add_storage_class(object),
        Object::CSINode(object) => builder.add_csi_node(object),
        Object::NodePool(object) => builder.add_node_pool(object),
        Object::NodeClaim(object) => builder.add_node_claim(object),
        Object::NodeOverlay(object) => builder.add_node_overlay(object),
        Object::Reservation(object) => builder.add_reservation(object),
        Object::Device(object) => builder.add_device(object),
        Object::NodeResourceTopology(object) => builder.add_node_resource_topology(object),
        // Read, so that a mistake in them is found; a plan does not depend on them.
        _ => Ok(()),
    }
}

/// The error of a conversion, with the place that the reader knows.
fn located(source: Source, error: &ConvertError) -> ManifestError {
    let problems = error.problems().iter();
    let problems = problems.map(|Problem { path, message }| berth_manifests::Problem::new(path, message.as_str()));
    ManifestError::new(source, error.kind(), error.name(), problems.collect())
}
