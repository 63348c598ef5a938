//! The taint of nodes that go, and taking it off those that stay after all.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::NodeClaim;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::Phase;
use crate::claim::{conditions, is_disrupted, is_disruption, on};
use crate::core::{Core, Job};
use crate::kind::Kind;
use crate::write::Op;

impl Core {
    /// The node of a NodeClaim.
    pub(in crate::core) fn node_of(&self, claim: &NodeClaim) -> Option<&Node> {
        let id = claim.status.as_ref()?.provider_id.as_deref();
        let name = self.view.nodes_of(id).next()?.to_owned();
        self.view.nodes.get(&name).map(|node| &**node)
    }

    /// Whether a node is on its way out.
    pub(in crate::core) fn makes_way(&self, node: &Node) -> bool {
        let mut claims = self.view.claims_of_node(node);
        node.metadata.deletion_timestamp.is_some()
            || is_disrupted(node)
            || claims.any(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    /// Nodes with the taint of a disruption that may stay: their command is to be decided anew yet, or it came to nothing and the
    /// taint is about to be taken off.
    pub(in crate::core) fn nodes_that_may_stay(&self) -> impl Iterator<Item = &Node> {
        let decided = self.disrupting.commands.values().filter(|command| !command.is_undecided());
        let decided = decided.flat_map(|command| &command.nodes).map(|going| &*going.node.key.name);
        let decided: BTreeSet<&str> = decided.collect();
        let names = self.view.tainted.iter().filter(move |name| !decided.contains(name.as_str()));
        names.filter_map(|name| self.view.nodes.get(name)).map(|node| &**node).filter(|node| !self.is_going(node))
    }

    /// The nodes of commands that wait until their pods would find a place, one less for each replacement: that counts instead of it.
    fn nodes_that_wait(&self) -> impl Iterator<Item = &Node> {
        let waiting = self.disrupting.commands.values().filter(|command| matches!(command.phase, Phase::Waiting(..)));
        let nodes = waiting.flat_map(|command| command.nodes.iter().skip(command.replacements.len()));
        nodes.filter_map(|going| self.view.nodes.get(&*going.node.key.name)).map(|node| &**node)
    }

    /// Nodes with the taint that count in no limit of their NodePool, nor does what replaces them.
    pub(in crate::core) fn uncounted_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes_that_may_stay().chain(self.nodes_that_wait())
    }

    /// Takes the disruption's taint off a node that nobody disrupts, and then the condition off its NodeClaim: an earlier
    /// process may have left them.
    pub(in crate::core) fn untaint(&mut self, node: &Node, claim: &NodeClaim) {
        let is_going = claim.metadata.deletion_timestamp.is_some()
            || node.metadata.deletion_timestamp.is_some()
            || claim.metadata.name.as_ref().is_some_and(|name| self.disrupting.takes(name));
        if is_going {
            return;
        }
        let job = Job::Node(node.metadata.name.clone().unwrap_or_default());
        if is_disrupted(node) {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            let kept: Vec<Taint> = taints.into_iter().filter(|taint| !is_disruption(taint)).collect();
            let label = BTreeMap::from([("node.kubernetes.io/exclude-from-external-load-balancers", None::<String>)]);
            let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "labels": label},
                "spec": {"taints": kept}});
            return self.write(job, on(Kind::Node, &node.metadata, Op::Merge(patch)));
        }
        let mut all = claim.status.clone().unwrap_or_default().conditions;
        if conditions::clear(&mut all, conditions::DISRUPTION_REASON) {
            let patch = json!({"metadata": {"resourceVersion": claim.metadata.resource_version},
                "status": {"conditions": all}});
            self.write(job, on(Kind::NodeClaim, &claim.metadata, Op::MergeStatus(patch)));
        }
    }
}

pub(super) fn is_initialized(claim: &NodeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, conditions::INITIALIZED))
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Going};
    use super::*;
    use crate::core::tests::at_rest;

    /// The regression: a node whose command had just come to nothing counted in no limit until its taint was off, and others were
    /// launched in its place.
    #[test]
    fn a_node_counts_in_limits_until_its_command_goes_on_or_something_stands_for_it() {
        let mut core = at_rest(3);
        for name in ["n0", "n1", "n2"] {
            let mut node = (**core.view.nodes.get(name).unwrap()).clone();
            node.metadata.resource_version = Some("9".to_owned());
            let taint = Taint {
                key: berth_api::labels::DISRUPTED_TAINT.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            node.spec.get_or_insert_default().taints = Some(vec![taint]);
            core.view.observe(crate::observed::Observed::Applied(node.into()));
        }
        let uncounted = |core: &Core| -> Vec<String> {
            core.uncounted_nodes().filter_map(|node| node.metadata.name.clone()).collect()
        };
        assert_eq!(uncounted(&core), ["n0", "n1", "n2"], "nobody takes them");
        let going = |name: &str| Going {
            node: berth_state::Key::new(berth_state::Kind::Node, "", name).with_uid(Some(name)),
            claim: name.replace('n', "web-"),
            claim_uid: name.replace('n', "c"),
        };
        let now = "2026-01-01T00:00:01Z".parse().unwrap();
        for (phase, replacements, expected) in [
            (Phase::Settling(now), 0, vec!["n0", "n1", "n2"]),
            (Phase::Waiting(now, None), 0, vec!["n2", "n0", "n1"]),
            (Phase::Waiting(now, None), 1, vec!["n2", "n1"]),
            (Phase::Leaving, 0, vec!["n2"]),
        ] {
            let replacements = (0..replacements).map(|at| format!("r{at}")).collect();
            let nodes = vec![going("n0"), going("n1")];
            let method = berth_disruption::Method::Drift;
            core.disrupting.commands.insert(1, Command { phase, replacements, ..Command::new(method, nodes) });
            assert_eq!(uncounted(&core), expected);
        }
    }
}
