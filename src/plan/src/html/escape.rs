//! Input in HTML: names and reasons are text, never markup and never script.

use std::fmt;
use std::io::{self, Write};

/// Text in an element or in a quoted attribute.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::write(&mut Entities(f), format_args!("{}", self.0))
    }
}

struct Entities<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Entities<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(['&', '<', '>', '"', '\'']) {
            let plain = part.trim_end_matches(['&', '<', '>', '"', '\'']);
            self.0.write_str(plain)?;
            let entity = match part.get(plain.len()..) {
                Some("&") => "&amp;",
                Some("<") => "&lt;",
                Some(">") => "&gt;",
                Some("\"") => "&quot;",
                Some("'") => "&#39;",
                _ => continue,
            };
            self.0.write_str(entity)?;
        }
        Ok(())
    }
}

/// JSON inside a `script` element: `<`, `>` and `&`, which JSON has in strings alone, become `\u` escapes, so nothing
/// in it can end the element or open a comment.
pub(super) struct ScriptSafe<W>(pub(super) W);

impl<W: Write> Write for ScriptSafe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'<' | b'>' | b'&')) {
            let (plain, escape): (&[u8], &[u8]) = match part.split_last() {
                Some((b'<', plain)) => (plain, b"\\u003c"),
                Some((b'>', plain)) => (plain, b"\\u003e"),
                Some((b'&', plain)) => (plain, b"\\u0026"),
                _ => (part, b""),
            };
            self.0.write_all(plain)?;
            self.0.write_all(escape)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_becomes_text() {
        assert_eq!(Escaped("a<b>&\"'é").to_string(), "a&lt;b&gt;&amp;&quot;&#39;é");
        assert_eq!(Escaped("<<").to_string(), "&lt;&lt;");
        assert_eq!(Escaped("plain").to_string(), "plain");
        assert_eq!(Escaped("").to_string(), "");
    }

    #[test]
    fn json_cannot_end_its_script_element() {
        let mut out = Vec::new();
        serde_json::to_writer(ScriptSafe(&mut out), "</script><!--&é").unwrap();
        assert_eq!(String::from_utf8(out.clone()).unwrap(), r#""\u003c/script\u003e\u003c!--\u0026é""#);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), "</script><!--&é");
    }
}
