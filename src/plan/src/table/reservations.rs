//! Capacity reservations and how much of each the plan uses.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Rows;
use super::grid::{Column, Grid};
use crate::Plan;
use crate::decimal::thousands;

const BAR: u64 = 20;

/// Writes the table, in the order of the catalogue, where it has reservations.
pub(super) fn write<W: Write>(plan: &Plan, rows: Rows, writer: &mut W) -> io::Result<()> {
    let mut places: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let cluster = &plan.cluster;
    for instance_type in &cluster.instance_types {
        for offering in &instance_type.offerings {
            let Some(slots) = offering.slots.and_then(|slots| cluster.slots.get(slots.index())) else { continue };
            let zone = offering.zone.map_or("-", |zone| cluster.symbols.text(zone));
            let place = (cluster.symbols.text(instance_type.name), zone);
            let id = cluster.symbols.text(slots.id);
            // One reservation under several types or zones has no single place.
            let known = places.entry(id).or_insert(place);
            if known.0 != place.0 {
                known.0 = "several";
            }
            if known.1 != place.1 {
                known.1 = "several";
            }
        }
    }
    let entries: Vec<(&str, u64, u64)> = plan
        .reservations()
        .map(|(slots, used)| (cluster.symbols.text(slots.id), u64::from(slots.free), u64::from(used)))
        .collect();
    if entries.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(&[
        Column::Text("RESERVATION"),
        Column::Text("INSTANCE TYPE"),
        Column::Text("ZONE"),
        Column::Number("USED"),
        Column::Number("TOTAL"),
        Column::Text(""),
    ]);
    let shown = rows.shown(entries.len());
    for (id, total, used) in entries.iter().take(shown) {
        let (instance_type, zone) = places.get(id).copied().unwrap_or(("-", "-"));
        let texts = [*id, instance_type, zone].map(str::to_owned);
        grid.row(texts.into_iter().chain([thousands(*used), thousands(*total), bar(*used, *total)]));
    }
    if entries.len() > shown {
        let rest = entries.iter().skip(shown);
        let (used, total) = rest.fold((0, 0), |(used, total), (_, t, u)| (used + u, total + t));
        let texts = [format!("… {} more", entries.len() - shown), String::new(), String::new()];
        grid.row(texts.into_iter().chain([thousands(used), thousands(total), bar(used, total)]));
    }
    grid.write("Capacity reservations", writer)
}

/// How full it is; any use shows, and only all of it fills the bar.
fn bar(used: u64, total: u64) -> String {
    if total == 0 {
        return String::new();
    }
    let marks = (used.min(total) * BAR).div_ceil(total);
    let marks = if used < total { marks.min(BAR - 1) } else { marks };
    (0..BAR).map(|at| if at < marks { '#' } else { '.' }).collect()
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn only_a_reservation_that_is_used_up_has_a_full_bar() {
        assert_eq!(bar(0, 4), "....................");
        assert_eq!(bar(1, 1000), "#...................");
        assert_eq!(bar(999, 1000), "###################.");
        assert_eq!(bar(4, 4), "####################");
        assert_eq!(bar(0, 0), "");
    }
}
