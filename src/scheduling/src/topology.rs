//! Which domains of a topology key are open to a demand now, and for how many pods.

use std::collections::BTreeMap;

use berth_model::{Constraint, CounterId, Snapshot, Sym};

/// The counts of one key's domains while pods are being assigned to them.
#[derive(Clone, Debug)]
pub struct Domains {
    /// The domains, in the order in which ties are broken.
    pub names: Vec<Sym>,
    /// By constraint: what it is and the pods that it counts in each domain.
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    constraint: Constraint,
    counts: Vec<u32>,
    // For spread: which of the domains it looks at (its node filter may leave some out), and how many of those have how
    // many pods.
    eligible: Vec<bool>,
    tally: BTreeMap<u32, usize>,
    n_eligible: usize,
    // For affinity: whether no pod is counted anywhere, so that a pod that counts itself may be the first.
    is_first: bool,
}

impl Domains {
    /// Reads the counts of `constraints`, all on one key. `is_eligible(counter, domain)` tells whether the counter's
    /// node filter leaves the domain any node.
    pub fn new(
        state: &Snapshot,
        names: Vec<Sym>,
        constraints: &[Constraint],
        is_eligible: impl Fn(CounterId, Sym) -> bool,
    ) -> Self {
        let rules = constraints.iter().map(|&constraint| {
            let counter = constraint.counter();
            let counts: Vec<u32> = names.iter().map(|&name| state.count(counter, name)).collect();
            let eligible: Vec<bool> = names.iter().map(|&name| is_eligible(counter, name)).collect();
            let mut tally: BTreeMap<u32, usize> = BTreeMap::new();
            let of_eligible = || counts.iter().zip(&eligible).filter(|(_, eligible)| **eligible);
            of_eligible().for_each(|(count, _)| *tally.entry(*count).or_default() += 1);
            let n_eligible = of_eligible().count();
            Rule { constraint, counts, eligible, tally, n_eligible, is_first: state.total(counter) == 0 }
        });
        Domains { rules: rules.collect(), names }
    }

    /// Whether one more pod may go to a domain.
    pub fn allows(&self, domain: usize) -> bool {
        self.rules.iter().all(|rule| rule.allows(domain))
    }

    /// The first constraint that keeps one more pod off a domain.
    pub fn refusing(&self, domain: usize) -> Option<Constraint> {
        self.rules.iter().find(|rule| !rule.allows(domain)).map(|rule| rule.constraint)
    }

    /// The first constraint that keeps one more pod off all domains, or else the first that keeps it off some.
    pub fn in_the_way(&self) -> Option<Constraint> {
        let mut domains = 0..self.names.len();
        let closes = |rule: &&Rule| domains.clone().all(|domain| !rule.allows(domain));
        let of_all = self.rules.iter().find(closes).map(|rule| rule.constraint);
        of_all.or_else(|| domains.find_map(|domain| self.refusing(domain)))
    }

    /// Whether no pod may go to a domain any more, however many come to others.
    pub fn is_closed(&self, domain: usize) -> bool {
        self.rules.iter().any(|rule| {
            let Some(&count) = rule.counts.get(domain) else { return true };
            match rule.constraint {
                Constraint::AntiAffinity { .. } => count > 0,
                Constraint::Affinity { counts_self, .. } => count == 0 && !(rule.is_first && counts_self),
                Constraint::Spread { .. } => rule.eligible.get(domain) != Some(&true),
            }
        })
    }

    /// How full a domain is in the eyes of the spread constraints: pods go to the least first.
    pub fn load(&self, domain: usize) -> u64 {
        let spread = self.rules.iter().filter(|rule| matches!(rule.constraint, Constraint::Spread { .. }));
        spread.map(|rule| u64::from(rule.counts.get(domain).copied().unwrap_or(0))).sum()
    }

    /// The least counts of all spread constraints together: as long as it is the same, what a domain that takes no pod now
    /// waits for has not come.
    pub fn floor(&self) -> u64 {
        let least = self.rules.iter().map(|rule| match rule.constraint {
            Constraint::Spread { min_domains, .. } => u64::from(rule.least(min_domains)),
            _ => 0,
        });
        least.sum()
    }

    /// Counts one pod of the demand in a domain.
    pub fn add(&mut self, domain: usize) {
        for rule in self.rules.iter_mut().filter(|rule| rule.counts_self()) {
            if let Some(&count) = rule.counts.get(domain) {
                rule.set(domain, count.saturating_add(1));
                rule.is_first = false;
            }
        }
    }

    /// How many pods of the demand a domain takes one after the other, up to so many. Nothing changes.
    pub fn allowance(&mut self, domain: usize, at_most: u32) -> u32 {
        let mut allowed = 0;
        let are_first: Vec<bool> = self.rules.iter().map(|rule| rule.is_first).collect();
        while allowed < at_most && self.allows(domain) {
            self.add(domain);
            allowed += 1;
        }
        for (rule, is_first) in self.rules.iter_mut().zip(are_first) {
            let counts = rule.counts.get(domain).copied();
            rule.set(domain, counts.unwrap_or(0).saturating_sub(if rule.counts_self() { allowed } else { 0 }));
            rule.is_first = is_first;
        }
        allowed
    }

    /// Whether a pod would be the first of its own affinity, and so chooses the domain for all that follow.
    pub fn chooses_home(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.is_first && matches!(rule.constraint, Constraint::Affinity { counts_self: true, .. }))
    }
}

impl Rule {
    fn allows(&self, domain: usize) -> bool {
        let Some(&count) = self.counts.get(domain) else { return false };
        match self.constraint {
            Constraint::AntiAffinity { .. } => count == 0,
            Constraint::Affinity { counts_self, .. } => count > 0 || (self.is_first && counts_self),
            Constraint::Spread { max_skew, min_domains, counts_self, .. } => {
                let with = count.saturating_add(u32::from(counts_self));
                self.eligible.get(domain) == Some(&true) && with.saturating_sub(self.least(min_domains)) <= max_skew
            }
        }
    }

    fn counts_self(&self) -> bool {
        let (Constraint::Spread { counts_self, .. }
        | Constraint::Affinity { counts_self, .. }
        | Constraint::AntiAffinity { counts_self, .. }) = self.constraint;
        counts_self
    }

    fn set(&mut self, domain: usize, count: u32) {
        let Some(known) = self.counts.get_mut(domain) else { return };
        let before = std::mem::replace(known, count);
        if before == count || self.eligible.get(domain) != Some(&true) {
            return;
        }
        *self.tally.entry(count).or_default() += 1;
        if let Some(domains) = self.tally.get_mut(&before) {
            *domains -= 1;
            if *domains == 0 {
                self.tally.remove(&before);
            }
        }
    }

    fn least(&self, min_domains: Option<u32>) -> u32 {
        if min_domains.is_some_and(|least| (self.n_eligible as u64) < u64::from(least)) {
            return 0;
        }
        self.tally.first_key_value().map_or(0, |(least, _)| *least)
    }
}
