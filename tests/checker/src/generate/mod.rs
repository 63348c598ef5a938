//! Random clusters, the same for the same seed.

mod chosen;
mod cluster;
mod details;
mod mounts;
mod offerings;
mod pods;
mod pools;
mod ranks;
mod rng;
mod spreading;
mod standing;
mod terminating;
mod topology;
mod units;

use serde_json::Value;

use rng::Rng;

pub use standing::random_standing_case;

/// How large a random case is, and how far its features go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Size {
    /// A handful of pods and types, and only what Karpenter's own scheduler supports: for use with it as an oracle.
    Tiny,
    /// Tens of pods, every feature.
    Small,
    /// Hundreds of pods, every feature.
    Medium,
}

/// A cluster to plan for.
#[derive(Clone, Debug)]
pub struct Case {
    /// Kubernetes objects, one value each, valid for a reader that refuses unknown fields.
    pub objects: Vec<Value>,
    /// The instance catalogue, in the shape of Karpenter's KWOK provider.
    pub catalogue: Value,
}

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const APPS: [&str; 4] = ["api", "db", "web", "batch"];
const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];
/// A label key that NodePools of these clusters give their nodes.
const CUSTOM_KEY: &str = "example.com/team";
const TEAMS: [&str; 3] = ["red", "green", "blue"];
/// A label key whose values are numbers.
const NUMBER_KEY: &str = "example.com/generation";
const TAINT_KEY: &str = "example.com/dedicated";
const GPU: &str = "nvidia.com/gpu";

/// A random cluster; the same seed and size always give the same case, to the byte.
pub fn random_case(seed: u64, size: Size) -> Case {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let catalogue = offerings::catalogue(rng, size);
    let mut objects = cluster::namespaces_and_priorities(rng);
    objects.extend(pools::pools(rng, size));
    let volumes = cluster::volumes(rng, size);
    objects.extend(volumes.iter().cloned());
    objects.extend(cluster::daemon_sets(rng, size));
    objects.extend(cluster::nodes(rng, size, &catalogue));
    objects.extend(pods::workloads(rng, size, &volumes));
    objects.extend(cluster::pending_reservations(rng, size));
    if size != Size::Tiny {
        // From numbers of its own, so that the rest of a case stays what it was.
        ranks::rank(&mut Rng::new(seed ^ 0x7a4e_c0de), &mut objects);
        if seed % 7 == 5 {
            mounts::mount(&mut Rng::new(seed ^ 0x3007_d15c), &mut objects);
        }
        if [3, 8, 9, 11].contains(&(seed % 13)) {
            terminating::terminate(&mut Rng::new(seed ^ 0x007e_4514), &mut objects);
        }
        if [9, 12, 14, 15].contains(&(seed % 17)) {
            details::detail(&mut Rng::new(seed ^ 0x00de_7a11), &mut objects);
        }
        if seed % 5 == 2 {
            chosen::choose(&mut Rng::new(seed ^ 0x05e1_ec7e), &mut objects);
        }
        if seed % 11 >= 8 {
            units::units(&mut Rng::new(seed ^ 0x0c95_c95a), &mut objects);
        }
    }
    Case { objects, catalogue: Value::Array(catalogue) }
}
