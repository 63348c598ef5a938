//! Watches with faults: each line meets its own.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body_util::BodyStream;

use super::{Faults, OnEvent};
use crate::latest::Follower;
use crate::reply::Body;
use crate::status::ApiError;

struct Troubled {
    body: BodyStream<Body>,
    waiting: VecDeque<Bytes>,
    faults: Faults,
    /// Changes as the server goes.
    outages: Follower,
    done: bool,
}

/// A watch whose lines meet faults, and that ends when the server goes.
pub(super) fn troubled(body: Body, faults: Faults, outages: Follower) -> Body {
    let watch = Troubled { body: BodyStream::new(body), waiting: VecDeque::new(), faults, outages, done: false };
    Body::stream(lines(watch))
}

fn lines(watch: Troubled) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((line, watch))
    })
}

// === impl Troubled ===

impl Troubled {
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let line = loop {
            if let Some(line) = self.waiting.pop_front() {
                break line;
            }
            let frame = tokio::select! {
                biased;
                () = self.outages.grown() => return None,
                frame = self.body.next() => frame?,
            };
            // What is no data ends no line.
            let Ok(Ok(data)) = frame.map(http_body::Frame::into_data) else { continue };
            let mut rest = data;
            while let Some(end) = memchr::memchr(b'\n', &rest) {
                self.waiting.push_back(rest.split_to(end + 1));
            }
            if !rest.is_empty() {
                self.waiting.push_back(rest);
            }
        };
        match self.faults.on_event() {
            OnEvent::Pass => {}
            OnEvent::Delay(delay) => tokio::time::sleep(delay).await,
            OnEvent::End => return None,
            OnEvent::Expire => {
                self.done = true;
                let status = ApiError::expired("too old resource version (a fault on purpose)").to_status();
                return Some(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into());
            }
        }
        Some(line)
    }
}
