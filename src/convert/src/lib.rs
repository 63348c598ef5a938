//! Kubernetes and Karpenter objects to the model.
