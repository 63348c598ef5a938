//! Does this class fit this bin?
