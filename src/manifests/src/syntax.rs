//! What a parser says of malformed text, in words that tell what was found and what was expected.

/// A message of the JSON library, without its position, as people read it.
pub fn json_in_words(message: &str) -> String {
    let words = match message {
        "EOF while parsing a list" => "the text ends within a list, expected another value or ]",
        "EOF while parsing an object" => "the text ends within an object, expected another field or }",
        "EOF while parsing a string" => "the text ends within a string, expected its closing quote",
        "EOF while parsing a value" => "the text ends, expected a value",
        "expected `:`" => "expected a colon after a key",
        "expected `,` or `]`" => "expected a comma or ] after a value of a list",
        "expected `,` or `}`" => "expected a comma or } after a field of an object",
        "expected ident" => "found an unknown word, expected true, false, null, or a string in double quotes",
        "expected value" => {
            "expected a value: an object, a list, a string in double quotes, a number, true, false or null"
        }
        "key must be a string" => "expected a key in double quotes",
        "invalid escape" => r"found an unknown escape in a string, expected one such as \n or \u00e9",
        "invalid number" => "found an unfinished number, expected one such as 1.5",
        "trailing comma" => "found a comma after the last one, expected none",
        "trailing characters" => "found more text after the end, expected none",
        message if message.starts_with("control character") => {
            r"found a control character in a string, expected it escaped, as \n"
        }
        message => message,
    };
    words.to_owned()
}

/// A message of the YAML library, without its position, as people read it.
pub(crate) fn yaml_in_words(message: &str) -> String {
    if message.starts_with("mapping values are not allowed") {
        return "found a second `key: value` where one value is expected: quote a value that holds `: `, or check the indent"
            .to_owned();
    }
    let split = message.strip_prefix("while parsing ").and_then(|rest| rest.split_once(", did not find expected "));
    match split {
        Some((what, expected)) => format!("expected {expected} in {what}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::yaml_in_words;

    #[test]
    fn what_was_expected_comes_first() {
        let message = "while parsing a block collection, did not find expected '-' indicator";
        assert_eq!(yaml_in_words(message), "expected '-' indicator in a block collection");
        assert_eq!(yaml_in_words("unclosed bracket '['"), "unclosed bracket '['");
    }
}
