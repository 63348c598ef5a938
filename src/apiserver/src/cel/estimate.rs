//! What an expression may cost at most, from the sizes that a schema allows.
//!
//! As cel-go's `checker/cost.go` and `pkg/cel/library/cost.go` of k8s.io/apiserver: which definitions are refused depends on
//! these figures, so they follow them call by call.

use super::types::{Kind, Type};

/// Traversing a text costs so much for each character.
pub(super) const TRAVERSAL: f64 = 0.1;
/// A pattern costs so much for each of its characters.
pub(super) const PATTERN: f64 = 0.25;
pub(super) const NEW_LIST: u64 = 10;
pub(super) const NEW_MAP: u64 = 30;

/// How large a value is, at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// What is known of an expression.
#[derive(Debug, Clone)]
pub(super) struct Estimate<'t> {
    /// The most that it costs.
    pub(super) cost: u64,
    /// The size of its value, where anything bounds it.
    pub(super) size: Option<Size>,
    pub(super) ty: Ty<'t>,
    pub(super) place: Place<'t>,
    /// Of literal lists and maps: the sizes of keys and values.
    pub(super) entry: Option<(Size, Size)>,
}

/// Where in the declared object the size of a value is looked up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'t> {
    /// Nowhere: the value is computed. What is taken out of it is looked up at the root, as there.
    Computed,
    At(&'t Type),
    /// A path that leads to nothing declared.
    Lost,
}

/// The type of an expression.
#[derive(Debug, Clone)]
pub(super) enum Ty<'t> {
    /// A part of the object.
    Declared(&'t Type),
    Simple(Kind),
    Uint,
    Null,
    List(Box<Ty<'t>>),
    Map(Box<Ty<'t>>),
    Optional(Box<Ty<'t>>),
    /// Whatever it is.
    Any,
}

// === impl Size ===

impl Size {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The most that it costs to go through it.
    pub(super) fn traversed(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// A size times a factor, rounded up.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    let product = (size as f64 * factor).ceil();
    // From two to the power of 64 on, the cast gives the largest number.
    product as u64
}

// === impl Place ===

impl<'t> Place<'t> {
    /// One step further: to a field, or to what iterating gives.
    pub(super) fn step(self, root: &'t Type, next: impl FnOnce(&'t Type) -> Option<&'t Type>) -> Self {
        match self {
            Place::Computed => Place::At(root),
            Place::At(ty) => next(ty).map_or(Place::Lost, Place::At),
            Place::Lost => Place::Lost,
        }
    }

    /// How large a value here is, where that is declared.
    fn size(self) -> Option<Size> {
        match self {
            Place::At(ty) => Some(Size { min: 0, max: ty.max_elements }),
            Place::Computed | Place::Lost => None,
        }
    }
}

// === impl Ty ===

impl<'t> Ty<'t> {
    /// What kind of value it is, where that is known.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Ty::Declared(ty) => Some(ty.kind).filter(|kind| *kind != Kind::Dyn),
            Ty::Simple(kind) => Some(*kind),
            Ty::List(_) => Some(Kind::List),
            Ty::Map(_) => Some(Kind::Map),
            Ty::Uint | Ty::Null | Ty::Optional(_) | Ty::Any => None,
        }
    }

    /// The type of the items of a list or the values of a map.
    pub(super) fn element(&self) -> Ty<'t> {
        match self {
            Ty::Declared(ty) => ty.element.as_deref().map_or(Ty::Any, Ty::Declared),
            Ty::List(item) | Ty::Map(item) => (**item).clone(),
            _ => Ty::Any,
        }
    }

    fn is_scalar(&self) -> bool {
        match self {
            Ty::Uint => true,
            Ty::Optional(inner) => inner.is_scalar(),
            Ty::Declared(_) => false,
            other => {
                matches!(other.kind(), Some(Kind::Bool | Kind::Int | Kind::Double | Kind::Duration | Kind::Timestamp))
            }
        }
    }
}

// === impl Estimate ===

impl<'t> Estimate<'t> {
    /// A value of a type that no path leads to.
    pub(super) fn of(cost: u64, ty: Ty<'t>) -> Self {
        let size = ty.is_scalar().then_some(Size::exactly(1));
        Self { cost, size, ty, place: Place::Computed, entry: None }
    }

    pub(super) fn bool(cost: u64) -> Self {
        Self::of(cost, Ty::Simple(Kind::Bool))
    }

    /// The object.
    pub(super) fn root(ty: &'t Type) -> Self {
        Self::part(Ty::Declared(ty), Place::At(ty))
    }

    /// A value of a type that is taken out of another, and where its size is looked up.
    pub(super) fn part(ty: Ty<'t>, place: Place<'t>) -> Self {
        let kind = match ty {
            Ty::Declared(declared) => Ty::Simple(declared.kind),
            ref ty => ty.clone(),
        };
        let size = place.size().or_else(|| Self::of(0, kind).size);
        Self { size, place, ..Self::of(0, ty) }
    }

    pub(super) fn sized(cost: u64, ty: Ty<'t>, size: Size) -> Self {
        Self { cost, size: Some(size), ty, place: Place::Computed, entry: None }
    }

    pub(super) fn size_or_unknown(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    /// What iterating gives: the items of a list or the keys of a map; in pairs, indexes or keys with values.
    pub(super) fn iterated(&self, root: &'t Type) -> (Self, Self) {
        let is_list = self.ty.kind() == Some(Kind::List);
        let sized = |part: Self, entry: Option<Size>| Self { size: part.size.or(entry), ..part };
        let value = Self::part(self.ty.element(), self.place.step(root, |ty| ty.element.as_deref()));
        let value = sized(value, self.entry.map(|(_, value)| value));
        let of_key = match &self.ty {
            _ if is_list => Ty::Simple(Kind::Int),
            Ty::Declared(_) => Ty::Simple(Kind::String),
            _ => Ty::Any,
        };
        let key = match self.place {
            // Keys of declared maps count for nothing, as there.
            Place::At(ty) if ty.kind == Kind::Map => Self::sized(0, of_key, Size::exactly(0)),
            place => Self::part(of_key, place.step(root, |_| None)),
        };
        (sized(key, self.entry.map(|(key, _)| key)), value)
    }

    /// The size of the items of a list.
    pub(super) fn item_size(&self) -> Option<Size> {
        match self.place {
            Place::At(ty) => Some(Size { min: 0, max: ty.element.as_ref()?.max_elements }),
            Place::Computed | Place::Lost => self.entry.map(|(_, item)| item),
        }
    }
}

/// The cost and the result of a function of a library; `None` for one that there is not. Costs of arguments come on top.
#[allow(clippy::too_many_lines)] // An arm for a function.
pub(super) fn of_library<'t>(name: &str, target: Option<&Estimate<'t>>, args: &[Estimate<'t>]) -> Option<Estimate<'t>> {
    let size = |estimate: Option<&Estimate<'t>>| estimate.map_or(Size::UNKNOWN, Estimate::size_or_unknown);
    let first = size(args.first());
    let own = size(target);
    let text = Ty::Simple(Kind::String);
    let int = || Ty::Simple(Kind::Int);
    let one = |ty: Ty<'t>| Estimate::of(1, ty);
    Some(match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let of = target.map_or(Ty::Any, |target| target.ty.clone());
            let cost = if of.kind() == Some(Kind::List) {
                let element = of.element();
                let each = match element.kind() {
                    Some(Kind::String | Kind::Bytes) => {
                        let item = target.and_then(Estimate::item_size);
                        item.unwrap_or(Size::UNKNOWN).traversed(TRAVERSAL).saturating_add(1)
                    }
                    _ => 1,
                };
                own.max.saturating_mul(each)
            } else {
                own.traversed(TRAVERSAL)
            };
            let result = match name {
                "isSorted" => Ty::Simple(Kind::Bool),
                "indexOf" | "lastIndexOf" => int(),
                _ => of.element(),
            };
            Estimate::of(cost, result)
        }
        "url" | "jsonpatch.escapeKey" => {
            let ty = if name == "url" { Ty::Any } else { text };
            Estimate::sized(first.traversed(TRAVERSAL), ty, first)
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "reverse" | "charAt" => {
            Estimate::sized(own.traversed(TRAVERSAL), text, own)
        }
        "replace" => {
            let with = size(args.get(1));
            let count = match (first.min, with.max <= first.min) {
                (0, _) => own.max.saturating_add(1),
                (_, true) => 0,
                (shortest, _) => own.max.div_ceil(shortest),
            };
            let kept = if first.min == 0 || with.max <= first.min { own.max } else { 0 };
            let max = count.saturating_mul(with.max).saturating_add(kept);
            Estimate::sized(own.traversed(2.0 * TRAVERSAL), text, Size { min: 0, max })
        }
        "split" => {
            Estimate::sized(own.traversed(2.0 * TRAVERSAL), Ty::List(Box::new(text)), Size { min: 0, max: own.max })
        }
        "join" => {
            let item = target.and_then(Estimate::item_size).unwrap_or(Size::UNKNOWN);
            let separators = Size { min: own.min.saturating_sub(1), max: own.max.saturating_sub(1) };
            let between = if args.is_empty() { Size::exactly(0) } else { first.times(separators) };
            let sum = own.times(item).plus(between);
            Estimate::sized(sum.traversed(TRAVERSAL), text, sum)
        }
        "find" | "findAll" => {
            let cost = own.plus(Size::exactly(1)).traversed(TRAVERSAL).saturating_mul(first.traversed(PATTERN));
            let ty = if name == "find" { text } else { Ty::List(Box::new(text)) };
            Estimate::sized(cost, ty, Size { min: 0, max: own.max })
        }
        "cidr" | "isIP" | "isCIDR" | "isURL" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            let ty = if name.starts_with("is") { Ty::Simple(Kind::Bool) } else { Ty::Any };
            // That a text is a URL is found for a fixed cost there.
            let cost = if name == "isURL" { 1 } else { first.traversed(TRAVERSAL) };
            Estimate::of(cost, ty)
        }
        // Of a range it is at hand; of a text it is read.
        "ip" if target.is_none() => Estimate::of(first.traversed(TRAVERSAL), Ty::Any),
        "ip.isCanonical" => Estimate::bool(first.traversed(2.0 * TRAVERSAL)),
        // Of addresses of 16 bytes, and of the text where one is given.
        "containsIP" | "containsCIDR" => {
            let base = if name == "containsIP" { 4 } else { 7 };
            let is_text = args.first().is_some_and(|arg| arg.ty.kind() == Some(Kind::String));
            Estimate::bool(base + if is_text { first.traversed(TRAVERSAL) } else { 0 })
        }
        "sets.contains" | "sets.intersects" => {
            Estimate::bool(first.max.saturating_mul(size(args.get(1)).max).saturating_add(1))
        }
        "sets.equivalent" => {
            let product = first.max.saturating_mul(size(args.get(1)).max);
            Estimate::bool(product.saturating_mul(2).saturating_add(1))
        }
        "validate" => {
            // The longest pattern of a named format has 128 characters.
            let cost = first.plus(Size::exactly(1)).traversed(TRAVERSAL).saturating_mul(scaled(128, PATTERN));
            Estimate::of(cost, Ty::Any)
        }
        "format" => Estimate::of(own.traversed(TRAVERSAL), text),
        "base64.encode" | "base64.decode" | "strings.quote" => Estimate::of(first.traversed(TRAVERSAL), Ty::Any),
        "isInteger"
        | "isGreaterThan"
        | "isLessThan"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "math.isInf"
        | "math.isNaN"
        | "math.isFinite" => Estimate::bool(1),
        "sign" | "asInteger" | "compareTo" | "major" | "minor" | "patch" | "prefixLength" | "family" => one(int()),
        "asApproximateFloat" => one(Ty::Simple(Kind::Double)),
        "getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath" => one(text),
        "add" | "ip" | "sub" | "masked" | "getQuery" => one(Ty::Any),
        name if name.starts_with("format.") || MATH.contains(&name) => one(Ty::Any),
        _ => return None,
    })
}

/// Functions of one cost.
const MATH: [&str; 16] = [
    "math.greatest",
    "math.least",
    "math.ceil",
    "math.floor",
    "math.round",
    "math.trunc",
    "math.abs",
    "math.sign",
    "math.sqrt",
    "math.bitAnd",
    "math.bitOr",
    "math.bitXor",
    "math.bitNot",
    "math.bitShiftLeft",
    "math.bitShiftRight",
    "flatten",
];

/// What a call of a library's function did cost, from the sizes of what it was given and gave.
pub(super) fn spent_in_library(name: &str, args: &[u64], result: u64) -> u64 {
    let first = args.first().copied().unwrap_or(1);
    let second = args.get(1).copied().unwrap_or(1);
    match name {
        "isSorted" | "sum" | "max" | "min" => first,
        "indexOf"
        | "lastIndexOf"
        | "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "ip"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "format"
        | "reverse"
        | "charAt" => scaled(first, TRAVERSAL),
        "replace" | "split" | "ip.isCanonical" => scaled(first, 2.0 * TRAVERSAL),
        "join" => scaled(result, 2.0 * TRAVERSAL),
        "find" | "findAll" => pattern_cost(first, second),
        "validate" => pattern_cost(second, 128),
        "sets.contains" | "sets.intersects" => first.saturating_mul(second).saturating_add(1),
        "sets.equivalent" => first.saturating_mul(second).saturating_mul(2).saturating_add(1),
        _ => 1,
    }
}

/// Matching a text of a size with a pattern of a size.
pub(super) fn pattern_cost(text: u64, pattern: u64) -> u64 {
    scaled(text.saturating_add(1), TRAVERSAL).saturating_mul(scaled(pattern, PATTERN))
}
