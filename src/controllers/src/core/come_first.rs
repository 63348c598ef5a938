//! Pods that come before others of their priority.
//!
//! A pod that a controller makes in place of one which was told to leave has the room that was looked for before the node went.
//! As many pods of a controller come first as of its pods were told to leave and have left, within a bounded time.
//!
//! A process that starts anew knows of none: those that wait then queue with all others.

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
pub(super) struct First {
    /// Pods that run yet: their uid, and that of their controller.
    told: BTreeMap<PodName, (String, String)>,
    /// By controller: until when another pod is waited for, for each that has left.
    left: BTreeMap<String, Vec<Timestamp>>,
    /// Pods without a node that came, with their uid.
    came: BTreeMap<PodName, String>,
    /// The same as decisions have them.
    names: Arc<BTreeSet<Box<str>>>,
}

// === impl First ===

impl First {
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
        self.put_first(pod, uid);
    }

    /// A pod comes first until it has a node.
    fn put_first(&mut self, pod: &PodName, uid: &str) {
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
    pub(super) fn first_pods(&self) -> Arc<BTreeSet<Box<str>>> {
        Arc::clone(&self.first.names)
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
            self.first.tell(&eviction.pod, &eviction.uid, owner);
        }
    }

    /// A pod changed that may have been told to leave, or come in place of one that was.
    pub(super) fn follow_first(&mut self, pod: &PodName, now: Timestamp) {
        if self.first.is_empty() {
            return;
        }
        self.first.expire(now);
        let known = self.view.pods.get(pod).map(Arc::clone);
        if let Some((told, _)) = self.first.told.get(pod) {
            let own = known.as_ref().filter(|known| known.uid == *told);
            match own {
                Some(own) if own.deletion.is_none() && own.is_finished => drop(self.first.told.remove(pod)),
                Some(own) if own.deletion.is_none() => {}
                own => {
                    let end = own.and_then(|own| own.deletion).unwrap_or(now);
                    self.first.leave(pod, after(end.max(now), WAITED_FOR));
                }
            }
        }
        match known.filter(|known| known.node.is_none() && known.deletion.is_none() && !known.is_finished) {
            Some(known) => {
                let owner = self.owner_of(pod);
                self.first.come(pod, &known.uid, &owner);
            }
            None => self.first.forget(pod),
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

    fn first(pods: &First) -> Vec<&str> {
        pods.names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn as_many_pods_of_a_controller_come_first_as_have_left() {
        let mut pods = First::default();
        for name in ["a", "b", "c"] {
            pods.tell(&pod(name), name, "web".to_owned());
        }
        pods.come(&pod("early"), "early", "web");
        assert_eq!(first(&pods), [""; 0], "nobody has left yet");
        pods.leave(&pod("a"), at(60));
        pods.leave(&pod("a"), at(60));
        pods.leave(&pod("never"), at(60));
        pods.come(&pod("other"), "other", "db");
        pods.come(&pod("d"), "d", "web");
        pods.come(&pod("d"), "d", "web");
        pods.come(&pod("e"), "e", "web");
        assert_eq!(first(&pods), ["default/d"]);
        pods.leave(&pod("b"), at(70));
        pods.expire(at(70));
        pods.come(&pod("f"), "f", "web");
        assert_eq!(first(&pods), ["default/d"], "its time was over");
        pods.leave(&pod("c"), at(80));
        pods.expire(at(79));
        pods.come(&pod("c"), "c-again", "web");
        assert_eq!(first(&pods), ["default/c", "default/d"], "one of the same name is another by its uid");
        pods.forget(&pod("d"));
        pods.forget(&pod("c"));
        assert!(pods.is_empty() && pods.names.is_empty());
    }
}
