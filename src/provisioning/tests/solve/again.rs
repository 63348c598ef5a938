//! Small clusters at random: no effort places fewer pods than less of it, and who is left over finds nothing once the plan stands.

use berth_model::{CapacityType, Labels};
use berth_provisioning::{Effort, Options};

use crate::mk::{CAPACITY_TYPE, HOSTNAME, Pod, World, ZONE, mk_world, pod};
use crate::plan::Plan;

const ZONES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 3] = ["web", "db", "job"];

/// Pseudo-random numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What a cluster is made of.
struct Case {
    /// Limit of CPUs, and whether it launches on slots alone.
    pools: Vec<(Option<i64>, bool)>,
    /// CPUs, and offerings: capacity type, zone, price, and how many instances.
    types: Vec<(i64, Vec<(CapacityType, &'static str, u32, Option<u32>)>)>,
    /// How many, and what they ask for.
    pods: Vec<(u32, Pod)>,
}

impl Case {
    fn new(seed: u64, keys: &[&'static str]) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| {
            rng.below(2);
        });
        let pools = (0..=rng.below(2)).map(|_| {
            let limit = rng.one(&[None, Some(4), Some(8), Some(12), Some(16)]);
            (limit, limit.is_none() && rng.below(3) > 0)
        });
        let pools = pools.collect();
        let mut price = 50;
        let mut types = Vec::new();
        for cpus in [2, 4, 8, 16].into_iter().skip(rng.below(3)).take(1 + rng.below(2)) {
            let mut offerings = Vec::new();
            for zone in ZONES {
                for kind in [CapacityType::OnDemand, CapacityType::Spot, CapacityType::Reserved] {
                    if rng.below(3) == 0 {
                        price += 1 + u32::try_from(rng.below(60)).unwrap();
                        let is_reserved = kind == CapacityType::Reserved;
                        let free = if is_reserved { Some(3) } else { rng.one(&[None, None, Some(1)]) };
                        offerings.push((kind, zone, price, free));
                    }
                }
            }
            types.push((cpus, offerings));
        }
        let mut pods = Vec::new();
        for name in NAMES.into_iter().take(1 + rng.below(3)) {
            let mut asked = pod(rng.one(&[400, 1500, 2500])).app(name);
            for &key in keys {
                if rng.below(2) == 0 {
                    asked = asked.spread(key, u32::try_from(1 + rng.below(2)).unwrap(), name);
                }
            }
            pods.push((u32::try_from(1 + rng.below(6)).unwrap(), asked));
        }
        Case { pools, types, pods }
    }

    fn world(&self) -> World {
        let mut world = mk_world();
        for (&(limit, is_for_slots), name) in self.pools.iter().zip(["one", "two"]) {
            let mut pool = world.mk_pool(name);
            if let Some(limit) = limit {
                pool = pool.limit_cpus(limit);
            }
            if is_for_slots {
                pool.require(CAPACITY_TYPE, &["reserved"]);
            }
        }
        for (at, (cpus, offerings)) in self.types.iter().enumerate() {
            let mut made = world.mk_type(["small", "large"][at], *cpus);
            for &(kind, zone, price, free) in offerings {
                made = match kind {
                    CapacityType::Reserved => made.reserved(zone, &format!("r-{price}"), free.unwrap(), price),
                    _ => made.offered(kind, zone, price, free),
                };
            }
        }
        for ((count, pod), name) in self.pods.iter().zip(NAMES).filter(|((count, _), _)| *count > 0) {
            world.mk_pods(name, *count, pod);
        }
        world
    }

    /// The cluster in which the plan was carried out: who is left over is pending.
    fn after(&self, plan: &Plan) -> World {
        let mut case = Case { pods: Vec::new(), pools: self.pools.clone(), types: self.types.clone() };
        let name_of = |class| NAMES.iter().position(|name| *name == plan.class_name(class)).unwrap();
        let mut left = [0; NAMES.len()];
        for entry in &plan.solution.unschedulable {
            left[name_of(entry.class)] = entry.count;
        }
        case.pods = self.pods.iter().zip(left).map(|((_, pod), left)| (left, pod.clone())).collect();
        let mut world = case.world();
        for claims in &plan.solution.claims {
            let of_type = &plan.cluster.instance_types[claims.instance_type as usize];
            let running: Vec<Pod> = claims
                .contents
                .iter()
                .flat_map(|&(class, n)| vec![self.pods[name_of(class)].1.clone(); n as usize])
                .collect();
            for copy in 0..claims.count {
                let name = format!("n{}-{copy}", world.cluster.nodes.len());
                let zone = plan.cluster.symbols.text(claims.zone.unwrap()).to_owned();
                world.mk_node(&name, &zone, 1, &running);
                let key = world.sym(CAPACITY_TYPE);
                let value = world.sym(claims.capacity_type.name());
                let pool = &mut world.cluster.node_pools[claims.node_pool];
                pool.used.add(&of_type.resources);
                pool.nodes += 1;
                let node = world.cluster.nodes.last_mut().unwrap();
                node.labels = Labels::new(node.labels.iter().chain([(key, value)]).collect::<Vec<_>>());
                let mut free = of_type.resources.clone();
                free.subtract(&claims.requests);
                (node.allocatable, node.capacity) = (of_type.resources.clone(), of_type.resources.clone());
                node.free = free;
            }
        }
        for (slots, used) in world.cluster.slots.iter_mut().zip(&plan.solution.slots_used) {
            slots.free -= used;
        }
        world
    }
}

fn n_left(plan: &Plan) -> u32 {
    plan.solution.unschedulable.iter().map(|left| left.count).sum()
}

fn with(effort: Effort) -> Options {
    Options { effort, ..Options::default() }
}

#[test]
fn no_effort_leaves_more_pods_over_than_less_of_it() {
    for seed in 1..=300 {
        let world = Case::new(seed, &[ZONE, CAPACITY_TYPE, HOSTNAME]).world();
        let left = [Effort::Low, Effort::Default, Effort::High].map(|effort| n_left(&world.plan_with(&with(effort))));
        assert!(left.is_sorted_by(|less, more| more <= less), "{seed}: {left:?}");
    }
}

#[test]
fn nobody_is_left_over_who_finds_a_place_once_the_plan_was_carried_out() {
    for seed in 1..=300 {
        let case = Case::new(seed, &[ZONE, CAPACITY_TYPE]);
        let plan = case.world().plan_with(&with(Effort::Default));
        if n_left(&plan) == 0 {
            continue;
        }
        let again = case.after(&plan).plan_with(&with(Effort::Default));
        assert_eq!(
            n_left(&again),
            n_left(&plan),
            "{seed}: {:?}, then {:?} {:?}",
            plan.claims(),
            again.claims(),
            again.bound()
        );
    }
}
