//! Named decisions: why Berth's plan may rightly look worse than Karpenter's.
//!
//! Each has a witness in the two plans and, where Berth chose otherwise on purpose, a counterfactual: with what the
//! decision looks at left out of the input, Berth's plan is no worse than what Karpenter made of the whole input.

use std::collections::BTreeMap;

use berth_checker::{Case, Options, check};
use serde_json::{Value, json};

use crate::compare::{Verdict, verdict};
use crate::outcome::{Outcome, PlannedNode, pinned, pod_name};

/// A reason that the project has chosen, or a fault of the peer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Decision {
    /// The independent checker finds that Karpenter's plan breaks a constraint, so that it is no yardstick.
    PeerBreaksConstraint,
    /// A pod goes to the heaviest NodePool that admits it; Karpenter first fills a node it has already planned in a
    /// lighter pool.
    HeaviestPoolFirst,
    /// A preference that Berth's plan keeps and Karpenter's, by the order of its pods, does not.
    PreferencesBeforeCost,
    /// minValues count the types that hold all pods of a claim in its zone. Karpenter counts them before the zone is
    /// decided, and not at all for pods that join the node in a later loop.
    MinValuesHoldForWholeClaim,
    /// Pods of higher priority choose their place first; Karpenter does not look at priority.
    PriorityBeforeSize,
}

impl Decision {
    /// The name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PeerBreaksConstraint => "Karpenter's plan breaks a constraint",
            Self::HeaviestPoolFirst => "weights: heaviest pool first although dearer",
            Self::PreferencesBeforeCost => "preferences kept before cost",
            Self::MinValuesHoldForWholeClaim => "minValues hold for the whole claim",
            Self::PriorityBeforeSize => "priority before size",
        }
    }
}

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Rules of the checker about what a plan must hold, whoever made it. The others are about the form of Berth's own.
const CONSTRAINTS: [&str; 12] = [
    "attach-limit",
    "host-ports",
    "limits",
    "node-selection",
    "offering",
    "pod-affinity",
    "pod-anti-affinity",
    "pool-requirements",
    "resources",
    "taints",
    "topology-spread",
    "volumes",
];

/// Both decisions about one case.
pub(crate) struct Both<'a> {
    pub(crate) case: &'a Case,
    pub(crate) verdict: Verdict,
    pub(crate) berth: &'a Outcome,
    pub(crate) peer: &'a Outcome,
    /// In the shape of the contract, each claim pinned to its offering.
    pub(crate) berth_plan: &'a Value,
    pub(crate) peer_plan: &'a Value,
}

fn violations(case: &Case, plan: &Value) -> usize {
    let found = check(&case.objects, &case.catalogue, plan, &Options::default());
    found.iter().filter(|v| CONSTRAINTS.contains(&v.rule)).count()
}

/// The first decision that explains why Berth's plan is worse; `None` where none does.
pub(crate) fn explain(both: &Both<'_>) -> Option<Decision> {
    if violations(both.case, both.peer_plan) > 0 {
        return Some(Decision::PeerBreaksConstraint);
    }
    if peer_stretches_min_values(both) && is_no_worse(both, &edited(both.case, "NodePool", without_min_values)) {
        return Some(Decision::MinValuesHoldForWholeClaim);
    }
    if both.verdict == Verdict::Dearer
        && uses_heavier_pool(both)
        && is_no_worse(both, &edited(both.case, "NodePool", |pool| drop_key(&mut pool["spec"], "weight")))
    {
        return Some(Decision::HeaviestPoolFirst);
    }
    if both.verdict == Verdict::Dearer
        && favours_preferences(both)
        && is_no_worse(both, &without_preferences(both.case))
    {
        return Some(Decision::PreferencesBeforeCost);
    }
    let without_priorities = edited(both.case, "Pod", |pod| {
        drop_key(&mut pod["spec"], "priority");
        drop_key(&mut pod["spec"], "priorityClassName");
    });
    if both.verdict == Verdict::Dearer && has_priorities(both) && is_no_worse(both, &without_priorities) {
        return Some(Decision::PriorityBeforeSize);
    }
    None
}

/// Whether Berth's plan of the edited case is no worse than what Karpenter made of the case as it is.
fn is_no_worse(both: &Both<'_>, edited: &Case) -> bool {
    let plan = berth_plan::plan_documents(&edited.objects, Some(&edited.catalogue), &berth_plan::Options::default());
    plan.is_ok_and(|plan| !verdict(both.case, &Outcome::of_plan(&plan), both.peer).is_worse())
}

fn drop_key(value: &mut Value, key: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(key);
    }
}

fn edited(case: &Case, kind: &str, edit: impl Fn(&mut Value)) -> Case {
    let mut edited = case.clone();
    edited.objects.iter_mut().filter(|object| object["kind"] == kind).for_each(edit);
    edited
}

// === Weights ===

/// Whether a pod is on paid capacity of a pool heavier than the one that Karpenter chose for it.
fn uses_heavier_pool(both: &Both<'_>) -> bool {
    let pools = both.case.objects.iter().filter(|o| o["kind"] == "NodePool");
    let weights: BTreeMap<&str, u64> = pools
        .filter_map(|p| Some((p["metadata"]["name"].as_str()?, p["spec"]["weight"].as_u64().unwrap_or_default())))
        .collect();
    let weight = |pool: &str| weights.get(pool).copied();
    let theirs = both.peer.placed();
    both.berth.placed().iter().any(|(pod, ours)| {
        let theirs = theirs.get(pod).and_then(|place| weight(&place.pool));
        ours.price > 0.0 && theirs.is_some_and(|theirs| weight(&ours.pool) > Some(theirs))
    })
}

// === minValues ===

fn without_min_values(pool: &mut Value) {
    let requirements = pool.pointer_mut("/spec/template/spec/requirements").and_then(Value::as_array_mut);
    requirements.into_iter().flatten().for_each(|requirement| drop_key(requirement, "minValues"));
}

fn min_values(pool: &Value) -> Option<u64> {
    let requirements = pool.pointer("/spec/template/spec/requirements")?.as_array()?;
    requirements.iter().filter(|r| r["key"] == INSTANCE_TYPE).find_map(|r| r["minValues"].as_u64())
}

/// Whether a claim of Karpenter's has fewer types than minValues asks, once its zone and all its pods are known.
fn peer_stretches_min_values(both: &Both<'_>) -> bool {
    let Some(claims) = both.peer_plan["nodeClaims"].as_array() else { return false };
    (0..claims.len()).any(|at| {
        let claim = &claims[at];
        let pool =
            both.case.objects.iter().find(|o| o["kind"] == "NodePool" && o["metadata"]["name"] == claim["nodePool"]);
        let Some(least) = pool.and_then(min_values) else { return false };
        let types = both.case.catalogue.as_array().into_iter().flatten();
        let holding = types.filter(|t| {
            let mut offerings = t["offerings"].as_array().into_iter().flatten();
            offerings.any(|offering| {
                let moved = moved(both.peer_plan, at, &t["name"], offering);
                moved.is_some_and(|plan| violations(both.case, &plan) == 0)
            })
        });
        (holding.count() as u64) < least
    })
}

/// The plan with one claim on another offering of its zone; `None` where the offering is in another zone.
fn moved(plan: &Value, at: usize, name: &Value, offering: &Value) -> Option<Value> {
    let mut plan = plan.clone();
    let planned = plan["nodeClaims"].get_mut(at)?.get_mut("offering")?;
    let requirements = offering["Requirements"].as_array()?;
    let value =
        |key: &str| requirements.iter().find(|r| r["key"] == key).map_or(Value::Null, |r| r["values"][0].clone());
    if value("topology.kubernetes.io/zone") != planned["zone"] {
        return None;
    }
    planned["instanceType"] = name.clone();
    planned["capacityType"] = value("karpenter.sh/capacity-type");
    planned["reservationID"] = value("karpenter.sh/reservation-id");
    planned["price"] = offering["Price"].clone();
    Some(pinned(&plan))
}

// === Priorities ===

fn has_priorities(both: &Both<'_>) -> bool {
    let priorities = crate::outcome::priorities(both.case);
    let mut placed: Vec<i64> = both.berth.placed().keys().filter_map(|pod| priorities.get(*pod).copied()).collect();
    placed.sort_unstable();
    placed.first() != placed.last()
}

// === Preferences ===

/// Whether Berth keeps more of them, or puts a pod that would rather be spread elsewhere than Karpenter does. (The
/// checker sees only the zones that a plan uses; both planners spread over all that the NodePools could use.)
fn favours_preferences(both: &Both<'_>) -> bool {
    let (ours, theirs) = (both.berth.placed(), both.peer.placed());
    let is_elsewhere = |pod: &Value| {
        let name = pod_name(pod);
        let label = |placed: &BTreeMap<&str, &PlannedNode>| placed.get(name.as_str()).map(|place| place.label.clone());
        label(&ours) != label(&theirs)
    };
    let pods = both.case.objects.iter().filter(|o| o["kind"] == "Pod");
    let spread = pods.filter(|pod| {
        let spreads = pod["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten();
        spreads.clone().any(|spread| spread["whenUnsatisfiable"] == "ScheduleAnyway")
    });
    keeps_more_preferences(both) || spread.clone().any(is_elsewhere)
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn without_preferences(case: &Case) -> Case {
    let no_terms = edited(case, "Pod", |pod| {
        for kind in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
            drop_key(&mut pod["spec"]["affinity"][kind], PREFERRED);
        }
        if pod["spec"]["affinity"].as_object().is_some_and(|a| a.values().all(Value::is_null)) {
            drop_key(&mut pod["spec"], "affinity");
        } else if let Some(affinity) = pod["spec"]["affinity"].as_object_mut() {
            affinity.retain(|_, value| value.as_object().is_some_and(|terms| !terms.is_empty()));
        }
        if let Some(spreads) = pod["spec"]["topologySpreadConstraints"].as_array_mut() {
            spreads.retain(|spread| spread["whenUnsatisfiable"] != "ScheduleAnyway");
        }
        if pod["spec"]["affinity"].is_null() {
            drop_key(&mut pod["spec"], "affinity");
        }
        if pod["spec"]["topologySpreadConstraints"].is_null() {
            drop_key(&mut pod["spec"], "topologySpreadConstraints");
        }
    });
    edited(&no_terms, "NodePool", |pool| {
        if let Some(taints) = pool.pointer_mut("/spec/template/spec/taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| taint["effect"] != "PreferNoSchedule");
        }
    })
}

fn keeps_more_preferences(both: &Both<'_>) -> bool {
    let hardened = hardened(both.case);
    let broken = |plan: &Value| {
        let base = violations(both.case, plan);
        hardened.iter().filter(|case| violations(case, plan) > base).count()
    };
    broken(&pinned(both.berth_plan)) < broken(both.peer_plan)
}

/// The case once for each preference, with that one made a requirement.
fn hardened(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for (index, object) in case.objects.iter().enumerate() {
        let mut push = |edit: &dyn Fn(&mut Value)| {
            let mut harder = case.clone();
            if let Some(object) = harder.objects.get_mut(index) {
                edit(object);
            }
            all.push(harder);
        };
        if object["kind"] == "NodePool" {
            push(&|pool| {
                let taints = pool.pointer_mut("/spec/template/spec/taints").and_then(Value::as_array_mut);
                for taint in taints.into_iter().flatten().filter(|taint| taint["effect"] == "PreferNoSchedule") {
                    taint["effect"] = "NoSchedule".into();
                }
            });
        }
        if object["kind"] != "Pod" {
            continue;
        }
        for kind in ["podAffinity", "podAntiAffinity"] {
            for preferred in object["spec"]["affinity"][kind][PREFERRED].as_array().into_iter().flatten() {
                push(&|pod| add(&mut pod["spec"]["affinity"][kind][REQUIRED], preferred["podAffinityTerm"].clone()));
            }
        }
        for preferred in object["spec"]["affinity"]["nodeAffinity"][PREFERRED].as_array().into_iter().flatten() {
            push(&|pod| {
                let terms = &mut pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
                if terms.is_null() {
                    *terms = json!([{}]);
                }
                let wanted = preferred["preference"]["matchExpressions"].as_array();
                for term in terms.as_array_mut().into_iter().flatten() {
                    for expression in wanted.into_iter().flatten() {
                        add(&mut term["matchExpressions"], expression.clone());
                    }
                }
            });
        }
        for at in 0..object["spec"]["topologySpreadConstraints"].as_array().map_or(0, Vec::len) {
            if object["spec"]["topologySpreadConstraints"][at]["whenUnsatisfiable"] == "ScheduleAnyway" {
                push(&|pod| pod["spec"]["topologySpreadConstraints"][at]["whenUnsatisfiable"] = "DoNotSchedule".into());
            }
        }
    }
    all
}

fn add(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = Value::Array(vec![item]),
    }
}
