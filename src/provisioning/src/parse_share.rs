//! Shares as flags and scenarios have them.

use std::fmt;

use crate::max_share::{MaxShare, ShareKey};

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

/// As it is read.
impl fmt::Display for MaxShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.key.name())?;
        if let Some(value) = &self.value {
            write!(f, "{value}=")?;
        }
        f.write_str(&self.percent())
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
            let share = parse_max_share(text).unwrap();
            assert_eq!(share.percent(), percent);
            assert_eq!(parse_max_share(&share.to_string()).unwrap(), share);
        }
    }
}
