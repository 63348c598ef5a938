//! Flags that say what nodes keep from pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use berth_cloudprovider_aws::{AmiFamily, EvictionThreshold, NodeSettings, VmMemoryOverhead, read_class};
use berth_manifests::{Input, Object};

/// What the system keeps from pods. Without any, what Karpenter's AWS provider counts with images of AL2023.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "What EC2 nodes keep from pods")]
pub(crate) struct NodeArgs {
    /// Take kubelet, disks and images of the EC2NodeClass in this file; the other flags change these
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Option<String>,
    /// Which EC2NodeClass, where the file has several
    #[arg(long, value_name = "NAME", requires = "filename")]
    node_class: Option<String>,
    /// AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022 or Windows2025
    #[arg(long, value_name = "FAMILY")]
    ami_family: Option<AmiFamily>,
    /// kubelet's maxPods; without it, as many as there are network addresses
    #[arg(long, value_name = "N")]
    max_pods: Option<u32>,
    /// kubelet's podsPerCore
    #[arg(long, value_name = "N")]
    pods_per_core: Option<u32>,
    /// kubelet's kubeReserved, such as cpu=100m,memory=1Gi
    #[arg(long, value_name = "NAME=AMOUNT,…", value_delimiter = ',')]
    kube_reserved: Vec<String>,
    /// kubelet's systemReserved
    #[arg(long, value_name = "NAME=AMOUNT,…", value_delimiter = ',')]
    system_reserved: Vec<String>,
    /// kubelet's evictionHard, such as memory.available=5%
    #[arg(long, value_name = "SIGNAL=AMOUNT,…", value_delimiter = ',')]
    eviction_hard: Vec<String>,
    /// The part of memory that firmware, hypervisor and kernel take, as Karpenter's setting of this name (0.075)
    #[arg(long, value_name = "PART")]
    vm_memory_overhead_percent: Option<VmMemoryOverhead>,
    /// Network interfaces that pods have no addresses on, as for custom networking
    #[arg(long, value_name = "N")]
    reserved_enis: Option<u32>,
    /// The network plugin gives prefixes of 16 addresses: up to 110 pods, or 250 from 31 vCPUs on
    #[arg(long)]
    prefix_delegation: bool,
    /// The size of the volume with kubelet's files (20Gi)
    #[arg(long, value_name = "SIZE")]
    volume_size: Option<String>,
    /// The instance store, where there is one, holds kubelet's files
    #[arg(long)]
    instance_store: bool,
}

impl NodeArgs {
    /// The name of a flag that is set.
    pub(super) fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--filename", self.filename.is_some()),
            ("--ami-family", self.ami_family.is_some()),
            ("--max-pods", self.max_pods.is_some()),
            ("--pods-per-core", self.pods_per_core.is_some()),
            ("--kube-reserved", !self.kube_reserved.is_empty()),
            ("--system-reserved", !self.system_reserved.is_empty()),
            ("--eviction-hard", !self.eviction_hard.is_empty()),
            ("--vm-memory-overhead-percent", self.vm_memory_overhead_percent.is_some()),
            ("--reserved-enis", self.reserved_enis.is_some()),
            ("--prefix-delegation", self.prefix_delegation),
            ("--volume-size", self.volume_size.is_some()),
            ("--instance-store", self.instance_store),
        ];
        flags.into_iter().find(|(_, is_set)| *is_set).map(|(flag, _)| flag)
    }

    /// The settings: those of the class, changed by the flags.
    pub(super) fn settings(&self) -> Result<NodeSettings> {
        let mut settings = NodeSettings {
            vm_memory_overhead: self.vm_memory_overhead_percent.unwrap_or_default(),
            reserved_interfaces: self.reserved_enis.unwrap_or_default(),
            prefix_delegation: self.prefix_delegation,
            ..NodeSettings::default()
        };
        if let Some(file) = &self.filename {
            settings = self.of_class(file, &settings)?;
        }
        settings.ami_family = self.ami_family.unwrap_or(settings.ami_family);
        settings.max_pods = self.max_pods.or(settings.max_pods);
        settings.pods_per_core = self.pods_per_core.or(settings.pods_per_core);
        settings.uses_instance_store |= self.instance_store;
        if let Some(size) = &self.volume_size {
            let size = size.parse().with_context(|| format!("--volume-size: expected a quantity, found {size:?}"))?;
            settings.volume = Some(size);
        }
        settings.kube_reserved.extend(pairs("--kube-reserved", &self.kube_reserved, |text| {
            text.parse::<berth_quantity::Quantity>().ok().filter(|amount| !amount.is_negative())
        })?);
        settings.system_reserved.extend(pairs("--system-reserved", &self.system_reserved, |text| {
            text.parse::<berth_quantity::Quantity>().ok().filter(|amount| !amount.is_negative())
        })?);
        let threshold = |text: &str| text.parse::<EvictionThreshold>().ok();
        settings.eviction_hard.extend(pairs("--eviction-hard", &self.eviction_hard, threshold)?);
        Ok(settings)
    }

    fn of_class(&self, file: &str, cluster: &NodeSettings) -> Result<NodeSettings> {
        let mut classes = Vec::new();
        berth_manifests::read(&[Input::from_arg(file)], &berth_manifests::Options::default(), |_, object| {
            if let Object::EC2NodeClass(class) = object {
                classes.push(class);
            }
            Ok::<(), berth_manifests::ManifestError>(())
        })?;
        let name_of = |class: &berth_api::EC2NodeClass| class.metadata.name.clone().unwrap_or_default();
        let names: Vec<String> = classes.iter().map(|class| name_of(class)).collect();
        classes.retain(|class| self.node_class.as_ref().is_none_or(|wanted| *wanted == name_of(class)));
        let [class] = classes.as_slice() else {
            let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            match &self.node_class {
                Some(wanted) => bail!("{file}: expected one EC2NodeClass {wanted}, found {found}"),
                None => bail!("{file}: expected one EC2NodeClass, or --node-class NAME with it, found {found}"),
            }
        };
        let (settings, ignored) = read_class(class, cluster);
        if !ignored.is_empty() {
            eprintln!("note: EC2NodeClass {}: a catalogue does not depend on {}", name_of(class), ignored.join(", "));
        }
        Ok(settings)
    }
}

/// `NAME=VALUE`s.
fn pairs<T>(flag: &str, texts: &[String], parse: impl Fn(&str) -> Option<T>) -> Result<BTreeMap<String, T>> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), parse(value)?))
    };
    let parsed = texts.iter().map(|text| {
        pair(text).with_context(|| format!("{flag}: expected NAME=AMOUNT such as memory=1Gi, found {text:?}"))
    });
    parsed.collect()
}
