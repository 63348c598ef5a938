//! The cluster as it changes: events in, one state, what-ifs that roll back.
