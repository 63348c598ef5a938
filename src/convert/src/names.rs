//! Labels that an instance type's name and resources tell, for catalogues that list none, so that NodePools as people
//! write them work. Only what is certain: a wrong label is worse than none.

use berth_catalogue::InstanceTypeEntry;

const EC2: &str = "karpenter.k8s.aws";
const KWOK: &str = "karpenter.kwok.sh";

/// Labels of the type, as key and value.
pub(crate) fn derived_labels(entry: &InstanceTypeEntry) -> Vec<(String, String)> {
    if let Some(name) = Ec2Name::parse(&entry.name) {
        ec2_labels(&name, entry)
    } else if let Some((family, _)) = kwok_name(&entry.name) {
        kwok_labels(family, entry)
    } else {
        Vec::new()
    }
}

/// A name of EC2: `c6gd.16xlarge` is category c, generation 6, family c6gd, size 16xlarge.
struct Ec2Name<'a> {
    category: &'a str,
    generation: &'a str,
    family: &'a str,
    size: &'a str,
}

impl<'a> Ec2Name<'a> {
    /// As Karpenter's `(^[a-z]+)(\-[0-9]+tb)?([0-9]+).*\.`, with a size that EC2 has.
    fn parse(name: &'a str) -> Option<Self> {
        let (family, size) = name.split_once('.')?;
        let is_size = matches!(size, "nano" | "micro" | "small" | "medium" | "large" | "xlarge" | "metal")
            || size.strip_suffix("xlarge").is_some_and(is_number)
            || size.strip_prefix("metal-").and_then(|n| n.strip_suffix("xl")).is_some_and(is_number);
        let letters = family.find(|c: char| !c.is_ascii_lowercase())?;
        let (category, rest) = family.split_at(letters);
        let after_memory = |rest: &'a str| {
            let (terabytes, generation) = rest.strip_prefix('-')?.split_once("tb")?;
            is_number(terabytes).then_some(generation)
        };
        let rest = after_memory(rest).unwrap_or(rest);
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let generation = &rest[..digits];
        (is_size && !category.is_empty() && !generation.is_empty()).then_some(Ec2Name {
            category,
            generation,
            family,
            size,
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn ec2_labels(name: &Ec2Name<'_>, entry: &InstanceTypeEntry) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("instance-category", name.category.to_owned()),
        ("instance-generation", name.generation.to_owned()),
        ("instance-family", name.family.to_owned()),
        ("instance-size", name.size.to_owned()),
    ];
    // The system keeps less than one core, so the next whole core is what the type has.
    pairs.extend(whole_cores(entry).map(|cores| ("instance-cpu", cores)));
    // After the generation come letters of what is special about the family.
    let special = name.family.trim_start_matches(name.category).trim_start_matches(name.generation);
    let maker = match entry.architecture.as_str() {
        "arm64" => Some("aws"),
        _ if special.contains('a') => Some("amd"),
        _ if special.contains('i') => Some("intel"),
        _ => None,
    };
    pairs.extend(maker.map(|maker| ("instance-cpu-manufacturer", maker.to_owned())));
    pairs.extend(devices(entry));
    prefixed(EC2, pairs)
}

/// Devices of a type. Neuron devices are accelerators to Karpenter's AWS provider, not GPUs.
fn devices(entry: &InstanceTypeEntry) -> Vec<(&'static str, String)> {
    const DEVICES: [(&str, &str, &str); 4] = [
        ("nvidia.com/gpu", "gpu", "nvidia"),
        ("amd.com/gpu", "gpu", "amd"),
        ("habana.ai/gaudi", "gpu", "habana"),
        ("aws.amazon.com/neuron", "accelerator", "aws"),
    ];
    let mut pairs = Vec::new();
    for (resource, sort, maker) in DEVICES {
        let count = entry.resources.get(resource).and_then(|q| q.value_floor()).unwrap_or(0);
        let (n, by) = if sort == "gpu" {
            ("instance-gpu-count", "instance-gpu-manufacturer")
        } else {
            ("instance-accelerator-count", "instance-accelerator-manufacturer")
        };
        if count > 0 && !pairs.iter().any(|(key, _)| *key == n) {
            pairs.push((n, count.to_string()));
            pairs.push((by, maker.to_owned()));
        }
    }
    pairs
}

/// The family and size of a name of Karpenter's KWOK provider, `c-4x-amd64-linux`.
fn kwok_name(name: &str) -> Option<(&str, &str)> {
    let mut parts = name.split('-');
    let (family, size, arch, os) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_name = parts.next().is_none()
        && family.bytes().all(|byte| byte.is_ascii_lowercase())
        && size.strip_suffix('x').is_some_and(is_number)
        && matches!(arch, "amd64" | "arm64")
        && matches!(os, "linux" | "windows");
    is_name.then_some((family, size))
}

/// As the KWOK provider sets them: the size of a name that is not EC2's is its CPU.
fn kwok_labels(family: &str, entry: &InstanceTypeEntry) -> Vec<(String, String)> {
    let mut pairs = vec![("instance-family", family.to_owned())];
    for (key, resource) in [("instance-cpu", "cpu"), ("instance-size", "cpu"), ("instance-memory", "memory")] {
        pairs.extend(entry.resources.get(resource).map(|amount| (key, amount.to_string())));
    }
    prefixed(KWOK, pairs)
}

fn whole_cores(entry: &InstanceTypeEntry) -> Option<String> {
    Some(entry.resources.get("cpu")?.value_ceil()?.to_string())
}

fn prefixed(domain: &str, pairs: Vec<(&str, String)>) -> Vec<(String, String)> {
    pairs.into_iter().map(|(key, value)| (format!("{domain}/{key}"), value)).collect()
}

/// The region of a zone, where the zone's name holds it: `us-east-1a`, `us-west-2-lax-1a`, `us-central1-b`.
pub(crate) fn region_of(zone: &str) -> Option<String> {
    let parts: Vec<&str> = zone.split('-').collect();
    let is_letter = |text: &str| text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    // Google's: a direction with a number, then one letter.
    if let [continent, place, letter] = parts.as_slice() {
        let word = place.trim_end_matches(|c: char| c.is_ascii_digit());
        if is_word(continent) && is_word(word) && word.len() < place.len() && is_letter(letter) {
            return Some(format!("{continent}-{place}"));
        }
    }
    // Amazon's: a country of two letters, words, a digit; the letter of the zone follows, or a local zone.
    let country = parts.first().filter(|part| part.len() == 2 && is_word(part))?;
    for (i, part) in parts.iter().enumerate().skip(2) {
        let digits = part.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let rest = &part[digits.len()..];
        if is_number(digits) && digits.len() == 1 {
            let words = &parts[1..i];
            let is_zone = is_letter(rest) && i + 1 == parts.len();
            let is_local_zone = rest.is_empty() && i + 1 < parts.len();
            let is_region = words.iter().all(|word| is_word(word));
            return (is_region && (is_zone || is_local_zone))
                .then(|| format!("{country}-{}-{digits}", words.join("-")));
        }
    }
    None
}
