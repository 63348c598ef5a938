//! The plan: from manifests to an answer, its contract and its tables.
