//! Claims of classes that nobody makes volumes for: each is bound to one that is there.

use std::collections::BTreeMap;

use berth_model::{Requirements, Sym, Symbols, Volumes};

use super::Storage;
use super::records::{ClaimTemplate, VolumeRecord};

const NO_VOLUME_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";

/// Claims of a pod above which it is not asked whether one place has volumes for all.
const MOST_TOGETHER: usize = 100;

/// What a claim is to be bound to on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeOn {
    /// Nothing that is known: it has a volume, or whoever provisions its class makes one.
    Made,
    /// One of the volumes that there are, of which none is left there.
    Nothing,
    /// The volume that names the claim: it is being bound.
    Kept(String),
    /// A volume that is free.
    Free(String),
}

/// A claim that is to be bound to a volume that is there.
#[derive(Clone, Copy)]
pub(super) struct Wanting<'a> {
    pub(super) id: (Sym, Sym),
    pub(super) class: Sym,
    pub(super) asks: &'a ClaimTemplate,
}

impl Storage {
    /// One of the volumes that are there and large enough must be near.
    pub(super) fn bind_existing(
        &self,
        wants: Wanting<'_>,
        volumes: &mut Volumes,
        symbols: &Symbols,
    ) -> Result<(), String> {
        let mut alternatives = Vec::new();
        let mut is_anywhere = false;
        let mut n_fitting = 0;
        for (_, volume) in self.fitting(wants, symbols) {
            n_fitting += 1;
            match &volume.topology {
                None => is_anywhere = true,
                Some(terms) => alternatives.extend(terms.iter().cloned()),
            }
        }
        if n_fitting == 0 {
            return Err(NO_VOLUME_TO_BIND.to_owned());
        }
        if !is_anywhere {
            alternatives.sort_unstable();
            alternatives.dedup();
            volumes.unbound.push(alternatives);
        }
        Ok(())
    }

    /// Of several claims of a pod each needs a volume of its own in the same place. Places that overlap are not told apart:
    /// there it is enough that each claim has some volume.
    ///
    /// # Errors
    /// No place has enough of them.
    pub(super) fn bind_each_its_own(
        &self,
        wanting: &[Wanting<'_>],
        volumes: &mut Volumes,
        symbols: &Symbols,
    ) -> Result<(), String> {
        let mut by_class: BTreeMap<Sym, Vec<Wanting<'_>>> = BTreeMap::new();
        for wants in wanting {
            by_class.entry(wants.class).or_default().push(*wants);
        }
        for wanting in by_class.into_values().filter(|wanting| (2..=MOST_TOGETHER).contains(&wanting.len())) {
            // By place, and then by claim; what is nowhere in particular is of use in all of them.
            let mut places: BTreeMap<&[Requirements], Vec<Vec<Sym>>> = BTreeMap::new();
            let mut anywhere: Vec<Vec<Sym>> = vec![Vec::new(); wanting.len()];
            for (at, wants) in wanting.iter().enumerate() {
                for (name, volume) in self.fitting(*wants, symbols) {
                    let of_place = match volume.topology.as_deref() {
                        None => &mut anywhere,
                        Some(place) => places.entry(place).or_insert_with(|| vec![Vec::new(); wanting.len()]),
                    };
                    of_place.get_mut(at).into_iter().for_each(|own| own.push(name));
                }
            }
            if !are_apart(&places) || each_has_one(&anywhere) {
                continue;
            }
            let has_enough = |there: &Vec<Vec<Sym>>| {
                let both = there.iter().zip(&anywhere).map(|(there, anywhere)| [&there[..], anywhere].concat());
                each_has_one(&both.collect::<Vec<_>>())
            };
            let enough = places.iter().filter(|(_, there)| has_enough(there)).flat_map(|(place, _)| place.iter());
            let alternatives: Vec<Requirements> = enough.cloned().collect();
            if alternatives.is_empty() {
                return Err(NO_VOLUME_TO_BIND.to_owned());
            }
            volumes.unbound.push(alternatives);
        }
        Ok(())
    }

    /// The volumes that a claim of a class may be bound to, in order of the input.
    fn fitting<'a>(
        &'a self,
        wants: Wanting<'a>,
        symbols: &'a Symbols,
    ) -> impl Iterator<Item = (Sym, &'a VolumeRecord)> {
        let Wanting { id, class, asks } = wants;
        let all = self.volume_order.iter().filter_map(|name| Some((*name, self.volumes.get(name)?)));
        all.filter(move |(_, volume)| {
            let is_its_own = volume.claim == Some(id);
            (volume.is_available || (volume.is_bound && is_its_own))
                && volume.storage_class == class
                && (volume.claim.is_none() || is_its_own)
                && volume.nanos >= asks.nanos
                && volume.is_block == asks.is_block
                && asks.access_modes.are_within(volume.access_modes)
                && asks.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels, symbols))
        })
    }

    /// What a claim is to be bound to on a node; of several volumes the one that names it, else the smallest.
    pub(crate) fn volume_on(
        &self,
        id: (Sym, Sym),
        reaches: impl Fn(&[Requirements]) -> bool,
        is_taken: impl Fn(Sym) -> bool,
        symbols: &Symbols,
    ) -> VolumeOn {
        let wanting = || {
            let asks = &self.claims.get(&id).filter(|claim| claim.asks.volume.is_none())?.asks;
            let class = self.class_of(asks, symbols)?;
            self.classes.get(&class).filter(|class| class.waits_for_consumer && !class.makes_volumes)?;
            Some(Wanting { id, class, asks })
        };
        let Some(wants) = wanting() else { return VolumeOn::Made };
        let near = self
            .fitting(wants, symbols)
            .filter(|(name, volume)| !is_taken(*name) && volume.topology.as_ref().is_none_or(|terms| reaches(terms)));
        let order = |(name, volume): &(Sym, &VolumeRecord)| (volume.claim.is_none(), volume.nanos, symbols.text(*name));
        match near.min_by(|a, b| order(a).cmp(&order(b))) {
            None => VolumeOn::Nothing,
            Some((name, volume)) if volume.claim.is_some() => VolumeOn::Kept(symbols.text(name).to_owned()),
            Some((name, _)) => VolumeOn::Free(symbols.text(name).to_owned()),
        }
    }
}

/// Whether these places are seen to be apart: each names one value of the same label, and another than the others do, as with
/// local volumes.
fn are_apart<T>(places: &BTreeMap<&[Requirements], T>) -> bool {
    let value_of = |place: &[Requirements], key: Sym| match place {
        [only] => only.get(key)?.single(),
        _ => None,
    };
    let tells_apart = |key: Sym| {
        let mut values: Vec<Sym> = places.keys().map_while(|place| value_of(place, key)).collect();
        values.sort_unstable();
        values.dedup();
        values.len() == places.len()
    };
    let Some((first, _)) = places.first_key_value() else { return true };
    first.iter().flat_map(Requirements::iter).any(|(key, _)| tells_apart(key))
}

/// Whether each of these can have one of its own of those that it lists.
fn each_has_one(lists: &[Vec<Sym>]) -> bool {
    let mut taken: BTreeMap<Sym, usize> = BTreeMap::new();
    (0..lists.len()).all(|at| finds(lists, at, &mut Vec::new(), &mut taken))
}

// Whether one finds its own, others giving way to it where they find another.
fn finds(lists: &[Vec<Sym>], at: usize, asked: &mut Vec<Sym>, taken: &mut BTreeMap<Sym, usize>) -> bool {
    for name in lists.get(at).into_iter().flatten() {
        if asked.contains(name) {
            continue;
        }
        asked.push(*name);
        let has_room = match taken.get(name).copied() {
            None => true,
            Some(other) => finds(lists, other, asked, taken),
        };
        if has_room {
            taken.insert(*name, at);
            return true;
        }
    }
    false
}
