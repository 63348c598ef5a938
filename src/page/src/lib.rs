//! One page that shows a cluster as it changes: nodes with the room that is left, who waits and why, slots, and what it costs.
//!
//! [`Page::start`] watches a cluster; a [`Server`] shows it on loopback, a snapshot and then differences as server-sent events;
//! [`write_recording`] writes the same page into one file that plays what happened. Nothing here decides or writes.

mod frames;
mod history;
mod model;
mod pod;
mod server;
mod view;
mod watch;

pub use frames::write_recording;
pub use server::{ServeError, Server};
pub use watch::{Explain, Page, PageOptions, Price, PriceChanges, SlotsNow, TICK};

/// A page's parts, put together: what it is at its head, its data and its script.
pub(crate) fn html(title: &str, data: &str) -> String {
    let style =
        [berth_plan::PAGE_STYLE, include_str!("assets/uPlot.min.css"), include_str!("assets/live.css")].concat();
    let script = [
        include_str!("assets/uPlot.iife.min.js"),
        "\n",
        include_str!("assets/state.js"),
        include_str!("assets/draw.js"),
        include_str!("assets/details.js"),
        include_str!("assets/live.js"),
    ]
    .concat();
    let mut page = String::with_capacity(style.len() + script.len() + data.len() + 4096);
    for part in include_str!("assets/live.html").split("{{") {
        let (name, text) = part.split_once("}}").unwrap_or(("", part));
        page.push_str(match name {
            "title" => title,
            "style" => &style,
            "script" => &script,
            "data" => data,
            _ => "",
        });
        page.push_str(text);
    }
    page
}
