//! Paths of the resource API.

/// What a path points at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Under the old `watch` prefix.
    pub(crate) watch: bool,
}

/// Reads `/api/v1/…` and `/apis/group/version/…`; `None` if it is neither or lacks a resource.
pub(crate) fn target(path: &str) -> Option<Target> {
    let mut parts = path.trim_matches('/').split('/').map(decode);
    let mut out = Target::default();
    match parts.next()?.as_str() {
        "api" => {}
        "apis" => out.group = parts.next()?,
        _ => return None,
    }
    out.version = parts.next()?;
    let mut rest: Vec<String> = parts.collect();
    if rest.first().is_some_and(|first| first == "watch") {
        rest.remove(0);
        out.watch = true;
    }
    let mut rest = rest.into_iter();
    let first = rest.next()?;
    if first.is_empty() {
        return None;
    }
    if first == "namespaces" && out.group.is_empty() {
        out.namespaces(&mut rest);
    } else if first == "namespaces" {
        out.namespace = Some(rest.next()?);
        out.resource = rest.next()?;
        out.name = rest.next();
    } else {
        out.resource = first;
        out.name = rest.next();
    }
    let sub: Vec<String> = rest.collect();
    if !sub.is_empty() {
        out.subresource = Some(sub.join("/"));
    }
    Some(out)
}

impl Target {
    /// After `/api/v1/namespaces`: the namespace itself, its status, or something in it.
    fn namespaces(&mut self, rest: &mut impl Iterator<Item = String>) {
        "namespaces".clone_into(&mut self.resource);
        let Some(name) = rest.next() else { return };
        match rest.next() {
            None => self.name = Some(name),
            Some(sub) if sub == "status" || sub == "finalize" => {
                self.name = Some(name);
                self.subresource = Some(sub);
            }
            Some(resource) => {
                self.namespace = Some(name);
                self.resource = resource;
                self.name = rest.next();
            }
        }
    }
}

/// Undoes percent-encoding; what does not decode to UTF-8 stays as it is.
pub(super) fn decode(text: &str) -> String {
    decode_bytes(text, false)
}

/// Undoes the encoding of a query, where `+` is a space.
pub(super) fn decode_query(text: &str) -> String {
    decode_bytes(text, true)
}

fn decode_bytes(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|b| char::from(*b).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
                continue;
            }
            (b'+', _, _) if plus => out.push(b' '),
            (other, _, _) => out.push(*other),
        }
        at += 1;
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn show(path: &str) -> String {
        target(path).map_or("none".to_owned(), |t| {
            let part = |p: &Option<String>| p.clone().unwrap_or("-".to_owned());
            format!(
                "{}/{} {} {} {} {}",
                t.group,
                t.version,
                part(&t.namespace),
                t.resource,
                part(&t.name),
                part(&t.subresource)
            )
        })
    }

    #[rstest]
    #[case("/api/v1/pods", "/v1 - pods - -")]
    #[case("/api/v1/namespaces", "/v1 - namespaces - -")]
    #[case("/api/v1/namespaces/a", "/v1 - namespaces a -")]
    #[case("/api/v1/namespaces/a/finalize", "/v1 - namespaces a finalize")]
    #[case("/api/v1/namespaces/a/pods/b/binding", "/v1 a pods b binding")]
    #[case("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps/v1 a deployments d scale")]
    #[case(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        "rbac.authorization.k8s.io/v1 - clusterroles system:node -"
    )]
    #[case("/apis/apps/v1", "none")]
    #[case("/healthz", "none")]
    fn paths_name_their_target(#[case] path: &str, #[case] expected: &str) {
        assert_eq!(show(path), expected);
    }
}
