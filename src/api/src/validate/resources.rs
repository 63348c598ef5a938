//! Amounts by resource name.

use super::metadata::entry;
use super::syntax::qualified_name_error;
use super::{Errors, shown};
use crate::ResourceList;

/// Checks that resources have proper names and amounts that are not negative.
pub(super) fn check(path: &str, resources: &ResourceList, errors: &mut Errors) {
    for (name, amount) in resources {
        if let Some(error) = qualified_name_error(name) {
            errors.invalid(entry(path, name), format!("resource name {} {error}", shown(name)));
        }
        if amount.is_negative() {
            errors.invalid(entry(path, name), format!("is {amount}, expected 0 or more"));
        }
    }
}
