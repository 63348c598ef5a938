//! An independent, slow, obvious checker of plans.
