//! Facts of the domain, one file a subject.
