//! A recording: what a page was told, to be played again from one file.

use std::io::{self, Write};

use crate::watch::Page;

/// The most that is kept, in bytes: a page that a browser still opens.
const MOST: usize = 96 * 1024 * 1024;

/// What a page was told, in order, as JSON.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Joined by commas.
    text: String,
    is_full: bool,
}

// === impl Frames ===

impl Frames {
    pub(crate) fn push(&mut self, frame: &str) {
        // What comes later cannot be told without what came before.
        self.is_full |= self.text.len() + frame.len() > MOST;
        if self.is_full {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str(",\n");
        }
        self.text.push_str(frame);
    }
}

/// Writes what a page was told into one page that needs nothing else, with a slider for its time. Whether all of it was kept.
///
/// # Errors
/// What the writer says.
pub fn write_recording(page: &Page, mut writer: impl Write) -> io::Result<bool> {
    page.shared.tick();
    let Some(frames) = &page.shared.frames else { return Ok(false) };
    let frames = frames.lock();
    // Within a script element, `<` could end it.
    let data = format!("{{\"frames\":[{}]}}", frames.text.replace('<', "\\u003c"));
    writer.write_all(crate::html(&crate::server::escaped(&page.shared.title), &data).as_bytes())?;
    writer.flush()?;
    Ok(!frames.is_full)
}
