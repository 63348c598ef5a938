//! Reads manifests: files, folders, multi-document YAML and JSON Lists, as typed objects.
