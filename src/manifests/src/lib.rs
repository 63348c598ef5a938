//! Reads manifests: files, folders, multi-document YAML and JSON Lists, as typed objects.
//!
//! [`read`] takes what a user passes to `-f` and hands each object to a callback as soon as it
//! has been read and checked, in the order of the input, so that a caller can fold a million Pods
//! without keeping them. Memory is bounded by the largest single object, whatever the size of the
//! file; items of a `List` are streamed too.
//!
//! An object is checked as the API server would check it on create, as far as planning depends on
//! it: unknown fields, names and labels, quantities, selectors, enumerations. This crate never
//! interprets an object beyond that, talks to no cluster, and gives the same answer on any number
//! of threads.
//!
//! ```
//! use berth_manifests::{ManifestError, Object, Options, read_from};
//!
//! let text = "
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: web}
//! spec:
//!   containers: [{name: app, resources: {requests: {cpu: 500m}}}]
//! ";
//! let mut names = Vec::new();
//! let summary = read_from("pod.yaml", text.as_bytes(), &Options::default(), |source, object| {
//!     assert_eq!((source.document, source.item), (1, None));
//!     if let Object::Pod(pod) = object {
//!         names.extend(pod.metadata.name);
//!     }
//!     Ok::<(), ManifestError>(())
//! })?;
//! assert_eq!((names, summary.objects), (vec!["web".to_owned()], 1));
//! # Ok::<(), ManifestError>(())
//! ```

mod check;
mod chunks;
mod document;
mod error;
mod file;
mod kinds;
mod known_fields;
mod locate;
mod nearest;
mod object;
mod options;
mod parse;
mod path;
mod pipeline;
mod read;
mod scheduler_config;
mod schema;
mod settings;
mod split;
mod syntax;
mod typed;
mod value;

pub use error::{ManifestError, Problem};
pub use file::{MAX_FILE_BYTES, read_file, read_text};
pub use locate::Position;
pub use nearest::nearest;
pub use object::{Object, known_kinds};
pub use options::{Input, MAX_OBJECT_BYTES, Options, Source, Validate};
pub use read::{Summary, is_kustomization, read, read_from, with_places};
pub use scheduler_config::{SchedulerConfig, read_scheduler_config};
pub use settings::Settings;
pub use syntax::json_in_words;
