//! CustomResourceDefinitions.
