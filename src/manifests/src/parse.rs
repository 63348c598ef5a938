//! From the text of one document to checked objects.

use serde_json::Value;

use crate::check;
use crate::document::{Document, Format, ListType, Role};
use crate::error::{ManifestError, Problem};
use crate::kinds::{self, Disposition};
use crate::locate::{Position, line_shown, locate};
use crate::object::{BESIDE, Object};
use crate::options::{Options, Source, Validate};
use crate::path::shorten;
use crate::schema;
use crate::typed::{Misfit, Typed};
use crate::value::{self, SyntaxError};

/// Problems of one object whose place is looked for.
const MOST_PLACES: usize = 10;

/// What came of one object.
pub(crate) enum Outcome {
    Object {
        source: Source,
        object: Object,
        warning: Option<ManifestError>,
    },
    PassedOver {
        group: String,
        kind: String,
    },
    /// What holds no Kubernetes object at all, as a policy of a cloud beside the manifests; and why it would be an error.
    Foreign(ManifestError),
    /// What cannot be read.
    Fault(ManifestError),
}

/// Parses a document into its objects: one, or those of a `List`.
pub(crate) fn parse(document: &Document, options: &Options) -> Vec<Outcome> {
    let mut reading = Reading { document, options, outcomes: Vec::new() };
    if let Err(error) = reading.document() {
        reading.outcomes.push(Outcome::Fault(error));
    }
    reading.outcomes
}

type Parse = fn(&Value) -> Result<Typed<Object>, Misfit>;

struct Reading<'a> {
    document: &'a Document,
    options: &'a Options,
    outcomes: Vec<Outcome>,
}

impl Reading<'_> {
    fn document(&mut self) -> Result<(), ManifestError> {
        let document = self.document;
        let value = self.value()?;
        match document.role {
            // Comments in quotes' clothing, as `--- # nothing here` or `null`, hold no object.
            Role::Whole if value.is_null() => Ok(()),
            Role::Whole | Role::Item => self.object(&value, &document.source, document.list_type.as_deref()),
            Role::Envelope => self.envelope(&value),
        }
    }

    fn value(&self) -> Result<Value, ManifestError> {
        let limit = self.options.max_object_bytes;
        let text = std::str::from_utf8(&self.document.text).map_err(|error| {
            let before = self.document.text.get(..error.valid_up_to()).unwrap_or_default();
            let line = memchr::memchr_iter(b'\n', before).count() as u64 + 1;
            let begin = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
            let position = Some((line, (before.len() - begin) as u64 + 1));
            let message = "found bytes that are not UTF-8, expected UTF-8 text".to_owned();
            self.syntax_error(&SyntaxError { message, position })
        })?;
        let value = match self.document.format {
            Format::Yaml => value::from_yaml(text, limit),
            // YAML in JSON's brackets: trailing commas, comments.
            Format::Json => {
                value::from_json(text, limit).or_else(|error| value::from_yaml(text, limit).map_err(|_| error))
            }
        };
        value.map_err(|error| self.syntax_error(&error))
    }

    fn syntax_error(&self, error: &SyntaxError) -> ManifestError {
        let position = error.position.map(|(line, column)| self.document.position_in_file(line, column));
        let language = match self.document.format {
            Format::Json => "JSON",
            Format::Yaml => "YAML",
        };
        let message = format!("malformed {language}: {}", crate::path::shorten_long(&error.message));
        let mut problem = Problem::of_object(message);
        let shown = error.position.and_then(|(line, column)| {
            let before = usize::try_from(line).ok()?.checked_sub(1)?;
            String::from_utf8_lossy(&self.document.text).lines().nth(before).map(|text| line_shown(text, column))
        });
        problem.place = position.zip(shown).map(|((line, column), text)| Box::new(Position { line, column, text }));
        ManifestError::of_document(self.document.source.clone(), None, position, vec![problem])
    }

    /// A `List` whose items have been handed out.
    fn envelope(&mut self, value: &Value) -> Result<(), ManifestError> {
        if is_foreign(value) {
            self.foreign(value, &self.document.source.clone());
            return Ok(());
        }
        let (_, kind) = self.type_of(value, &self.document.source, None)?;
        if kind.ends_with("List") {
            return Ok(());
        }
        let message = format!("found {:?} with \"items\" before its kind, expected a List", shorten(kind));
        Err(self.error(&self.document.source, value, vec![Problem::new("kind", message)]))
    }

    fn foreign(&mut self, value: &Value, source: &Source) {
        let error = self.type_of(value, source, None).err();
        self.outcomes.extend(error.map(Outcome::Foreign));
    }

    fn object(&mut self, value: &Value, source: &Source, list_type: Option<&ListType>) -> Result<(), ManifestError> {
        if list_type.is_none() && is_foreign(value) {
            self.foreign(value, source);
            return Ok(());
        }
        let (api_version, kind) = self.type_of(value, source, list_type)?;
        // As Go writes a list of none: null.
        if kind.ends_with("List") && value.get("items").is_some_and(|items| items.is_array() || items.is_null()) {
            self.items(value, source, api_version, kind);
            return Ok(());
        }
        let known = match kinds::dispose(api_version, kind) {
            Ok(Disposition::Read(known)) => known,
            Ok(Disposition::PassOver { .. })
                if self.options.config_maps
                    && (api_version, kind) == (BESIDE.api_version, BESIDE.kind)
                    && self.config_map(value, source) =>
            {
                return Ok(());
            }
            Ok(Disposition::PassOver { group }) => {
                self.outcomes.push(Outcome::PassedOver { group, kind: kind.to_owned() });
                return Ok(());
            }
            Ok(Disposition::Foreign(problem)) => {
                let error = self.error(source, value, vec![problem]);
                self.outcomes.push(Outcome::Foreign(error));
                return Ok(());
            }
            Err(problem) => return Err(self.error(source, value, vec![problem])),
        };
        let typed = (known.parse)(value).or_else(|misfit| {
            // Go reads null as the empty string; k8s-openapi does not.
            let mut filled = value.clone();
            if fill_nulls(&mut filled) { (known.parse)(&filled) } else { Err(misfit) }
        });
        let typed = typed.map_err(|misfit| {
            let mut problems = misplaced_in_spec(kind, value);
            self.add_all_misfits(value, (known.parse, kind), misfit, source, &mut problems);
            self.error(source, value, problems)
        })?;
        let (kept, unknown): (Vec<_>, Vec<_>) =
            typed.unknown_fields.into_iter().partition(|field| berth_api::keeps_unknown_fields(kind, &field.path));
        let kept =
            kept.into_iter().map(|field| Problem::new(field.path, "kept by the API server, but of no meaning here"));
        let unknown = unknown.into_iter().map(|field| unknown_field(kind, field.path, field.nearest));
        let mut object = typed.object;
        let (mut problems, mut noted): (Vec<_>, Vec<_>) = (Vec::new(), kept.collect());
        match self.options.validate {
            Validate::Strict => problems.extend(unknown),
            Validate::Warn => noted.extend(unknown),
            Validate::Ignore => noted.clear(),
        }
        if self.options.validate != Validate::Ignore {
            schema::check(api_version, kind, value, &mut noted);
        }
        let warning = (!noted.is_empty()).then(|| self.error(source, value, noted));
        check::complete(&mut object, source);
        check::object(&object, &mut problems);
        if !problems.is_empty() {
            return Err(self.error(source, value, problems));
        }
        self.outcomes.push(Outcome::Object { source: source.clone(), object, warning });
        Ok(())
    }

    /// Delivers a ConfigMap, if it is one: what is wrong with it is no matter, as most are not needed.
    fn config_map(&mut self, value: &Value, source: &Source) -> bool {
        let Ok(typed) = (BESIDE.parse)(value) else { return false };
        let mut object = typed.object;
        check::complete(&mut object, source);
        self.outcomes.push(Outcome::Object { source: source.clone(), object, warning: None });
        true
    }

    /// What does not fit its type, and what is wrong with the rest of the object.
    fn add_all_misfits(
        &self,
        value: &Value,
        (parse, kind): (Parse, &str),
        first: Misfit,
        source: &Source,
        problems: &mut Vec<Problem>,
    ) {
        let (mut rest, mut misfit) = (value.clone(), first);
        let mut gone: Vec<String> = Vec::new();
        let typed = loop {
            // What is missing may be what was just taken out.
            let follows =
                |gone: &String| misfit.problem.message.starts_with("missing") && is_around(&misfit.problem.path, gone);
            if gone.iter().any(follows) {
                return;
            }
            gone.push(misfit.problem.path.clone());
            let is_out = misfit.take_out(&mut rest);
            problems.push(misfit.problem);
            if !is_out || gone.len() >= MOST_PLACES {
                return;
            }
            fill_nulls(&mut rest);
            match parse(&rest) {
                Ok(typed) => break typed,
                Err(next) => misfit = next,
            }
        };
        if self.options.validate == Validate::Strict {
            let unknown = typed.unknown_fields.into_iter();
            let unknown = unknown.filter(|field| !berth_api::keeps_unknown_fields(kind, &field.path));
            problems.extend(unknown.map(|field| unknown_field(kind, field.path, field.nearest)));
        }
        let (mut object, mut others) = (typed.object, Vec::new());
        check::complete(&mut object, source);
        check::object(&object, &mut others);
        let depends =
            |other: &Problem| gone.iter().any(|gone| is_around(&other.path, gone) || is_around(gone, &other.path));
        problems.extend(others.into_iter().filter(|other| !depends(other)));
    }

    fn items(&mut self, list: &Value, source: &Source, api_version: &str, kind: &str) {
        let list_type = kind
            .strip_suffix("List")
            .filter(|kind| !kind.is_empty())
            .map(|kind| ListType { api_version: api_version.to_owned(), kind: kind.to_owned() });
        let items = list.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (item, value) in (0..).zip(items) {
            let source = Source { item: Some(item), ..source.clone() };
            if let Err(error) = self.object(value, &source, list_type.as_ref()) {
                self.outcomes.push(Outcome::Fault(error));
            }
        }
    }

    /// `apiVersion` and `kind`, which the list's may stand in for.
    fn type_of<'v>(
        &self,
        value: &'v Value,
        source: &Source,
        list_type: Option<&'v ListType>,
    ) -> Result<(&'v str, &'v str), ManifestError> {
        let Value::Object(object) = value else {
            let message = format!("found {}, expected an object with apiVersion and kind", name_of(value));
            return Err(self.error(source, value, vec![Problem::of_object(message)]));
        };
        let mut problems = Vec::new();
        let mut field = |name, default: Option<&'v str>| match (object.get(name), default) {
            (Some(Value::String(text)), _) if !text.is_empty() => text.as_str(),
            (None, Some(default)) => default,
            (None, None) => {
                problems.push(Problem::new(name, "is missing, expected as in \"apiVersion: v1\", \"kind: Pod\""));
                ""
            }
            (Some(other), _) => {
                let message = format!("found {}, expected text", name_of(other));
                problems.push(Problem::new(name, message));
                ""
            }
        };
        let api_version = field("apiVersion", list_type.map(|list| &*list.api_version));
        let kind = field("kind", list_type.map(|list| &*list.kind));
        if problems.is_empty() { Ok((api_version, kind)) } else { Err(self.error(source, value, problems)) }
    }

    fn error(&self, source: &Source, value: &Value, mut problems: Vec<Problem>) -> ManifestError {
        add_places(self.document, source, &mut problems);
        let default = self.document.list_type.as_ref().map(|list| list.kind.as_str());
        let kind = value.get("kind").and_then(Value::as_str).or(default).filter(|kind| !kind.is_empty());
        let metadata = |name| {
            let text = value.get("metadata")?.get(name)?.as_str()?;
            (!text.is_empty()).then(|| shorten(text))
        };
        let name = metadata("name").or_else(|| metadata("generateName"));
        let object = kind.map(shorten).map(|kind| match (metadata("namespace"), name) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            _ => kind,
        });
        ManifestError::of_document(source.clone(), object, None, problems)
    }
}

/// Adds to problems of the object of a document, or of an item in it, where in the file they are.
pub(crate) fn add_places(document: &Document, source: &Source, problems: &mut [Problem]) {
    let Ok(text) = std::str::from_utf8(&document.text) else { return };
    for problem in problems.iter_mut().take(MOST_PLACES).filter(|problem| problem.place.is_none()) {
        let in_item = source.item.filter(|_| document.source.item.is_none());
        let path = match in_item {
            Some(item) => format!("items[{item}].{}", problem.path),
            None => problem.path.clone(),
        };
        problem.place = locate(text, &path).map(|place| {
            let (line, column) = document.position_in_file(place.line, place.column);
            Box::new(Position { line, column, ..place })
        });
    }
}

/// Whether this is nothing that anybody would apply to a cluster: neither of a kind nor with metadata.
fn is_foreign(value: &Value) -> bool {
    value.as_object().is_none_or(|fields| !fields.contains_key("kind") && !fields.contains_key("metadata"))
}

/// Fields that stand at the wrong place, where what they leave out at the right one is an error.
fn misplaced_in_spec(kind: &str, value: &Value) -> Vec<Problem> {
    let fields = value.get("spec").and_then(Value::as_object);
    let paths = fields.into_iter().flatten().map(|(name, _)| format!("spec.{name}"));
    let is_misplaced = |path: &String| berth_api::misplaced_field(kind, path).is_some();
    paths.filter(is_misplaced).map(|path| unknown_field(kind, path, None)).collect()
}

fn unknown_field(kind: &str, path: String, nearest: Option<&str>) -> Problem {
    let dotted: String = path
        .split('[')
        .enumerate()
        .map(|(idx, part)| if idx == 0 { part } else { part.split_once(']').map_or("", |(_, after)| after) })
        .collect();
    let message = match (berth_api::misplaced_field(kind, &dotted), nearest) {
        (Some(hint), _) => format!("unknown field: {hint}"),
        (None, Some(nearest)) => format!("unknown field: did you mean {nearest}?"),
        (None, None) => format!("unknown field: {kind} has none of this name here"),
    };
    Problem::new(path, message)
}

/// Whether a field holds another, or is that.
fn is_around(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || outer.is_empty() || rest.starts_with(['.', '[']))
}

/// Makes nulls in maps of text empty, as Go reads them; tells whether there were any.
fn fill_nulls(value: &mut Value) -> bool {
    const MAPS_OF_TEXT: [&str; 4] = ["labels", "annotations", "nodeSelector", "matchLabels"];
    let mut is_filled = false;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let (true, Value::Object(entries)) = (MAPS_OF_TEXT.contains(&&**name), &mut *field) {
                    for entry in entries.values_mut().filter(|entry| entry.is_null()) {
                        *entry = Value::String(String::new());
                        is_filled = true;
                    }
                }
                is_filled |= fill_nulls(field);
            }
        }
        Value::Array(items) => {
            for item in items {
                is_filled |= fill_nulls(item);
            }
        }
        _ => {}
    }
    is_filled
}

fn name_of(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {:?}", shorten(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
