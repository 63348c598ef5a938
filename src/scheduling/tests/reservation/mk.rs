//! Nodes, Reservations and pods, built by hand.

use berth_model::{
    AllocatePolicy, Holding, Identity, Labels, NodeRoom, Phase, PodSpec, Requirement, Requirements, Reservation,
    ReservationAffinity, ReservationId, ReservationOwner, ResourceId, ResourceNames, Resources, Selector, Symbols,
};
use berth_scheduling::reservation::{Claim, Fit, Mismatch, Seeker, fit, in_words, may_draw_from, nominate};

pub(crate) const GI: i64 = 1 << 30;

/// Milli-CPU and GiB.
pub(crate) fn res(milli_cpu: i64, gib: i64) -> Resources {
    Resources::from_amounts(&[milli_cpu, gib * GI])
}

/// Requests of a pod.
pub(crate) fn pod(milli_cpu: i64, gib: i64) -> Resources {
    Resources::from_amounts(&[milli_cpu, gib * GI, 1])
}

/// Some Reservations on one node, and its pods.
pub(crate) struct World {
    pub(crate) symbols: Symbols,
    pub(crate) names: ResourceNames,
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) room: NodeRoom,
    pub(crate) node_labels: Labels,
}

/// What became of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// It draws from the Reservation of that index.
    Draws(usize),
    /// It uses free room.
    Free,
    /// It stays pending.
    Refused(Vec<String>),
}

impl World {
    /// A node of so many milli-CPU, GiB and pods.
    pub(crate) fn new(milli_cpu: i64, gib: i64, pods: i64) -> Self {
        let mut symbols = Symbols::default();
        let names = ResourceNames::new(&mut symbols);
        let room = NodeRoom::new(Resources::from_amounts(&[milli_cpu, gib * GI, pods]));
        World { symbols, names, reservations: Vec::new(), room, node_labels: Labels::default() }
    }

    pub(crate) fn labels(&mut self, pairs: &[(&str, &str)]) -> Labels {
        Labels::new(pairs.iter().map(|(key, value)| (self.symbols.intern(key), self.symbols.intern(value))))
    }

    pub(crate) fn selector(&mut self, key: &str, value: &str) -> Requirements {
        let (key, value) = (self.symbols.intern(key), self.symbols.intern(value));
        let mut requirements = Requirements::new();
        requirements.add(key, Requirement::value(value), &self.symbols);
        requirements
    }

    pub(crate) fn resource(&mut self, name: &str) -> ResourceId {
        let name = self.symbols.intern(name);
        self.names.intern(name)
    }

    /// An available, reusable Reservation for pods with the label `app: web`, on the node.
    pub(crate) fn reserve(&mut self, policy: AllocatePolicy, allocatable: Resources) -> usize {
        self.reserve_with(policy, allocatable, |_| {})
    }

    pub(crate) fn reserve_with(
        &mut self,
        policy: AllocatePolicy,
        allocatable: Resources,
        adjust: impl FnOnce(&mut Reservation),
    ) -> usize {
        let index = self.reservations.len();
        let mut reservation = Reservation::new(self.symbols.intern(&format!("r{index}")));
        reservation.phase = Phase::Available;
        reservation.allocate_once = false;
        reservation.policy = policy;
        reservation.allocatable = allocatable;
        let selector = Selector { requirements: Some(self.selector("app", "web")) };
        reservation.owners = Some(vec![ReservationOwner { selector: Some(selector), ..ReservationOwner::default() }]);
        adjust(&mut reservation);
        self.room.hold(Holding::new(ReservationId::new(index), &reservation));
        self.reservations.push(reservation);
        index
    }

    /// A pod that is there already.
    pub(crate) fn run(&mut self, requests: &Resources, draws_from: Option<usize>) {
        self.room.add_pod(requests, draws_from.map(ReservationId::new));
    }

    /// Why a pod with the label `app: web` may not draw from a Reservation.
    pub(crate) fn mismatch(&self, spec: &PodSpec, reservation: usize) -> Result<(), Mismatch> {
        self.mismatch_of("web", spec, reservation)
    }

    pub(crate) fn mismatch_of(&self, app: &str, spec: &PodSpec, reservation: usize) -> Result<(), Mismatch> {
        let mut symbols = self.symbols.clone();
        let labels = Labels::new([(symbols.intern("app"), symbols.intern(app))]);
        let namespace = symbols.intern("default");
        let identity = Identity { namespace, name: Some("web-0"), uid: Some("u-0"), labels: &labels, references: &[] };
        let position = self.room.position(ReservationId::new(reservation)).unwrap();
        let (holding, reservation) = (&self.room.holdings()[position], &self.reservations[reservation]);
        let seeker = Seeker { is_owner: reservation.owns(&identity, &symbols), spec };
        may_draw_from(&seeker, reservation, holding, &self.node_labels, &symbols)
    }

    pub(crate) fn matched(&self, app: &str, spec: &PodSpec) -> Vec<usize> {
        let holdings = self.room.holdings().iter().enumerate();
        let matched = holdings.filter(|(_, h)| self.mismatch_of(app, spec, h.reservation.index()).is_ok());
        matched.map(|(position, _)| position).collect()
    }

    /// Whether a pod fits; nothing is bound.
    pub(crate) fn ask(&self, app: &str, spec: &PodSpec) -> Result<Fit, Vec<String>> {
        let affinity = spec.reservation.affinity.as_ref();
        let claim = Claim {
            requests: &spec.requests,
            must_draw: affinity.is_some(),
            is_named: affinity.is_some_and(|affinity| affinity.name.is_some()),
            ignored: &[],
        };
        let matched = self.matched(app, spec);
        if claim.must_draw && matched.is_empty() {
            return Err(vec![berth_scheduling::reservation::reasons::AFFINITY.to_owned()]);
        }
        match fit(&self.room, &matched, &claim) {
            Fit::Refused(lacks) => Err(in_words(&lacks, &self.names, &self.symbols)),
            fits => Ok(fits),
        }
    }

    /// Binds a pod as the scheduler would; one that spends an `allocateOnce` Reservation ends it.
    pub(crate) fn bind(&mut self, app: &str, spec: &PodSpec) -> Bound {
        match self.ask(app, spec) {
            Err(reasons) => Bound::Refused(reasons),
            Ok(Fit::Draws(serving)) => {
                let nominated = nominate(&self.room, &serving, &spec.requests, &self.reservations, &self.symbols);
                let id = self.room.holdings()[nominated.unwrap()].reservation;
                self.room.add_pod(&spec.requests, Some(id));
                let reservation = &mut self.reservations[id.index()];
                if reservation.allocate_once {
                    reservation.phase = Phase::Succeeded;
                    self.room.release(id);
                }
                Bound::Draws(id.index())
            }
            Ok(_) => {
                self.room.add_pod(&spec.requests, None);
                Bound::Free
            }
        }
    }
}

/// A pod that asks nothing of Reservations.
pub(crate) fn spec(requests: &Resources) -> PodSpec {
    PodSpec { requests: requests.clone(), ..PodSpec::default() }
}

/// A pod that must draw from some Reservation.
pub(crate) fn drawing(requests: &Resources) -> PodSpec {
    let mut spec = spec(requests);
    spec.reservation.affinity = Some(ReservationAffinity::default());
    spec
}

/// A pod that must draw from the Reservation of that index.
pub(crate) fn naming(world: &World, reservation: usize, requests: &Resources) -> PodSpec {
    let mut spec = drawing(requests);
    spec.reservation.affinity.as_mut().unwrap().name = Some(world.reservations[reservation].name);
    spec
}

pub(crate) fn refused(reasons: &[&str]) -> Bound {
    Bound::Refused(reasons.iter().map(|reason| (*reason).to_owned()).collect())
}
