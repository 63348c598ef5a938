//! `--max-share`, as it is written.

use berth_model::Cluster;
use berth_provisioning::{InfeasibleShares, MaxShare, Options, ShareKey};

use crate::decimal::thousands;

/// Text that is no share of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?}: {problem}")]
pub struct ParseShareError {
    given: String,
    problem: &'static str,
}

const SHAPE: &str = "expected KEY=SHARE or KEY=VALUE=SHARE, such as zone=0.5 or capacityType=spot=70%";
const KEY: &str = "expected the key zone, instanceType or capacityType";
const SHARE: &str = "expected a share from 0 to 1 or from 0% to 100%, with at most nine decimals, such as 0.5 or 50%";
const NOTHING: &str =
    "expected a share above 0: nothing could be launched; 0 is for one value, as in capacityType=spot=0";
const CAPACITY: &str = "expected the capacity type reserved, spot or on-demand";
const VALUE: &str = "expected the name of a zone or an instance type between the key and the share";

/// Decimals of a share.
const PLACES: usize = 9;

/// Reads `KEY=SHARE`, for each value of the key, or `KEY=VALUE=SHARE`, for one; `:` may stand for `=`. Keys are `zone`,
/// `instanceType` and `capacityType`, or the labels that these are; a share is a decimal up to 1, or a percentage.
///
/// # Errors
/// Anything else, with what was expected.
pub fn parse_max_share(text: &str) -> Result<MaxShare, ParseShareError> {
    let error = |problem| ParseShareError { given: text.chars().take(100).collect(), problem };
    let separators = ['=', ':'];
    let (key, rest) = text.split_once(separators).ok_or_else(|| error(SHAPE))?;
    let key = match key {
        "zone" | "topology.kubernetes.io/zone" => ShareKey::Zone,
        "instanceType" | "instance-type" | "node.kubernetes.io/instance-type" => ShareKey::InstanceType,
        "capacityType" | "capacity-type" | "karpenter.sh/capacity-type" => ShareKey::CapacityType,
        _ => return Err(error(KEY)),
    };
    let (value, share) = match rest.rsplit_once(separators) {
        Some((value, share)) => (Some(value), share),
        None => (None, rest),
    };
    let billionths = billionths(share).ok_or_else(|| error(if share.is_empty() { SHAPE } else { SHARE }))?;
    match (key, value) {
        (_, None) if billionths == 0 => Err(error(NOTHING)),
        (ShareKey::CapacityType, Some(name)) if !matches!(name, "reserved" | "spot" | "on-demand") => {
            Err(error(CAPACITY))
        }
        (_, Some(name)) if name.is_empty() || name.contains(separators) => Err(error(VALUE)),
        _ => Ok(MaxShare { key, value: value.map(str::to_owned), billionths }),
    }
}

// `0.5`, `.5`, `1`, `50%`, `12.5%`.
fn billionths(text: &str) -> Option<u32> {
    let (number, places) = match text.strip_suffix('%') {
        Some(number) => (number, PLACES - 2),
        None => (text, PLACES),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = !(whole.is_empty() && fraction.is_empty());
    if !has_digits || !is_digits(whole) || !is_digits(fraction) || whole.len() > 3 || fraction.len() > places {
        return None;
    }
    let billionths: u64 = format!("{whole}{fraction:0<places$}").parse().ok()?;
    u32::try_from(billionths).ok().filter(|billionths| *billionths <= 1_000_000_000)
}

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
    let flags = rules.map(|share| {
        let value = share.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        format!("--max-share {}{value}={}", found.key.name(), share.percent())
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (ShareKey, Option<String>, u32) {
        let share = parse_max_share(text).unwrap();
        (share.key, share.value, share.billionths)
    }

    #[test]
    fn shares_are_decimals_or_percentages_of_each_value_or_of_one() {
        assert_eq!(parsed("zone=0.5"), (ShareKey::Zone, None, 500_000_000));
        assert_eq!(parsed("zone=50%"), (ShareKey::Zone, None, 500_000_000));
        assert_eq!(parsed("instanceType=.125"), (ShareKey::InstanceType, None, 125_000_000));
        let spot = (ShareKey::CapacityType, Some("spot".to_owned()), 700_000_000);
        for text in ["capacityType=spot=70%", "capacityType:spot=0.7", "karpenter.sh/capacity-type=spot:70.0%"] {
            assert_eq!(parsed(text), spot, "{text}");
        }
        assert_eq!(parsed("zone=a-1=1").2, 1_000_000_000);
        assert_eq!(parsed("zone=a-1=0").2, 0);
    }

    #[test]
    fn what_is_no_share_is_told_with_what_was_expected() {
        for (text, expected) in [
            ("zone", SHAPE),
            ("zone=", SHAPE),
            ("", SHAPE),
            ("region=0.5", KEY),
            ("zone=half", SHARE),
            ("zone=1.5", SHARE),
            ("zone=101%", SHARE),
            ("zone=-0.5", SHARE),
            ("zone=0.0000000001", SHARE),
            ("zone=0.5%%", SHARE),
            ("zone=0", NOTHING),
            ("capacityType=cheap=0.5", CAPACITY),
            ("zone==0.5", VALUE),
            ("zone=a=b=0.5", VALUE),
        ] {
            let error = parse_max_share(text).unwrap_err();
            assert_eq!(error.problem, expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_printed_as_a_percentage() {
        for (text, percent) in [("zone=0.5", "50%"), ("zone=.125", "12.5%"), ("zone=1", "100%"), ("zone=a=0", "0%")] {
            assert_eq!(parse_max_share(text).unwrap().percent(), percent);
        }
    }
}
