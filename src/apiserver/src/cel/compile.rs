//! From the text of a rule to what is evaluated, with what it may cost.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use kube_cel::cel::common::ast::{EntryExpr, operators};
use kube_cel::cel::parser::Parser;
use regex::Regex;
use rustc_hash::FxHashSet;

use super::calls::Call;
use super::estimate::{Estimate, NEW_LIST, NEW_MAP, PATTERN, Place, Size, TRAVERSAL, Ty};
use super::types::{Kind, Type};
use super::value::Val;

/// An expression that is ready to be evaluated.
#[derive(Debug)]
pub(super) enum Node {
    Const(Val<'static>),
    /// A variable by its place in the frame: `self`, `oldSelf`, then those of macros from outside in.
    Var(usize),
    Select(Box<Node>, Box<str>),
    Has(Box<Node>, Box<str>),
    OptionalSelect(Box<Node>, Box<str>),
    Index(Box<(Node, Node)>),
    OptionalIndex(Box<(Node, Node)>),
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    If(Box<(Node, Node, Node)>),
    Binary(Operator, Box<(Node, Node)>),
    Not(Box<Node>),
    Negate(Box<Node>),
    In(Box<(Node, Node)>),
    /// `in` a list of texts that the rule spells out.
    InTexts(Box<Node>, FxHashSet<Box<str>>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Fold(Box<Fold>),
    /// A value for the last variable of the frame, and what is done with it.
    Bind(Box<(Node, Node)>),
    /// `optMap`, or `optFlatMap` where the flag is set.
    OptionalMap(Box<(Node, Node)>, bool),
    /// A pattern that the rule spells out.
    Matches(Box<Node>, Regex),
    /// A function, its target first.
    Call(Call, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A macro that goes through a list or a map.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Node,
    /// Whether there are two variables: index or key, and value.
    pub(super) is_pair: bool,
    pub(super) what: What,
    /// For `map` and `transform` macros: which elements.
    pub(super) filter: Option<Node>,
    pub(super) body: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    All,
    Exists,
    ExistsOne,
    /// A list of the body's values.
    Map,
    /// A map of the keys to the body's values.
    Transform,
}

/// What a rule is compiled against.
pub(super) struct Compiler<'t> {
    /// Variables in their order in the frame.
    scope: Vec<(String, Estimate<'t>)>,
    /// The type of `self`.
    root: &'t Type,
    pub(super) uses_old_self: bool,
}

type Compiled<'t> = Result<(Node, Estimate<'t>), String>;

/// Macros nest no deeper than the parser lets expressions nest; this bounds what it cannot see.
const MAX_DEPTH: usize = 200;

// === impl Compiler ===

impl<'t> Compiler<'t> {
    /// With `self` and `oldSelf` of a type; `oldSelf` may be optional.
    pub(super) fn new(ty: &'t Type, is_old_optional: bool) -> Self {
        let own = Estimate::root(ty);
        let old = if is_old_optional {
            Estimate { ty: Ty::Optional(Box::new(Ty::Declared(ty))), ..own.clone() }
        } else {
            own.clone()
        };
        Self { scope: vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)], root: ty, uses_old_self: false }
    }

    /// Compiles an expression that gives a value of a kind.
    pub(super) fn compile(&mut self, text: &str, gives: Kind) -> Result<(Node, u64), String> {
        let parsed = Parser::new().enable_optional_syntax(true).parse(text).map_err(|errors| errors.to_string())?;
        let (node, estimate) = self.expression(&parsed, 0)?;
        if estimate.ty.kind().is_some_and(|kind| kind != gives) || matches!(estimate.ty, Ty::Uint | Ty::Null) {
            let name = if gives == Kind::Bool { "bool" } else { "string" };
            return Err(format!("cel expression must evaluate to a {name}"));
        }
        Ok((node, estimate.cost))
    }

    fn expression(&mut self, expr: &IdedExpr, depth: usize) -> Compiled<'t> {
        if depth > MAX_DEPTH {
            return Err("expression is nested too deeply".to_owned());
        }
        let depth = depth + 1;
        match &expr.expr {
            Expr::Literal(literal) => Ok(self::literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select, depth),
            Expr::List(list) => {
                let (mut nodes, mut cost) = (Vec::new(), NEW_LIST);
                let mut item: Option<(Size, Ty<'t>)> = None;
                for element in &list.elements {
                    let (node, estimate) = self.expression(element, depth)?;
                    nodes.push(node);
                    cost = cost.saturating_add(estimate.cost);
                    let size = estimate.size_or_unknown();
                    item = Some(match item {
                        None => (size, estimate.ty),
                        Some((known, ty)) if ty.kind() == estimate.ty.kind() => (known.or(size), ty),
                        Some((known, _)) => (known.or(size), Ty::Any),
                    });
                }
                if !list.optional_indices.is_empty() {
                    return Err("optional elements of lists are not supported".to_owned());
                }
                let (size, ty) = item.unwrap_or((Size::exactly(0), Ty::Any));
                let count = Size::exactly(u64::try_from(nodes.len()).unwrap_or(u64::MAX));
                let mut estimate = Estimate::sized(cost, Ty::List(Box::new(ty)), count);
                estimate.entry = Some((Size::exactly(1), size));
                Ok((Node::List(nodes), estimate))
            }
            Expr::Map(map) => {
                let (mut nodes, mut cost, mut entry) = (Vec::new(), NEW_MAP, None);
                for item in &map.entries {
                    let EntryExpr::MapEntry(item) = &item.expr else { return Err("malformed map".to_owned()) };
                    if item.optional {
                        return Err("optional entries of maps are not supported".to_owned());
                    }
                    let (key, of_key) = self.expression(&item.key, depth)?;
                    let (value, of_value) = self.expression(&item.value, depth)?;
                    nodes.push((key, value));
                    cost = cost.saturating_add(of_key.cost).saturating_add(of_value.cost);
                    let sizes = (of_key.size_or_unknown(), of_value.size_or_unknown());
                    entry = Some(entry.map_or(sizes, |known: (Size, Size)| (known.0.or(sizes.0), known.1.or(sizes.1))));
                }
                let count = Size::exactly(u64::try_from(nodes.len()).unwrap_or(u64::MAX));
                let estimate = Estimate::sized(cost, Ty::Map(Box::new(Ty::Any)), count);
                Ok((Node::Map(nodes), Estimate { entry, ..estimate }))
            }
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(fold) => self.comprehension(fold, depth),
            Expr::Struct(found) => Err(format!("undeclared reference to '{}'", found.type_name)),
            Expr::Unspecified => Err("empty expression".to_owned()),
        }
    }

    fn variable(&mut self, name: &str) -> Compiled<'t> {
        if let Some(place) = self.scope.iter().rposition(|(known, _)| known == name) {
            self.uses_old_self |= place == 1;
            let estimate = self.scope.get(place).map_or_else(|| Estimate::of(1, Ty::Any), |(_, known)| known.clone());
            return Ok((Node::Var(place), Estimate { cost: 1, ..estimate }));
        }
        let ty = TYPES.iter().find(|ty| **ty == name).ok_or_else(|| undeclared(name))?;
        Ok((Node::Const(Val::Type(ty)), Estimate::of(1, Ty::Any)))
    }

    fn select(&mut self, select: &SelectExpr, depth: usize) -> Compiled<'t> {
        let (operand, of) = self.expression(&select.operand, depth)?;
        let found = field(&of, &select.field, self.root)?;
        let name = select.field.as_str().into();
        if select.test {
            return Ok((Node::Has(Box::new(operand), name), Estimate::bool(of.cost)));
        }
        let own = u64::from(matches!(of.ty.kind(), Some(Kind::Object | Kind::Map)));
        let found = Estimate { cost: of.cost.saturating_add(own), ..found };
        Ok((Node::Select(Box::new(operand), name), found))
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Compiled<'t> {
        if let Some(found) = self.special_call(call, depth)? {
            return Ok(found);
        }
        // A function of a library may be named like `sets.contains`.
        let namespace = match call.target.as_deref() {
            Some(IdedExpr { expr: Expr::Ident(name), .. }) if !self.scope.iter().any(|(known, _)| known == name) => {
                Some(name.as_str())
            }
            _ => None,
        };
        let (mut nodes, mut estimates, mut cost) = (Vec::new(), Vec::new(), 0_u64);
        let target = call.target.as_deref().filter(|_| namespace.is_none());
        for expr in target.into_iter().chain(&call.args) {
            let (node, estimate) = self.expression(expr, depth)?;
            cost = cost.saturating_add(estimate.cost);
            nodes.push(node);
            estimates.push(estimate);
        }
        let name = namespace.map_or_else(|| call.func_name.clone(), |space| format!("{space}.{}", call.func_name));
        let (node, own) = super::calls::compile(&name, target.is_some(), nodes, &estimates)?;
        Ok((node, Estimate { cost: own.cost.saturating_add(cost), ..own }))
    }

    /// Operators and macros, whose arguments are not simply evaluated.
    fn special_call(&mut self, call: &CallExpr, depth: usize) -> Result<Option<(Node, Estimate<'t>)>, String> {
        let name = call.func_name.as_str();
        let found = match (name, call.target.as_deref(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [a, b]) => {
                let ((a, of_a), (b, of_b)) = (self.expression(a, depth)?, self.expression(b, depth)?);
                expect_bool(&of_a)?;
                expect_bool(&of_b)?;
                let both = Box::new((a, b));
                let node = if name == operators::LOGICAL_AND { Node::And(both) } else { Node::Or(both) };
                (node, Estimate::bool(of_a.cost.saturating_add(of_b.cost)))
            }
            (operators::CONDITIONAL, None, [condition, a, b]) => {
                let (condition, of_condition) = self.expression(condition, depth)?;
                expect_bool(&of_condition)?;
                let ((a, of_a), (b, of_b)) = (self.expression(a, depth)?, self.expression(b, depth)?);
                let cost = of_condition.cost.saturating_add(of_a.cost.max(of_b.cost));
                let entry = of_a.entry.zip(of_b.entry).map(|(a, b)| (a.0.or(b.0), a.1.or(b.1)));
                let size = of_a.size_or_unknown().or(of_b.size_or_unknown());
                let ty = if of_a.ty.kind() == of_b.ty.kind() { of_a.ty } else { Ty::Any };
                (Node::If(Box::new((condition, a, b))), Estimate { entry, ..Estimate::sized(cost, ty, size) })
            }
            (operators::OPT_SELECT, None, [operand, IdedExpr { expr: Expr::Literal(name), .. }]) => {
                let LiteralValue::String(name) = name else { return Err(undeclared("?.")) };
                let (operand, of) = self.expression(operand, depth)?;
                let found = field(&of, name.inner(), self.root)?;
                let ty = Ty::Optional(Box::new(found.ty));
                let estimate = Estimate { cost: of.cost.saturating_add(1), ty, ..found };
                (Node::OptionalSelect(Box::new(operand), name.inner().into()), estimate)
            }
            (operators::INDEX | operators::OPT_INDEX, None, [operand, index]) => {
                let ((operand, of), (index, of_index)) =
                    (self.expression(operand, depth)?, self.expression(index, depth)?);
                let (_, element) = of.iterated(self.root);
                // What a literal holds is known better than what is declared.
                let element = Estimate { size: of.entry.map(|(_, item)| item).or(element.size), ..element };
                let cost = of.cost.saturating_add(of_index.cost).saturating_add(1);
                let both = Box::new((operand, index));
                if name == operators::INDEX {
                    (Node::Index(both), Estimate { cost, ..element })
                } else {
                    let ty = Ty::Optional(Box::new(element.ty));
                    (Node::OptionalIndex(both), Estimate { cost, ty, ..element })
                }
            }
            ("bind", Some(IdedExpr { expr: Expr::Ident(space), .. }), [name, value, body]) if space == "cel" => {
                let name = simple_name(name)?;
                let (value, of_value) = self.expression(value, depth)?;
                // The empty range of the macro that it stands for.
                let cost = of_value.cost.saturating_add(NEW_LIST);
                let (body, of_body) = self.with(&[(name, of_value)], |within| within.expression(body, depth))?;
                (
                    Node::Bind(Box::new((value, body))),
                    Estimate { cost: of_body.cost.saturating_add(cost), place: Place::Computed, ..of_body },
                )
            }
            ("optMap" | "optFlatMap", Some(target), [name, body]) => {
                let variable = simple_name(name)?;
                let (target, of) = self.expression(target, depth)?;
                let Ty::Optional(inner) = &of.ty else { return Err(format!("'{}' needs an optional", call.func_name)) };
                let value = Estimate { ty: (**inner).clone(), ..of.clone() };
                let (body, of_body) = self.with(&[(variable, value)], |within| within.expression(body, depth))?;
                let is_flat = call.func_name == "optFlatMap";
                let ty = if is_flat { of_body.ty.clone() } else { Ty::Optional(Box::new(of_body.ty.clone())) };
                let cost = of.cost.saturating_add(of_body.cost).saturating_add(NEW_LIST + 2);
                (Node::OptionalMap(Box::new((target, body)), is_flat), Estimate { cost, ty, ..of_body })
            }
            ("all" | "exists" | "existsOne" | "exists_one", Some(range), [key, value, body]) => {
                let what = match name {
                    "all" => What::All,
                    "exists" => What::Exists,
                    _ => What::ExistsOne,
                };
                self.fold(range, &[simple_name(key)?, simple_name(value)?], what, None, body, depth)?
            }
            ("transformList" | "transformMap", Some(range), [key, value, rest @ .., body]) if rest.len() < 2 => {
                let what = if name == "transformList" { What::Map } else { What::Transform };
                self.fold(range, &[simple_name(key)?, simple_name(value)?], what, rest.first(), body, depth)?
            }
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    /// A macro that the parser has spelled out: told by how it accumulates.
    fn comprehension(&mut self, fold: &ComprehensionExpr, depth: usize) -> Compiled<'t> {
        let variables = [fold.iter_var.as_str()];
        let malformed = || "malformed comprehension".to_owned();
        let Expr::Call(step) = &fold.loop_step.expr else { return Err(malformed()) };
        let (what, filter, body) = match (step.func_name.as_str(), step.args.as_slice()) {
            (operators::LOGICAL_AND, [_, body]) => (What::All, None, body),
            (operators::LOGICAL_OR, [_, body]) => (What::Exists, None, body),
            (operators::CONDITIONAL, [body, _, _]) if matches!(fold.accu_init.expr, Expr::Literal(_)) => {
                (What::ExistsOne, None, body)
            }
            (operators::CONDITIONAL, [filter, IdedExpr { expr: Expr::Call(add), .. }, _]) => {
                (What::Map, Some(filter), appended(add).ok_or_else(malformed)?)
            }
            (operators::ADD, _) => (What::Map, None, appended(step).ok_or_else(malformed)?),
            _ => return Err(malformed()),
        };
        self.fold(&fold.iter_range, &variables, what, filter, body, depth)
    }

    fn fold(
        &mut self,
        range: &IdedExpr,
        variables: &[&str],
        what: What,
        filter: Option<&IdedExpr>,
        body: &IdedExpr,
        depth: usize,
    ) -> Compiled<'t> {
        let (range, of_range) = self.expression(range, depth)?;
        if of_range.ty.kind().is_some_and(|kind| !matches!(kind, Kind::List | Kind::Map | Kind::Object)) {
            return Err("expression of a type that is no list and no map cannot be the range of a macro".to_owned());
        }
        let (key, value) = of_range.iterated(self.root);
        let is_pair = variables.len() == 2;
        let is_list = of_range.ty.kind() == Some(Kind::List);
        let element_key = key.clone();
        let values = if is_pair {
            vec![key, value]
        } else if is_list || of_range.ty.kind().is_none() {
            vec![value]
        } else {
            vec![key]
        };
        let bound: Vec<(&str, Estimate<'t>)> = variables.iter().copied().zip(values).collect();
        let (filter, (body, of_body)) = self.with(&bound, |within| {
            let filter = filter.map(|filter| within.expression(filter, depth)).transpose()?;
            Ok((filter, within.expression(body, depth)?))
        })?;
        if let Some((_, of_filter)) = &filter {
            expect_bool(of_filter)?;
        }
        let of_filter = filter.as_ref().map_or(0, |(_, estimate)| estimate.cost);
        // What the macro itself costs: the accumulator, its condition and its step, each time around.
        let (once, each) = match what {
            What::All => (1, of_body.cost.saturating_add(3)),
            What::Exists => (1, of_body.cost.saturating_add(4)),
            What::ExistsOne => (2, of_body.cost.saturating_add(2)),
            What::Map | What::Transform if filter.is_some() => {
                (NEW_LIST + 1, of_body.cost.saturating_add(of_filter).saturating_add(NEW_LIST + 2))
            }
            What::Map | What::Transform => (NEW_LIST + 1, of_body.cost.saturating_add(NEW_LIST + 2)),
        };
        let count = of_range.size_or_unknown();
        let cost = of_range.cost.saturating_add(once).saturating_add(count.max.saturating_mul(each));
        let estimate = match what {
            What::All | What::Exists | What::ExistsOne => {
                expect_bool(&of_body)?;
                Estimate::bool(cost)
            }
            What::Map => {
                let entry = Some((Size::exactly(1), of_body.size_or_unknown()));
                Estimate { entry, ..Estimate::sized(cost, Ty::List(Box::new(of_body.ty)), count) }
            }
            What::Transform => {
                let entry = Some((element_key.size_or_unknown(), of_body.size_or_unknown()));
                Estimate { entry, ..Estimate::sized(cost, Ty::Map(Box::new(of_body.ty)), count) }
            }
        };
        let filter = filter.map(|(node, _)| node);
        Ok((Node::Fold(Box::new(Fold { range, is_pair, what, filter, body })), estimate))
    }

    /// Compiles something with more variables.
    fn with<R>(
        &mut self,
        variables: &[(&str, Estimate<'t>)],
        compile: impl FnOnce(&mut Self) -> Result<R, String>,
    ) -> Result<R, String> {
        let before = self.scope.len();
        self.scope.extend(variables.iter().map(|(name, estimate)| ((*name).to_owned(), estimate.clone())));
        let found = compile(self);
        self.scope.truncate(before);
        found
    }
}

/// The names of types, as values.
const TYPES: [&str; 10] = ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn expect_bool(estimate: &Estimate<'_>) -> Result<(), String> {
    match estimate.ty.kind() {
        None | Some(Kind::Bool) => Ok(()),
        Some(_) => Err("found no matching overload: expected a bool".to_owned()),
    }
}

fn simple_name(expr: &IdedExpr) -> Result<&str, String> {
    match &expr.expr {
        Expr::Ident(name) => Ok(name),
        _ => Err("argument must be a simple name".to_owned()),
    }
}

/// The one item of the list that a step appends.
fn appended(add: &CallExpr) -> Option<&IdedExpr> {
    match &add.args.get(1)?.expr {
        Expr::List(list) => list.elements.first(),
        _ => None,
    }
}

fn literal<'t>(literal: &LiteralValue) -> (Node, Estimate<'t>) {
    let simple = |value: Val<'static>, kind: Kind| (value, Ty::Simple(kind), 1);
    let (value, ty, size) = match literal {
        LiteralValue::Null => (Val::Null, Ty::Null, 1),
        LiteralValue::Boolean(value) => simple(Val::Bool(*value.inner()), Kind::Bool),
        LiteralValue::Int(value) => simple(Val::Int(*value.inner()), Kind::Int),
        LiteralValue::Double(value) => simple(Val::Double(*value.inner()), Kind::Double),
        LiteralValue::UInt(value) => (Val::Uint(*value.inner()), Ty::Uint, 1),
        LiteralValue::String(text) => {
            let size = text.inner().chars().count();
            (Val::text(text.inner()), Ty::Simple(Kind::String), u64::try_from(size).unwrap_or(u64::MAX))
        }
        LiteralValue::Bytes(bytes) => {
            let size = u64::try_from(bytes.inner().len()).unwrap_or(u64::MAX);
            (Val::Bytes(bytes.inner().into()), Ty::Simple(Kind::Bytes), size)
        }
    };
    (Node::Const(value), Estimate::sized(0, ty, Size::exactly(size)))
}

/// A field of what an expression gives; that there is none is an error where that is known.
fn field<'t>(of: &Estimate<'t>, name: &str, root: &'t Type) -> Result<Estimate<'t>, String> {
    let ty = match &of.ty {
        Ty::Optional(inner) => inner,
        ty => ty,
    };
    // An entry of a map that is selected is no declared field, as there.
    let place = of.place.step(root, |ty| ty.fields.get(name).map(|field| &field.ty));
    match ty {
        Ty::Declared(ty) if ty.kind == Kind::Object => {
            let field = ty.fields.get(name).ok_or_else(|| format!("undefined field '{name}'"))?;
            Ok(Estimate::part(Ty::Declared(&field.ty), place))
        }
        Ty::Declared(Type { kind: Kind::Map, element: Some(value), .. }) => {
            Ok(Estimate::part(Ty::Declared(value), place))
        }
        Ty::Map(value) => Ok(Estimate::part((**value).clone(), place)),
        ty => match ty.kind() {
            None => Ok(Estimate::part(Ty::Any, place)),
            Some(_) => Err(format!("type does not support field selection of '{name}'")),
        },
    }
}

/// What the texts of an operator's operands cost, and the operator.
pub(super) fn of_binary<'t>(name: &str, a: &Estimate<'t>, b: &Estimate<'t>) -> Option<(Operator, Estimate<'t>)> {
    let operator = match name {
        operators::ADD => Operator::Add,
        operators::SUBSTRACT => Operator::Subtract,
        operators::MULTIPLY => Operator::Multiply,
        operators::DIVIDE => Operator::Divide,
        operators::MODULO => Operator::Remainder,
        operators::EQUALS => Operator::Equal,
        operators::NOT_EQUALS => Operator::NotEqual,
        operators::LESS => Operator::Less,
        operators::LESS_EQUALS => Operator::LessOrEqual,
        operators::GREATER => Operator::Greater,
        operators::GREATER_EQUALS => Operator::GreaterOrEqual,
        _ => return None,
    };
    let (size_a, size_b) = (a.size_or_unknown(), b.size_or_unknown());
    let is_sized = !matches!(
        a.ty.kind().or(b.ty.kind()),
        Some(Kind::Int | Kind::Double | Kind::Bool | Kind::Duration | Kind::Timestamp)
    ) && !matches!(a.ty, Ty::Uint);
    let compared = Size { min: 0, max: size_a.max.min(size_b.max) }.traversed(TRAVERSAL);
    let estimate = match operator {
        Operator::Equal | Operator::NotEqual => Estimate::bool(compared),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            Estimate::bool(if is_sized { compared } else { 1 })
        }
        Operator::Add if is_sized => {
            let size = size_a.plus(size_b);
            let is_list = a.ty.kind() == Some(Kind::List);
            let cost = if is_list { 1 } else { size.traversed(TRAVERSAL) };
            let ty = match (a.ty.kind(), is_list) {
                (_, true) => Ty::List(Box::new(a.ty.element())),
                (Some(kind), _) => Ty::Simple(kind),
                (None, _) => b.ty.kind().map_or(Ty::Any, Ty::Simple),
            };
            let of_list =
                |estimate: &Estimate<'t>| estimate.entry.or_else(|| Some((Size::exactly(1), estimate.item_size()?)));
            let entry = of_list(a).filter(|_| is_list).zip(of_list(b)).map(|(a, b)| (a.0.or(b.0), a.1.or(b.1)));
            Estimate { entry, ..Estimate::sized(cost, ty, size) }
        }
        _ => {
            let ty = match a.ty.kind() {
                // An instant less an instant is a duration; either with a duration stays what it is.
                Some(Kind::Timestamp) if b.ty.kind() == Some(Kind::Timestamp) => Ty::Simple(Kind::Duration),
                Some(Kind::Duration) if b.ty.kind() == Some(Kind::Timestamp) => Ty::Simple(Kind::Timestamp),
                Some(kind) => Ty::Simple(kind),
                None => b.ty.kind().map_or(Ty::Any, Ty::Simple),
            };
            Estimate::of(1, ty)
        }
    };
    Some((operator, estimate))
}

/// What matching with a pattern costs at most.
pub(super) fn of_match(text: &Estimate<'_>, pattern: &Estimate<'_>) -> u64 {
    let text = text.size_or_unknown().plus(Size::exactly(1)).traversed(TRAVERSAL);
    text.saturating_mul(pattern.size_or_unknown().traversed(PATTERN))
}
