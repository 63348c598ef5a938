//! Watches, the live state, decisions of the core, and writes: the controllers that run in a cluster.
