//! The pure model: resources, requirements, taints, selectors, instance types, pod classes, the cluster snapshot.
