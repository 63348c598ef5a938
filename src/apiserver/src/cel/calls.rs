//! Functions: the few that nearly every rule calls, done here, and those of Kubernetes' libraries, done by kube-cel.

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, operators};
use kube_cel::cel::{Context, Value as LibraryValue};
use regex::Regex;

use super::compile::{Node, of_binary, of_match};
use super::estimate::{Estimate, Place, Size, TRAVERSAL, Ty, of_library, pattern_cost, scaled, spent_in_library};
use super::time::{duration_text, parse_duration, parse_timestamp, part_of_duration, part_of_instant};
use super::types::Kind;
use super::value::Val;

/// A function.
#[derive(Debug)]
pub(super) enum Call {
    Size,
    StartsWith,
    EndsWith,
    Contains,
    /// A pattern that is computed.
    Matches,
    ToString,
    ToInt,
    ToUint,
    ToDouble,
    ToBool,
    ToBytes,
    ToDuration,
    ToTimestamp,
    Dyn,
    TypeOf,
    /// A part of an instant or a duration.
    TimePart(Box<str>),
    OptionalNone,
    OptionalOf,
    OptionalOfNonZero,
    /// The first match of a pattern that the rule spells out.
    Find(Regex),
    /// All of them.
    FindAll(Regex),
    IsUrl,
    ToUrl,
    /// A part of a URL.
    UrlPart(Box<str>),
    HasValue,
    OptionalValue,
    OrOptional,
    OrValue,
    Library(Box<Library>),
}

/// A function of kube-cel: a call of it, with variables for its arguments.
#[derive(Debug)]
pub(super) struct Library {
    name: Box<str>,
    call: IdedExpr,
}

/// No text that a rule makes is longer, in bytes.
const MAX_TEXT: u64 = 16 * 1024 * 1024;

const TIME_PARTS: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];

/// Compiles a call; `nodes` and `of` begin with its target, where it has one. The cost is that of the call alone.
#[allow(clippy::too_many_lines)] // An arm for a function.
pub(super) fn compile<'t>(
    name: &str,
    has_target: bool,
    mut nodes: Vec<Node>,
    of: &[Estimate<'t>],
) -> Result<(Node, Estimate<'t>), String> {
    let no_overload = || format!("found no matching overload for '{}'", name.trim_matches('_'));
    let kind = |kind: Kind| Ty::Simple(kind);
    if let (false, [a, b]) = (has_target, of) {
        if name == operators::IN {
            return contained(nodes, a, b).ok_or_else(no_overload);
        }
        if let Some((operator, estimate)) = of_binary(name, a, b) {
            let (Some(b), Some(a)) = (nodes.pop(), nodes.pop()) else { return Err(no_overload()) };
            return Ok((Node::Binary(operator, Box::new((a, b))), estimate));
        }
    }
    let count = of.len();
    let first = of.first();
    let inner = |estimate: Option<&Estimate<'t>>| match estimate.map(|estimate| &estimate.ty) {
        Some(Ty::Optional(inner)) => (**inner).clone(),
        _ => Ty::Any,
    };
    let (call, estimate) = match (name, has_target, count) {
        (operators::LOGICAL_NOT, false, 1) => {
            return Ok((Node::Not(Box::new(nodes.pop().ok_or_else(no_overload)?)), Estimate::bool(1)));
        }
        (operators::NEGATE, false, 1) => {
            let ty = first.map_or(Ty::Any, |first| first.ty.kind().map_or(Ty::Any, Ty::Simple));
            return Ok((Node::Negate(Box::new(nodes.pop().ok_or_else(no_overload)?)), Estimate::of(1, ty)));
        }
        ("size", _, 1) => (Call::Size, Estimate::of(1, kind(Kind::Int))),
        ("startsWith" | "endsWith", true, 2) => {
            let cost = of.get(1).map_or(0, |arg| arg.size_or_unknown().traversed(TRAVERSAL));
            (if name == "startsWith" { Call::StartsWith } else { Call::EndsWith }, Estimate::bool(cost))
        }
        ("contains", true, 2) => {
            let cost = of.iter().map(|text| text.size_or_unknown().traversed(TRAVERSAL)).fold(1, u64::saturating_mul);
            (Call::Contains, Estimate::bool(cost))
        }
        ("matches", _, 2) => {
            let cost = of.first().zip(of.get(1)).map_or(0, |(text, pattern)| of_match(text, pattern));
            if let [_, Node::Const(Val::Str(pattern))] = nodes.as_slice() {
                let pattern = Regex::new(pattern).map_err(|error| format!("invalid matches argument: {error}"))?;
                let text = nodes.swap_remove(0);
                return Ok((Node::Matches(Box::new(text), pattern), Estimate::bool(cost)));
            }
            (Call::Matches, Estimate::bool(cost))
        }
        ("string", false, 1) => {
            let from = first.map_or(Ty::Any, |first| first.ty.clone());
            let size = match from.kind() {
                Some(Kind::String | Kind::Bytes) => first.and_then(|first| first.size),
                _ => None,
            };
            (Call::ToString, Estimate { size, ..Estimate::of(1, kind(Kind::String)) })
        }
        ("bytes", false, 1) => {
            let size = first.map_or(Size::UNKNOWN, Estimate::size_or_unknown);
            let largest = Size { min: size.min, max: size.max.saturating_mul(4) };
            (Call::ToBytes, Estimate::sized(size.traversed(TRAVERSAL), kind(Kind::Bytes), largest))
        }
        ("int", false, 1) => (Call::ToInt, Estimate::of(1, kind(Kind::Int))),
        ("uint", false, 1) => (Call::ToUint, Estimate::of(1, Ty::Uint)),
        ("double", false, 1) => (Call::ToDouble, Estimate::of(1, kind(Kind::Double))),
        ("bool", false, 1) => (Call::ToBool, Estimate::bool(1)),
        ("duration", false, 1) => (Call::ToDuration, Estimate::of(1, kind(Kind::Duration))),
        ("timestamp", false, 1) => (Call::ToTimestamp, Estimate::of(1, kind(Kind::Timestamp))),
        ("type", false, 1) => (Call::TypeOf, Estimate::of(1, Ty::Any)),
        ("dyn", false, 1) => {
            let of = first.cloned().unwrap_or_else(|| Estimate::of(1, Ty::Any));
            (Call::Dyn, Estimate { cost: 1, ty: Ty::Any, place: Place::Computed, ..of })
        }
        ("optional.none", false, 0) => (Call::OptionalNone, Estimate::of(1, Ty::Optional(Box::new(Ty::Any)))),
        ("optional.of" | "optional.ofNonZeroValue", false, 1) => {
            let of = first.cloned().unwrap_or_else(|| Estimate::of(1, Ty::Any));
            let call = if name == "optional.of" { Call::OptionalOf } else { Call::OptionalOfNonZero };
            (call, Estimate { cost: 1, ty: Ty::Optional(Box::new(of.ty.clone())), ..of })
        }
        ("hasValue", true, 1) => (Call::HasValue, Estimate::bool(1)),
        ("value", true, 1) => {
            let of = first.cloned().unwrap_or_else(|| Estimate::of(1, Ty::Any));
            (Call::OptionalValue, Estimate { cost: 1, ty: inner(first), ..of })
        }
        ("or" | "orValue", true, 2) => {
            let size = of.first().zip(of.get(1)).map(|(a, b)| a.size_or_unknown().or(b.size_or_unknown()));
            let is_or = name == "or";
            let ty = if is_or { first.map_or(Ty::Any, |first| first.ty.clone()) } else { inner(first) };
            let estimate = Estimate { size, ..Estimate::of(1, ty) };
            (if is_or { Call::OrOptional } else { Call::OrValue }, estimate)
        }
        ("find" | "findAll", true, 2) if matches!(nodes.get(1), Some(Node::Const(Val::Str(_)))) => {
            let estimate = of_library(name, first, of.get(1..).unwrap_or_default()).ok_or_else(no_overload)?;
            let Some(Node::Const(Val::Str(pattern))) = nodes.pop() else { return Err(no_overload()) };
            let pattern = Regex::new(&pattern).map_err(|error| format!("invalid {name} argument: {error}"))?;
            (if name == "find" { Call::Find(pattern) } else { Call::FindAll(pattern) }, estimate)
        }
        ("isURL" | "url", false, 1)
        | ("getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath", true, 1) => {
            let estimate = of_library(name, first.filter(|_| has_target), of).ok_or_else(no_overload)?;
            let call = match name {
                "isURL" => Call::IsUrl,
                "url" => Call::ToUrl,
                part => Call::UrlPart(part.into()),
            };
            (call, estimate)
        }
        (name, true, 1 | 2) if TIME_PARTS.contains(&name) => {
            (Call::TimePart(name.into()), Estimate::of(1, kind(Kind::Int)))
        }
        _ => {
            let (target, args) = match (has_target, of) {
                (true, [target, args @ ..]) => (Some(target), args),
                (_, args) => (None, args),
            };
            let estimate = of_library(name, target, args)
                .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')"))?;
            (Call::Library(Box::new(Library::new(name, has_target, count))), estimate)
        }
    };
    Ok((Node::Call(call, nodes), estimate))
}

fn contained<'t>(mut nodes: Vec<Node>, item: &Estimate<'t>, list: &Estimate<'t>) -> Option<(Node, Estimate<'t>)> {
    let is_map = matches!(list.ty.kind(), Some(Kind::Map | Kind::Object));
    let estimate = Estimate::bool(if is_map { 1 } else { list.size_or_unknown().max });
    let (list, found) = (nodes.pop()?, nodes.pop()?);
    if item.ty.kind() == Some(Kind::String)
        && let Node::List(items) = &list
    {
        let texts = items.iter().map(|item| match item {
            Node::Const(Val::Str(text)) => Some(Box::<str>::from(&**text)),
            _ => None,
        });
        if let Some(texts) = texts.collect() {
            return Some((Node::InTexts(Box::new(found), texts), estimate));
        }
    }
    Some((Node::In(Box::new((found, list))), estimate))
}

// === impl Library ===

impl Library {
    fn new(name: &str, has_target: bool, count: usize) -> Self {
        let ident = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
        let mut args: Vec<IdedExpr> = (0..count).map(|n| ident(&format!("a{n}"))).collect();
        let (target, function) = match name.rsplit_once('.') {
            _ if has_target => (Some(Box::new(args.remove(0))), name),
            Some((space, function)) => (Some(Box::new(ident(space))), function),
            None => (None, name),
        };
        let call = Expr::Call(CallExpr { func_name: function.to_owned(), target, args });
        Self { name: name.into(), call: IdedExpr { id: 0, expr: call } }
    }

    fn call<'a>(&self, args: &[Val<'a>]) -> Result<Val<'a>, String> {
        static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());
        if &*self.name == "replace" {
            check_replacement(args)?;
        }
        let mut scope = FUNCTIONS.new_inner_scope();
        for (n, arg) in args.iter().enumerate() {
            let value = arg.to_library().ok_or_else(|| "no such overload".to_owned())?;
            scope.add_variable_from_value(format!("a{n}"), value);
        }
        LibraryValue::resolve(&self.call, &scope).map(Val::from_library).map_err(|error| error.to_string())
    }
}

/// Refuses a replacement that would make a text larger than any request: its cost is that of the text that was.
fn check_replacement(args: &[Val<'_>]) -> Result<(), String> {
    let size = |at: usize| args.get(at).map_or(0, Val::cost_size);
    let (text, from, to) = (size(0), size(1), size(2));
    let count = text.checked_div(from).unwrap_or_else(|| text.saturating_add(1));
    if count.saturating_mul(to).saturating_add(text) > MAX_TEXT {
        return Err("replaced text is too long".to_owned());
    }
    Ok(())
}

// === impl Call ===

impl Call {
    /// What a call costs that is known before it is made: nothing yet of a library's.
    pub(super) fn cost_before(&self, args: &[Val<'_>]) -> u64 {
        let size = |at: usize| args.get(at).map_or(1, Val::cost_size);
        match self {
            Call::StartsWith | Call::EndsWith | Call::ToBytes | Call::ToUrl => scaled(size(0), TRAVERSAL),
            Call::Contains => scaled(size(0), TRAVERSAL).saturating_mul(scaled(size(1), TRAVERSAL)),
            Call::Matches => pattern_cost(size(0), size(1)),
            Call::Find(pattern) | Call::FindAll(pattern) => {
                pattern_cost(size(0), u64::try_from(pattern.as_str().len()).unwrap_or(u64::MAX))
            }
            Call::Library(_) => 0,
            _ => 1,
        }
    }

    /// What a call of a library did cost.
    pub(super) fn cost_after(&self, args: &[Val<'_>], value: &Val<'_>) -> u64 {
        let Call::Library(library) = self else { return 0 };
        let sizes: Vec<u64> = args.iter().map(Val::cost_size).collect();
        spent_in_library(&library.name, &sizes, value.cost_size())
    }

    /// The value of a call.
    #[allow(clippy::too_many_lines)] // An arm for a function.
    pub(super) fn value<'a>(&self, args: &[Val<'a>]) -> Result<Val<'a>, String> {
        let none = || "no such overload".to_owned();
        if let Call::Library(library) = self {
            return library.call(args);
        }
        let texts = match args {
            [Val::Str(a), Val::Str(b)] => Some((&**a, &**b)),
            _ => None,
        };
        let Some(first) = args.first() else {
            return if matches!(self, Call::OptionalNone) { Ok(Val::Optional(None)) } else { Err(none()) };
        };
        Ok(match self {
            Call::Size => Val::Int(i64::try_from(first.len().ok_or_else(none)?).map_err(|_| none())?),
            Call::StartsWith => texts.map(|(text, part)| Val::Bool(text.starts_with(part))).ok_or_else(none)?,
            Call::EndsWith => texts.map(|(text, part)| Val::Bool(text.ends_with(part))).ok_or_else(none)?,
            Call::Contains => texts.map(|(text, part)| Val::Bool(text.contains(part))).ok_or_else(none)?,
            Call::Matches => {
                let (text, pattern) = texts.ok_or_else(none)?;
                Val::Bool(Regex::new(pattern).map_err(|error| error.to_string())?.is_match(text))
            }
            Call::ToString => to_text(first).ok_or_else(none)?,
            Call::ToInt => to_int(first)?,
            Call::ToUint => match first {
                Val::Uint(value) => Val::Uint(*value),
                Val::Int(value) => Val::Uint(u64::try_from(*value).map_err(|_| overflow())?),
                Val::Str(text) => Val::Uint(text.parse().map_err(|_| conversion("uint"))?),
                other => match to_int(other)? {
                    Val::Int(value) => Val::Uint(u64::try_from(value).map_err(|_| overflow())?),
                    _ => return Err(none()),
                },
            },
            Call::ToDouble => match first {
                Val::Double(value) => Val::Double(*value),
                #[allow(clippy::cast_precision_loss)] // As CEL converts.
                Val::Int(value) => Val::Double(*value as f64),
                #[allow(clippy::cast_precision_loss)]
                Val::Uint(value) => Val::Double(*value as f64),
                Val::Str(text) => Val::Double(f64::from_str(text).map_err(|_| conversion("double"))?),
                _ => return Err(none()),
            },
            Call::ToBool => match first {
                Val::Bool(value) => Val::Bool(*value),
                Val::Str(text) => match &**text {
                    "1" | "t" | "T" | "true" | "TRUE" | "True" => Val::Bool(true),
                    "0" | "f" | "F" | "false" | "FALSE" | "False" => Val::Bool(false),
                    _ => return Err(conversion("bool")),
                },
                _ => return Err(none()),
            },
            Call::ToBytes => match first {
                Val::Str(text) => Val::Bytes(text.as_bytes().into()),
                Val::Bytes(_) => first.clone(),
                _ => return Err(none()),
            },
            Call::ToDuration => match first {
                Val::Str(text) => Val::Duration(parse_duration(text).ok_or_else(|| conversion("duration"))?),
                Val::Duration(_) => first.clone(),
                _ => return Err(none()),
            },
            Call::ToTimestamp => match first {
                Val::Str(text) => Val::Timestamp(parse_timestamp(text).ok_or_else(|| conversion("timestamp"))?),
                Val::Int(seconds) => Val::Timestamp(Timestamp::from_second(*seconds).map_err(|_| overflow())?),
                Val::Timestamp(_) => first.clone(),
                _ => return Err(none()),
            },
            Call::Find(pattern) => match first {
                Val::Str(text) => Val::text(pattern.find(text).map_or("", |found| found.as_str())),
                _ => return Err(none()),
            },
            Call::FindAll(pattern) => match first {
                Val::Str(text) => {
                    Val::List(Arc::new(pattern.find_iter(text).map(|found| Val::text(found.as_str())).collect()))
                }
                _ => return Err(none()),
            },
            Call::IsUrl => match first {
                Val::Str(text) => Val::Bool(url(text).is_some()),
                _ => return Err(none()),
            },
            Call::ToUrl => match first {
                Val::Str(text) => {
                    Val::Url(Arc::new(url(text).ok_or_else(|| format!("URL parse error: {:?}", &**text))?))
                }
                Val::Url(_) => first.clone(),
                _ => return Err(none()),
            },
            Call::UrlPart(part) => match first {
                Val::Url(url) => Val::text(part_of_url(url, part)),
                _ => return Err(none()),
            },
            Call::Dyn => first.clone(),
            Call::TypeOf => Val::Type(first.type_name()),
            Call::TimePart(part) => {
                let zone = match args.get(1) {
                    Some(Val::Str(zone)) => Some(&**zone),
                    Some(_) => return Err(none()),
                    None => None,
                };
                let found = match first {
                    Val::Timestamp(instant) => part_of_instant(*instant, part, zone),
                    Val::Duration(nanos) => part_of_duration(*nanos, part),
                    _ => None,
                };
                Val::Int(found.ok_or_else(none)?)
            }
            Call::OptionalOf => Val::Optional(Some(Arc::new(first.clone()))),
            Call::OptionalOfNonZero => {
                let is_zero = match first {
                    Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) => true,
                    Val::Double(value) => *value == 0.0,
                    other => other.len() == Some(0),
                };
                Val::Optional((!is_zero).then(|| Arc::new(first.clone())))
            }
            Call::HasValue => match first {
                Val::Optional(value) => Val::Bool(value.is_some()),
                _ => return Err(none()),
            },
            Call::OptionalValue => match first {
                Val::Optional(Some(value)) => (**value).clone(),
                Val::Optional(None) => return Err("optional.none() dereference".to_owned()),
                _ => return Err(none()),
            },
            Call::OrOptional | Call::OrValue => match (first, args.get(1)) {
                (Val::Optional(Some(value)), Some(_)) => match self {
                    Call::OrOptional => first.clone(),
                    _ => (**value).clone(),
                },
                (Val::Optional(None), Some(other)) => other.clone(),
                _ => return Err(none()),
            },
            Call::OptionalNone | Call::Library(_) => return Err(none()),
        })
    }
}

/// A URL with its scheme, or a path from the root on, as Go's `url.ParseRequestURI` reads it.
fn url(text: &str) -> Option<http::Uri> {
    let uri: http::Uri = text.parse().ok()?;
    (uri.scheme().is_some() || text.starts_with('/')).then_some(uri)
}

fn part_of_url(url: &http::Uri, part: &str) -> String {
    let host = || url.host().unwrap_or_default();
    match part {
        "getScheme" => url.scheme_str().unwrap_or_default().to_owned(),
        "getHostname" => host().trim_matches(['[', ']']).to_owned(),
        "getHost" => url.port().map_or_else(|| host().to_owned(), |port| format!("{}:{port}", host())),
        "getPort" => url.port().map(|port| port.to_string()).unwrap_or_default(),
        _ => url.path().to_owned(),
    }
}

fn overflow() -> String {
    "range error".to_owned()
}

fn conversion(to: &str) -> String {
    format!("type conversion error to '{to}'")
}

fn to_int<'a>(value: &Val<'a>) -> Result<Val<'a>, String> {
    Ok(match value {
        Val::Int(value) => Val::Int(*value),
        Val::Uint(value) => Val::Int(i64::try_from(*value).map_err(|_| overflow())?),
        #[allow(clippy::cast_possible_truncation)] // What is out of range was refused.
        Val::Double(value) if value.abs() < 9.223_372_036_854_775e18 => Val::Int(*value as i64),
        Val::Double(_) => return Err(overflow()),
        Val::Str(text) => Val::Int(text.parse().map_err(|_| conversion("int"))?),
        Val::Timestamp(instant) => Val::Int(instant.as_second()),
        Val::Duration(nanos) => Val::Int(*nanos),
        _ => return Err("no such overload".to_owned()),
    })
}

fn to_text<'a>(value: &Val<'a>) -> Option<Val<'a>> {
    Some(match value {
        Val::Str(_) => value.clone(),
        Val::Bool(value) => Val::text(value.to_string()),
        Val::Int(value) => Val::text(value.to_string()),
        Val::Uint(value) => Val::text(value.to_string()),
        Val::Double(value) => Val::text(value.to_string()),
        Val::Bytes(bytes) => Val::text(std::str::from_utf8(bytes).ok()?),
        Val::Duration(nanos) => Val::text(duration_text(*nanos)),
        Val::Timestamp(instant) => Val::text(instant.to_string()),
        Val::Other(other) => {
            // Quantities, addresses and URLs know their text.
            let library = Library::new("string", false, 1);
            return library.call(&[Val::Other(other.clone())]).ok();
        }
        _ => return None,
    })
}
