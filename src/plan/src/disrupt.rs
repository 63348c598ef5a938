//! Which nodes would be disrupted: the cluster as it stands, asked of `berth-disruption`.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{NodeClassRef, NodePool};
use berth_catalogue::Catalogue;
use berth_disruption::{Disruption, Removal};
use berth_manifests::Object as Manifest;
use berth_state::{Event, Kind, Object, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Options, PlanError};

/// The objects of a cluster, as a live state takes them, or such a state.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// One that knows all there is: the rest says nothing.
    known: Option<Box<State>>,
    objects: BTreeMap<Kind, Vec<Object>>,
    classes: Vec<(NodeClassRef, Arc<Catalogue>)>,
    catalogue: Option<Arc<Catalogue>>,
    /// Whether there is a workload, whose pods may not be there yet.
    has_workloads: bool,
    /// Whether what comes now takes the place of what came before.
    is_change: bool,
}

/// What was asked of a cluster as it stands, and the cluster.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) disruption: Option<Disruption>,
    pub(crate) removal: Option<Removal>,
    pub(crate) state: Box<State>,
}

macro_rules! of_kinds {
    ($object:expr; $($kind:ident)*) => {
        match $object {
            $(Manifest::$kind(object) => {
                let mut object = (**object).clone();
                as_given(Kind::$kind, &mut object.metadata);
                Some(Object::from(object))
            })*
            _ => None,
        }
    };
}

/// As a cluster would have it: in a namespace. Of several with one name the last counts, as in the plan, and not the
/// newest version.
fn as_given(kind: Kind, metadata: &mut ObjectMeta) {
    if kind.is_namespaced() && metadata.namespace.as_deref().is_none_or(str::is_empty) {
        metadata.namespace = Some("default".to_owned());
    }
    metadata.resource_version = None;
    metadata.managed_fields = None;
}

fn state_object(object: &Manifest) -> Option<Object> {
    of_kinds!(object; Namespace PriorityClass StorageClass PersistentVolume PersistentVolumeClaim CSINode NodePool
        NodeOverlay NodeClaim Node Device NodeResourceTopology Service Deployment ReplicaSet ReplicationController StatefulSet
        DaemonSet Job CronJob PodDisruptionBudget Reservation Pod)
}

// === impl Live ===

impl Live {
    pub(crate) fn of(state: State) -> Self {
        Live { known: Some(Box::new(state)), ..Live::default() }
    }

    /// What comes now is the change.
    pub(crate) fn begin_change(&mut self) {
        self.is_change = true;
    }

    pub(crate) fn add(&mut self, object: &Manifest) {
        if let Some(mut object) = state_object(object) {
            if let Object::NodePool(after) = &mut object
                && self.is_change
                && let Some(before) = self.node_pool(after.metadata.name.as_deref())
            {
                berth_disruption::rehash(Arc::make_mut(after), before);
            }
            self.has_workloads |= matches!(
                object.kind(),
                Kind::Deployment | Kind::ReplicaSet | Kind::ReplicationController | Kind::StatefulSet | Kind::Job
            );
            self.objects.entry(object.kind()).or_default().push(object);
        }
    }

    /// The NodePool of a name that came last.
    fn node_pool(&self, name: Option<&str>) -> Option<&NodePool> {
        let pools = self.objects.get(&Kind::NodePool)?.iter().rev();
        let mut pools =
            pools.filter_map(|object| if let Object::NodePool(pool) = object { Some(&**pool) } else { None });
        pools.find(|pool| pool.metadata.name.as_deref() == name)
    }

    pub(crate) fn add_class(&mut self, class: NodeClassRef, catalogue: Catalogue) {
        self.classes.push((class, Arc::new(catalogue)));
    }

    pub(crate) fn set_catalogue(&mut self, catalogue: Catalogue) {
        self.catalogue = Some(Arc::new(catalogue));
    }

    /// What would be disrupted at the time of a plan, and what would come of removing a node: as far as that was
    /// asked. Pods that a change ends are told to count.
    pub(crate) fn ask(
        self,
        options: &Options,
        now: Timestamp,
        ends_pods: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Asked, PlanError> {
        let has_workloads = self.has_workloads;
        let mut state = self.state(options, warnings);
        let disrupting = berth_disruption::Options {
            decisions: berth_decisions::Options {
                solve: options.solving(),
                launches: true,
                spares_others: true,
                ..berth_decisions::Options::default()
            },
            eviction_price: options.eviction_price,
            bound: options.bound,
            spot_to_spot: options.gates.spot_to_spot_consolidation,
            reserved_capacity: options.gates.reserved_capacity,
            static_capacity: options.gates.static_capacity,
            ..berth_disruption::Options::default()
        };
        let removal = match &options.without_node {
            Some(name) => {
                let node = node_of_claim(&state, name).unwrap_or_else(|| name.clone());
                berth_disruption::removal(&mut state, &node, &disrupting, now)?
            }
            None => None,
        };
        if !options.disrupt {
            return Ok(Asked { disruption: None, removal, state });
        }
        if has_workloads && !state.pods().any(|pod| !pod.owner_references().is_empty()) {
            let text = "--disrupt looks at pods that exist: those that workloads would make are planned beside it";
            warnings.push(text.to_owned());
        }
        if ends_pods {
            let text =
                "--disrupt looks at pods as they run: those that the change remakes or lets go count as they are";
            warnings.push(text.to_owned());
        }
        let disruption = berth_disruption::disrupt(&mut state, &disrupting, now)?;
        if disruption.is_cut_off {
            let asked = disruption.what_ifs;
            warnings.push(format!("--disrupt stopped after {asked} what-ifs: more may be worth moving"));
        }
        Ok(Asked { disruption: Some(disruption), removal, state })
    }

    fn state(mut self, options: &Options, warnings: &mut Vec<String>) -> Box<State> {
        if let Some(known) = self.known {
            return known;
        }
        let mut state = Box::new(State::new(options.gates.clone()));
        for &kind in Kind::ALL {
            let objects = self.objects.remove(&kind).unwrap_or_default();
            let relisted = state.apply(Event::Relisted { kind, objects, resource_version: None });
            if let (Err(refused), true) = (relisted, options.disrupt || options.without_node.is_some()) {
                warnings.push(format!("disruption leaves out: {refused}"));
            }
        }
        if let Some(catalogue) = self.catalogue {
            // A catalogue refuses no object.
            let _ = state.apply(Event::Offered { catalogue, seen: None });
        }
        state.set_class_catalogues(self.classes);
        state
    }
}

/// The node of a NodeClaim of this name, where no node has the name itself.
pub(crate) fn node_of_claim(state: &State, name: &str) -> Option<String> {
    if state.node(name).is_some() {
        return None;
    }
    let claim = state.get_as::<berth_api::NodeClaim>("", name)?;
    claim.status.as_ref().and_then(|status| status.node_name.clone()).filter(|node| state.node(node).is_some())
}
