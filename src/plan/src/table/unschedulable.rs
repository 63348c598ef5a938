//! What has no place, and why.

use std::io::{self, Write};

use berth_model::MemberKind;
use berth_scheduling::reasons::said_by_pool;
use berth_scheduling::reservation::counts_reservations;

use super::RowLimit;
use crate::Plan;
use crate::decimal::thousands;
use berth_decisions::Assignment;

/// Columns of a line of reasons where no terminal says how many it has.
const WIDTH: usize = 112;

/// Writes an entry a class: who, and each reason with its count.
pub(super) fn write<W: Write>(
    plan: &Plan,
    assignment: &Assignment<'_>,
    rows: RowLimit,
    writer: &mut W,
) -> io::Result<()> {
    let left: Vec<_> =
        plan.solution.unschedulable.iter().zip(&assignment.unschedulable).filter(|(left, _)| left.count > 0).collect();
    if left.is_empty() {
        return Ok(());
    }
    writeln!(writer, "\nUnschedulable")?;
    let shown = rows.shown(left.len());
    for (entry, share) in left.iter().take(shown) {
        let kind = match assignment.kind(**share) {
            MemberKind::Pod => "Pod",
            MemberKind::Reservation => "Reservation",
        };
        let name = assignment.members(**share).next().map_or_else(String::new, |name| name.to_string());
        let others = match entry.count {
            0 | 1 => String::new(),
            count => format!(" and {} more", thousands(count - 1)),
        };
        writeln!(writer, "{kind} {name}{others}:")?;
        let reasons: Vec<(&str, u32)> = plan.reasons(entry).collect();
        for line in explain(&reasons, plan.cluster.nodes.len() as u64, rows.width.unwrap_or(WIDTH)) {
            writeln!(writer, "  {line}")?;
        }
    }
    if left.len() > shown {
        let members: u64 = left.iter().skip(shown).map(|(entry, _)| u64::from(entry.count)).sum();
        writeln!(writer, "… {} more in {} classes", thousands(members), left.len() - shown)?;
    }
    Ok(())
}

/// Reasons by what they are about, as kube-scheduler's events have them: the existing nodes, each NodePool, or (without
/// a name) the object itself. A count of 0 is about the object, or about a NodePool as a whole.
pub(crate) fn by_subject(reasons: &[(&str, u32)], n_nodes: u64) -> Vec<(String, Vec<(String, u32)>)> {
    let subject = |reason: &str| {
        let (pool, rest) = said_by_pool(reason)?;
        Some((format!("NodePool {pool}"), rest.to_owned()))
    };
    let mut subjects: Vec<(String, Vec<(String, u32)>)> = Vec::new();
    for &(reason, count) in reasons {
        let (of, text) = match subject(reason) {
            Some(split) => split,
            None if count == 0 && !counts_reservations(reason) => (String::new(), reason.to_owned()),
            None => (format!("0/{} nodes are available", thousands(n_nodes)), reason.to_owned()),
        };
        match subjects.iter_mut().find(|(known, _)| *known == of) {
            Some((_, texts)) => texts.push((text, count)),
            None => subjects.push((of, vec![(text, count)])),
        }
    }
    subjects
}

/// A line for each subject.
fn explain(reasons: &[(&str, u32)], n_nodes: u64, width: usize) -> Vec<String> {
    let counted = |(text, count): (String, u32)| {
        if count == 0 && !counts_reservations(&text) { text } else { format!("{} {text}", thousands(count)) }
    };
    let lines = |(of, reasons): (String, Vec<(String, u32)>)| {
        let texts: Vec<String> = reasons.into_iter().map(counted).collect();
        // What is about the object itself is a sentence each.
        if of.is_empty() { texts } else { vec![format!("{of}: {}", texts.join(", "))] }
    };
    by_subject(reasons, n_nodes).into_iter().flat_map(lines).flat_map(|line| wrapped(&line, width)).collect()
}

/// Lines of at most `width` columns with the indent of two, broken at blanks; what follows the first is indented more.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.saturating_sub(2);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, explain};

    #[test]
    fn nodes_and_pools_have_a_line_each() {
        let taint = "node(s) had untolerated taint {gpu: }";
        let reasons =
            [(taint, 2), ("Insufficient cpu", 1), ("NodePool a: Insufficient cpu", 40), ("NodePool b: is deleting", 0)];
        let expected = [
            "0/3 nodes are available: 2 node(s) had untolerated taint {gpu: }, 1 Insufficient cpu",
            "NodePool a: 40 Insufficient cpu",
            "NodePool b: is deleting",
        ];
        assert_eq!(explain(&reasons, 3, WIDTH), expected);
        assert_eq!(explain(&[("Scheduling is blocked", 0)], 3, WIDTH), ["Scheduling is blocked"]);
        let none = "0/3 nodes are available: 0 Reservation(s) matched owner total";
        assert_eq!(explain(&[("Reservation(s) matched owner total", 0)], 3, WIDTH), [none]);
    }

    #[test]
    fn long_explanations_are_wrapped() {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        let lines = explain(&[(reason, 1), (reason, 2), (reason, 3)], 6, WIDTH);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines.iter().skip(1).all(|line| line.starts_with("    ")));
    }
}
