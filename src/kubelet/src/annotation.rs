//! The annotations by which a pod says what its containers would do.
//!
//! Durations are Go's: `90s`, `1m30s`, `500ms`. A value that is none is told in an event on the pod, and the pod runs as
//! if the annotation were not there.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::GoDuration;

/// The containers end by themselves, with exit code 0, after so long.
pub const RUNS_FOR: &str = "berth.sh/runs-for";
/// The containers end by themselves, with exit code 1, after so long; it wins over [`RUNS_FOR`].
pub const FAILS_AFTER: &str = "berth.sh/fails-after";
/// The pod is ready so long after its containers have started.
pub const READY_AFTER: &str = "berth.sh/ready-after";
/// The containers take so long to stop once the pod is deleted; at most its grace period.
pub const STOPS_AFTER: &str = "berth.sh/stops-after";

/// What the annotations of a pod say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Behaviour {
    pub(crate) exit: Option<Exit>,
    pub(crate) ready_after: Duration,
    pub(crate) stops_after: Option<Duration>,
}

/// How containers end by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) after: Duration,
    pub(crate) code: i32,
}

/// What is wrong with the annotations of a pod, a sentence each.
pub fn problems(annotations: &BTreeMap<String, String>) -> Vec<String> {
    read(Some(annotations)).1
}

/// Reads the annotations; what is wrong with them, a sentence each.
pub(crate) fn read(annotations: Option<&BTreeMap<String, String>>) -> (Behaviour, Vec<String>) {
    let mut problems = Vec::new();
    let mut duration = |key: &str| {
        let text = annotations?.get(key)?;
        let parsed = text.parse::<GoDuration>().ok().and_then(|parsed| parsed.to_std());
        if parsed.is_none() {
            problems.push(format!("{key} is {text:?}, expected a duration such as 90s or 1m30s"));
        }
        parsed
    };
    let (fails, runs) = (duration(FAILS_AFTER), duration(RUNS_FOR));
    let behaviour = Behaviour {
        exit: fails.map(|after| Exit { after, code: 1 }).or(runs.map(|after| Exit { after, code: 0 })),
        ready_after: duration(READY_AFTER).unwrap_or_default(),
        stops_after: duration(STOPS_AFTER),
    };
    (behaviour, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_wins_over_a_success() {
        let annotations = BTreeMap::from([(RUNS_FOR, "1m30s"), (FAILS_AFTER, "500ms"), (READY_AFTER, "0s")])
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let (behaviour, problems) = read(Some(&annotations));
        assert_eq!(behaviour.exit, Some(Exit { after: Duration::from_millis(500), code: 1 }));
        assert!(problems.is_empty());
    }

    #[test]
    fn what_is_no_duration_is_told_and_ignored() {
        for text in ["", "soon", "5", "-5s", "1x", "1e300h", "99999999999999999999h"] {
            let annotations = BTreeMap::from([(RUNS_FOR.to_owned(), text.to_owned())]);
            let (behaviour, problems) = read(Some(&annotations));
            assert_eq!(behaviour, Behaviour::default(), "{text:?} was read");
            assert_eq!(problems.len(), 1, "{text:?} was not told");
        }
    }
}
