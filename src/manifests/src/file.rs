//! Files that are read as a whole, such as catalogues, settings and reports.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a file that is read as a whole: ten times the largest catalogue that is known. What never ends, such as
/// `/dev/zero`, is refused once it is longer.
pub const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// The bytes of a file.
///
/// # Errors
/// It cannot be read, or is longer than [`MAX_FILE_BYTES`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(File::open(path)?, MAX_FILE_BYTES)
}

/// The text of a file.
///
/// # Errors
/// As [`read_file`], and where it is no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_file(path)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8 text"))
}

fn read_at_most(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is longer than {most} bytes, the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        assert_eq!(read_at_most(&b"four"[..], 4).unwrap(), b"four");
        let error = read_at_most(io::repeat(0), 4).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 4 bytes, the most that is read");
    }
}
