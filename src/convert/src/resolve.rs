//! Drafts to specs: claims and priorities are looked up, once for pods that are alike.

use std::sync::Arc;

use berth_model::{Cluster, Images, PodSpec, Refusal, SpecId, Sym, Volumes};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::claims::{Storage, Want};
use crate::draft::{ClassPriority, Draft, Drafts, Priority};
use crate::maps::{Texts, index};
use crate::volume_counts::Wanting;

/// The priority classes that every cluster has.
const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Looks up what specs refer to.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) drafts: Drafts,
    pub(crate) storage: Storage,
    pub(crate) priorities: FxHashMap<Sym, ClassPriority>,
    pub(crate) default_priority: Option<ClassPriority>,
    /// Images that some node has; `None`: any may come to have any image.
    images: Option<FxHashSet<Sym>>,
    /// Specs by draft, namespace and whether the pod is bound; of drafts that depend on no pod's name.
    known: FxHashMap<(u32, Sym, bool), SpecId>,
    /// What pods of these want of volumes that are there, where they want some; in a plan alone.
    wants: FxHashMap<(u32, Sym, bool), Arc<[Want]>>,
    /// The same by namespace and name of the pod.
    wanting: Wanting,
}

impl Resolver {
    pub(crate) fn new(
        drafts: Drafts,
        storage: Storage,
        priorities: FxHashMap<Sym, ClassPriority>,
        default_priority: Option<ClassPriority>,
        images: Option<FxHashSet<Sym>>,
    ) -> Self {
        let (known, wants, wanting) = Default::default();
        Resolver { drafts, storage, priorities, default_priority, images, known, wants, wanting }
    }

    /// Forgets the specs that were looked up: claims or volumes have changed.
    pub(crate) fn forget_specs(&mut self) {
        self.known.clear();
        self.wants.clear();
    }

    /// Which pods want volumes that are there, by namespace and name.
    pub(crate) fn take_wanting(&mut self) -> Wanting {
        std::mem::take(&mut self.wanting)
    }

    /// The draft of that index.
    pub(crate) fn draft(&self, draft: u32) -> Option<&Draft> {
        self.drafts.get_index(draft as usize)
    }

    /// Whether a draft's volumes stand for claims.
    pub(crate) fn has_claims(&self, draft: u32) -> bool {
        self.draft(draft).is_some_and(|draft| !draft.claims.is_empty())
    }

    /// The index of a draft, new or known.
    pub(crate) fn intern(&mut self, draft: Draft) -> u32 {
        index(self.drafts.insert_full(draft).0)
    }

    /// Whether the spec depends on the pod's name.
    pub(crate) fn is_per_pod(&self, draft: u32) -> bool {
        self.draft(draft).is_some_and(|draft| Storage::is_per_pod(&draft.claims))
    }

    /// The spec of a pod that is to be placed.
    pub(crate) fn pending(
        &mut self,
        draft: u32,
        namespace: Sym,
        pod: &str,
        cluster: &mut Cluster,
        warnings: &mut Texts,
    ) -> SpecId {
        self.resolve((draft, namespace, false), pod, cluster, warnings)
    }

    /// The spec of a pod that has its node: nothing holds it back any more.
    pub(crate) fn bound(
        &mut self,
        draft: u32,
        namespace: Sym,
        pod: &str,
        cluster: &mut Cluster,
        warnings: &mut Texts,
    ) -> SpecId {
        self.resolve((draft, namespace, true), pod, cluster, warnings)
    }

    fn resolve(&mut self, key: (u32, Sym, bool), pod: &str, cluster: &mut Cluster, warnings: &mut Texts) -> SpecId {
        let (draft, namespace, is_bound) = key;
        if let Some(&spec) = self.known.get(&key) {
            if let Some(wants) = self.wants.get(&key) {
                self.wanting.insert((namespace, pod.into()), Arc::clone(wants));
            }
            return spec;
        }
        let Some(draft) = self.drafts.get_index(draft as usize) else {
            return cluster.intern_spec(PodSpec::default());
        };
        let mut spec = draft.spec.clone();
        let priority = self.priority(draft.priority, cluster, warnings);
        spec.priority = priority.value;
        spec.never_preempts |= priority.never_preempts;
        if let Some(images) = &self.images {
            spec.images.names.retain(|name| images.contains(name));
        }
        if spec.images.names.is_empty() || is_bound {
            spec.images = Images::default();
        }
        let symbols = &mut cluster.symbols;
        let outcome = self.storage.resolve(&draft.claims, namespace, pod, &mut spec.volumes, symbols);
        if is_bound {
            spec.refusal = None;
            let Volumes { attachments, exclusive_claims, disks, .. } = spec.volumes;
            spec.volumes = Volumes { attachments, exclusive_claims, disks, ..Volumes::default() };
        } else if let Err(Refusal(reason)) = outcome {
            spec.refusal.get_or_insert(Refusal(reason));
        }
        if !is_bound {
            for class in self.storage.binding_at_once(&draft.claims, namespace, pod, &mut cluster.symbols) {
                warnings.insert(format!(
                    "StorageClass {}: binds volumes before their pods are placed (volumeBindingMode Immediate); where is not \
                     known, so their pods are planned wherever it may make volumes",
                    cluster.symbols.text(class)
                ));
            }
        }
        let is_per_pod = Storage::is_per_pod(&draft.claims);
        let spec = cluster.intern_spec(spec);
        let wants: Arc<[Want]> = self.storage.take_wants().into();
        if !is_per_pod {
            self.known.insert(key, spec);
        }
        if !wants.is_empty() && !is_bound {
            if !is_per_pod {
                self.wants.insert(key, Arc::clone(&wants));
            }
            self.wanting.insert((namespace, pod.into()), wants);
        }
        spec
    }

    fn priority(&self, priority: Priority, cluster: &Cluster, warnings: &mut Texts) -> ClassPriority {
        match priority {
            // It was admitted, or stands for a Reservation: its own policy holds.
            Priority::Set(value) => ClassPriority::of(value),
            Priority::Default => self.default_priority.unwrap_or_default(),
            Priority::Class(class) => self.priorities.get(&class).copied().unwrap_or_else(|| {
                let name = cluster.symbols.text(class);
                let system = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
                system.map_or_else(
                    || {
                        warnings.insert(format!(
                            "no PriorityClass with name {name} was found; its pods are planned with priority 0"
                        ));
                        ClassPriority::default()
                    },
                    |(_, priority)| ClassPriority::of(*priority),
                )
            }),
        }
    }
}
