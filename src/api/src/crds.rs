//! The CustomResourceDefinitions as they are generated into crds/.

macro_rules! crds {
    ($($name:literal),* $(,)?) => {
        /// File name and YAML text of each CustomResourceDefinition, in order of name.
        pub const CRDS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../crds/", $name)))),*];
    };
}

crds! {
    "berth.sh_fakecapacityreservations.yaml",
    "berth.sh_fakenodeclasses.yaml",
    "karpenter.sh_nodeclaims.yaml",
    "karpenter.sh_nodeoverlays.yaml",
    "karpenter.sh_nodepools.yaml",
    "scheduling.koordinator.sh_reservations.yaml",
}
