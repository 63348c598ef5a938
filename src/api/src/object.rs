//! The frame that every kind shares: apiVersion, kind, metadata, spec, status.

/// Defines a cluster-scoped kind from its spec and status, with the traits of k8s-openapi's own types, so that any
/// client that takes those takes these. Reading fails where `apiVersion` or `kind` name something else.
macro_rules! cluster_object {
    (
        $(#[$doc:meta])*
        $kind:ident { group: $group:literal, version: $version:literal, plural: $plural:literal,
                      spec: $spec:ty, status: $status:ty $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $kind {
            /// Name, labels, annotations and what the API server keeps of the object.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            /// What was observed.
            pub status: Option<$status>,
        }

        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::ClusterResourceScope;
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        const _: () = {
            use k8s_openapi::Resource as _;
            use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
            use serde::ser::SerializeStruct as _;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            /// The object as it is read; apiVersion and kind are consumed, so that they do not count as unknown.
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Wire {
                api_version: Option<String>,
                kind: Option<String>,
                #[serde(default)]
                metadata: ObjectMeta,
                spec: $spec,
                status: Option<$status>,
            }

            impl<'de> Deserialize<'de> for $kind {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let wire = Wire::deserialize(deserializer)?;
                    for (field, found, expected) in
                        [("apiVersion", &wire.api_version, Self::API_VERSION), ("kind", &wire.kind, Self::KIND)]
                    {
                        if let Some(found) = found.as_deref().filter(|found| *found != expected) {
                            let message = format!("{field} is {found:?}, expected {expected:?}");
                            return Err(serde::de::Error::custom(message));
                        }
                    }
                    Ok(Self { metadata: wire.metadata, spec: wire.spec, status: wire.status })
                }
            }

            impl Serialize for $kind {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let fields = 4 + usize::from(self.status.is_some());
                    let mut object = serializer.serialize_struct(Self::KIND, fields)?;
                    object.serialize_field("apiVersion", Self::API_VERSION)?;
                    object.serialize_field("kind", Self::KIND)?;
                    object.serialize_field("metadata", &self.metadata)?;
                    object.serialize_field("spec", &self.spec)?;
                    match &self.status {
                        Some(status) => object.serialize_field("status", status)?,
                        None => object.skip_field("status")?,
                    }
                    object.end()
                }
            }
        };
    };
}

pub(crate) use cluster_object;
