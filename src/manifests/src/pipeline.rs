//! Parses batches of documents beside each other and hands out their objects in order.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::mpsc::{self, Receiver};

use crate::document::Document;
use crate::error::ManifestError;
use crate::options::Options;
use crate::parse::{self, Outcome};
use crate::split::Documents;

/// A batch is full at this much text or this many documents, whichever comes first.
const BATCH_BYTES: usize = 256 * 1024;
const BATCH_DOCUMENTS: usize = 256;

/// What came of a batch.
struct Parsed {
    outcomes: Vec<Outcome>,
    n_documents: u64,
}

impl Parsed {
    // A fault of the stream itself, in what counts as a document.
    fn of_fault(error: ManifestError) -> Self {
        Parsed { outcomes: vec![Outcome::Fault(error)], n_documents: 1 }
    }
}

/// Runs all documents through the parser and returns how many held anything.
pub(crate) fn run<R, E, F>(mut documents: Documents<R>, options: &Options, mut deliver: F) -> Result<u64, E>
where
    R: Read,
    F: FnMut(Outcome) -> Result<(), E>,
{
    let mut n_documents = 0;
    let mut hand_out = |parsed: Parsed| -> Result<(), E> {
        n_documents += parsed.n_documents;
        parsed.outcomes.into_iter().try_for_each(&mut deliver)
    };
    // A thread of the pool that waited for the pool could wait for itself.
    let is_in_pool = rayon::current_thread_index().is_some();
    if !options.parallel || is_in_pool || rayon::current_num_threads() == 1 {
        loop {
            let (batch, ending) = next_batch(&mut documents);
            hand_out(parse_batch(&batch, options))?;
            match ending {
                Ending::More => {}
                Ending::Done => return Ok(n_documents),
                Ending::Failed(error) => {
                    hand_out(Parsed::of_fault(error))?;
                    return Ok(n_documents);
                }
            }
        }
    }
    let most_in_flight = rayon::current_num_threads() * 2;
    rayon::in_place_scope(|scope| -> Result<(), E> {
        let mut in_flight: VecDeque<Receiver<Parsed>> = VecDeque::new();
        let mut ending = Ending::More;
        loop {
            if matches!(ending, Ending::More) && in_flight.len() < most_in_flight {
                let (batch, end) = next_batch(&mut documents);
                ending = end;
                let (sender, receiver) = mpsc::sync_channel(1);
                scope.spawn(move |_| {
                    // Nobody waits any more once an error has been found.
                    let _ = sender.send(parse_batch(&batch, options));
                });
                in_flight.push_back(receiver);
                continue;
            }
            match (in_flight.pop_front(), &mut ending) {
                // A parser that dropped its end has panicked, and the scope passes that on.
                (Some(receiver), _) => receiver.recv().map_or(Ok(()), &mut hand_out)?,
                (None, Ending::Failed(error)) => return hand_out(Parsed::of_fault(error.clone())),
                (None, _) => return Ok(()),
            }
        }
    })?;
    Ok(n_documents)
}

/// Why a batch is over.
enum Ending {
    More,
    Done,
    Failed(ManifestError),
}

fn next_batch<R: Read>(documents: &mut Documents<R>) -> (Vec<Document>, Ending) {
    let mut batch = Vec::new();
    let mut n_bytes = 0;
    while n_bytes < BATCH_BYTES && batch.len() < BATCH_DOCUMENTS {
        match documents.next_document() {
            Ok(Some(document)) => {
                n_bytes += document.text.len();
                batch.push(document);
            }
            Ok(None) => return (batch, Ending::Done),
            Err(error) => return (batch, Ending::Failed(error)),
        }
    }
    (batch, Ending::More)
}

fn parse_batch(batch: &[Document], options: &Options) -> Parsed {
    let outcomes = batch.iter().flat_map(|document| parse::parse(document, options)).collect();
    Parsed { outcomes, n_documents: batch.len() as u64 }
}
