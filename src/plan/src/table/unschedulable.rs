//! What has no place, and why.

use std::io::{self, Write};

use berth_model::MemberKind;

use super::Rows;
use crate::Plan;
use crate::deal::Deal;
use crate::decimal::thousands;

/// Writes an entry a class: who, and each reason with its count.
pub(super) fn write<W: Write>(plan: &Plan, deal: &Deal<'_>, rows: Rows, writer: &mut W) -> io::Result<()> {
    let left: Vec<_> =
        plan.solution.unschedulable.iter().zip(&deal.unschedulable).filter(|(left, _)| left.count > 0).collect();
    if left.is_empty() {
        return Ok(());
    }
    writeln!(writer, "\nUnschedulable")?;
    let shown = rows.shown(left.len());
    for (entry, share) in left.iter().take(shown) {
        let kind = match deal.kind(**share) {
            MemberKind::Pod => "Pod",
            MemberKind::Reservation => "Reservation",
        };
        let name = deal.members(**share).next().map_or_else(String::new, |name| name.to_string());
        let others = match entry.count {
            0 | 1 => String::new(),
            count => format!(" and {} more", thousands(count - 1)),
        };
        writeln!(writer, "{kind} {name}{others}:")?;
        for (reason, count) in plan.reasons(entry) {
            match count {
                0 => writeln!(writer, "  {reason}")?,
                count => writeln!(writer, "  {} {reason}", thousands(count))?,
            }
        }
    }
    if left.len() > shown {
        let members: u64 = left.iter().skip(shown).map(|(entry, _)| u64::from(entry.count)).sum();
        writeln!(writer, "… {} more in {} classes", thousands(members), left.len() - shown)?;
    }
    Ok(())
}
