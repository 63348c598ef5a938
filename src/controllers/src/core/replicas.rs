//! Static NodePools: as many nodes as `spec.replicas` says, whatever pods need. Nodes of a disruption count until their
//! replacements are there: those are launched by it.

use std::time::Duration;

use berth_api::{NodeClaim, NodePool};
use jiff::Timestamp;

use super::{Core, Job};
use crate::claim::on;
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::pool_of;
use crate::write::Op;

/// How soon it is tried again where fewer could be launched than are to be there.
const RETRY: Duration = Duration::from_secs(30);

/// How many are planned at a time: nobody knows how many people ask for.
const AT_ONCE: usize = 1000;
/// For how long it holds which nodes go: who they are costs a look at the whole cluster.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

/// The nodes of a static NodePool that are too many.
#[derive(Debug)]
pub(super) struct Surplus {
    wanted: usize,
    until: Timestamp,
    /// NodeClaims, the next one last.
    claims: Vec<String>,
}

impl Core {
    /// Looks at a NodePool, if it is static: at once, or at some time.
    pub(super) fn look_at_replicas(&mut self, pool: &str, at: Option<Timestamp>) {
        if self.replicas_of(pool).is_none() {
            return;
        }
        let job = Job::Replicas(pool.to_owned());
        match at {
            Some(at) => self.queue.add_at(job, at),
            None => self.queue.add(job),
        }
    }

    /// Looks at all static NodePools: a disruption is over.
    pub(super) fn look_at_all_replicas(&mut self) {
        let pools: Vec<String> = self.view.pools.iter().map(|(name, _)| name.clone()).collect();
        for pool in pools {
            self.look_at_replicas(&pool, None);
        }
    }

    /// A NodePool that is to have a number of nodes, and how many.
    fn replicas_of(&self, pool: &str) -> Option<(&NodePool, usize)> {
        let pool = self.view.pools.get(pool)?;
        let replicas = pool.spec.replicas.filter(|_| self.options.convert.static_capacity)?;
        let is_there = pool.metadata.deletion_timestamp.is_none();
        is_there.then(|| (&**pool, usize::try_from(replicas).unwrap_or(0)))
    }

    /// Launches what is missing, or lets the next one go that is too many.
    pub(super) fn step_replicas(&mut self, name: &str, now: Timestamp) {
        let job = Job::Replicas(name.to_owned());
        let Some((pool, wanted)) = self.replicas_of(name) else {
            self.surplus.remove(name);
            return self.queue.forget(&job);
        };
        let serves = pool.spec.template.spec.node_class_ref.as_ref().is_some_and(|class| self.provider.serves(class));
        if self.options.only_lifecycle || !serves {
            return self.queue.forget(&job);
        }
        let is_usable = self.is_pool_usable(pool);
        let metadata = pool.metadata.clone();
        let of_pool = self.state.all::<NodeClaim>().filter(|claim| pool_of(&claim.metadata) == Some(name));
        let (mut n_running, mut n_going) = (0_usize, 0_usize);
        for claim in of_pool.filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            let claim = claim.metadata.name.as_deref().unwrap_or_default();
            *(if self.disrupting.takes(claim) { &mut n_going } else { &mut n_running }) += 1;
        }
        if n_running > wanted {
            return self.let_one_go(name, wanted, now);
        }
        self.surplus.remove(name);
        let n_missing = wanted.saturating_sub(n_running.saturating_add(n_going));
        // A node class that cannot be used says so itself, and when it can be the NodePool is looked at again.
        if n_missing == 0 || !is_usable {
            return;
        }
        if self.is_storm(now) || self.awaits_offers() {
            return self.queue.add_at(job, after(now, Duration::from_secs(1)));
        }
        let options = berth_decisions::Options { solve: self.options.solve.clone(), ..Default::default() };
        let n_asked = n_missing.min(AT_ONCE);
        let count = u32::try_from(n_asked).unwrap_or(u32::MAX);
        let launches = match berth_decisions::replicas(&mut self.state, name, (count, 0), &options, now) {
            Ok(launches) => launches,
            Err(error) => {
                tracing::debug!(pool = name, %error, "replicas are looked at later");
                return self.queue.add_at(job, after(now, Duration::from_secs(1)));
            }
        };
        let mut spend = self.spend_for_ceilings();
        let mut why = None;
        let mut n_launched = 0_usize;
        for launch in &launches {
            match self.create_claim(launch, &mut spend, now) {
                Ok(_) => n_launched += 1,
                Err(error) => {
                    why = Some(error);
                    break;
                }
            }
        }
        tracing::info!(pool = name, wanted, n_running, n_launched, "brings a static NodePool to its replicas");
        if n_launched < n_missing && n_launched == n_asked {
            self.queue.add_at(job, after(now, Duration::from_secs(1)));
        } else if n_launched < n_missing {
            let why = why.unwrap_or_else(|| "its limits, or what is on offer, leave no more".to_owned());
            let message = format!("{} of {wanted} replicas: {why}", n_running + n_going + n_launched);
            self.tell(Notice::about(Kind::NodePool, &metadata, "ReplicasMissing", message), now);
            self.queue.add_at(job, after(now, RETRY));
        }
    }

    /// Deletes the first of those that are too many. Its answer has the next looked at.
    fn let_one_go(&mut self, pool: &str, wanted: usize, now: Timestamp) {
        let job = Job::Replicas(pool.to_owned());
        let known = self.surplus.remove(pool).filter(|known| known.wanted == wanted && known.until > now);
        let mut surplus = known.unwrap_or_else(|| Surplus { wanted, until: now, claims: Vec::new() });
        loop {
            if surplus.claims.is_empty() {
                if surplus.until > now {
                    // What is too many stays while others come up; each of these has the NodePool looked at.
                    return self.queue.add_at(job, after(now, RETRY));
                }
                let options = self.disruption_options(now);
                let found = berth_disruption::surplus(&mut self.state, pool, wanted, &options, now);
                let mut claims: Vec<String> = found.iter().map(|claim| claim.key.name.to_string()).collect();
                claims.reverse();
                surplus = Surplus { wanted, until: after(now, LOOKED_AT_EVERY), claims };
                continue;
            }
            let claim = surplus.claims.pop().and_then(|name| self.view.claims.get(&name).cloned());
            let Some(claim) = claim.filter(|claim| {
                claim.metadata.deletion_timestamp.is_none()
                    && claim.metadata.name.as_deref().is_some_and(|name| !self.disrupting.takes(name))
            }) else {
                continue;
            };
            self.surplus.insert(pool.to_owned(), surplus);
            let message = format!("NodePool {pool} has more nodes than replicas");
            self.tell(Notice::about(Kind::NodeClaim, &claim.metadata, "ScaledDown", message), now);
            let delete = on(Kind::NodeClaim, &claim.metadata, Op::Delete { grace: None });
            return self.write(job, delete);
        }
    }
}
