//! How a command begins: its nodes are its own from then on, its pods have places, and a line says what it is for.

use berth_decisions::Launch;
use berth_state::ObjectRef;
use jiff::Timestamp;

use super::{Command, Going, NEXT_PART, tell};
use crate::clock::after;
use crate::core::{Core, Job};

/// A command that has begun, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// What becomes of its nodes, and what that saves.
    pub(crate) text: String,
    /// The names of its nodes.
    pub(crate) nodes: Vec<String>,
}

impl Core {
    /// The commands that have begun since the last call.
    pub(crate) fn take_begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.disrupting.begun)
    }

    /// Begins a command, if this process knows each of its nodes.
    pub(in crate::core) fn begin(&mut self, command: &berth_disruption::Command, now: Timestamp) {
        let going = |node: &ObjectRef| {
            let known = self.view.nodes.get(&*node.key.name)?;
            let claim = self.view.claims_of_node(known).next()?;
            let (name, uid) = (claim.metadata.name.clone()?, claim.metadata.uid.clone()?);
            let is_free = claim.metadata.deletion_timestamp.is_none() && !self.disrupting.takes(&name);
            is_free.then(|| Going { node: node.clone(), claim: name, claim_uid: uid })
        };
        let Some(nodes) = command.nodes.iter().map(going).collect::<Option<Vec<Going>>>() else { return };
        let id = self.disrupting.n_commands;
        self.disrupting.n_commands = id.wrapping_add(1);
        let launches: Vec<&Launch> = command.replacements.iter().map(|(_, launch)| launch).collect();
        let text = tell::in_words(nodes.len(), &launches, command.savings, command.evictions);
        tracing::info!(id, method = command.method.as_str(), "{text}");
        let names = command.nodes.iter().map(|node| node.key.name.to_string()).collect();
        self.disrupting.begun.push(Begun { text, nodes: names });
        self.disrupting.commands.insert(id, Command::new(command.method, nodes));
        let on_nodes = command.places.iter().filter(|(_, node)| self.view.nodes.get(node).is_some());
        let places: Vec<_> = on_nodes.map(|(pod, node)| (pod, node.as_str())).collect();
        self.hold_places(id, places);
        self.queue.add(Job::Command(id));
        self.queue.add_at(Job::Disrupt, after(now, NEXT_PART));
    }
}
