//! Who owns which field: server-side apply and the tracking of updates, as structured-merge-diff does it.

mod fields;
mod managed;
mod merge;
mod walk;

pub(crate) use fields::FieldSet;
pub(crate) use managed::{Writer, apply, drop_resets, own_scale, take_scale_owners, track_update};
