//! What the state is told, and what it answers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use berth_catalogue::Catalogue;
use berth_convert::{ConvertError, Problem, StayingPods};

use crate::{AssumptionId, Key, Kind, Object, ObjectRef};

/// One thing that was observed. Events come in any order; the same event twice is one.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object was created, or changed.
    Applied(Object),
    /// An object is gone.
    Deleted {
        /// Which. One that has another uid than the object that is known is about an earlier incarnation, or about a later
        /// one where its resourceVersion says so: then the one that is known is gone, too.
        object: ObjectRef,
        /// The resourceVersion of the deletion, where it is known.
        resource_version: Option<String>,
    },
    /// All objects of a kind, as a list has them: what is known and not listed is gone.
    Relisted {
        /// The kind.
        kind: Kind,
        /// Every object of it.
        objects: Vec<Object>,
        /// The resourceVersion of the list, where it is known: objects that are newer stand though they are not listed.
        resource_version: Option<String>,
    },
    /// A list of a kind of which each object was told by itself before ([`Event::Applied`]), page by page, so that nobody need
    /// hold all of them: what is known and not named here is gone, as with [`Event::Relisted`].
    Listed {
        /// The kind.
        kind: Kind,
        /// Every object of it.
        keys: BTreeSet<Key>,
        /// The resourceVersion of the list, where it is known: objects that are newer stand though they are not listed.
        resource_version: Option<String>,
    },
    /// One object as it was just read from the API server, or that there is none: settles what is
    /// [to be read again](crate::State::to_read_again).
    Read {
        /// Which, as it was to be read. Where nothing was found, an object of another uid stands: it came meanwhile.
        object: ObjectRef,
        /// What was read.
        found: Option<Object>,
    },
    /// What the cloud offers, with counts of slots. It takes the place of earlier catalogues and counts.
    Offered {
        /// The instance types, offerings and counts.
        catalogue: Arc<Catalogue>,
        /// Instances that its counts leave out, by provider id or by name of their NodeClaim; `None` where they leave
        /// out all that were launched.
        seen: Option<BTreeSet<String>>,
    },
    /// Counts of single capacity reservations, newer than the catalogue's; others keep theirs.
    Counted(Vec<SlotCount>),
    /// The pods that nothing lets leave their nodes, which go away: they count where they run, and nothing is planned for them. It takes
    /// the place of what was said before.
    Stays(StayingPods),
    /// What became of a write that was assumed.
    Settled {
        /// Which.
        assumption: AssumptionId,
        /// What became of it.
        outcome: Outcome,
    },
}

/// How many instances of a capacity reservation may still be launched, as the cloud said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCount {
    /// The id of the reservation, as the catalogue has it.
    pub reservation_id: String,
    /// How many instances are free.
    pub free: u32,
    /// Instances that the count already leaves out, by provider id or by name of their NodeClaim. What was launched and
    /// is not here the observation did not see: it is taken off.
    pub seen: BTreeSet<String>,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done. The assumption stands until an event shows it, or a newer object.
    Written {
        /// The object's resourceVersion after the write, where the answer had it.
        resource_version: Option<String>,
        /// The uid of an object that was created, where the answer had it.
        uid: Option<String>,
    },
    /// It was not done, and will not be: the assumption is dropped.
    Refused,
    /// It may or may not have been done: the object is to be read again, and the assumption stands until then.
    Unknown,
}

/// What an event changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Objects that count for something else now, each once.
    pub objects: Vec<Key>,
    /// Whether a pod or a Reservation waits for a place that did not, or other than before.
    pub waiting: bool,
    /// Whether room may have come, or what may be launched: a decision may find a place now for who found none.
    pub room: bool,
}

impl Touched {
    /// Whether nothing changed: the event was known, or older than what is known.
    pub fn is_nothing(&self) -> bool {
        self.objects.is_empty() && !self.room && !self.waiting
    }

    pub(crate) fn merge(&mut self, other: Touched) {
        self.objects.extend(other.objects);
        self.waiting |= other.waiting;
        self.room |= other.room;
    }
}

/// What an object that cannot be used counts as meanwhile. It depends on the object alone and not on what came before,
/// so that a restarted process decides the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsAs {
    /// As not there, an older version of it included.
    Absent,
    /// A pod on a node, of which only annotations are unreadable: it takes its room without them.
    WithoutAnnotations,
}

/// One object that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedObject {
    /// Kind and name; the name is empty where the object has none.
    pub key: Key,
    /// What is wrong with which fields, and what was expected; at least one.
    pub problems: Vec<Problem>,
    /// What it counts as.
    pub counts_as: CountsAs,
}

/// Objects of an event that cannot be used. All else of the event was taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    /// Which, and why; at least one.
    pub objects: Vec<RefusedObject>,
    /// What the rest of the event changed.
    pub touched: Touched,
}

impl RefusedObject {
    pub(crate) fn new(key: Key, error: &ConvertError, counts_as: CountsAs) -> Self {
        RefusedObject { key, problems: error.problems().to_vec(), counts_as }
    }
}

impl fmt::Display for RefusedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let end = if i > 0 { "\n" } else { "" };
            write!(f, "{end}{}: {problem}", self.key)?;
        }
        match self.counts_as {
            CountsAs::Absent => Ok(()),
            CountsAs::WithoutAnnotations => f.write_str(" (it counts without its annotations)"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, object) in self.objects.iter().enumerate() {
            let end = if i > 0 { "\n" } else { "" };
            write!(f, "{end}{object}")?;
        }
        Ok(())
    }
}
