//! Exact Kubernetes quantities.
