//! A server's whole state as bytes, to be continued elsewhere or sent with a report.
//!
//! A snapshot is one line that names the format, and a gzip stream of JSON lines: first what the server is at, then of every
//! object two lines, where it belongs with the version at which it was written, and its text. The same state gives the same
//! bytes. History is not in it: watches and lists of older versions are answered 410 by the server that continues.

use std::io::{BufRead, BufReader, Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::expiry::EVENTS;
use crate::schema::builtin;
use crate::server::{ApiServer, Config};
use crate::verbs::DEFINITIONS;

/// What every snapshot begins with.
const MAGIC: &str = "berth-apiserver snapshot ";
/// The version of the format.
const FORMAT: &str = "1";

/// Why bytes are no snapshot that this server could continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The bytes do not begin as a snapshot does.
    #[error("not a snapshot of berth-apiserver: expected it to begin with {MAGIC:?}")]
    NoSnapshot,
    /// The format, or the Kubernetes that it is of, is another.
    #[error("snapshot of another version: it has {found}, expected {expected}")]
    OtherVersion {
        /// What the snapshot says.
        found: String,
        /// What this server reads.
        expected: String,
    },
    /// It is cut short, or something in it was changed.
    #[error("snapshot is cut short or was changed: {0}")]
    Damaged(String),
}

/// What a server is at.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    kubernetes: String,
    revision: u64,
    time: String,
    /// The state of what decides uids and names.
    entropy: u64,
    objects: usize,
}

/// Where an object belongs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAt {
    collection: String,
    key: String,
    revision: u64,
    form: u64,
}

#[allow(clippy::needless_pass_by_value)] // So that `map_err` takes it.
fn damaged(what: impl ToString) -> RestoreError {
    RestoreError::Damaged(what.to_string())
}

fn expect(found: &str, expected: &str, what: &str) -> Result<(), RestoreError> {
    let other = || RestoreError::OtherVersion { found: format!("{what} {found:?}"), expected: format!("{expected:?}") };
    if found == expected { Ok(()) } else { Err(other()) }
}

impl ApiServer {
    /// The state of the server as it is now.
    pub fn snapshot(&self) -> Vec<u8> {
        let (revision, objects) = self.inner.store.all();
        let head = Head {
            kubernetes: builtin().version.clone(),
            revision,
            time: self.now().to_string(),
            entropy: self.inner.entropy.state(),
            objects: objects.len(),
        };
        let mut out = GzEncoder::new(format!("{MAGIC}{FORMAT}\n").into_bytes(), Compression::default());
        let mut write = |line: &[u8]| {
            // A vector takes everything.
            let _ = out.write_all(line).and_then(|()| out.write_all(b"\n"));
        };
        write(&serde_json::to_vec(&head).unwrap_or_default());
        for (collection, object) in objects {
            let (key, revision, form) = (object.key.to_string(), object.revision, object.form);
            write(&serde_json::to_vec(&StoredAt { collection, key, revision, form }).unwrap_or_default());
            write(&object.body);
        }
        out.finish().unwrap_or_default()
    }

    /// A server that continues where a snapshot was taken: at its version, its time and its place in the sequence of uids.
    /// Of the configuration all but `epoch` and `seed` counts. Events live for another full time.
    pub fn restore(config: Config, snapshot: &[u8]) -> Result<Self, RestoreError> {
        let rest = snapshot.strip_prefix(MAGIC.as_bytes()).ok_or(RestoreError::NoSnapshot)?;
        let end = memchr::memchr(b'\n', rest).ok_or(RestoreError::NoSnapshot)?;
        let (format, rest) = rest.split_at_checked(end).ok_or(RestoreError::NoSnapshot)?;
        expect(&String::from_utf8_lossy(format), FORMAT, "format")?;
        let mut reader = BufReader::new(GzDecoder::new(rest.get(1..).unwrap_or_default()));
        Self::read(config, &mut reader).or_else(|error| {
            // What a changed byte makes of a line may read like a mistake of another kind: the checksum tells.
            std::io::copy(&mut reader, &mut std::io::sink()).map_err(damaged)?;
            Err(error)
        })
    }

    fn read(config: Config, reader: &mut BufReader<GzDecoder<&[u8]>>) -> Result<Self, RestoreError> {
        let next = |reader: &mut BufReader<GzDecoder<&[u8]>>| {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(damaged)?;
            Ok::<_, RestoreError>(line)
        };
        let head: Head = serde_json::from_str(&next(reader)?).map_err(|error| damaged(format!("its head: {error}")))?;
        expect(&head.kubernetes, &builtin().version, "Kubernetes")?;
        let epoch: Timestamp = head.time.parse().map_err(|error| damaged(format!("its time: {error}")))?;
        let server = Self::empty(Config { epoch, ..config }, head.entropy);
        // Definitions come first, since objects need them; their collection is not the first by name.
        let mut waiting = Vec::new();
        for number in 0..head.objects {
            let place: StoredAt = serde_json::from_str(&next(reader)?)
                .map_err(|error| damaged(format!("object {} of {}: {error}", number + 1, head.objects)))?;
            let text = next(reader)?;
            if place.revision > head.revision {
                let what = format!("{} {}: its version is above {}", place.collection, place.key, head.revision);
                return Err(damaged(what));
            }
            if place.collection == DEFINITIONS {
                server.restore_object(&place, &text)?;
            } else {
                waiting.push((place, text));
            }
        }
        // The end is where the checksum is compared.
        if reader.read(&mut [0]).map_err(damaged)? > 0 || !reader.get_ref().get_ref().is_empty() {
            return Err(damaged("there is more after its end"));
        }
        for (place, text) in &waiting {
            server.restore_object(place, text)?;
        }
        server.inner.store.continue_at(head.revision);
        Ok(server)
    }

    fn restore_object(&self, line: &StoredAt, text: &str) -> Result<(), RestoreError> {
        let mut value = serde_json::from_str(text).map_err(damaged)?;
        let resource = self.resource_of(&line.collection);
        let resource = resource.ok_or_else(|| damaged(format!("nothing is known of {}", line.collection)))?;
        let draft = crate::verbs::stored_draft(&resource, &mut value).of_form(line.form);
        let stored = self.inner.store.put_back(&line.collection, &line.key, line.revision, draft);
        let stored = stored.ok_or_else(|| damaged(format!("{} {} is in it twice", line.collection, line.key)))?;
        if line.collection == DEFINITIONS {
            self.serve_definition(&stored.value());
        } else if line.collection == EVENTS {
            self.keep_event(&stored);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{definition, send, thing};

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn filled() -> ApiServer {
        let server = ApiServer::new(Config { seed: 3, ..Config::default() });
        let made = definition(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        send(&server, "POST", crate::testing::DEFINITIONS, made).await;
        send(&server, "POST", "/apis/example.com/v1/things", thing("a", &json!({"n": 1}))).await;
        for n in 0..20 {
            send(&server, "POST", MAPS, json!({"metadata": {"name": format!("m{n}")}, "data": {"n": n.to_string()}}))
                .await;
        }
        send(&server, "DELETE", &format!("{MAPS}/m7"), Value::Null).await;
        server
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_continues_where_its_snapshot_was_taken() {
        let server = filled().await;
        tokio::time::advance(std::time::Duration::from_secs(90)).await;
        let bytes = server.snapshot();
        let again = ApiServer::restore(Config::default(), &bytes).unwrap();
        assert_eq!(again.resource_version(), server.resource_version());
        assert_eq!(again.now(), server.now());
        assert!(again.snapshot() == bytes, "a snapshot of what was restored is another");
        for path in [MAPS, "/apis/example.com/v1/things", "/api/v1/namespaces", crate::testing::DEFINITIONS] {
            assert_eq!(send(&again, "GET", path, Value::Null).await, send(&server, "GET", path, Value::Null).await);
        }
        // What comes next is the same on both.
        let next = json!({"metadata": {"generateName": "x-"}});
        assert_eq!(send(&again, "POST", MAPS, next.clone()).await, send(&server, "POST", MAPS, next).await);
    }

    #[tokio::test]
    async fn versions_before_a_snapshot_are_gone_even_of_what_is_empty() {
        let server = filled().await;
        send(&server, "POST", "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await;
        send(&server, "DELETE", "/api/v1/namespaces/default/secrets/s", Value::Null).await;
        let again = ApiServer::restore(Config::default(), &server.snapshot()).unwrap();
        assert!(again.inner.store.changes_after("secrets", 5, 10).is_err());
        assert!(again.inner.store.changes_after("secrets", again.resource_version(), 10).is_ok());
    }

    #[tokio::test]
    async fn what_is_cut_short_changed_or_of_another_version_is_refused() {
        let bytes = filled().await.snapshot();
        let restore = |bytes: &[u8]| ApiServer::restore(Config::default(), bytes).map(|_| ()).unwrap_err();
        assert_eq!(restore(b""), RestoreError::NoSnapshot);
        assert_eq!(restore(b"PK\x03\x04"), RestoreError::NoSnapshot);
        let other = [b"berth-apiserver snapshot 2\n".as_slice(), &bytes[MAGIC.len() + 2..]].concat();
        assert!(matches!(restore(&other), RestoreError::OtherVersion { .. }));
        for cut in [MAGIC.len() + 2, MAGIC.len() + 40, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
            assert!(matches!(restore(&bytes[..cut]), RestoreError::Damaged(_)), "cut at {cut}");
        }
        // From the compressed data on: the head of gzip has a time and a system that mean nothing. What the server is at
        // comes first, and every byte of it counts: some read as another Kubernetes.
        let data = MAGIC.len() + 12;
        let plain = |bytes: &[u8]| {
            let mut text = Vec::new();
            let line = memchr::memchr(b'\n', bytes)?;
            GzDecoder::new(bytes.get(line + 1..)?).read_to_end(&mut text).ok()?;
            Some(text)
        };
        assert!(plain(&bytes).is_some());
        for at in (data..data + 160).chain((data + 160..bytes.len()).step_by(7)) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            // Some bits only fill the last byte of the compressed data, or say how long codes are that are not used.
            if plain(&changed) == plain(&bytes) {
                continue;
            }
            assert!(matches!(restore(&changed), RestoreError::Damaged(_)), "changed at {at}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        assert!(matches!(restore(&longer), RestoreError::Damaged(_)));
        let line = restore(&bytes[..bytes.len() / 2]).to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
