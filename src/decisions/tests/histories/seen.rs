//! What a converted cluster says, whatever numbers its strings and specs have: two that say the same decide the same, and one
//! that does not was brought up to date in the wrong way, even where no decision shows it yet.

use std::fmt::{Debug, Write};

use berth_model::{Cluster, LabelsId, MemberKind, Phase, Reservation, ReservationId, Resources, SpecId};

/// All that decisions may depend on, a line each.
pub(crate) fn seen(cluster: &Cluster) -> String {
    let seer = Seer { cluster, texts: texts(cluster) };
    let mut lines: Vec<String> = Vec::new();
    let symbols = |sym| cluster.symbols.text(sym);
    // The order of rows and their members is the order in which they are placed.
    for row in &cluster.pending {
        let members: Vec<&str> = row.members.iter().map(|member| &*member.name).collect();
        let labels = cluster.labels(row.labels);
        lines.push(format!(
            "{:?} {} {members:?} {} from {} {}",
            row.kind,
            symbols(row.namespace),
            seer.words(&labels),
            seer.words(&cluster.spread_from(row.labels)),
            seer.spec(row.spec, row.kind)
        ));
    }
    let mut nodes: Vec<String> = Vec::new();
    for node in &cluster.nodes {
        let mut text = format!("node {}", symbols(node.name));
        let mut bare = node.clone();
        // Images that nobody wants any more may be left on a cluster that is kept.
        (bare.pods, bare.holdings, bare.images, bare.node_pool) = (Vec::new(), Vec::new(), Vec::new(), None);
        let pool = node.node_pool.and_then(|pool| cluster.node_pools.get(pool as usize));
        let pool = pool.map(|pool| symbols(pool.name));
        let _ = write!(text, " of {pool:?}: {}", seer.words(&bare));
        for holding in &node.holdings {
            let mut bare = holding.clone();
            bare.reservation = ReservationId(0);
            let _ = write!(text, "\n  {} {}", seer.name_of(holding.reservation), seer.words(&bare));
        }
        for pod in &node.pods {
            let mut bare = pod.clone();
            (bare.spec, bare.labels, bare.replaced_by, bare.draws_from) = (SpecId(0), LabelsId(0), None, None);
            if let Some(candidate) = &mut bare.candidate {
                candidate.owned_by.clear();
            }
            let again = pod.replaced_by.map(|again| seer.spec(again, MemberKind::Pod));
            let _ = write!(
                text,
                "\n  {} {} {} from {} draws from {:?} again {again:?} {} {}",
                symbols(pod.namespace),
                pod.name,
                seer.words(&cluster.labels(pod.labels)),
                seer.words(&cluster.spread_from(pod.labels)),
                pod.draws_from.map(|id| seer.name_of(id)),
                seer.words(&bare),
                seer.spec(pod.spec, MemberKind::Pod),
            );
        }
        nodes.push(text);
    }
    nodes.sort();
    lines.extend(nodes);
    for reservation in cluster.reservations.iter().filter(|known| known.phase != Phase::Succeeded) {
        let template = reservation.template;
        let bare = Reservation { template: None, ..reservation.clone() };
        let spec = template.map(|template| seer.spec(template.spec, MemberKind::Reservation));
        lines.push(format!("Reservation {} {} {spec:?}", symbols(reservation.name), seer.words(&bare)));
    }
    for daemon in &cluster.daemons {
        lines.push(format!("DaemonSet {} {}", daemon.name, seer.spec(daemon.spec, MemberKind::Pod)));
    }
    // Those of which the order is said to be none.
    let first = lines.iter().position(|line| line.starts_with("Reservation") || line.starts_with("DaemonSet"));
    if let Some(unordered) = first.and_then(|first| lines.get_mut(first..)) {
        unordered.sort();
    }
    lines.extend(cluster.node_pools.iter().map(|pool| format!("pool {}", seer.words(pool))));
    lines.extend(cluster.slots.iter().map(|slots| format!("slots {}", seer.words(slots))));
    lines.extend(cluster.budgets.iter().map(|budget| format!("budget {}", seer.words(budget))));
    lines.extend(cluster.namespaces.iter().map(|namespace| format!("namespace {}", seer.words(namespace))));
    lines.extend(cluster.instance_types.iter().map(|known| format!("type {}", seer.words(known))));
    lines.extend(cluster.storage_topologies.iter().map(|known| format!("storage {}", seer.words(known))));
    lines.join("\n")
}

struct Seer<'c> {
    cluster: &'c Cluster,
    texts: Vec<String>,
}

impl Seer<'_> {
    fn name_of(&self, reservation: ReservationId) -> &str {
        self.cluster.reservations.get(reservation.index()).map_or("none", |known| self.cluster.symbols.text(known.name))
    }

    /// A spec, with the Reservations that it owns by name.
    fn spec(&self, id: SpecId, kind: MemberKind) -> String {
        let Some(mut bare) = self.cluster.spec(id).cloned() else { return "none".to_owned() };
        let mut owned: Vec<&str> = bare.reservation.owner_of.iter().map(|id| self.name_of(*id)).collect();
        owned.sort_unstable();
        let reserves = bare.reservation.reserves.take().and_then(|id| self.cluster.reservation(id));
        // The first of those that are alike stands for all.
        let alike = reserves.filter(|_| kind == MemberKind::Reservation).map(|like| (like.phase, &like.allocatable));
        let text = format!("owns {owned:?} like {}", self.words(&alike));
        bare.reservation.owner_of.clear();
        bare.reservation.owners_request = Resources::new();
        format!("{text} {}", self.words(&bare))
    }

    /// The words of a value, in the order of the alphabet: what is kept as a set is in the order of its numbers.
    fn words(&self, value: &impl Debug) -> String {
        let text = format!("{value:?}");
        let mut words: Vec<String> = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let is_part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let number = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
            let id = number.and_then(|(number, after)| Some((number.parse::<u32>().ok()?, after)));
            match (word, id) {
                ("Sym", Some((id, after))) => {
                    words.push(self.texts[id as usize].clone());
                    rest = after;
                }
                // By which number a resource goes is of no matter.
                ("ResourceId", Some((_, after))) => rest = after,
                _ => {
                    if !matches!(word, "" | "0") {
                        words.push(word.to_owned());
                    }
                    let mut next = after.chars();
                    next.next();
                    rest = next.as_str();
                }
            }
        }
        words.sort_unstable();
        words.join(" ")
    }
}

/// The strings of a cluster by number.
fn texts(cluster: &Cluster) -> Vec<String> {
    let text = format!("{:?}", cluster.symbols);
    let all = text.split_once("texts: ").and_then(|(_, after)| after.split_once(", integers: "));
    let texts: Vec<String> = serde_json::from_str(all.unwrap().0).unwrap();
    assert_eq!(texts.len(), cluster.symbols.len());
    texts
}
