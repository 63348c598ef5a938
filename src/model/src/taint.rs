//! Taints and tolerations, as kube-scheduler's TaintToleration compares them.

use crate::{Sym, Symbols};

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// They are not scheduled here.
    NoSchedule,
    /// They are scheduled here only if nothing else is to be had.
    PreferNoSchedule,
    /// They are not scheduled here, and evicted if they run here.
    NoExecute,
}

impl Effect {
    /// The effect's name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The key.
    pub key: Sym,
    /// The value; the symbol of the empty string where there is none.
    pub value: Sym,
    /// What it does.
    pub effect: Effect,
}

impl Taint {
    /// `{key: value}`, as kube-scheduler's reason prints it.
    pub fn in_words(&self, symbols: &Symbols) -> String {
        format!("{{{}: {}}}", symbols.text(self.key), symbols.text(self.value))
    }
}

/// How a toleration compares a taint's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// The value is equal.
    Equal,
    /// Any value.
    Exists,
    /// The value is an integer below the toleration's.
    Lt,
    /// The value is an integer above the toleration's.
    Gt,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The key; `None` with `Exists` tolerates every key.
    pub key: Option<Sym>,
    /// How values compare.
    pub operator: TolerationOperator,
    /// The value.
    pub value: Sym,
    /// The effect; `None` tolerates every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this toleration tolerates the taint.
    pub fn tolerates(&self, taint: &Taint, symbols: &Symbols) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && match self.operator {
                TolerationOperator::Exists => true,
                TolerationOperator::Equal => self.key.is_some() && self.value == taint.value,
                TolerationOperator::Lt | TolerationOperator::Gt => {
                    match (symbols.integer(taint.value), symbols.integer(self.value)) {
                        (Some(taint), Some(mine)) if self.operator == TolerationOperator::Lt => taint < mine,
                        (Some(taint), Some(mine)) => taint > mine,
                        _ => false,
                    }
                }
            }
    }
}

/// The first taint that keeps the pod off, with `PreferNoSchedule` counting only where `prefer_counts`.
pub fn first_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    prefer_counts: bool,
    symbols: &Symbols,
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        (prefer_counts || taint.effect != Effect::PreferNoSchedule)
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint, symbols))
    })
}
