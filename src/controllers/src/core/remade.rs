//! Pods that controllers make in place of those that were told to leave nodes which go. They come first within their priority,
//! as the room that was looked for before a node went was theirs: otherwise it would go to pods that wait for longer.
//!
//! As many pods of a controller come first as of its pods were told to leave and have left, within a bounded time. A process
//! that starts anew knows of none: those that wait then queue with all others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Core;
use super::awaited::text;
use crate::claim::Eviction;
use crate::clock::after;
use crate::view::PodName;

/// For how long another pod is waited for once one has left: controllers make it at once, or after a back-off of some seconds.
const WAITED_FOR: Duration = Duration::from_secs(60);

/// Who was told to leave, and who came instead.
#[derive(Debug, Default)]
pub(super) struct Remade {
    /// Pods that run yet: their uid, and that of their controller.
    told: BTreeMap<PodName, (String, String)>,
    /// By controller: until when another pod is waited for, for each that has left.
    left: BTreeMap<String, Vec<Timestamp>>,
    /// Pods without a node that came, with their uid.
    came: BTreeMap<PodName, String>,
    /// The same as decisions have them.
    names: Arc<BTreeSet<Box<str>>>,
}

// === impl Remade ===

impl Remade {
    /// A pod is told to leave.
    fn tell(&mut self, pod: &PodName, uid: &str, owner: String) {
        self.told.entry(pod.clone()).or_insert_with(|| (uid.to_owned(), owner));
    }

    /// A pod has left that was told to: another one is waited for.
    fn leave(&mut self, pod: &PodName, until: Timestamp) {
        if let Some((_, owner)) = self.told.remove(pod) {
            self.left.entry(owner).or_default().push(until);
        }
    }

    /// A pod of a controller waits for a node: it comes in place of one that has left, if there is one.
    fn come(&mut self, pod: &PodName, uid: &str, owner: &str) {
        if self.came.get(pod).is_some_and(|known| known == uid) {
            return;
        }
        self.forget(pod);
        let Some(left) = self.left.get_mut(owner) else { return };
        left.sort_unstable();
        left.pop();
        if left.is_empty() {
            self.left.remove(owner);
        }
        self.came.insert(pod.clone(), uid.to_owned());
        Arc::make_mut(&mut self.names).insert(text(pod));
    }

    /// A pod waits for no node any more.
    fn forget(&mut self, pod: &PodName) {
        if self.came.remove(pod).is_some() {
            Arc::make_mut(&mut self.names).remove(&text(pod));
        }
    }

    fn expire(&mut self, now: Timestamp) {
        self.left.retain(|_, left| {
            left.retain(|until| *until > now);
            !left.is_empty()
        });
    }

    fn is_empty(&self) -> bool {
        self.told.is_empty() && self.left.is_empty() && self.came.is_empty()
    }
}

impl Core {
    /// Pods, by `namespace/name`, that come first within their priority.
    pub(super) fn remade_pods(&self) -> Arc<BTreeSet<Box<str>>> {
        Arc::clone(&self.remade.names)
    }

    /// A pod is told to leave a node that goes.
    pub(super) fn expect_remade(&mut self, eviction: &Eviction) {
        let known = self.view.pods.get(&eviction.pod);
        let moves = known.is_some_and(|known| {
            known.uid == eviction.uid && known.deletion.is_none() && known.has_to_move() && known.node.is_some()
        });
        if !moves {
            return;
        }
        let owner = self.owner_of(&eviction.pod);
        if !owner.is_empty() {
            self.remade.tell(&eviction.pod, &eviction.uid, owner);
        }
    }

    /// A pod changed that may have been told to leave, or come in place of one that was.
    pub(super) fn follow_remade(&mut self, pod: &PodName, now: Timestamp) {
        if self.remade.is_empty() {
            return;
        }
        self.remade.expire(now);
        let known = self.view.pods.get(pod).map(Arc::clone);
        if let Some((told, _)) = self.remade.told.get(pod) {
            let own = known.as_ref().filter(|known| known.uid == *told);
            match own {
                Some(own) if own.deletion.is_none() && own.is_finished => drop(self.remade.told.remove(pod)),
                Some(own) if own.deletion.is_none() => {}
                own => {
                    let end = own.and_then(|own| own.deletion).unwrap_or(now);
                    self.remade.leave(pod, after(end.max(now), WAITED_FOR));
                }
            }
        }
        match known.filter(|known| known.node.is_none() && known.deletion.is_none() && !known.is_finished) {
            Some(known) => {
                let owner = self.owner_of(pod);
                self.remade.come(pod, &known.uid, &owner);
            }
            None => self.remade.forget(pod),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(name: &str) -> PodName {
        PodName { namespace: "default".to_owned(), name: name.to_owned() }
    }

    fn first(remade: &Remade) -> Vec<&str> {
        remade.names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn as_many_pods_of_a_controller_come_first_as_have_left() {
        let mut remade = Remade::default();
        for name in ["a", "b", "c"] {
            remade.tell(&pod(name), name, "web".to_owned());
        }
        remade.come(&pod("early"), "early", "web");
        assert_eq!(first(&remade), [""; 0], "nobody has left yet");
        remade.leave(&pod("a"), at(60));
        remade.leave(&pod("a"), at(60));
        remade.leave(&pod("never"), at(60));
        remade.come(&pod("other"), "other", "db");
        remade.come(&pod("d"), "d", "web");
        remade.come(&pod("d"), "d", "web");
        remade.come(&pod("e"), "e", "web");
        assert_eq!(first(&remade), ["default/d"]);
        remade.leave(&pod("b"), at(70));
        remade.expire(at(70));
        remade.come(&pod("f"), "f", "web");
        assert_eq!(first(&remade), ["default/d"], "its time was over");
        remade.leave(&pod("c"), at(80));
        remade.expire(at(79));
        remade.come(&pod("c"), "c-again", "web");
        assert_eq!(first(&remade), ["default/c", "default/d"], "one of the same name is another by its uid");
        remade.forget(&pod("d"));
        remade.forget(&pod("c"));
        assert!(remade.is_empty() && remade.names.is_empty());
    }
}
