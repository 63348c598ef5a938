//! Evaluates rules within a budget: every step is counted, so that no rule can hold the server up.
//!
//! Costs are those of cel-go's `interpreter/runtimecost.go`; texts are counted in bytes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::calls::Call;
use super::compile::{Fold, Node, Operator, What};
use super::estimate::{NEW_LIST, NEW_MAP, TRAVERSAL, pattern_cost, scaled};
use super::value::Val;

/// What one evaluation may cost.
pub(super) const CALL_LIMIT: u64 = 1_000_000;

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// It would cost too much.
    Limit,
    /// There is none: a missing key, a division by zero.
    Error(String),
}

/// One evaluation.
pub(super) struct Evaluation<'a> {
    frame: Vec<Val<'a>>,
    /// What was spent.
    pub(super) cost: u64,
    limit: u64,
}

type Evaluated<'a> = Result<Val<'a>, Failed>;

fn error(text: impl Into<String>) -> Failed {
    Failed::Error(text.into())
}

fn no_overload() -> Failed {
    error("no such overload")
}

// === impl Evaluation ===

impl<'a> Evaluation<'a> {
    /// With the values of `self` and `oldSelf`.
    pub(super) fn new(own: Val<'a>, old: Val<'a>, limit: u64) -> Self {
        Self { frame: vec![own, old], cost: 0, limit }
    }

    fn spend(&mut self, cost: u64) -> Result<(), Failed> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failed::Limit) } else { Ok(()) }
    }

    #[allow(clippy::too_many_lines)] // An arm for a kind of node.
    pub(super) fn value(&mut self, node: &'a Node) -> Evaluated<'a> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Var(place) => {
                self.spend(1)?;
                self.frame.get(*place).cloned().ok_or_else(|| error("no such attribute"))
            }
            Node::Select(operand, name) => {
                let operand = self.value(operand)?;
                self.spend(1)?;
                if matches!(operand, Val::Optional(_)) {
                    return Ok(Val::Optional(operand.field(name).map(Arc::new)));
                }
                operand.field(name).ok_or_else(|| error(format!("no such key: {name}")))
            }
            Node::Has(operand, name) => {
                let operand = self.value(operand)?;
                // A field that is null counts as absent.
                Ok(Val::Bool(operand.field(name).is_some_and(|field| !matches!(field, Val::Null))))
            }
            Node::OptionalSelect(operand, name) => {
                let operand = self.value(operand)?;
                self.spend(1)?;
                Ok(Val::Optional(operand.field(name).map(Arc::new)))
            }
            Node::Index(both) => {
                let (operand, index) = (self.value(&both.0)?, self.value(&both.1)?);
                self.spend(1)?;
                indexed(&operand, &index)
            }
            Node::OptionalIndex(both) => {
                let (operand, index) = (self.value(&both.0)?, self.value(&both.1)?);
                self.spend(1)?;
                let operand = match operand {
                    Val::Optional(None) => return Ok(Val::Optional(None)),
                    Val::Optional(Some(operand)) => (*operand).clone(),
                    operand => operand,
                };
                Ok(Val::Optional(indexed(&operand, &index).ok().map(Arc::new)))
            }
            Node::And(both) => self.logic(both, false),
            Node::Or(both) => self.logic(both, true),
            Node::If(parts) => match self.value(&parts.0)? {
                Val::Bool(true) => self.value(&parts.1),
                Val::Bool(false) => self.value(&parts.2),
                _ => Err(no_overload()),
            },
            Node::Binary(operator, both) => {
                let (a, b) = (self.value(&both.0)?, self.value(&both.1)?);
                self.spend(binary_cost(*operator, &a, &b))?;
                binary(*operator, &a, &b)
            }
            Node::Not(operand) => match self.value(operand)? {
                Val::Bool(value) => self.spend(1).map(|()| Val::Bool(!value)),
                _ => Err(no_overload()),
            },
            Node::Negate(operand) => {
                let operand = self.value(operand)?;
                self.spend(1)?;
                match operand {
                    Val::Int(value) => value.checked_neg().map(Val::Int).ok_or_else(|| error("integer overflow")),
                    Val::Double(value) => Ok(Val::Double(-value)),
                    Val::Duration(value) => Ok(Val::Duration(value.saturating_neg())),
                    _ => Err(no_overload()),
                }
            }
            Node::In(both) => {
                let (item, list) = (self.value(&both.0)?, self.value(&both.1)?);
                self.contains(&list, &item)
            }
            Node::InTexts(item, texts) => {
                let item = self.value(item)?;
                // As the real server counts it, though it is found at once.
                self.spend(NEW_LIST.saturating_add(u64::try_from(texts.len()).unwrap_or(u64::MAX)))?;
                match item {
                    Val::Str(text) => Ok(Val::Bool(texts.contains(&*text))),
                    _ => Ok(Val::Bool(false)),
                }
            }
            Node::List(nodes) => {
                self.spend(NEW_LIST)?;
                let items: Result<Vec<_>, _> = nodes.iter().map(|node| self.value(node)).collect();
                Ok(Val::List(Arc::new(items?)))
            }
            Node::Map(nodes) => {
                self.spend(NEW_MAP)?;
                let entries: Result<Vec<_>, _> =
                    nodes.iter().map(|(key, value)| Ok((self.value(key)?, self.value(value)?))).collect();
                Ok(Val::Map(Arc::new(entries?)))
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(both) => {
                let value = self.value(&both.0)?;
                self.with([value], |within| within.value(&both.1))
            }
            Node::OptionalMap(both, is_flat) => match self.value(&both.0)? {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(value)) => {
                    let found = self.with([(*value).clone()], |within| within.value(&both.1))?;
                    Ok(if *is_flat { found } else { Val::Optional(Some(Arc::new(found))) })
                }
                _ => Err(no_overload()),
            },
            Node::Matches(text, pattern) => {
                let Val::Str(text) = self.value(text)? else { return Err(no_overload()) };
                let size = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
                self.spend(pattern_cost(size(&text), size(pattern.as_str())))?;
                Ok(Val::Bool(pattern.is_match(&text)))
            }
            Node::Call(call, nodes) => self.call(call, nodes),
        }
    }

    fn call(&mut self, call: &Call, nodes: &'a [Node]) -> Evaluated<'a> {
        let mut args = Vec::with_capacity(nodes.len());
        for node in nodes {
            args.push(self.value(node)?);
        }
        self.spend(call.cost_before(&args))?;
        let value = call.value(&args).map_err(Failed::Error)?;
        self.spend(call.cost_after(&args, &value))?;
        Ok(value)
    }

    /// `&&` and `||`: the value that decides does so even where the other side has none.
    fn logic(&mut self, both: &'a (Node, Node), decides: bool) -> Evaluated<'a> {
        let first = self.truth(&both.0)?;
        if first == Ok(decides) {
            return Ok(Val::Bool(decides));
        }
        let second = self.truth(&both.1)?;
        if second == Ok(decides) {
            return Ok(Val::Bool(decides));
        }
        first.and(second).map(Val::Bool)
    }

    /// Whether something holds. Outside an error is that of the budget, which nothing decides over.
    fn truth(&mut self, node: &'a Node) -> Result<Result<bool, Failed>, Failed> {
        let before = self.frame.len();
        let found = self.value(node);
        // What failed within a comprehension has left its variables, and the other side counts on their places.
        self.frame.truncate(before);
        match found {
            Ok(Val::Bool(value)) => Ok(Ok(value)),
            Ok(_) => Ok(Err(no_overload())),
            Err(Failed::Limit) => Err(Failed::Limit),
            Err(failed) => Ok(Err(failed)),
        }
    }

    fn contains(&mut self, list: &Val<'a>, item: &Val<'a>) -> Evaluated<'a> {
        if let Some(items) = list.items() {
            self.spend(list.cost_size())?;
            return Ok(Val::Bool(items.iter().any(|known| known.equals(item))));
        }
        self.spend(1)?;
        match (list, item) {
            (Val::Json(..) | Val::Map(_), Val::Str(name)) => Ok(Val::Bool(list.field(name).is_some())),
            (Val::Map(entries), key) => Ok(Val::Bool(entries.iter().any(|(known, _)| known.equals(key)))),
            (Val::Json(..), _) => Ok(Val::Bool(false)),
            _ => Err(no_overload()),
        }
    }

    fn with(
        &mut self,
        values: impl IntoIterator<Item = Val<'a>>,
        evaluate: impl FnOnce(&mut Self) -> Evaluated<'a>,
    ) -> Evaluated<'a> {
        let before = self.frame.len();
        self.frame.extend(values);
        let found = evaluate(self);
        self.frame.truncate(before);
        found
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.value(&fold.range)?;
        let mut failed = None;
        let (mut count, mut items, mut entries) = (0_u64, Vec::new(), Vec::new());
        let before = self.frame.len();
        let (size, entries_of) = if let Some(size) = range.list_len() {
            (size, None)
        } else {
            let found = range.entries().ok_or_else(no_overload)?;
            (found.len(), Some(found))
        };
        for place in 0..size {
            self.frame.truncate(before);
            let (key, value) = match &entries_of {
                None => (Val::Int(i64::try_from(place).unwrap_or(i64::MAX)), range.item(place)),
                Some(entries) => match entries.get(place) {
                    Some((key, value)) => (key.clone(), Some(value.clone())),
                    None => continue,
                },
            };
            let Some(value) = value else { continue };
            let element = if entries_of.is_none() { value.clone() } else { key.clone() };
            if fold.is_pair {
                self.frame.extend([key.clone(), value]);
            } else {
                self.frame.push(element);
            }
            match fold.what {
                What::All | What::Exists => {
                    self.spend(3)?;
                    match self.truth(&fold.body)? {
                        Ok(holds) if holds == (fold.what == What::Exists) => {
                            self.frame.truncate(before);
                            return Ok(Val::Bool(holds));
                        }
                        Ok(_) => {}
                        Err(why) => failed = failed.or(Some(why)),
                    }
                }
                What::ExistsOne => {
                    self.spend(2)?;
                    count += u64::from(self.truth(&fold.body)??);
                }
                What::Map | What::Transform => {
                    if let Some(filter) = &fold.filter
                        && !self.truth(filter)??
                    {
                        self.spend(1)?;
                        continue;
                    }
                    self.spend(NEW_LIST + 2)?;
                    let found = self.value(&fold.body)?;
                    if fold.what == What::Map {
                        items.push(found);
                    } else {
                        entries.push((key, found));
                    }
                }
            }
        }
        self.frame.truncate(before);
        self.spend(1)?;
        if let Some(failed) = failed {
            return Err(failed);
        }
        Ok(match fold.what {
            What::All => Val::Bool(true),
            What::Exists => Val::Bool(false),
            What::ExistsOne => Val::Bool(count == 1),
            What::Map => Val::List(Arc::new(items)),
            What::Transform => Val::Map(Arc::new(entries)),
        })
    }
}

fn indexed<'a>(operand: &Val<'a>, index: &Val<'a>) -> Evaluated<'a> {
    match (operand, index) {
        (Val::Json(serde_json::Value::Array(_), _) | Val::List(_), index) => {
            let place = match index {
                Val::Int(place) => usize::try_from(*place).ok(),
                Val::Uint(place) => usize::try_from(*place).ok(),
                _ => return Err(no_overload()),
            };
            place.and_then(|place| operand.item(place)).ok_or_else(|| match index {
                Val::Int(place) => error(format!("index out of bounds: {place}")),
                _ => error("index out of bounds"),
            })
        }
        (Val::Json(..) | Val::Map(_), Val::Str(name)) => {
            operand.field(name).ok_or_else(|| error(format!("no such key: {}", &**name)))
        }
        (Val::Map(entries), key) => {
            let found = entries.iter().find(|(known, _)| known.equals(key));
            found.map(|(_, value)| value.clone()).ok_or_else(|| error("no such key"))
        }
        _ => Err(no_overload()),
    }
}

fn binary_cost(operator: Operator, a: &Val<'_>, b: &Val<'_>) -> u64 {
    match operator {
        Operator::Equal | Operator::NotEqual => scaled(a.cost_size().min(b.cost_size()), TRAVERSAL),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual
            if matches!(a, Val::Str(_) | Val::Bytes(_)) =>
        {
            scaled(a.cost_size().min(b.cost_size()), TRAVERSAL)
        }
        Operator::Add if matches!(a, Val::Str(_) | Val::Bytes(_)) => {
            scaled(a.cost_size().saturating_add(b.cost_size()), TRAVERSAL)
        }
        // Lists are copied here, which the real server puts off.
        Operator::Add => scaled(a.cost_size().saturating_add(b.cost_size()), TRAVERSAL).max(1),
        _ => 1,
    }
}

fn binary<'a>(operator: Operator, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    let ordered = |holds: fn(Ordering) -> bool| match a.compare(b) {
        Some(order) => Ok(Val::Bool(holds(order))),
        None if matches!((a, b), (Val::Double(_), _) | (_, Val::Double(_))) => Ok(Val::Bool(false)),
        None => Err(no_overload()),
    };
    match operator {
        Operator::Equal => Ok(Val::Bool(a.equals(b))),
        Operator::NotEqual => Ok(Val::Bool(!a.equals(b))),
        Operator::Less => ordered(Ordering::is_lt),
        Operator::LessOrEqual => ordered(Ordering::is_le),
        Operator::Greater => ordered(Ordering::is_gt),
        Operator::GreaterOrEqual => ordered(Ordering::is_ge),
        Operator::Add => add(a, b),
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => arithmetic(operator, a, b),
    }
}

fn add<'a>(a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    let overflow = || error("overflow");
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(|| error("integer overflow")),
        (Val::Uint(a), Val::Uint(b)) => a.checked_add(*b).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
        (Val::Str(a), Val::Str(b)) => Ok(Val::text(format!("{}{}", &**a, &**b))),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes(a.iter().chain(b.iter()).copied().collect())),
        (Val::Duration(a), Val::Duration(b)) => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
        (Val::Timestamp(time), Val::Duration(nanos)) | (Val::Duration(nanos), Val::Timestamp(time)) => {
            time.checked_add(jiff::SignedDuration::from_nanos(*nanos)).map(Val::Timestamp).map_err(|_| overflow())
        }
        _ => a.joined(b).ok_or_else(no_overload),
    }
}

fn arithmetic<'a>(operator: Operator, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    let by_zero = || error(if operator == Operator::Remainder { "modulus by zero" } else { "division by zero" });
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => {
            let found = match operator {
                Operator::Subtract => a.checked_sub(*b),
                Operator::Multiply => a.checked_mul(*b),
                _ if *b == 0 => return Err(by_zero()),
                Operator::Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            found.map(Val::Int).ok_or_else(|| error("integer overflow"))
        }
        (Val::Uint(a), Val::Uint(b)) => {
            let found = match operator {
                Operator::Subtract => a.checked_sub(*b),
                Operator::Multiply => a.checked_mul(*b),
                _ if *b == 0 => return Err(by_zero()),
                Operator::Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            found.map(Val::Uint).ok_or_else(|| error("unsigned integer overflow"))
        }
        (Val::Double(a), Val::Double(b)) => match operator {
            Operator::Subtract => Ok(Val::Double(a - b)),
            Operator::Multiply => Ok(Val::Double(a * b)),
            Operator::Divide => Ok(Val::Double(a / b)),
            _ => Err(no_overload()),
        },
        (Val::Timestamp(a), Val::Timestamp(b)) if operator == Operator::Subtract => {
            let between = a.duration_since(*b).as_nanos();
            i64::try_from(between).map(Val::Duration).map_err(|_| error("overflow"))
        }
        (Val::Timestamp(time), Val::Duration(nanos)) if operator == Operator::Subtract => {
            let found = time.checked_sub(jiff::SignedDuration::from_nanos(*nanos));
            found.map(Val::Timestamp).map_err(|_| error("overflow"))
        }
        (Val::Duration(a), Val::Duration(b)) if operator == Operator::Subtract => {
            a.checked_sub(*b).map(Val::Duration).ok_or_else(|| error("overflow"))
        }
        _ => Err(no_overload()),
    }
}
