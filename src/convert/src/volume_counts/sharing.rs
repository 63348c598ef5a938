//! Volumes of many nodes: each is offered to one pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{Cluster, Node, PodSpec, Requirements, SpecId, Sym, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};

use super::domains::{Alike, Domains};
use super::{Asked, Change, FirstPlace, Pod};
use crate::claims::Free;

/// How often each pod is offered another place.
const MOST_ROUNDS: usize = 16;

/// By pod the first place that it was offered.
pub(super) type Firsts = Vec<(usize, FirstPlace)>;

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
    /// Who is where, as far as pods keep apart or are spread.
    domains: Domains,
}

/// A pod whose volumes are shared out.
struct Sharer {
    /// Its index among all pods.
    pod: usize,
    alike: Alike,
    /// The questions of its claims, those with the fewest volumes first.
    wants: Vec<usize>,
    /// Where it is offered volumes; `None`: anywhere.
    places: Vec<Option<usize>>,
    /// The node that it is to come to.
    home: Option<usize>,
    /// Where it was offered a volume that was of no use to it.
    avoids: Option<FirstPlace>,
}

/// What came of offering a pod a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offered {
    Place,
    /// There are volumes, of which others that are alike keep it away.
    KeptApart,
    Nothing,
}

impl<'a> Sharing<'a> {
    pub(super) fn new(asked: &'a [Asked], cluster: &'a Cluster) -> Self {
        let shared = asked.iter().filter(|asked| asked.is_shared_out());
        let places: BTreeSet<&[Requirements]> =
            shared.flat_map(|asked| asked.free.by_place.keys().map(Vec::as_slice)).collect();
        // The order of the input decides nothing.
        let mut places: Vec<&[Requirements]> = places.into_iter().collect();
        places.sort_by_cached_key(|place| in_words(place, &cluster.symbols));
        let (holders, known, begun, domains) = Default::default();
        Sharing { asked, cluster, places, holders, known, begun, domains }
    }

    /// Offers each pod a place of its own, and then further ones as long as there are volumes. Those who are to come to a node
    /// are first, then those of high priority and those who have few to choose from. After them come those to whom a first
    /// place was of no use before, and last those whom others keep away from all that there are. Says which places there are,
    /// and by pod the first that it was offered.
    pub(super) fn share_out(mut self, pods: &[Pod], changes: &mut [Change]) -> (Vec<Vec<Requirements>>, Firsts) {
        let mut sharers = self.sharers(pods);
        self.domains = Domains::new(sharers.iter().map(|sharer| sharer.alike), self.cluster);
        let mut hopeless: FxHashSet<(Alike, Vec<usize>)> = FxHashSet::default();
        let (mut next, mut kept_apart) = (0, Vec::new());
        for at in 0..sharers.len() {
            let Some(sharer) = sharers.get_mut(at) else { continue };
            let alike = (sharer.alike, sharer.wants.clone());
            if hopeless.contains(&alike) {
                continue;
            }
            let offered = self.offer(at, sharer, &mut next, true);
            if offered == Offered::Place || self.offer_after_another_moved(at, &mut sharers) {
                continue;
            }
            match offered {
                Offered::KeptApart => kept_apart.push(at),
                _ => drop(hopeless.insert(alike)),
            }
        }
        for at in kept_apart {
            sharers.get_mut(at).map(|sharer| self.offer(at, sharer, &mut next, false));
        }
        for _ in 0..MOST_ROUNDS {
            let mut is_done = true;
            for (at, sharer) in sharers.iter_mut().enumerate() {
                let is_open = !sharer.places.is_empty() && sharer.places.iter().all(Option::is_some);
                is_done &= !(is_open && self.offer(at, sharer, &mut next, false) == Offered::Place);
            }
            if is_done {
                break;
            }
        }
        let first = |sharer: &Sharer| Some((sharer.pod, FirstPlace(*sharer.places.first()?)));
        let firsts = sharers.iter().filter_map(first).collect();
        for sharer in sharers {
            let places: Option<Vec<usize>> = sharer.places.into_iter().collect();
            let sorted = places.map(|places| places.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
            changes.get_mut(sharer.pod).into_iter().for_each(|change| change.places.clone_from(&sorted));
        }
        (self.places.into_iter().map(<[Requirements]>::to_vec).collect(), firsts)
    }

    /// The pods whose volumes are shared out, in the order in which they choose.
    fn sharers(&self, pods: &[Pod]) -> Vec<Sharer> {
        let is_shared = |at: &usize| self.asked.get(*at).is_some_and(Asked::is_shared_out);
        let n_volumes = |at: usize| self.asked.get(at).map_or(0, |asked| asked.free.len());
        let mut sharers: Vec<Sharer> = Vec::new();
        for (at, pod) in pods.iter().enumerate() {
            let mut wants: Vec<usize> = pod.wants.iter().copied().filter(is_shared).collect();
            wants.sort_by_key(|at| (n_volumes(*at), *at));
            if !wants.is_empty() {
                let Some(row) = self.cluster.pending.get(pod.row) else { continue };
                let alike = (row.namespace, row.labels, pod.spec);
                sharers.push(Sharer { pod: at, alike, wants, places: Vec::new(), home: pod.home, avoids: pod.left });
            }
        }
        sharers.sort_by_cached_key(|sharer| {
            let fewest = sharer.wants.first().map(|at| n_volumes(*at));
            let is_free = self.cluster.spec(sharer.alike.2).is_none_or(|spec| {
                spec.anti_affinity.is_empty() && !spec.spread.iter().any(|constraint| constraint.is_required)
            });
            let priority = pods.get(sharer.pod).map(|pod| std::cmp::Reverse(pod.priority));
            (sharer.home.is_none(), sharer.avoids.is_some(), priority, fewest, is_free)
        });
        sharers
    }

    /// Offers a pod one place more, the next in turn that has volumes for all its claims. Its first is one that those who are
    /// alike let it have, where the fewest of them are.
    fn offer(&mut self, at: usize, sharer: &mut Sharer, next: &mut usize, is_first: bool) -> Offered {
        let n_places = self.places.len();
        let mut turn: Vec<Option<usize>> = (*next..n_places).chain(0..(*next).min(n_places)).map(Some).collect();
        if is_first {
            turn.sort_by_key(|place| self.domains.crowd(&sharer.alike, self.place(*place)));
            if let Some(home) = sharer.home.and_then(|home| self.cluster.nodes.get(home)) {
                turn.sort_by_key(|place| !self.reaches(*place, home));
            }
            turn.sort_by_key(|place| sharer.avoids == Some(FirstPlace(*place)));
        }
        let mut is_kept_apart = false;
        for place in turn.into_iter().chain([None]) {
            if sharer.places.contains(&place) || !self.may_be_at(sharer.alike.2, place) {
                continue;
            }
            if is_first && self.domains.keep_apart(&sharer.alike, self.place(place)) {
                is_kept_apart = true;
                continue;
            }
            if self.take(at, &sharer.wants, place) {
                if sharer.places.is_empty() {
                    let there = self.place(place);
                    self.domains.come(&sharer.alike, there);
                }
                sharer.places.push(place);
                *next = place.map_or(*next, |place| place + 1);
                return Offered::Place;
            }
        }
        if is_kept_apart { Offered::KeptApart } else { Offered::Nothing }
    }

    /// Offers a pod the volume of another that finds one elsewhere, and that no node was launched for.
    fn offer_after_another_moved(&mut self, at: usize, sharers: &mut [Sharer]) -> bool {
        let Some(Sharer { alike, wants, .. }) = sharers.get(at) else { return false };
        let (alike, &[question]) = (*alike, wants.as_slice()) else { return false };
        let Some(free) = self.asked.get(question).map(|asked| Arc::clone(&asked.free)) else { return false };
        for place in (0..self.places.len()).map(Some).chain([None]) {
            let there = self.place(place);
            if !self.may_be_at(alike.2, place) || self.domains.keep_apart(&alike, there) {
                continue;
            }
            for volume in listed(&self.places, &free, place) {
                let Some(holder) = self.holders.get(volume).copied() else { continue };
                let Some(other) =
                    sharers.get_mut(holder).filter(|other| other.wants.len() == 1 && other.home.is_none())
                else {
                    continue;
                };
                if self.move_elsewhere(holder, other) {
                    self.holders.insert(*volume, at);
                    self.domains.come(&alike, there);
                    sharers.get_mut(at).into_iter().for_each(|sharer| sharer.places = vec![place]);
                    return true;
                }
            }
        }
        false
    }

    /// Offers a pod with one volume one at another place instead.
    fn move_elsewhere(&mut self, holder: usize, other: &mut Sharer) -> bool {
        let to = (0..self.places.len()).map(Some).chain([None]).find(|to| {
            !other.places.contains(to)
                && self.may_be_at(other.alike.2, *to)
                && !self.domains.keep_apart(&other.alike, self.place(*to))
                && self.take(holder, &other.wants, *to)
        });
        if let Some(to) = to {
            if let Some(from) = other.places.first() {
                self.domains.leave(&other.alike, self.place(*from));
            }
            self.domains.come(&other.alike, self.place(to));
            other.places = vec![to];
        }
        to.is_some()
    }

    /// Whether a node is at a place.
    fn reaches(&self, place: Option<usize>, node: &Node) -> bool {
        let symbols = &self.cluster.symbols;
        self.place(place).iter().any(|term| node.satisfies(term, symbols, |key| node.labels.get(key)))
    }

    /// Where a place is; nothing for what may be anywhere.
    fn place(&self, place: Option<usize>) -> &'a [Requirements] {
        place.and_then(|at| self.places.get(at)).copied().unwrap_or_default()
    }

    /// Takes a volume for each of these at a place, if it has them; what is anywhere is there, too.
    fn take(&mut self, sharer: usize, wants: &[usize], place: Option<usize>) -> bool {
        let mut taken: Vec<Sym> = Vec::with_capacity(wants.len());
        for &question in wants {
            let found = self.asked.get(question).and_then(|asked| {
                let lists = [Some(place), place.map(|_| None)].into_iter().flatten();
                lists.into_iter().find_map(|place| {
                    let begun = self.begun.entry((question, place)).or_default();
                    let list = listed(&self.places, &asked.free, place);
                    while list.get(*begun).is_some_and(|volume| self.holders.contains_key(volume)) {
                        *begun += 1;
                    }
                    list.get(*begun).copied()
                })
            });
            let Some(volume) = found else {
                for volume in taken {
                    self.holders.remove(&volume);
                    self.begun.clear();
                }
                return false;
            };
            self.holders.insert(volume, sharer);
            taken.push(volume);
        }
        true
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

/// What a place is called, whatever was read before it.
fn in_words(place: &[Requirements], symbols: &Symbols) -> Vec<Vec<String>> {
    let mut terms: Vec<Vec<String>> = Vec::with_capacity(place.len());
    for term in place {
        let mut parts: Vec<String> = Vec::new();
        for (key, asked) in term.iter() {
            for (operator, bounds, values) in asked.to_operators() {
                let mut values: Vec<&str> = values.into_iter().map(|value| symbols.text(value)).collect();
                values.sort_unstable();
                parts.push(format!("{} {} {bounds:?} {values:?}", symbols.text(key), operator.as_str()));
            }
        }
        parts.sort_unstable();
        terms.push(parts);
    }
    terms.sort_unstable();
    terms
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
