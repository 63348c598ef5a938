//! The steps of a command: its nodes get a taint; once it has settled everything is looked at anew; replacements are
//! launched; when these are up and every pod would find its place, the NodeClaims are deleted, and each node drains. Until
//! then every step can be taken back, and is where something does not hold any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::NodeClaim;
use berth_decisions::{DecideError, Launch};
use berth_disruption::{Cause, Method, Places, Reason, Renewed};
use berth_state::{ObjectRef, Patch};
use jiff::Timestamp;
use serde_json::json;

use super::put_back::{BACKOFF, Fault};
use super::{Command, Going, Phase, tell};
use crate::claim::{conditions, cordon, on};
use crate::clock::{after, elapsed};
use crate::core::{Core, Job};
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::write::Op;

/// How long after its taint a node is looked at once more: a scheduler may have bound a pod before it saw the taint.
const SETTLES: Duration = Duration::from_secs(2);
/// For how long it waits for those that began before it.
const IN_TURN: Duration = Duration::from_secs(10);
/// How often it is asked whether the nodes may go.
const RETRY: Duration = Duration::from_secs(2);
/// How often a command is decided anew that a budget of pods keeps.
const BUDGET_RETRY: Duration = Duration::from_secs(5);
/// How often that is asked although nothing changed: the schedules of budgets open and close.
const ASKED_AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// NodeClaims that an Event names.
const NAMED: usize = 5;
/// How long a command waits for its replacements and for its pods' places, as in Karpenter.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// And where nothing comes up that it could wait for.
const SHORT_PATIENCE: Duration = Duration::from_secs(60);

impl Core {
    /// The next step of a command.
    pub(in crate::core) fn step_command(&mut self, id: u64, now: Timestamp) {
        let job = Job::Command(id);
        let Some(command) = self.disrupting.commands.get(&id).cloned() else { return self.queue.forget(&job) };
        if command.phase == Phase::Leaving {
            return self.leave(id, &command, now);
        }
        if let Some(why) = command.nodes.iter().find_map(|going| self.lost(going)) {
            return self.roll_back(id, &why, now);
        }
        match command.phase {
            Phase::Tainting => self.taint(id, &command, now),
            Phase::Settling(since) if after(since, SETTLES) > now => self.queue.add_at(job, after(since, SETTLES)),
            Phase::Settling(since)
                if self.disrupting.comes_after_another(id) && after(since, SETTLES + IN_TURN) > now =>
            {
                self.queue.add_at(job, after(now, SETTLES));
            }
            Phase::Settling(_) => self.launch_replacements(id, &command, now),
            Phase::Waiting(since, ref why) => self.wait(id, &command, (since, why.as_deref()), now),
            Phase::Leaving => {}
        }
    }

    /// Why a node of a command goes by itself, or is gone.
    fn lost(&self, going: &Going) -> Option<String> {
        let claim = self.claim_of(going).filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let node = self.view.nodes.get(&*going.node.key.name);
        let is_there = claim.is_some() && node.is_some_and(|node| node.metadata.deletion_timestamp.is_none());
        (!is_there).then(|| format!("node {} goes by itself", going.node.key.name))
    }

    fn claim_of(&self, going: &Going) -> Option<&Arc<NodeClaim>> {
        let claim = self.view.claims.get(&going.claim)?;
        (claim.metadata.uid.as_deref() == Some(&going.claim_uid)).then_some(claim)
    }

    fn set_phase(&mut self, id: u64, phase: Phase) {
        if let Some(command) = self.disrupting.commands.get_mut(&id) {
            command.phase = phase;
        }
    }

    /// Taint and condition, node by node.
    fn taint(&mut self, id: u64, command: &Command, now: Timestamp) {
        let job = Job::Command(id);
        let reason = reason_of(command.method);
        for going in &command.nodes {
            let node = self.view.nodes.get(&*going.node.key.name);
            if let Some((metadata, patch)) = node.and_then(|node| Some((node.metadata.clone(), cordon(node)?))) {
                return self.write(job, on(Kind::Node, &metadata, Op::Merge(patch)));
            }
            let Some(claim) = self.claim_of(going) else { continue };
            let mut all = claim.status.clone().unwrap_or_default().conditions;
            let disrupted = (conditions::DISRUPTION_REASON, conditions::Status::True);
            if conditions::set(&mut all, disrupted, (reason, ""), claim.metadata.generation, now) {
                let patch = json!({"metadata": {"resourceVersion": claim.metadata.resource_version},
                    "status": {"conditions": all}});
                let metadata = claim.metadata.clone();
                return self.write(job, on(Kind::NodeClaim, &metadata, Op::MergeStatus(patch)));
            }
        }
        self.set_phase(id, Phase::Settling(now));
        self.queue.add_at(job, after(now, SETTLES));
    }

    /// Everything is looked at anew; if it holds, what takes the nodes' place is launched.
    fn launch_replacements(&mut self, id: u64, command: &Command, now: Timestamp) {
        if self.want_step(id) {
            return;
        }
        let options = self.options_to_renew(id, now);
        let nodes = references(command);
        let renewed =
            berth_disruption::renew((&mut self.state, &mut self.decider), &nodes, command.method, &options, now);
        self.renewed(id, command, renewed, now);
    }

    /// The nodes but those of a command that may go or stay yet, by name.
    fn undecided_but(&self, id: u64) -> BTreeSet<String> {
        let own = self.disrupting.commands.get(&id).map(|command| &command.nodes[..]).unwrap_or_default();
        let names = self.nodes_that_may_stay().filter_map(|node| node.metadata.name.clone());
        names.filter(|name| own.iter().all(|going| *going.node.key.name != **name)).collect()
    }

    pub(in crate::core) fn options_to_renew(&mut self, id: u64, now: Timestamp) -> berth_disruption::Options {
        let undecided = self.undecided_but(id);
        let Some((nodes, method, _)) = self.disrupting.step_of(id) else {
            return berth_disruption::Options { undecided, ..self.disruption_options(now) };
        };
        let options = if berth_disruption::needs_all(&self.state, &nodes, method) {
            self.disruption_options(now)
        } else {
            self.options_for(&nodes, now)
        };
        berth_disruption::Options { undecided, ..options }
    }

    /// A command was decided anew elsewhere; where that does not hold any more, it is once again.
    pub(in crate::core) fn was_renewed(&mut self, id: u64, renewed: Decided<Renewed>, holds: bool, now: Timestamp) {
        let Some(command) = self.disrupting.commands.get(&id).cloned() else { return };
        let Phase::Settling(since) = command.phase else { return };
        match command.nodes.iter().find_map(|going| self.lost(going)) {
            Some(why) => self.roll_back(id, &why, now),
            None if holds => self.renewed(id, &command, renewed, now),
            None if elapsed(since, now) >= SHORT_PATIENCE => {
                let why = format!("for {SHORT_PATIENCE:?} the cluster changed while it was decided anew");
                self.roll_back(id, &why, now);
            }
            None => self.queue.add_at(Job::Command(id), after(now, RETRY)),
        }
    }

    fn renewed(&mut self, id: u64, command: &Command, renewed: Decided<Renewed>, now: Timestamp) {
        let renewed = match renewed {
            Ok(Ok(renewed)) => renewed,
            Ok(Err(reasons)) => return self.not_renewed(id, command, &reasons, now),
            Err(error) => return self.roll_back(id, &error.to_string(), now),
        };
        let launches: Vec<&Launch> = renewed.launches.iter().collect();
        let text = tell::in_words(command.nodes.len(), &launches, renewed.savings, renewed.evictions);
        if command.method == Method::DriftInSlot {
            self.count_decided(command, launches.len());
            // Its slot must be free before anything can be launched there: its pods are planned for as they leave.
            self.tell_pool(command, &text, now);
            self.set_phase(id, Phase::Leaving);
            return self.queue.add(Job::Command(id));
        }
        let scarce = self.disrupting.scarce.first_of(&renewed.launches, now).filter(|_| !command.method.is_drift());
        if let Some((offering, until)) = scarce {
            let (offering, scarce_until, until) = (offering.clone(), until, conditions::whole_seconds(until));
            let of_type = &offering.instance_type;
            let why = format!("too few {of_type} were left lately: none is launched for a disruption before {until}");
            return self.put_back(id, &why, &Fault::Scarce(offering, scarce_until), now);
        }
        let unreached = self.zone_without_joins(&renewed.launches, now).filter(|_| !command.method.is_drift());
        if let Some((zone, until)) = unreached {
            let why = format!(
                "machines did not join in zone {zone} lately: none is launched there for a disruption before {}",
                conditions::whole_seconds(until)
            );
            return self.put_back(id, &why, &Fault::NotBefore(until), now);
        }
        let mut spend = self.spend_for_ceilings();
        // What is launched of a part of them would go again.
        if let Err(why) = self.may_launch_all(&renewed.launches, spend.clone(), now) {
            return self.roll_back(id, &format!("no replacement can be launched: {why}"), now);
        }
        for launch in &renewed.launches {
            match self.create_claim(launch, &mut spend, now) {
                Ok(name) => {
                    self.hold_places(
                        id,
                        launch.pods.iter().chain(&launch.reservations).map(|own| (&own.key, name.as_str())),
                    );
                    if let Some(command) = self.disrupting.commands.get_mut(&id) {
                        command.replacements.push(name);
                    }
                }
                Err(why) => return self.roll_back(id, &format!("no replacement can be launched: {why}"), now),
            }
        }
        self.tell_launching(id, command, now);
        self.count_decided(command, launches.len());
        self.tell_pool(command, &text, now);
        self.set_phase(id, Phase::Waiting(now, None));
        self.queue.add(Job::Command(id));
    }

    /// Replacements come up; then the nodes may go once their pods would all find a place.
    fn wait(&mut self, id: u64, command: &Command, (since, why): (Timestamp, Option<&str>), now: Timestamp) {
        let job = Job::Command(id);
        let mut n_ready = 0;
        for name in &command.replacements {
            match self.view.claims.get(name) {
                None if self.queue.is_running(&Job::Launch(name.clone())) => {}
                Some(claim) if claim.metadata.deletion_timestamp.is_none() => {
                    n_ready += usize::from(Self::initialized(claim));
                }
                _ => {
                    let ran_out = command.ran_out && !command.method.is_drift();
                    let fault = if ran_out { Fault::RanOut } else { Fault::Lasting };
                    return self.put_back(id, &format!("the replacement {name} was not launched"), &fault, now);
                }
            }
        }
        let is_coming_up = || self.view.claims.values().any(|claim| !Self::initialized(claim));
        let patience = if !command.replacements.is_empty() || is_coming_up() { PATIENCE } else { SHORT_PATIENCE };
        if after(since, patience) <= now {
            let why = why.unwrap_or("its replacements are not ready");
            return self.roll_back(id, &format!("after {patience:?}: {why}"), now);
        }
        if n_ready < command.replacements.len() {
            self.tell_going(command, "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption", now);
            return self.queue.add_at(job, after(since, patience));
        }
        let n_changes = self.disrupting.n_changes;
        let is_answered = |(asked, at): (Timestamp, u64)| at == n_changes && elapsed(asked, now) < ASKED_AT_LEAST_EVERY;
        if command.asked.is_some_and(is_answered) {
            return self.queue.add_at(job, after(now, RETRY));
        }
        if self.want_step(id) {
            return;
        }
        let options = self.options_to_confirm(id, now);
        let confirmed = berth_disruption::confirm(
            (&mut self.state, &mut self.decider),
            &references(command),
            command.method,
            &options,
            now,
        );
        self.confirmed((id, since), confirmed, n_changes, now);
    }

    /// Its own nodes alone are asked about, whatever keeps nodes from being chosen.
    pub(in crate::core) fn options_to_confirm(&mut self, id: u64, now: Timestamp) -> berth_disruption::Options {
        let undecided = self.undecided_but(id);
        // One whose replacements are paid for goes on: its nodes count in the budgets for as long as they are there.
        let has_passed_budgets = self.disrupting.commands.get(&id).is_some_and(|known| !known.replacements.is_empty());
        let together = self.goes_with(id);
        berth_disruption::Options { undecided, together, has_passed_budgets, ..self.options_for_all(now) }
    }

    /// The nodes, by name, of other commands that go at the same time, or wait for nothing else: those with pods of the same
    /// controllers.
    fn goes_with(&self, id: u64) -> BTreeSet<String> {
        let owners = |command: &Command| -> BTreeSet<String> {
            let pods = command.nodes.iter().flat_map(|going| self.view.pods_on(&going.node.key.name));
            let owners = pods.filter(|pod| !pod.is_of_daemon_set).map(|pod| self.owner_of(&pod.name));
            owners.filter(|owner| !owner.is_empty()).collect()
        };
        let Some(own) = self.disrupting.commands.get(&id).map(owners) else { return BTreeSet::new() };
        let is_up = |claim: &String| self.view.claims.get(claim).is_some_and(|claim| Self::initialized(claim));
        let others = self.disrupting.commands.iter().filter(|(other, command)| {
            let goes = match command.phase {
                Phase::Leaving => true,
                Phase::Waiting(..) => command.replacements.iter().all(is_up),
                Phase::Tainting | Phase::Settling(_) => false,
            };
            **other != id && goes && !own.is_disjoint(&owners(command))
        });
        others.flat_map(|(_, command)| &command.nodes).map(|going| going.node.key.name.to_string()).collect()
    }

    /// Whether the nodes of a command may go was found out elsewhere, after so many changes; where that does not hold any more, it
    /// is asked once again.
    pub(in crate::core) fn was_confirmed(
        &mut self,
        id: u64,
        confirmed: Decided<Places>,
        (holds, n_changes): (bool, u64),
        now: Timestamp,
    ) {
        let Some(command) = self.disrupting.commands.get(&id).cloned() else { return };
        let Phase::Waiting(since, _) = command.phase else { return };
        match command.nodes.iter().find_map(|going| self.lost(going)) {
            Some(why) => self.roll_back(id, &why, now),
            None if holds => self.confirmed((id, since), confirmed, n_changes, now),
            None => self.queue.add_at(Job::Command(id), after(now, RETRY)),
        }
    }

    fn confirmed(&mut self, (id, since): (u64, Timestamp), confirmed: Decided<Places>, n_changes: u64, now: Timestamp) {
        let job = Job::Command(id);
        match confirmed {
            // The room of Reservations moves first; then it is asked once more.
            Ok(Ok(places)) if self.move_rooms(&places, now) => self.queue.add_at(job, after(now, RETRY)),
            Ok(Ok(places)) => {
                // Pods that are alike may have been played the other way round: one that draws from a Reservation now has no place.
                self.places.give_up(id);
                self.hold_places(id, places.iter().map(|(pod, node)| (pod, node.as_str())));
                self.set_phase(id, Phase::Leaving);
                self.queue.add(job);
            }
            Ok(Err(reasons)) => {
                let why = sentence(&reasons);
                if let Some(command) = self.disrupting.commands.get(&id).cloned() {
                    self.tell_going(&command, "DisruptionBlocked", &format!("its disruption waits: {why}"), now);
                }
                if let Some(command) = self.disrupting.commands.get_mut(&id) {
                    command.phase = Phase::Waiting(since, Some(why));
                    command.asked = Some((now, n_changes));
                }
                self.queue.add_at(job, after(now, RETRY));
            }
            Err(_) => self.queue.add_at(job, after(now, RETRY)),
        }
    }

    /// The NodeClaims are deleted; the command is over once they are gone.
    fn leave(&mut self, id: u64, command: &Command, now: Timestamp) {
        let job = Job::Command(id);
        let left: Vec<Arc<NodeClaim>> =
            command.nodes.iter().filter_map(|going| self.claim_of(going).cloned()).collect();
        if let Some(claim) = left.iter().find(|claim| claim.metadata.deletion_timestamp.is_none()) {
            let message = format!("Disrupting Node: {}", reason_of(command.method));
            let node = self.node_of(claim).map(|node| node.metadata.clone());
            let notice = Notice::about(Kind::NodeClaim, &claim.metadata, "DisruptionTerminating", message.clone());
            self.tell(notice.disrupted_for(command.method.reason()), now);
            if let Some(node) = node {
                self.tell(Notice::about(Kind::Node, &node, "DisruptionTerminating", message), now);
            }
            return self.write(job, on(Kind::NodeClaim, &claim.metadata, Op::Delete { grace: None }));
        }
        if left.is_empty() {
            self.disrupting.commands.remove(&id);
            self.look_at_all_replicas();
            self.disrupting.changed();
            self.queue.forget(&job);
        }
    }

    /// Nothing comes of a command: its nodes stay, without the taint, and are left alone for a while.
    fn roll_back(&mut self, id: u64, why: &str, now: Timestamp) {
        self.put_back(id, why, &Fault::Lasting, now);
    }

    /// The same, by what it came to nothing.
    fn put_back(&mut self, id: u64, why: &str, fault: &Fault, now: Timestamp) {
        let Some(mut command) = self.disrupting.commands.remove(&id) else { return };
        tracing::info!(id, why, "a disruption came to nothing");
        self.count_rolled_back(&command);
        self.look_at_all_replicas();
        self.queue.forget(&Job::Command(id));
        self.places.give_up(id);
        self.disrupting.changed();
        self.tell_going(&command, "DisruptionBlocked", &format!("its disruption came to nothing: {why}"), now);
        // Others that wait for the limits would take them, and the NodePool would have too much for good.
        for claim in self.beyond_limits(&command.replacements, now) {
            let name = claim.metadata.name.clone().unwrap_or_default();
            command.replacements.retain(|known| *known != name);
            let message = "its NodePool has more than its limits hold, as a disruption came to nothing";
            self.tell(Notice::about(Kind::NodeClaim, &claim.metadata, "DisruptionBlocked", message), now);
            let object = berth_state::Key::new(berth_state::Kind::NodeClaim, "", &name);
            let object = object.with_uid(claim.metadata.uid.as_deref());
            let delete = on(Kind::NodeClaim, &claim.metadata, Op::Delete { grace: None });
            self.assume_and_write(Job::Claim(name), &object, Patch::Delete { at: now }, delete);
        }
        // Its pods may come there yet, but not for ever.
        self.disrupting.inherited.keep(&command.replacements, after(now, BACKOFF.0));
        for going in &command.nodes {
            let node = going.node.key.name.to_string();
            let before = self.disrupting.put_back.get(&node).map_or(0, |known| known.times);
            let put_back = fault.put_back(before, why, self.options.timings.exhausted_for, now);
            self.disrupting.put_back.insert(node.clone(), put_back);
            self.queue.add(Job::Node(node));
        }
    }

    /// A command does not hold any more. Where nothing but budgets of pods keeps it, others may be using these just now: it waits
    /// for them for a while, and that it waited in vain is not held against its nodes.
    fn not_renewed(&mut self, id: u64, command: &Command, reasons: &[Reason], now: Timestamp) {
        let why = sentence(reasons);
        if reasons.is_empty() || reasons.iter().any(|reason| reason.cause != Cause::BudgetInUse) {
            return self.roll_back(id, &why, now);
        }
        match command.phase {
            Phase::Settling(since) if elapsed(since, now) < SHORT_PATIENCE => {
                self.tell_going(command, "DisruptionBlocked", &format!("its disruption waits: {why}"), now);
                self.queue.add_at(Job::Command(id), after(now, BUDGET_RETRY));
            }
            _ => self.put_back(id, &why, &Fault::Passing, now),
        }
    }

    /// Tells something on the nodes that go, and on their NodeClaims.
    fn tell_going(&mut self, command: &Command, reason: &'static str, message: &str, now: Timestamp) {
        for going in &command.nodes {
            let node = self.view.nodes.get(&*going.node.key.name).map(|node| node.metadata.clone());
            let claim = self.claim_of(going).map(|claim| claim.metadata.clone());
            if let Some(node) = node {
                self.tell(Notice::about(Kind::Node, &node, reason, message), now);
            }
            if let Some(claim) = claim {
                self.tell(Notice::about(Kind::NodeClaim, &claim, reason, message), now);
            }
        }
    }

    /// Tells what is launched in place of a command's nodes: once on each of them, however many there are.
    fn tell_launching(&mut self, id: u64, command: &Command, now: Timestamp) {
        let replacements =
            self.disrupting.commands.get(&id).map(|command| &command.replacements[..]).unwrap_or_default();
        if replacements.is_empty() {
            return;
        }
        let rest = match replacements.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let s = if replacements.len() == 1 { "" } else { "s" };
        let names = replacements.get(..NAMED).unwrap_or(replacements).join(", ");
        let message = format!("Launching NodeClaim{s} {names}{rest}: {}", reason_of(command.method));
        self.tell_going(command, "DisruptionLaunching", &message, now);
    }

    /// Tells a NodeClaim that was created in place of nodes that go that it was, as Karpenter does.
    pub(in crate::core) fn tell_replacement(&mut self, id: u64, claim: &NamedObject, uid: String, now: Timestamp) {
        let Some(command) = self.disrupting.commands.get(&id) else { return };
        let message = format!("Launching NodeClaim: {}", reason_of(command.method));
        self.tell(Notice::of(claim.clone(), uid, "DisruptionLaunching", message), now);
    }

    /// Tells on the NodePools what a command does.
    fn tell_pool(&mut self, command: &Command, text: &str, now: Timestamp) {
        let claims = command.nodes.iter().filter_map(|going| self.claim_of(going));
        let names: std::collections::BTreeSet<String> =
            claims.filter_map(|claim| crate::view::pool_of(&claim.metadata).map(str::to_owned)).collect();
        let pools: Vec<_> = names.iter().filter_map(|name| self.view.pools.get(name).cloned()).collect();
        for pool in pools {
            self.tell(Notice::about(Kind::NodePool, &pool.metadata, "Disrupting", text), now);
        }
    }
}

/// What was decided about a command, or why nothing comes of it.
type Decided<T> = Result<Result<T, Vec<Reason>>, DecideError>;

/// The reason of a command, as conditions and events have it.
fn reason_of(method: Method) -> &'static str {
    match method {
        Method::Emptiness => "Empty",
        Method::Drift | Method::DriftInSlot => "Drifted",
        Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => "Underutilized",
    }
}

fn references(command: &Command) -> Vec<ObjectRef> {
    command.nodes.iter().map(|going| going.node.clone()).collect()
}

fn sentence(reasons: &[Reason]) -> String {
    let mut texts: Vec<&str> = reasons.iter().map(|reason| reason.reason.as_str()).collect();
    texts.dedup();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::at_rest;

    /// The regression: a budget that another command used just then was a failure like any other, and the wait of a node doubled
    /// with each.
    #[test]
    fn a_command_waits_for_budgets_of_pods_that_are_in_use_and_is_not_held_against_its_nodes() {
        let mut core = at_rest(1);
        let begun = |core: &mut Core, id: u64, now: Timestamp| {
            let node = core.view.nodes.get("n0").unwrap().metadata.uid.clone();
            let claim = core.view.claims_of_node(core.view.nodes.get("n0").unwrap()).next().unwrap().metadata.clone();
            let going = Going {
                node: berth_state::Key::new(berth_state::Kind::Node, "", "n0").with_uid(node.as_deref()),
                claim: claim.name.unwrap(),
                claim_uid: claim.uid.unwrap(),
            };
            let phase = Phase::Settling(now);
            let command = Command { phase, ..Command::new(Method::Drift, vec![going]) };
            core.disrupting.commands.insert(id, command);
        };
        let because = |cause: Cause| Ok(Err(vec![Reason { cause, ..Reason::of_pods("told", 1) }]));
        let used_up = || because(Cause::BudgetInUse);
        let start: Timestamp = "2026-01-01T00:00:01Z".parse().unwrap();
        begun(&mut core, 7, start);
        core.was_renewed(7, used_up(), true, after(start, Duration::from_secs(30)));
        assert!(core.disrupting.commands.contains_key(&7), "others may be done with it soon");
        core.was_renewed(7, used_up(), true, after(start, Duration::from_secs(60)));
        assert!(!core.disrupting.commands.contains_key(&7));
        assert_eq!(core.disrupting.put_back["n0"].times, 0);
        begun(&mut core, 8, start);
        core.was_renewed(8, because(Cause::Other), true, start);
        assert!(!core.disrupting.commands.contains_key(&8), "nobody is waited for");
        assert_eq!(core.disrupting.put_back["n0"].times, 1);
    }
}
