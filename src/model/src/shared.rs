//! Values that copies of a cluster share until one of them changes its own.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that is shared by its clones, and copied when one of them is changed. It reads and is written to as the value
/// itself: a what-if that changes nothing of a catalogue copies nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both are the same value in one place.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[allow(clippy::into_iter_without_iter, reason = "the value has it")]
impl<'a, T> IntoIterator for &'a Shared<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[allow(clippy::into_iter_without_iter, reason = "the value has it")]
impl<'a, T: Clone> IntoIterator for &'a mut Shared<T>
where
    &'a mut T: IntoIterator,
{
    type Item = <&'a mut T as IntoIterator>::Item;
    type IntoIter = <&'a mut T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        Arc::make_mut(&mut self.0).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_the_value_until_one_of_both_changes() {
        let mut one: Shared<Vec<u32>> = vec![1, 2].into();
        let other = one.clone();
        assert!(one.is_same(&other));
        one.push(3);
        assert!(!one.is_same(&other));
        assert_eq!((one.len(), other.len()), (3, 2));
    }
}
