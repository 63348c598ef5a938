//! What would be disrupted, in order, and why every other node stays.

use std::io::{self, Write};

use super::escape::Escaped;
use crate::Plan;
use crate::decimal::{rounded, thousands};
use crate::table::disruption::{nodes, pending, replaced_by, why};

pub(super) fn write<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    let Some(disruption) = &plan.disruption else { return Ok(()) };
    writeln!(
        writer,
        "<section aria-labelledby=\"disrupted\">\n<h2 id=\"disrupted\">Nodes to disrupt</h2>\n\
         <p>The nodes cost ${}/h now, and ${}/h once all of this is done.</p>",
        rounded(disruption.hourly_cost, 4),
        rounded(disruption.settled_hourly_cost, 4)
    )?;
    if let Some(text) = pending(disruption) {
        writeln!(writer, "<p>{}</p>", Escaped(&*text))?;
    }
    if disruption.commands.is_empty() {
        writeln!(writer, "<p>Nothing to disrupt.</p>")?;
    } else {
        writeln!(
            writer,
            "<div class=\"wide\"><table id=\"commands\">\n<thead><tr><th scope=\"col\" class=\"n\">Batch</th>\
             <th scope=\"col\">Method</th><th scope=\"col\">Nodes that go</th><th scope=\"col\">Replaced by</th>\
             <th scope=\"col\" class=\"n\">Evictions</th><th scope=\"col\" class=\"n\">Saves $/h</th></tr></thead>\n\
             <tbody>"
        )?;
        for command in &disruption.commands {
            write!(writer, "<tr><td class=\"n\" data-v=\"{0}\">{0}</td>", command.batch)?;
            for text in [command.method.as_str(), &nodes(command, usize::MAX), &replaced_by(command)] {
                write!(writer, "<td>{}</td>", Escaped(text))?;
            }
            let (evictions, savings) = (command.evictions, rounded(command.savings, 4));
            write!(writer, "<td class=\"n\" data-v=\"{evictions}\">{}</td>", thousands(evictions as u64))?;
            writeln!(writer, "<td class=\"n\" data-v=\"{savings}\">{savings}</td></tr>")?;
        }
        writeln!(writer, "</tbody>\n</table></div>")?;
    }
    if !disruption.kept.is_empty() {
        writeln!(
            writer,
            "<div class=\"wide\"><table id=\"kept\">\n<thead><tr><th scope=\"col\">Node</th>\
             <th scope=\"col\">Why it stays</th></tr></thead>\n<tbody>"
        )?;
        for kept in &disruption.kept {
            let reasons: Vec<String> = kept.reasons.iter().map(why).collect();
            let reasons = reasons.join("; ");
            writeln!(writer, "<tr><td>{}</td><td>{}</td></tr>", Escaped(&*kept.node.key.name), Escaped(reasons))?;
        }
        writeln!(writer, "</tbody>\n</table></div>")?;
    }
    writeln!(writer, "</section>")
}
