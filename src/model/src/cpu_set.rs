//! Sets of logical CPUs, in the kernel's list format.

use std::fmt;
use std::str::FromStr;

/// CPU ids that a list may name; more than any machine has, and few enough to list.
const MAX_CPU: u32 = 65_535;

/// Logical CPUs of one node, in ascending order. Reads and prints the list format of Linux: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(Vec<u32>);

/// Text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSetError(String);

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:?}, expected CPUs from 0 to {MAX_CPU} such as 0-3,8", self.0)
    }
}

impl std::error::Error for CpuSetError {}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(CpuSet::default());
        }
        let wrong = |part: &str| CpuSetError(part.chars().take(64).collect());
        let mut present = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse::<u32>().ok().filter(|cpu| is_plain && *cpu <= MAX_CPU).ok_or_else(|| wrong(part))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong(part));
            }
            // A list that repeats ranges cannot grow beyond what there is.
            if present.len() <= last as usize {
                present.resize(last as usize + 1, false);
            }
            for cpu in present.iter_mut().take(last as usize + 1).skip(first as usize) {
                *cpu = true;
            }
        }
        Ok((0..).zip(present).filter(|(_, is_present)| *is_present).map(|(cpu, _)| cpu).collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuSet(cpus)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl CpuSet {
    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the CPU is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.iter().chain(other.iter()).collect()
    }

    /// What is in this set alone.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.iter().filter(|&cpu| !other.contains(cpu)).collect())
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.iter().filter(|&cpu| other.contains(cpu)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::CpuSet;

    #[test]
    fn cpu_lists_are_read_and_printed_in_the_kernels_format() {
        for (text, printed, len) in [("0-3", "0-3", 4), ("5,1, 2,2-3", "1-3,5", 4), ("", "", 0), ("7", "7", 1)] {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.len()), (printed, len), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_cpu_list_is_an_error() {
        for text in ["a", "3-1", "1-", "-1", "0-4294967295", "+1", "1,,2"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }
}
