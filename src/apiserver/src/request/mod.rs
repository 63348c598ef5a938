//! From an HTTP request to what it asks for.

mod body;
mod options;
mod path;
mod protobuf;

pub(crate) use body::{Format, Parsed, parse as parse_body};
pub(crate) use options::{APPLY_OPTIONS, FieldValidation, IncludeObject, Options, Propagation};
pub(crate) use path::{Target, target};
pub(crate) use protobuf::{MEDIA_TYPE as PROTOBUF, read as read_protobuf};

/// How the client wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Json,
    Yaml,
    Table,
    PartialMetadata,
}

/// The form of answer that an `Accept` header prefers among those there are; `None` if none will do.
pub(crate) fn output(accept: &str) -> Option<Output> {
    if accept.is_empty() {
        return Some(Output::Json);
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let mut shape = None;
        let mut group = None;
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => shape = Some(value),
                Some(("g", value)) => group = Some(value),
                _ => {}
            }
        }
        match (kind, shape) {
            ("application/json" | "*/*" | "application/*", None) => return Some(Output::Json),
            ("application/yaml", None) => return Some(Output::Yaml),
            ("application/json", Some("Table")) if group == Some("meta.k8s.io") => return Some(Output::Table),
            ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList"))
                if group == Some("meta.k8s.io") =>
            {
                return Some(Output::PartialMetadata);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Some(Output::Json))]
    #[case("*/*", Some(Output::Json))]
    #[case("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(Output::Table))]
    #[case("application/vnd.kubernetes.protobuf, application/json", Some(Output::Json))]
    #[case("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Some(Output::PartialMetadata))]
    #[case("application/vnd.kubernetes.protobuf", None)]
    fn the_first_form_that_can_be_given_is_given(#[case] accept: &str, #[case] expected: Option<Output>) {
        assert_eq!(output(accept), expected);
    }
}
