//! The instance catalogue file format.
