//! What the manager takes in: heartbeats of nodes, and all other changes.

use tokio::sync::mpsc;

/// Messages and pieces of work that are handled before other tasks have their turn.
pub(crate) const SLICE: usize = 16;
/// Messages that may wait.
const BACKLOG: usize = 256;

/// Where tasks send what is to be taken in.
#[derive(Debug)]
pub(crate) struct Senders<T> {
    pub(crate) changes: mpsc::Sender<T>,
    pub(crate) heartbeats: mpsc::Sender<T>,
}

/// Two lines of messages. A heartbeat that waits behind all changes of pods comes too late, so heartbeats go first; when all
/// nodes tell theirs at once, changes do not wait for the last of them.
#[derive(Debug)]
pub(crate) struct Intake<T> {
    changes: mpsc::Receiver<T>,
    heartbeats: mpsc::Receiver<T>,
    /// Heartbeats that were taken in since anything else had its turn.
    beats: usize,
}

impl<T> Intake<T> {
    pub(crate) fn new() -> (Senders<T>, Self) {
        let (changes, their_changes) = mpsc::channel(BACKLOG);
        let (heartbeats, their_heartbeats) = mpsc::channel(BACKLOG);
        let intake = Self { changes: their_changes, heartbeats: their_heartbeats, beats: 0 };
        (Senders { changes, heartbeats }, intake)
    }

    /// Whether heartbeats have had their turns: the next one comes after something else, or after [`Self::others_had_a_turn`].
    pub(crate) const fn is_others_turn(&self) -> bool {
        self.beats >= SLICE
    }

    /// Something else was done, or there was nothing else.
    pub(crate) const fn others_had_a_turn(&mut self) {
        self.beats = 0;
    }

    /// Puts the next messages into `batch`: one heartbeat, or up to [`SLICE`] changes. Nothing is lost where this is not awaited
    /// to its end.
    pub(crate) async fn next(&mut self, batch: &mut Vec<T>) {
        tokio::select! {
            biased;
            Some(beat) = self.heartbeats.recv(), if self.beats < SLICE => {
                self.beats += 1;
                batch.push(beat);
            }
            _ = self.changes.recv_many(batch, SLICE) => self.beats = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// What is taken in, in order, with `|` where other work has its turn.
    fn taken(intake: &mut Intake<char>) -> String {
        let mut out = String::new();
        loop {
            let mut batch = Vec::new();
            if intake.next(&mut batch).now_or_never().is_some() {
                out.extend(batch);
            } else if intake.is_others_turn() {
                intake.others_had_a_turn();
                out.push('|');
            } else {
                return out;
            }
        }
    }

    #[tokio::test]
    async fn heartbeats_go_first_and_changes_do_not_wait_for_the_last_of_them() {
        let (senders, mut intake) = Intake::new();
        for _ in 0..20 {
            senders.changes.try_send('c').unwrap();
        }
        for _ in 0..50 {
            senders.heartbeats.try_send('h').unwrap();
        }
        let (beats, changes) = ("h".repeat(16), "c".repeat(16));
        assert_eq!(taken(&mut intake), format!("{beats}{changes}{beats}cccc{beats}|hh"));
        // One that comes amid many changes waits for sixteen at most.
        for _ in 0..40 {
            senders.changes.try_send('c').unwrap();
        }
        senders.heartbeats.try_send('h').unwrap();
        assert_eq!(taken(&mut intake), format!("h{}", "c".repeat(40)));
    }
}
