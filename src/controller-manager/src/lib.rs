//! The built-in controllers of a cluster, as a client of its API server: owners, garbage collection, nodes, volumes.
