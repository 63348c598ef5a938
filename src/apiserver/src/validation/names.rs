//! The texts that may name things, as apimachinery's `util/validation` judges them. Each answers what is wrong.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
    is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// A name of an object of most kinds.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes".to_owned());
    }
    let ok = text.split('.').all(|label| is_label(label, false));
    (!ok).then(|| SUBDOMAIN.to_owned())
}

/// A name of a container, a namespace or a port.
pub(crate) fn label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!is_label(text, false)).then(|| LABEL.to_owned())
}

/// A name of a Service.
pub(crate) fn label_1035(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!is_label(text, true)).then(|| LABEL_1035.to_owned())
}

/// A name that must only be a path segment, as those of RBAC objects.
pub(crate) fn path_segment(text: &str) -> Option<String> {
    if text == "." || text == ".." {
        return Some(format!("may not be '{text}'"));
    }
    let bad = ["/", "%"].into_iter().find(|bad| text.contains(bad))?;
    Some(format!("may not contain '{bad}'"))
}

/// A key of a label or annotation: an optional domain and a name.
pub(crate) fn label_key(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return Some("a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_owned());
        }
        Some(("", _)) => return Some("prefix part must be non-empty".to_owned()),
        Some((domain, name)) => {
            if let Some(why) = subdomain(domain) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
    };
    if name.is_empty() {
        return Some(format!("name part must be non-empty; {QUALIFIED}"));
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    (!is_value(name)).then(|| QUALIFIED.to_owned())
}

/// All that is wrong with a key of a label, each as its own text.
pub(crate) fn label_key_causes(text: &str) -> Vec<String> {
    let name = text.rsplit('/').next().unwrap_or_default();
    if name.is_empty() && text.matches('/').count() < 2 {
        return vec!["name part must be non-empty".to_owned(), QUALIFIED.to_owned()];
    }
    label_key(text).into_iter().collect()
}

/// What is wrong with the name of a container's port.
pub(crate) fn port_name(text: &str) -> Vec<&'static str> {
    let mut out = Vec::new();
    if text.len() > 15 {
        out.push("must be no more than 15 bytes");
    }
    if !text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.chars().any(|c| c.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        out.push("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        out.push("must not begin or end with a hyphen");
    }
    out
}

/// A value of a label.
pub(crate) fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!text.is_empty() && !is_value(text)).then(|| LABEL_VALUE.to_owned())
}

fn is_label(text: &str, alphabetic_start: bool) -> bool {
    let bytes = text.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let starts = if alphabetic_start {
        bytes.first().is_some_and(u8::is_ascii_lowercase)
    } else {
        bytes.first().is_some_and(alnum)
    };
    starts && bytes.last().is_some_and(alnum) && bytes.iter().all(|b| alnum(b) || *b == b'-')
}

fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a.b-c", true)]
    #[case("A", false)]
    #[case("a..b", false)]
    #[case("-a", false)]
    #[case("", false)]
    fn object_names_are_subdomains(#[case] name: &str, #[case] good: bool) {
        assert_eq!(subdomain(name).is_none(), good);
    }

    #[rstest]
    #[case("app", true)]
    #[case("example.com/App_1", true)]
    #[case("/app", false)]
    #[case("a/b/c", false)]
    #[case("example.com/", false)]
    fn label_keys_are_qualified_names(#[case] key: &str, #[case] good: bool) {
        assert_eq!(label_key(key).is_none(), good);
    }
}
