//! Capacity reservations and how much of each the plan uses.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::RowLimit;
use super::grid::{Column, Grid};
use crate::Plan;
use crate::decimal::thousands;

const BAR: u64 = 20;

/// A reservation, with the type and the zone of its instances, where each is one.
pub(crate) struct Row<'a> {
    pub(crate) id: &'a str,
    pub(crate) instance_type: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) used: u64,
    pub(crate) total: u64,
}

/// The reservations of the catalogue, by id.
pub(crate) fn rows(plan: &Plan) -> Vec<Row<'_>> {
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
    let rows = plan.reservations().map(|(slots, used)| {
        let id = cluster.symbols.text(slots.id);
        let (instance_type, zone) = places.get(id).copied().unwrap_or(("-", "-"));
        Row { id, instance_type, zone, used: u64::from(used), total: u64::from(slots.free) }
    });
    rows.collect()
}

/// Writes the table, where there are reservations.
pub(super) fn write<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let entries = self::rows(plan);
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
    for row in entries.iter().take(shown) {
        let texts = [row.id, row.instance_type, row.zone].map(str::to_owned);
        grid.row(texts.into_iter().chain([thousands(row.used), thousands(row.total), bar(row.used, row.total)]));
    }
    if entries.len() > shown {
        let rest = entries.iter().skip(shown);
        let (used, total) = rest.fold((0, 0), |(used, total), row| (used + row.used, total + row.total));
        let texts = [format!("… {} more", entries.len() - shown), String::new(), String::new()];
        grid.row(texts.into_iter().chain([thousands(used), thousands(total), bar(used, total)]));
    }
    grid.write("Capacity reservations", rows, writer)
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
