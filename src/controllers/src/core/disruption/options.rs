//! How nodes are looked at, and which are not.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::{ExpectedNodes, WaitedFor};
use berth_state::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use crate::claim::is_ready;
use crate::core::Core;

/// What a part of the nodes may cost: what-ifs times the nodes and pods that each looks at.
const PART: usize = 400_000;
/// The fewest and the most what-ifs of one part.
const WHAT_IFS: (usize, usize) = (24, 400);

/// Who is expected on which node, and where those come who are not made yet.
type Awaited<'a> = (&'a ExpectedNodes, &'a BTreeSet<&'a str>);

impl Core {
    /// How nodes are looked at now, and which are not.
    pub(in crate::core) fn disruption_options(&mut self, now: Timestamp) -> berth_disruption::Options {
        let options = self.options_for_all(now);
        let awaited = (&options.decisions.expected, &self.places.of_nobody());
        let kept = self.kept_nodes(awaited, now);
        let nodes = &self.view.nodes;
        self.disrupting.put_back.retain(|node, known| nodes.get(node).is_some() && known.counts(now));
        self.disrupting.told.retain(|node, _| nodes.get(node).is_some());
        berth_disruption::Options { kept, ..options }
    }

    /// The same for who asks about these nodes alone.
    pub(super) fn options_for(&mut self, nodes: &[ObjectRef], now: Timestamp) -> berth_disruption::Options {
        let options = self.options_for_all(now);
        let replacements = self.disrupting.replacements();
        let awaited = (&options.decisions.expected, &self.places.of_nobody());
        let name = |node: &ObjectRef| node.key.name.to_string();
        let known = nodes.iter().filter_map(|node| Some((name(node), self.view.nodes.get(&name(node))?)));
        let kept = known.filter_map(|(name, node)| {
            let why = self.why_kept((&name, node), &replacements, awaited, now)?;
            Some((name, why))
        });
        let kept = kept.collect();
        berth_disruption::Options { kept, ..options }
    }

    /// How nodes are looked at now, where none is kept from it.
    pub(super) fn options_for_all(&mut self, now: Timestamp) -> berth_disruption::Options {
        let size = self.view.nodes.len().saturating_add(self.view.pods.len());
        let what_ifs = PART.checked_div(size).unwrap_or(WHAT_IFS.1).clamp(WHAT_IFS.0, WHAT_IFS.1);
        berth_disruption::Options {
            decisions: berth_decisions::Options {
                solve: self.options.solve.clone(),
                launches: true,
                // Who else binds pods is expected to find the same places.
                scheduler_names: None,
                expected: self.expected_pods(now),
                waited_for: WaitedFor::new(),
                drawers: self.expected_drawers(now),
                come_first: self.first_pods(),
                spares_others: true,
                expected_first: false,
                holds_back: false,
            },
            methods: self.options.consolidation,
            eviction_price: self.options.eviction_price,
            spot_to_spot: self.options.convert.spot_to_spot_consolidation,
            reserved_capacity: self.options.convert.reserved_capacity,
            static_capacity: self.options.convert.static_capacity,
            most_what_ifs: what_ifs,
            only_now: true,
            ..berth_disruption::Options::default()
        }
    }

    /// Nodes that are not looked at, by name, and why.
    fn kept_nodes(&self, awaited: Awaited<'_>, now: Timestamp) -> BTreeMap<String, String> {
        let replacements = self.disrupting.replacements();
        let nodes = self.view.nodes.iter();
        let kept = nodes.filter_map(|(name, node)| {
            let why = self.why_kept((name, node), &replacements, awaited, now)?;
            Some((name.clone(), why))
        });
        kept.collect()
    }

    /// Why a node is not looked at.
    fn why_kept(
        &self,
        (name, node): (&String, &Node),
        replacements: &BTreeSet<&String>,
        (expected, of_nobody): Awaited<'_>,
        now: Timestamp,
    ) -> Option<String> {
        let claim = self.view.claims_of_node(node).next();
        let claim_name = claim.and_then(|claim| claim.metadata.name.as_ref());
        if claim.is_some_and(|claim| !self.serves(claim)) {
            Some("its NodeClaim is not this cloud's".to_owned())
        } else if !is_ready(node) {
            Some("node is not ready".to_owned())
        } else if claim_name.is_some_and(|claim| replacements.contains(claim)) {
            Some("pods of nodes that it replaces are about to come".to_owned())
        } else if claim_name.is_some_and(|claim| self.disrupting.inherited.has(claim))
            && !self.view.has_moving_pods(name)
        {
            Some("it was launched for pods of other nodes, which are looked at first".to_owned())
        } else if self.is_expected(name) || expected.contains_key(name.as_str()) {
            Some("node is nominated for a pending pod".to_owned())
        } else if of_nobody.contains(name.as_str())
            || claim_name.is_some_and(|claim| of_nobody.contains(claim.as_str()))
        {
            Some("a pod that left another node is to come to it, and is not made anew yet".to_owned())
        } else if let Some(why) = self.anothers_room(name) {
            Some(why)
        } else {
            let put_back = self.disrupting.put_back.get(name).filter(|known| known.until > now)?;
            // What could not be moved has gone meanwhile where the node is empty.
            let has_pods = self.view.pods_on(name).any(|pod| !pod.is_of_daemon_set && !pod.is_static);
            let why = &put_back.why;
            has_pods.then(|| format!("its disruption came to nothing and is tried again later: {why}"))
        }
    }
}
