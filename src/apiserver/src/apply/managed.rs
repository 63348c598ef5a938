//! `metadata.managedFields`: what every writer owns, and what becomes of it with each write.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::fields::FieldSet;
use super::merge;
use super::walk::{compare, field_set, remove};
use crate::meta;
use crate::schema::Typed;
use crate::status::{ApiError, Cause, Result};

/// Update entries beyond this are folded into one.
const MAX_UPDATE_ENTRIES: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// The manager of what was there before the first apply.
const BEFORE_APPLY: &str = "before-first-apply";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Who writes, through what, and when.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) api_version: &'a str,
    /// Empty for the resource itself.
    pub(crate) subresource: &'a str,
    /// The time in the form of `metav1.Time`.
    pub(crate) now: &'a str,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    manager: String,
    applied: bool,
    api_version: String,
    subresource: String,
    time: Option<String>,
    fields: FieldSet,
}

/// The entries of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ownership {
    entries: Vec<Entry>,
}

// === impl Ownership ===

impl Ownership {
    /// Reads an object's entries; an error says what is wrong with them.
    pub(crate) fn of(object: &Value) -> Result<Self, String> {
        let mut entries = Vec::new();
        for item in meta::list_at(object, &["metadata", "managedFields"]) {
            let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let applied = match text("operation").as_str() {
                "Apply" => true,
                "Update" => false,
                other => return Err(format!("operation is `{other}` instead of `Apply` or `Update`")),
            };
            let fields = item.get("fieldsV1").map_or_else(|| Some(FieldSet::default()), FieldSet::from_json);
            entries.push(Entry {
                manager: text("manager"),
                applied,
                api_version: text("apiVersion"),
                subresource: text("subresource"),
                time: Some(text("time")).filter(|time| !time.is_empty()),
                fields: fields.ok_or("fieldsV1 is not a set of fields")?,
            });
        }
        Ok(Self { entries })
    }

    /// Writes the entries into an object, in their order.
    pub(crate) fn store(mut self, object: &mut Value) {
        self.entries.retain(|entry| !entry.fields.is_empty());
        self.fold_old_updates();
        self.entries.sort_by(|a, b| {
            let key = |e: &Entry| {
                (!e.applied, e.time.clone(), e.manager.clone(), e.api_version.clone(), e.subresource.clone())
            };
            key(a).cmp(&key(b))
        });
        let list: Vec<Value> = self.entries.into_iter().map(Entry::into_json).collect();
        if list.is_empty() {
            meta::remove(object, "managedFields");
        } else {
            meta::set(object, "managedFields", list);
        }
    }

    fn fold_old_updates(&mut self) {
        let n_updates = self.entries.iter().filter(|entry| !entry.applied).count();
        if n_updates <= MAX_UPDATE_ENTRIES {
            return;
        }
        self.entries.sort_by(|a, b| (a.applied, &a.time).cmp(&(b.applied, &b.time)));
        let mut ancient: Vec<Entry> = Vec::new();
        let mut to_fold = n_updates - MAX_UPDATE_ENTRIES + 1;
        let mut kept = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            if entry.applied || to_fold == 0 {
                kept.push(entry);
                continue;
            }
            to_fold -= 1;
            match ancient.iter_mut().find(|old| old.api_version == entry.api_version) {
                Some(old) => {
                    old.fields = std::mem::take(&mut old.fields).union(&entry.fields);
                    old.time = entry.time;
                }
                None => ancient.push(Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..entry }),
            }
        }
        kept.extend(ancient);
        self.entries = kept;
    }

    fn position(&self, writer: &Writer<'_>, applied: bool) -> Option<usize> {
        self.entries.iter().position(|entry| {
            entry.applied == applied
                && entry.manager == writer.manager
                && entry.subresource == writer.subresource
                // An applier is one manager through every version.
                && (applied || entry.api_version == writer.api_version)
        })
    }
}

// === impl Entry ===

impl Entry {
    fn into_json(self) -> Value {
        let mut map = Map::new();
        map.insert("apiVersion".to_owned(), self.api_version.into());
        map.insert("fieldsType".to_owned(), "FieldsV1".into());
        map.insert("fieldsV1".to_owned(), self.fields.into_json());
        map.insert("manager".to_owned(), self.manager.into());
        map.insert("operation".to_owned(), if self.applied { "Apply" } else { "Update" }.into());
        if !self.subresource.is_empty() {
            map.insert("subresource".to_owned(), self.subresource.into());
        }
        if let Some(time) = self.time {
            map.insert("time".to_owned(), time.into());
        }
        Value::Object(map)
    }

    fn new(writer: &Writer<'_>, applied: bool) -> Self {
        Self {
            manager: writer.manager.to_owned(),
            applied,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time: Some(writer.now.to_owned()),
            fields: FieldSet::default(),
        }
    }
}

/// Fields that nobody owns.
fn unowned() -> &'static FieldSet {
    static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    &UNOWNED
}

fn without_entries(object: &Value) -> Cow<'_, Value> {
    if object.pointer("/metadata/managedFields").is_none() {
        return Cow::Borrowed(object);
    }
    let mut out = object.clone();
    meta::remove(&mut out, "managedFields");
    Cow::Owned(out)
}

/// Records, in `new`, what a create or an update from `live` changed. `resets` are fields that this endpoint cannot write.
pub(crate) fn track_update(live: &Value, new: &mut Value, typed: Typed<'_>, writer: &Writer<'_>, resets: &FieldSet) {
    let given = meta::list_at(new, &["metadata", "managedFields"]);
    let is_reset = given.len() == 1 && given.iter().all(|entry| entry.as_object().is_some_and(Map::is_empty));
    let given =
        if writer.subresource.is_empty() { Ownership::of(new).ok().filter(|o| !o.entries.is_empty()) } else { None };
    if is_reset {
        meta::remove(new, "managedFields");
        return;
    }
    let mut ownership = given.unwrap_or_else(|| Ownership::of(live).unwrap_or_default());
    // Nobody's object stays so, until somebody applies.
    if ownership.entries.is_empty() && meta::has(live, "uid") {
        meta::remove(new, "managedFields");
        return;
    }
    // Nobody owns the entries themselves, so that they differ does not matter.
    let changes = compare(live, new, typed);
    let written = changes.added.union(&changes.modified).minus_below(resets);
    let removed = changes.removed.minus_below(resets);
    for entry in &mut ownership.entries {
        entry.fields = std::mem::take(&mut entry.fields).minus(&written).minus(&removed);
    }
    let taken = written.minus(unowned());
    if !taken.is_empty() {
        let at = ownership.position(writer, false).unwrap_or_else(|| {
            ownership.entries.push(Entry::new(writer, false));
            ownership.entries.len() - 1
        });
        if let Some(entry) = ownership.entries.get_mut(at) {
            entry.fields = std::mem::take(&mut entry.fields).union(&taken);
            entry.time = Some(writer.now.to_owned());
        }
    }
    ownership.store(new);
}

/// The live object with a configuration applied by `writer`. Errors: 409 names the fields that others own.
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    typed: Typed<'_>,
    writer: &Writer<'_>,
    force: bool,
    resets: &FieldSet,
) -> Result<Value> {
    let mut errors = Vec::new();
    merge::check(config, typed, &mut String::new(), &mut errors);
    if !errors.is_empty() {
        let (group, version) = crate::resource::split_api_version(writer.api_version);
        let namespace = meta::namespace(config);
        let slash = "/";
        let kind = meta::text_at(config, &["kind"]);
        let about = format!(
            "{namespace}{slash}{}; {}, Kind={kind}",
            meta::name(config),
            crate::resource::api_version(group, version)
        );
        let text = if errors.len() == 1 { errors.concat() } else { format!("errors:\n  {}", errors.join("\n  ")) };
        return Err(ApiError::unexpected(format!("failed to create typed patch object ({about}): {text}")));
    }
    let mut ownership = Ownership::of(live).unwrap_or_default();
    let live = without_entries(live).into_owned();
    if ownership.entries.is_empty() && meta::has(&live, "uid") {
        let before = Writer { manager: BEFORE_APPLY, subresource: "", ..writer.clone() };
        let mut entry = Entry::new(&before, false);
        entry.fields = field_set(&live, typed).minus_below(resets).minus(unowned());
        ownership.entries.push(entry);
    }
    let merged = merge::merge(Some(&live), Some(config), typed);
    let set = field_set(config, typed).minus_below(resets);
    let at = ownership.position(writer, true);
    let last = at.and_then(|at| ownership.entries.get(at)).map(|entry| entry.fields.clone());
    let is_new = at.is_none();
    let at = at.unwrap_or_else(|| {
        ownership.entries.push(Entry::new(writer, true));
        ownership.entries.len() - 1
    });
    if let Some(entry) = ownership.entries.get_mut(at) {
        entry.fields = set;
        writer.api_version.clone_into(&mut entry.api_version);
    }
    let merged = match last {
        Some(last) if !last.is_empty() => prune(&merged, typed, &ownership, &last),
        _ => merged,
    };
    let changes = compare(&live, &merged, typed);
    let written = changes.modified.union(&changes.added);
    let is_changed = !written.is_empty() || !changes.removed.is_empty();
    let mut conflicts = Vec::new();
    for (_, entry) in ownership.entries.iter_mut().enumerate().filter(|(index, _)| *index != at) {
        let both = entry.fields.clone().intersection(&written);
        if !both.is_empty() {
            conflicts.push((described(entry), both.clone()));
        }
        entry.fields = std::mem::take(&mut entry.fields).minus(&both).minus(&changes.removed);
    }
    if writer.manager == "kubectl" {
        let allowed = last_applied(&live, typed);
        for (_, fields) in &mut conflicts {
            *fields = std::mem::take(fields).minus(&allowed);
        }
        conflicts.retain(|(_, fields)| !fields.is_empty());
    }
    if !force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    if let Some(entry) = ownership.entries.get_mut(at) {
        entry.fields = std::mem::take(&mut entry.fields).minus(unowned());
        if is_changed {
            entry.time = Some(writer.now.to_owned());
        } else if is_new {
            // Who only agrees has no time.
            entry.time = None;
        }
    }
    let mut out = merged;
    keep_last_applied(&mut out, config, writer.manager);
    ownership.store(&mut out);
    Ok(out)
}

/// Where a Scale has its replicas.
const SCALE_PATH: [&str; 2] = ["spec", "replicas"];

/// Says in a Scale who owns the replicas of the object that it is of; `path` leads to them there.
pub(crate) fn own_scale(scale: &mut Value, parent: &Value, path: &[&str]) {
    let mut ownership = Ownership::of(parent).unwrap_or_default();
    let there = FieldSet::of_fields(&[path]);
    ownership.entries.retain(|entry| !entry.fields.clone().intersection(&there).is_empty());
    for entry in &mut ownership.entries {
        entry.fields = FieldSet::of_fields(&[&SCALE_PATH]);
    }
    ownership.store(scale);
}

/// Takes over into an object who owns the replicas after a write to its Scale.
pub(crate) fn take_scale_owners(parent: &mut Value, scale: &Value, path: &[&str], api_version: &str) {
    let mut ownership = Ownership::of(parent).unwrap_or_default();
    let mut owners = Ownership::of(scale).unwrap_or_default().entries;
    let there = FieldSet::of_fields(&[path]);
    for entry in &mut ownership.entries {
        let same = |owner: &Entry| {
            (&owner.manager, owner.applied, &owner.subresource) == (&entry.manager, entry.applied, &entry.subresource)
                && (entry.applied || owner.api_version == entry.api_version)
        };
        match owners.iter().position(same) {
            Some(at) => {
                owners.remove(at);
            }
            None => entry.fields = std::mem::take(&mut entry.fields).minus(&there),
        }
    }
    ownership.entries.extend(owners.into_iter().map(|owner| Entry {
        api_version: api_version.to_owned(),
        time: None,
        fields: there.clone(),
        ..owner
    }));
    ownership.store(parent);
}

/// Removes what the applier set last time, does not set now, and nobody else owns.
fn prune(merged: &Value, typed: Typed<'_>, ownership: &Ownership, last: &FieldSet) -> Value {
    let named = |set: FieldSet| set.with_named_fields(typed);
    let owned = ownership.entries.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
    let mut pruned = remove(merged, typed, &named(last.clone()));
    let all = named(field_set(merged, typed));
    // What others own comes back.
    let keep = named(field_set(&pruned, typed)).union(&named(owned));
    pruned = remove(merged, typed, &all.clone().minus(&keep));
    // What was never the applier's comes back too.
    let gone = all.minus(&named(field_set(&pruned, typed))).intersection(&named(last.clone()));
    remove(merged, typed, &gone)
}

fn described(entry: &Entry) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        let _ = write!(text, " with subresource {:?}", entry.subresource);
    }
    if !entry.applied {
        let _ = write!(text, " using {}", entry.api_version);
    }
    text
}

fn conflict(conflicts: &[(String, FieldSet)]) -> ApiError {
    let mut causes = Vec::new();
    let mut listed = Vec::new();
    for (manager, fields) in conflicts {
        let mut paths = Vec::new();
        fields.each_path(&mut |path| paths.push(path.to_owned()));
        causes.extend(paths.iter().map(|path| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {manager}"),
            field: path.clone(),
        }));
        listed.push((manager, paths));
    }
    listed.sort();
    let text = if let [cause] = causes.as_slice() {
        format!("{}: {}", cause.message, cause.field)
    } else {
        let blocks = listed.iter().map(|(manager, paths)| {
            let lines: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
            format!("conflicts with {manager}:\n{}", lines.join("\n"))
        });
        blocks.collect::<Vec<_>>().join("\n")
    };
    let (count, s) = (causes.len(), if causes.len() == 1 { "" } else { "s" });
    ApiError::apply_conflict(format!("Apply failed with {count} conflict{s}: {text}"), &causes)
}

/// Keeps kubectl's annotation in step where an object that it once applied is applied server-side.
fn keep_last_applied(new: &mut Value, config: &Value, manager: &str) {
    if manager != "kubectl" || meta::annotation(new, LAST_APPLIED).is_none() {
        return;
    }
    let mut bare = without_entries(config).into_owned();
    if let Some(Value::Object(annotations)) = bare.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{bare}\n");
    if let Some(annotations) = meta::object_mut(new, &["metadata", "annotations"]) {
        annotations.insert(LAST_APPLIED.to_owned(), json!(text));
    }
}

/// What kubectl applied before it did so server-side: it may take these fields over.
fn last_applied(live: &Value, typed: Typed<'_>) -> FieldSet {
    let text = meta::annotation(live, LAST_APPLIED).unwrap_or_default();
    let Ok(config) = serde_json::from_str::<Value>(text) else { return FieldSet::default() };
    let mut set = field_set(&config, typed);
    set.insert(&["f:metadata", "f:annotations", &format!("f:{LAST_APPLIED}")].map(Into::into));
    set
}

/// A configuration without the fields that an endpoint cannot write.
pub(crate) fn drop_resets(config: &Value, typed: Typed<'_>, resets: &FieldSet) -> Value {
    remove(config, typed, resets)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{builtin, decode};

    fn deployment() -> Typed<'static> {
        builtin().schemas.named("io.k8s.api.apps.v1.Deployment").unwrap()
    }

    fn writer<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
        Writer { manager, api_version: "apps/v1", subresource: "", now }
    }

    fn applied(live: &Value, spec: &Value, manager: &str, force: bool) -> Result<Value> {
        let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
        let by = writer(manager, "2026-01-01T00:00:00Z");
        apply(live, &config, deployment(), &by, force, &FieldSet::default())
    }

    #[test]
    fn a_field_that_its_applier_leaves_out_is_removed_unless_another_owns_it() {
        let empty = decode::empty(deployment());
        let live = applied(&empty, &json!({"replicas": 2, "minReadySeconds": 5, "paused": true}), "a", false).unwrap();
        let live = applied(&live, &json!({"paused": true}), "b", false).unwrap();
        let live = applied(&live, &json!({"replicas": 2}), "a", false).unwrap();
        assert_eq!(live["spec"]["replicas"], 2);
        assert_eq!(live["spec"]["paused"], true);
        assert!(live["spec"].get("minReadySeconds").is_none());
    }

    #[test]
    fn a_change_of_anothers_field_is_a_conflict_until_forced() {
        let empty = decode::empty(deployment());
        let live = applied(&empty, &json!({"replicas": 2}), "a", false).unwrap();
        let error = applied(&live, &json!({"replicas": 3}), "b", false).unwrap_err();
        assert_eq!(error.message(), "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas");
        let live = applied(&live, &json!({"replicas": 3}), "b", true).unwrap();
        assert_eq!(live["spec"]["replicas"], 3);
        assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn an_update_takes_the_fields_that_it_changes() {
        let empty = decode::empty(deployment());
        let live = applied(&empty, &json!({"replicas": 2, "paused": true}), "a", false).unwrap();
        let mut new = live.clone();
        new["spec"]["replicas"] = 5.into();
        new["metadata"]["labels"] = json!({"x": "y"});
        track_update(&live, &mut new, deployment(), &writer("u", "2026-01-02T00:00:00Z"), &FieldSet::default());
        let entries = new["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
        let expected = json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:spec": {"f:replicas": {}}});
        assert_eq!(entries[1]["fieldsV1"], expected);
        assert_eq!(entries[1]["operation"], "Update");
    }

    #[test]
    fn updates_beyond_ten_managers_are_folded() {
        let mut live = decode::empty(deployment());
        for n in 0..15 {
            let mut new = live.clone();
            new["metadata"]["labels"][format!("l{n}")] = "x".into();
            let time = format!("2026-01-01T00:00:{n:02}Z");
            track_update(&live, &mut new, deployment(), &writer(&format!("m{n}"), &time), &FieldSet::default());
            live = new;
        }
        let entries = live["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(entries.len(), 10);
        assert!(entries.iter().any(|entry| entry["manager"] == "ancient-changes"));
    }
}
