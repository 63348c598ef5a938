//! Empty nodes that were there when the process started: an earlier one may have launched them for pods of nodes that were to
//! make way. Whether these pods are to come is decided anew before such a node goes as empty: else another would be launched.
//! So it is with what a command launched that came to nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::Core;
use crate::clock::after;

/// By then the taints that an earlier process left are taken off, and the nodes are looked at like any other.
const SETTLES: Duration = Duration::from_secs(10);

/// NodeClaims whose nodes had no pods when the process started, or a command was given up.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    claims: BTreeSet<String>,
    /// From when a look counts.
    from: Option<Timestamp>,
    /// Those that the look under way takes into account.
    looked_at: BTreeSet<String>,
}

// === impl Inherited ===

impl Inherited {
    pub(super) fn has(&self, claim: &str) -> bool {
        self.claims.contains(claim)
    }

    /// A command came to nothing: what it launched stays until its nodes are looked at again.
    pub(super) fn keep(&mut self, claims: &[String], until: Timestamp) {
        if !claims.is_empty() {
            self.claims.extend(claims.iter().cloned());
            self.from = self.from.max(Some(until));
        }
    }

    /// A look at all nodes is over; whether some are like any other from now on.
    pub(super) fn end_look(&mut self) -> bool {
        let looked_at = std::mem::take(&mut self.looked_at);
        let n_before = self.claims.len();
        self.claims.retain(|claim| !looked_at.contains(claim));
        self.claims.len() < n_before
    }
}

impl Core {
    /// The process starts.
    pub(in crate::core) fn inherit_empty_nodes(&mut self, now: Timestamp) {
        let is_empty = |claim: &berth_api::NodeClaim| {
            // One that pods have left, or that holds a Reservation, was not launched just now: nobody is about to come.
            let had_pods = claim.status.as_ref().is_some_and(|status| status.last_pod_event_time.is_some());
            let node = self.node_of(claim).and_then(|node| node.metadata.name.as_ref());
            let is_used =
                |node: &String| self.view.has_moving_pods(node) || self.view.reservations_on(node).next().is_some();
            !had_pods && !node.is_some_and(is_used)
        };
        let claims = self.view.claims.iter().filter(|(_, claim)| is_empty(claim)).map(|(name, _)| name.clone());
        let claims = claims.collect();
        self.disrupting.inherited = Inherited { claims, from: Some(after(now, SETTLES)), looked_at: BTreeSet::new() };
    }

    /// A look at all nodes begins.
    pub(super) fn look_at_inherited(&mut self, now: Timestamp) {
        let known = &self.disrupting.inherited;
        let counts = known.from.is_some_and(|from| from <= now);
        let is_up = |name: &&String| self.view.claims.get(*name).is_none_or(|claim| Self::initialized(claim));
        let looked_at = known.claims.iter().filter(is_up).filter(|_| counts).cloned().collect();
        self.disrupting.inherited.looked_at = looked_at;
    }
}
