//! What is said of `--max-share`.

use berth_model::Cluster;
use berth_provisioning::{InfeasibleShares, MaxShare, Options, ShareKey};

use crate::decimal::thousands;

/// A line for each share that names a value which nothing of the catalogue has: it may be mistyped.
pub(crate) fn unknown_values(cluster: &Cluster, shares: &[MaxShare]) -> Vec<String> {
    let text = |sym| cluster.symbols.text(sym);
    let is_known = |key: ShareKey, name: &str| match key {
        ShareKey::Zone => {
            let offerings = cluster.instance_types.iter().flat_map(|known| &known.offerings);
            offerings.into_iter().any(|offering| offering.zone.map(text) == Some(name))
        }
        ShareKey::InstanceType => cluster.instance_types.iter().any(|known| text(known.name) == name),
        ShareKey::CapacityType => true,
    };
    let unknown = shares.iter().filter_map(|share| {
        let name = share.value.as_deref().filter(|name| !is_known(share.key, name))?;
        Some(format!("--max-share {}={name}: nothing that the instance catalogue offers has it", share.key.name()))
    });
    unknown.collect()
}

/// Shares that no plan can keep, with the arithmetic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnkeepableShares(String);

/// Names of values that an error lists.
const LISTED: usize = 6;

/// Whether some plan may keep the shares.
///
/// # Errors
/// The shares of the first key that none keeps.
pub(crate) fn check(cluster: &Cluster, options: &Options) -> Result<(), UnkeepableShares> {
    berth_provisioning::check_shares(cluster, options).map_err(|found| UnkeepableShares(in_words(&found, options)))
}

fn in_words(found: &InfeasibleShares, options: &Options) -> String {
    let rules = found.rules.iter().filter_map(|&rule| options.max_shares.get(rule));
    let flags = rules.map(|share| format!("--max-share {share}"));
    let flags = flags.collect::<Vec<_>>().join(" ");
    let percent = MaxShare::percent_of;
    let sum: u64 = found.values.iter().map(|(_, share)| u64::from(*share)).sum();
    let named = found.values.iter().take(LISTED).map(|(name, share)| format!("{name} {}", percent(u64::from(*share))));
    let named = named.collect::<Vec<_>>().join(", ");
    let others = match found.values.len().saturating_sub(LISTED) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    // Without its smallest pod each value has less than its share: by a milli-CPU at least, which `most` leaves out.
    let n_used = found.values.iter().filter(|(_, share)| *share > 0).count() as i128;
    let most = cpus(found.most + n_used);
    let requested = cpus(found.requested);
    // For one share of all values: the least that adds up.
    let n_values = found.values.len().max(1) as u64;
    let least = percent(100_000_000_u64.div_ceil(n_values).div_ceil(1_000_000) * 10_000_000);
    let expected = match found.rules.as_slice() {
        [rule] if options.max_shares.get(*rule).is_some_and(|share| share.value.is_none()) => {
            format!("; expected shares that add up to 100%, as {least} each, or more values on offer")
        }
        _ => "; expected shares of 100% and more together".to_owned(),
    };
    format!(
        "{flags}: no plan keeps this: what NodePools may launch ({named}{others}) adds up to {}, which with a pod more \
         each is less than {most} of the {requested} CPUs that need new nodes{expected}",
        percent(sum)
    )
}

fn cpus(milli: i128) -> String {
    let whole = thousands(u64::try_from(milli / 1000).unwrap_or(u64::MAX));
    match milli % 1000 {
        0 => whole,
        rest => format!("{whole}.{rest:03}").trim_end_matches('0').to_owned(),
    }
}
