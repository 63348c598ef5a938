//! Volumes of many nodes: each is offered to one pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{Cluster, PodSpec, Requirements, SpecId, Sym, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Asked, Change, Pod};
use crate::claims::Free;

/// How often each pod is offered another place.
const MOST_ROUNDS: usize = 16;

/// Volumes that are shared out among pods.
pub(super) struct Sharing<'a> {
    asked: &'a [Asked],
    cluster: &'a Cluster,
    /// Where they are.
    places: Vec<&'a [Requirements]>,
    /// Who has which.
    holders: FxHashMap<Sym, usize>,
    /// Whether pods of a spec may be at a place.
    known: FxHashMap<(SpecId, usize), bool>,
    /// By question and place: so many of the first are taken.
    begun: FxHashMap<(usize, Option<usize>), usize>,
}

/// What a pod is offered.
#[derive(Clone, Default)]
struct Offer {
    /// A place, or anywhere, with the volumes that it has there.
    places: Vec<(Option<usize>, Vec<Sym>)>,
}

impl<'a> Sharing<'a> {
    pub(super) fn new(asked: &'a [Asked], cluster: &'a Cluster) -> Self {
        let shared = asked.iter().filter(|asked| asked.is_scarce && !asked.is_local);
        let places: BTreeSet<&[Requirements]> =
            shared.flat_map(|asked| asked.free.by_place.keys().map(Vec::as_slice)).collect();
        let (holders, known, begun) = Default::default();
        Sharing { asked, cluster, places: places.into_iter().collect(), holders, known, begun }
    }

    /// Offers each pod a place of its own, those of high priority and those who have few to choose from first, and then further
    /// ones as long as there are volumes.
    pub(super) fn share_out(mut self, pods: &[Pod], changes: &mut [Change]) -> Vec<Vec<Requirements>> {
        let wants: Vec<Vec<usize>> = pods.iter().map(|pod| self.shared_wants(pod)).collect();
        let mut order: Vec<usize> =
            (0..pods.len()).filter(|at| wants.get(*at).is_some_and(|wants| !wants.is_empty())).collect();
        order.sort_by_cached_key(|at| {
            let fewest = wants.get(*at).into_iter().flatten().map(|question| self.n_volumes(*question)).min();
            (pods.get(*at).map(|pod| std::cmp::Reverse(pod.priority)), fewest)
        });
        let mut offers: Vec<Offer> = vec![Offer::default(); pods.len()];
        let mut hopeless: FxHashSet<(SpecId, &[usize])> = FxHashSet::default();
        let mut next = 0;
        for &at in &order {
            let (Some(pod), Some(wants)) = (pods.get(at), wants.get(at)) else { continue };
            if hopeless.contains(&(pod.spec, wants.as_slice())) {
                continue;
            }
            let is_offered = self.offer((at, pod), wants, &mut offers, &mut next)
                || self.offer_after_another_moved((at, pod), wants, (pods, &mut offers));
            if !is_offered {
                hopeless.insert((pod.spec, wants));
            }
        }
        for _ in 0..MOST_ROUNDS {
            let mut is_done = true;
            for &at in &order {
                let (Some(pod), Some(wants), Some(offer)) = (pods.get(at), wants.get(at), offers.get(at)) else {
                    continue;
                };
                let is_open = offer.places.iter().all(|(place, _)| place.is_some()) && !offer.places.is_empty();
                is_done &= !(is_open && self.offer((at, pod), wants, &mut offers, &mut next));
            }
            if is_done {
                break;
            }
        }
        for at in order {
            let (Some(offer), Some(change)) = (offers.get(at), changes.get_mut(at)) else { continue };
            let places: Option<Vec<usize>> = offer.places.iter().map(|(place, _)| *place).collect();
            change.places = places.map(|mut places| {
                places.sort_unstable();
                places
            });
        }
        self.places.into_iter().map(<[Requirements]>::to_vec).collect()
    }

    /// The questions of a pod's claims whose volumes are shared out, those with the fewest volumes first.
    fn shared_wants(&self, pod: &Pod) -> Vec<usize> {
        let is_shared = |at: &usize| self.asked.get(*at).is_some_and(|asked| asked.is_scarce && !asked.is_local);
        let mut wants: Vec<usize> = pod.wants.iter().copied().filter(is_shared).collect();
        wants.sort_by_key(|at| (self.n_volumes(*at), *at));
        wants
    }

    fn n_volumes(&self, question: usize) -> usize {
        let free = self.asked.get(question).map(|asked| &asked.free);
        free.map_or(0, |free| free.by_place.values().map(Vec::len).sum::<usize>() + free.anywhere.len())
    }

    /// Offers a pod one place more, the next in turn that has volumes for all its claims.
    fn offer(&mut self, (at, pod): (usize, &Pod), wants: &[usize], offers: &mut [Offer], next: &mut usize) -> bool {
        let Some(offer) = offers.get_mut(at) else { return false };
        let n_places = self.places.len();
        for place in (*next..n_places).chain(0..(*next).min(n_places)).map(Some).chain([None]) {
            if offer.places.iter().any(|(known, _)| *known == place) || !self.may_be_at(pod.spec, place) {
                continue;
            }
            if let Some(volumes) = self.take(at, wants, place) {
                offer.places.push((place, volumes));
                *next = place.map_or(*next, |place| place + 1);
                return true;
            }
        }
        false
    }

    /// Offers a pod the volume of another that finds one elsewhere.
    fn offer_after_another_moved(
        &mut self,
        (at, pod): (usize, &Pod),
        wants: &[usize],
        (pods, offers): (&[Pod], &mut [Offer]),
    ) -> bool {
        let &[question] = wants else { return false };
        let Some(free) = self.asked.get(question).map(|asked| Arc::clone(&asked.free)) else { return false };
        let places: Vec<Option<usize>> = (0..self.places.len()).map(Some).chain([None]).collect();
        for place in places.iter().copied().filter(|place| self.may_be_at(pod.spec, *place)).collect::<Vec<_>>() {
            for &volume in self.listed(&free, place) {
                let Some(&holder) = self.holders.get(&volume) else { continue };
                let (Some(other), Some(offer)) = (pods.get(holder), offers.get(holder)) else { continue };
                let others = self.shared_wants(other);
                let [(held_at, _)] = offer.places.as_slice() else { continue };
                let (held_at, is_one) = (*held_at, others.len() == 1);
                let elsewhere = places.iter().copied().filter(|place| is_one && *place != held_at);
                let elsewhere: Vec<_> = elsewhere.filter(|place| self.may_be_at(other.spec, *place)).collect();
                let moved = elsewhere.into_iter().find_map(|to| Some((to, self.take(holder, &others, to)?)));
                if let Some(moved) = moved {
                    offers.get_mut(holder).into_iter().for_each(|offer| offer.places = vec![moved.clone()]);
                    self.holders.insert(volume, at);
                    offers.get_mut(at).into_iter().for_each(|offer| offer.places = vec![(place, vec![volume])]);
                    return true;
                }
            }
        }
        false
    }

    /// Takes a volume for each of these at a place, if it has them; what is anywhere is there, too.
    fn take(&mut self, pod: usize, wants: &[usize], place: Option<usize>) -> Option<Vec<Sym>> {
        let mut taken: Vec<Sym> = Vec::with_capacity(wants.len());
        for &question in wants {
            let free = self.asked.get(question).map(|asked| Arc::clone(&asked.free))?;
            let lists = [Some(place), place.map(|_| None)].into_iter().flatten();
            let found = lists.into_iter().find_map(|place| {
                let begun = self.begun.entry((question, place)).or_default();
                let list = listed(&self.places, &free, place);
                while list.get(*begun).is_some_and(|volume| self.holders.contains_key(volume)) {
                    *begun += 1;
                }
                list.get(*begun).copied()
            });
            let Some(volume) = found else {
                for volume in taken {
                    self.holders.remove(&volume);
                    self.begun.clear();
                }
                return None;
            };
            self.holders.insert(volume, pod);
            taken.push(volume);
        }
        Some(taken)
    }

    fn listed<'f>(&self, free: &'f Free, place: Option<usize>) -> &'f [Sym] {
        listed(&self.places, free, place)
    }

    /// Whether pods of a spec may be at a place as far as node selectors, affinity and their other volumes tell.
    fn may_be_at(&mut self, spec: SpecId, place: Option<usize>) -> bool {
        let Some(at) = place else { return true };
        let (places, cluster) = (&self.places, self.cluster);
        *self.known.entry((spec, at)).or_insert_with(|| {
            let (Some(spec), Some(place)) = (cluster.spec(spec), places.get(at)) else { return false };
            place.iter().any(|term| agrees(spec, term, &cluster.symbols))
        })
    }
}

/// What is free at a place, the smallest first.
fn listed<'f>(places: &[&[Requirements]], free: &'f Free, place: Option<usize>) -> &'f [Sym] {
    match place {
        None => &free.anywhere,
        Some(at) => places.get(at).and_then(|place| free.by_place.get(*place)).map_or(&[], Vec::as_slice),
    }
}

/// Whether a node of these labels may be one for pods of a spec.
fn agrees(spec: &PodSpec, term: &Requirements, symbols: &Symbols) -> bool {
    let mut selected = spec.node_selector.clone();
    selected.add_all(term, symbols);
    let goes_with = |other: &Requirements| {
        let mut both = selected.clone();
        both.add_all(other, symbols);
        !both.is_contradiction()
    };
    let required = Some(&spec.required_terms).filter(|terms| !terms.is_empty());
    !selected.is_contradiction()
        && required.into_iter().chain(spec.volumes.places()).all(|terms| terms.iter().any(goes_with))
}
