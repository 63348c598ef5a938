//! What disruption tells: Events on nodes, NodeClaims and NodePools.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_decisions::Launch;
use berth_disruption::{Kept, Why};
use berth_model::Money;
use berth_state::ObjectRef;
use jiff::Timestamp;

use super::dollars;
use crate::clock::{after, elapsed};
use crate::core::{Core, Job};
use crate::kind::Kind;
use crate::notice::Notice;

/// How long the same reason is not told of a node again, as in Karpenter.
const REPEAT_AFTER: Duration = Duration::from_secs(15 * 60);
/// Why nodes stay is told of so many in one go, and of the next ones so much later: pods are bound meanwhile.
const AT_A_TIME: usize = 50;
const BETWEEN: Duration = Duration::from_millis(10);

impl Core {
    /// Tells what people should mend, on the objects that it is wrong with.
    pub(super) fn tell_faults(&mut self, faults: &[(ObjectRef, String)], now: Timestamp) {
        for (object, text) in faults {
            let Some(metadata) = self.state.get(&object.key).map(|known| known.metadata().clone()) else { continue };
            let kind = match object.key.kind {
                berth_state::Kind::Pod => Kind::Pod,
                berth_state::Kind::Node => Kind::Node,
                _ => Kind::NodeClaim,
            };
            self.tell(Notice::about(kind, &metadata, "InvalidDoNotDisrupt", text.clone()), now);
        }
    }

    /// Tells why nodes stay, each once while that stays so: of some now, and of the others a while later. What a look finds
    /// before all is told takes the place of what is left.
    pub(in crate::core) fn tell_kept(&mut self, now: Timestamp) {
        let is_listened_to = self.is_listened_to();
        let kept = &mut self.disrupting.to_be_told;
        if !is_listened_to {
            *kept = Vec::new().into_iter();
        }
        let some: Vec<Kept> = kept.by_ref().take(AT_A_TIME).collect();
        if kept.len() > 0 {
            self.queue.add_at(Job::TellKept, after(now, BETWEEN));
        }
        self.tell_some_kept(&some, now);
    }

    pub(in crate::core) fn tell_some_kept(&mut self, kept: &[Kept], now: Timestamp) {
        for node in kept {
            let name = node.node.key.name.to_string();
            let reason = match node.why {
                Why::Blocked | Why::Budget => "DisruptionBlocked",
                Why::Unconsolidatable => "Unconsolidatable",
                // That is the plain course of things.
                Why::Unripe => continue,
            };
            let Some(known) = self.view.nodes.get(&name).cloned() else { continue };
            let claim = self.view.claims_of_node(&known).next().cloned();
            let is_going = claim.as_ref().is_none_or(|claim| {
                let own = claim.metadata.name.as_deref().unwrap_or_default();
                claim.metadata.deletion_timestamp.is_some() || self.disrupting.of_claim(own).is_some()
            });
            if is_going || !claim.as_deref().is_some_and(Core::initialized) {
                continue;
            }
            let message = in_a_sentence(node);
            let told = self.disrupting.told.get(&name);
            if told.is_some_and(|(text, told)| *text == message && elapsed(*told, now) < REPEAT_AFTER) {
                continue;
            }
            self.disrupting.told.insert(name, (message.clone(), now));
            self.tell(Notice::about(Kind::Node, &known.metadata, reason, message.clone()), now);
            if let Some(claim) = claim {
                self.tell(Notice::about(Kind::NodeClaim, &claim.metadata, reason, message), now);
            }
        }
    }
}

/// `pdb shop/web prevents pod evictions (2 pods); …`.
fn in_a_sentence(kept: &Kept) -> String {
    let reasons = kept.reasons.iter().map(|known| match known.count {
        0 => known.reason.clone(),
        1 => format!("{} (1 pod)", known.reason),
        count => format!("{} ({count} pods)", known.reason),
    });
    reasons.collect::<Vec<_>>().join("; ")
}

/// `2 nodes → 1 × m5.xlarge on cr-web: $0.3840/h saved, 6 pods move`.
pub(super) fn in_words(n_nodes: usize, launches: &[&Launch], savings: Money, evictions: usize) -> String {
    let mut onto: BTreeMap<String, usize> = BTreeMap::new();
    for launch in launches {
        let offering = &launch.offering;
        let on =
            offering.reservation_id.as_ref().map_or_else(|| offering.capacity_type.clone(), |id| format!("on {id}"));
        *onto.entry(format!("{} {on}", offering.instance_type)).or_default() += 1;
    }
    let onto: Vec<String> = onto.into_iter().map(|(what, n)| format!("{n} × {what}")).collect();
    let onto = if onto.is_empty() { "other nodes".to_owned() } else { onto.join(", ") };
    let nodes = if n_nodes == 1 { "1 node".to_owned() } else { format!("{n_nodes} nodes") };
    let pods = match evictions {
        0 if launches.is_empty() => return format!("{nodes} without pods: {}", gain(savings)),
        0 => return format!("{nodes} → {onto}: {}", gain(savings)),
        1 => "1 pod moves".to_owned(),
        n => format!("{n} pods move"),
    };
    format!("{nodes} → {onto}: {}, {pods}", gain(savings))
}

/// `$0.3840/h saved`; drift may cost: `$0.1920/h more`.
fn gain(savings: Money) -> String {
    if savings < Money::ZERO {
        return format!("{} more", dollars(Money::from_pico(savings.pico().saturating_neg())));
    }
    if savings == Money::ZERO {
        return "nothing saved".to_owned();
    }
    format!("{} saved", dollars(savings))
}

#[cfg(test)]
mod tests {
    use super::{Money, in_words};

    #[test]
    fn what_costs_more_is_not_said_to_be_saved() {
        let cents = |n: i128| Money::from_pico(n * 10_000_000_000);
        assert_eq!(in_words(1, &[], cents(-19), 3), "1 node → other nodes: $0.1900/h more, 3 pods move");
        assert_eq!(in_words(2, &[], cents(19), 0), "2 nodes without pods: $0.1900/h saved");
        assert_eq!(in_words(1, &[], cents(0), 0), "1 node without pods: nothing saved", "on a slot");
    }
}
