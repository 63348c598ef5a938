//! The journal: what was done since a mark can be undone, and no slot is ever overdrawn.

use berth_model::{
    AllocatePolicy, Assigned, Bin, ClassId, Cluster, ColumnId, CounterId, CpuSet, Disk, DiskId, HeldUnits, Holding,
    HostCounts, HostPort, NodeEdit, PodSpec, PoolId, Requirements, Reservation, ReservationId, Resources, SlotId,
    Slots, Snapshot, Sym, Universe, Volumes,
};
use fixedbitset::FixedBitSet;
use proptest::collection::vec;
use proptest::prelude::*;
use smallvec::SmallVec;

use crate::mk::{mk_node, mk_pods, mk_spread};

#[derive(Clone, Debug)]
enum Step {
    Node(usize, OnNode, u8),
    OpenBin,
    ChangeBin(usize, u8),
    Count(u32, Option<u8>, u32),
    Take(u32, u32),
    Return(u32, u32),
    UsePool(i64),
    UseClaim(u8),
    Mark,
    Rollback(usize),
}

/// What happens to a node, each in a few ways.
#[derive(Clone, Copy, Debug)]
enum OnNode {
    Take,
    TakeTimes,
    GiveBack,
    SetFree,
    Assume,
    Hold,
    Release,
    HoldUnits,
    TakeUnits,
    GiveUnitsBack,
    RecountUnits,
    AddOnHost,
    SubtractOnHost,
    Note,
    Attach,
    Detach,
}

impl OnNode {
    const ALL: [OnNode; 16] = [
        OnNode::Take,
        OnNode::TakeTimes,
        OnNode::GiveBack,
        OnNode::SetFree,
        OnNode::Assume,
        OnNode::Hold,
        OnNode::Release,
        OnNode::HoldUnits,
        OnNode::TakeUnits,
        OnNode::GiveUnitsBack,
        OnNode::RecountUnits,
        OnNode::AddOnHost,
        OnNode::SubtractOnHost,
        OnNode::Note,
        OnNode::Attach,
        OnNode::Detach,
    ];
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => (0..2_usize, prop::sample::select(&OnNode::ALL[..]), 0..4_u8).prop_map(|(node, what, n)| Step::Node(node, what, n)),
        1 => Just(Step::OpenBin),
        1 => (0..4_usize, 0..4_u8).prop_map(|(bin, n)| Step::ChangeBin(bin, n)),
        1 => (0..2_u32, prop::option::of(0..4_u8), 0..5_u32).prop_map(|(counter, zone, n)| Step::Count(counter, zone, n)),
        1 => (0..2_u32, 0..6_u32).prop_map(|(slot, n)| Step::Take(slot, n)),
        1 => (0..2_u32, 0..3_u32).prop_map(|(slot, n)| Step::Return(slot, n)),
        1 => (-2..3_i64).prop_map(Step::UsePool),
        1 => (0..3_u8).prop_map(Step::UseClaim),
        3 => Just(Step::Mark),
        2 => (0..4_usize).prop_map(Step::Rollback),
    ]
}

fn mk_bin() -> Bin {
    Bin {
        pool: PoolId(0),
        nodes: 2,
        columns: FixedBitSet::with_capacity(4),
        planned: ColumnId(0),
        slack: Resources::new(),
        open: Requirements::new(),
        domains: SmallVec::new(),
        used: Resources::new(),
        contents: SmallVec::new(),
        host_counts: HostCounts::default(),
        ports: SmallVec::new(),
        disks: Vec::new(),
    }
}

/// Everything in it. Sets of bits print where they are in memory, so their members are shown instead.
fn shown(state: &Snapshot) -> String {
    let mut text = String::new();
    for (at, part) in format!("{state:?}").split("data: 0x").enumerate() {
        text.push_str(if at == 0 { part } else { part.trim_start_matches(|c: char| c.is_ascii_hexdigit()) });
    }
    // Which only ever grows: what was worked out of bins that are gone is not true of those that come back.
    let version = text.find(", bins_version: ").unwrap_or(text.len());
    text.truncate(version);
    let members = state.bins().iter().map(|bin| format!("{:?}", bin.columns.ones().collect::<Vec<_>>()));
    members.fold(text, |text, members| text + &members)
}

struct World {
    cluster: Cluster,
    texts: Vec<Sym>,
}

/// Two nodes in zones `a` and `b` with a pod each, two counters, two supplies of 3 and 5, a NodePool.
fn mk_world() -> (World, Snapshot) {
    let mut cluster = Cluster::new();
    for app in ["web", "db"] {
        let spread = mk_spread(&mut cluster, &[("app", app)]);
        let spec = PodSpec { spread: vec![spread], ..PodSpec::default() };
        mk_pods(&mut cluster, ("default", app), &[("app", app)], spec, 3);
    }
    mk_node(&mut cluster, "n1", "a", &[(&[("app", "web")], PodSpec::default())]);
    mk_node(&mut cluster, "n2", "b", &[(&[("app", "db")], PodSpec::default())]);
    for (id, free) in [("r-1", 3), ("r-2", 5)] {
        let id = cluster.symbols.intern(id);
        cluster.slots.push(Slots { id, is_reservation: true, free });
    }
    cluster.node_pools.push(berth_model::NodePool {
        name: cluster.symbols.intern("default"),
        weight: 0,
        requirements: Requirements::new(),
        taints: Vec::new(),
        limits: Vec::new(),
        node_limit: None,
        used: Resources::from_amounts(&[1000]),
        nodes: 1,
        reserved: Resources::new(),
        node_class: None,
        refusal: None,
    });
    let texts = ["a", "b", "c", "d"].map(|text| cluster.symbols.intern(text)).to_vec();
    let universe = Universe::new(&mut cluster);
    assert_eq!(universe.counters.len(), 2);
    let state = Snapshot::new(&cluster, &universe, |_, _| true);
    (World { cluster, texts }, state)
}

impl World {
    fn change_node(&self, node: &mut NodeEdit<'_>, what: OnNode, n: u8) {
        let which = u32::from(n % 2);
        let text = self.texts[usize::from(n % 4)];
        let draws_from = [None, Some(ReservationId(which))][usize::from(n / 2 % 2)];
        let requests = Resources::from_amounts(&[i64::from(n) * 100, 7, 1, i64::from(n % 3)]);
        // Some of the CPUs and devices of one are those of another.
        let one = Resources::from_amounts(&[0, 0, 0, 1]);
        let assigned = Assigned {
            cpus: (u32::from(n)..u32::from(n) + 2).collect::<CpuSet>(),
            devices: vec![(text, which, one.clone())],
            numa: (0..=which).map(|numa| (numa, one.clone())).collect(),
        };
        let ports = [HostPort { ip: None, protocol: text, port: 80 }];
        let volumes = Volumes {
            attachments: vec![(text, self.texts[usize::from(n % 2)])],
            disks: vec![Disk { id: DiskId::AwsElasticBlockStore(text), is_read_only: which == 0 }],
            ..Volumes::default()
        };
        match what {
            OnNode::Take => node.take(&requests, draws_from),
            OnNode::TakeTimes => node.take_times(&requests, 3),
            OnNode::GiveBack => node.give_back(&requests, draws_from),
            OnNode::SetFree => node.set_free(&requests),
            OnNode::Assume => node.assume([i64::from(n), 5], 2),
            OnNode::Hold => {
                let mut reservation = Reservation::new(text);
                reservation.allocatable = requests;
                node.hold(Holding::new(ReservationId(which), &reservation));
            }
            OnNode::Release => node.release(ReservationId(which)),
            OnNode::HoldUnits => {
                let (policy, drawn) = (AllocatePolicy::Aligned, Assigned::default());
                node.hold_units(HeldUnits { reservation: ReservationId(which), policy, reserved: assigned, drawn });
            }
            OnNode::TakeUnits => node.take_units(&assigned, draws_from),
            OnNode::GiveUnitsBack => node.give_units_back(&assigned, draws_from),
            OnNode::RecountUnits => node.recount_units([(&assigned, draws_from)].into_iter()),
            OnNode::AddOnHost => node.add_on_host(CounterId(which), 2),
            OnNode::SubtractOnHost => node.subtract_on_host(CounterId(which), 1 + u32::from(n)),
            OnNode::Note => {
                node.note_added(ClassId(which), u32::from(n));
                node.note_draw(ClassId(which), ReservationId(1));
                node.note_placed(ReservationId(which));
                node.note_assigned(ClassId(which), draws_from, assigned);
            }
            OnNode::Attach => node.attach(&ports, &volumes),
            OnNode::Detach => node.detach(&ports, &volumes),
        }
    }

    fn apply(&self, state: &mut Snapshot, step: &Step) {
        let some = Resources::from_amounts(&[100, 7]);
        match *step {
            Step::Node(node, what, n) => state.change_node(node, |node| self.change_node(node, what, n)),
            Step::OpenBin => {
                state.push_bin(mk_bin());
            }
            Step::ChangeBin(at, n) => {
                let Some(mut bin) = state.bins().get(at).cloned() else { return };
                match n {
                    0 => state.set_bin_nodes(at, bin.nodes + 1),
                    1 => state.set_bin_room(at, ColumnId(bin.planned.0 + 1), some.clone(), bin.used),
                    _ => {
                        bin.used.add(&some);
                        bin.columns.insert(usize::from(n));
                        state.replace_bin(at, bin);
                    }
                }
            }
            Step::Count(counter, zone, n) => {
                let zone = zone.map(|zone| self.texts[usize::from(zone)]);
                state.add_count(CounterId(counter), zone, n);
            }
            Step::Take(slot, n) => {
                let before = state.free_slots(SlotId(slot));
                let taken = state.take_slots(SlotId(slot), n);
                assert_eq!(taken, n <= before);
                assert_eq!(state.free_slots(SlotId(slot)), if taken { before - n } else { before });
            }
            Step::Return(slot, n) => state.return_slots(SlotId(slot), n),
            Step::UsePool(nodes) => {
                // No more go than there are.
                let n_nodes = state.pool_use(PoolId(0)).map_or(0, |(_, n_nodes)| n_nodes);
                state.use_pool(PoolId(0), &some, nodes.max(-i64::try_from(n_nodes).unwrap()));
            }
            Step::UseClaim(claim) => state.use_claim(self.texts[usize::from(claim)]),
            Step::Mark | Step::Rollback(_) => {}
        }
    }
}

#[test]
fn counts_of_many_domains_are_found_added_and_undone() {
    let (mut world, mut state) = mk_world();
    let racks: Vec<Sym> = (0..40).map(|rack| world.cluster.symbols.intern(&format!("rack-{rack}"))).collect();
    let (counter, listed) = (CounterId(0), |state: &Snapshot| state.domains(CounterId(0)).collect::<Vec<_>>());
    let before = listed(&state);
    let mark = state.mark();
    for (n, rack) in (1..).zip(&racks) {
        state.add_count(counter, Some(*rack), n);
    }
    let inner = state.mark();
    for rack in &racks {
        state.remove_count(counter, Some(*rack), 1);
        state.add_count(counter, Some(*rack), 5);
    }
    state.rollback(inner);
    for (n, rack) in (1..).zip(&racks) {
        assert_eq!(state.count(counter, *rack), n);
    }
    assert_eq!(listed(&state).len(), before.len() + racks.len());
    state.rollback(mark);
    assert_eq!(listed(&state), before);
    state.add_count(counter, Some(racks[39]), 2);
    assert_eq!((state.count(counter, racks[39]), state.count(counter, racks[38])), (2, 0));
}

proptest! {
    #[test]
    fn rolling_back_to_a_mark_restores_the_state_at_that_mark(steps in vec(step(), 1..150)) {
        let (world, mut state) = mk_world();
        let mut marks = vec![(state.mark(), shown(&state))];
        for step in &steps {
            match step {
                Step::Mark => marks.push((state.mark(), shown(&state))),
                // The innermost marks are gone with what they marked.
                Step::Rollback(depth) => {
                    let keep = depth % marks.len();
                    marks.truncate(keep + 1);
                    state.rollback(marks[keep].0);
                    prop_assert_eq!(&shown(&state), &marks[keep].1);
                }
                step => world.apply(&mut state, step),
            }
        }
        state.rollback(marks[0].0);
        prop_assert_eq!(&shown(&state), &marks[0].1);
    }

    // Held against a ledger kept by hand: whatever is taken, given back and undone in whatever order, what is free
    // and what is held make up the supply.
    #[test]
    fn no_supply_is_overdrawn_in_any_interleaving(steps in vec((0..2_u32, 0..4_u8, 0..6_u32), 1..80)) {
        let (world, mut state) = mk_world();
        let supply = |slot: u32| world.cluster.slots[slot as usize].free;
        let mut held = [0_u32; 2];
        let mut marks = Vec::new();
        for (slot, action, n) in steps {
            match action {
                0 | 1 => {
                    let taken = state.take_slots(SlotId(slot), n);
                    prop_assert_eq!(taken, held[slot as usize] + n <= supply(slot));
                    held[slot as usize] += if taken { n } else { 0 };
                }
                2 => {
                    let n = n.min(held[slot as usize]);
                    state.return_slots(SlotId(slot), n);
                    held[slot as usize] -= n;
                }
                _ if n < 3 => marks.push((state.mark(), held)),
                _ => {
                    if let Some((mark, then)) = marks.pop() {
                        state.rollback(mark);
                        held = then;
                    }
                }
            }
            for slot in 0..2 {
                prop_assert_eq!(state.free_slots(SlotId(slot)) + held[slot as usize], supply(slot));
            }
        }
    }
}

#[test]
fn running_pods_are_counted_in_their_domains_from_the_start() {
    let (world, state) = mk_world();
    let [a, b, c, _] = world.texts[..] else { panic!("four texts") };
    let of = |counter| [a, b, c].map(|zone| state.count(CounterId(counter), zone));
    assert_eq!((of(0), state.total(CounterId(0))), ([1, 0, 0], 1), "web runs in a");
    assert_eq!((of(1), state.total(CounterId(1))), ([0, 1, 0], 1), "db runs in b");
    assert_eq!(state.domains(CounterId(0)).collect::<Vec<_>>(), [(a, 1)]);
}

/// What a debug build says of a change that cannot be; nothing where it says nothing.
#[cfg(debug_assertions)]
fn said_of(change: impl FnOnce(&mut Snapshot)) -> String {
    let (_, mut state) = mk_world();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| change(&mut state)));
    let text = panic.err().and_then(|text| text.downcast::<String>().ok());
    text.map_or_else(String::new, |text| *text)
}

#[test]
#[cfg(debug_assertions)]
fn ids_of_another_snapshot_and_counts_below_zero_are_told() {
    let (known, foreign) = (CounterId(0), CounterId(9));
    let zone = |state: &Snapshot| state.domains(CounterId(0)).next().map(|(zone, _)| zone);
    let claim = |state: &Snapshot| zone(state).unwrap();
    for (says, said) in [
        ("no counter has index 9 among 2", said_of(|state| assert_eq!(state.total(foreign), 0))),
        ("no counter has index 9 among 2", said_of(|state| assert_eq!(state.count(foreign, claim(state)), 0))),
        ("no counter has index 9 among 2", said_of(|state| state.add_count(foreign, None, 1))),
        ("no counter has index 9 among 2", said_of(|state| state.remove_count(foreign, None, 1))),
        ("of 1 pods of a counter 2 go", said_of(|state| state.remove_count(known, zone(state), 2))),
        ("no supply has index 9 among 2", said_of(|state| assert_eq!(state.free_slots(SlotId(9)), 0))),
        ("no supply has index 9 among 2", said_of(|state| assert!(!state.take_slots(SlotId(9), 1)))),
        ("no supply has index 9 among 2", said_of(|state| state.return_slots(SlotId(9), 1))),
        ("no NodePool has index 9 among 1", said_of(|state| state.use_pool(PoolId(9), &Resources::new(), 1))),
        ("a NodePool of 1 nodes changes by -2", said_of(|state| state.use_pool(PoolId(0), &Resources::new(), -2))),
        ("of 0 users of a claim 1 go", said_of(|state| state.free_claim(claim(state)))),
        ("no node has index 9 among 2", said_of(|state| state.change_node(9, |_| {}))),
    ] {
        assert_eq!(said, says);
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "no text has symbol")]
fn a_symbol_of_another_table_is_told() {
    let mut other = Cluster::new();
    let foreign = (0..100).map(|at| other.symbols.intern(&format!("text-{at}"))).last().unwrap();
    assert_eq!(Cluster::new().symbols.text(foreign), "");
}
