//! What a misspelt name may have been meant for.

/// Edits between two names, letter case not counted; long names are far from all.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    strsim::damerau_levenshtein(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}

/// The known name that is nearest to one that is not known, if at most a third of it and three letters differ: the first
/// of several.
///
/// ```
/// assert_eq!(berth_manifests::nearest("port-1d", ["port-1a", "port-1b"]), Some("port-1a"));
/// assert_eq!(berth_manifests::nearest("harbour", ["port-1a", "port-1b"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|known| (distance(name, known), known));
    let near = near.filter(|(distance, known)| *distance <= (known.len() / 3).clamp(1, 3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_is_near_if_a_third_of_it_and_three_letters_differ_at_most() {
        let known = ["image", "imagePullPolicy", "resources", "ports"];
        assert_eq!(nearest("imgae", known), Some("image"));
        assert_eq!(nearest("Resource", known), Some("resources"));
        assert_eq!(nearest("port", known), Some("ports"));
        assert_eq!(nearest("affinity", known), None);
        assert_eq!(nearest("karpenter.k8s.aws/instance-ebs-bandwidth", ["karpenter.k8s.aws/instance-family"]), None);
        assert_eq!(nearest(&"x".repeat(100), known), None);
    }
}
