//! What the API server checks on create, as far as planning depends on it.

mod budget;
mod metadata;
mod node;
mod pod;
mod resources;
mod selector;
pub(crate) mod syntax;
mod workload;

use crate::error::Problem;
use crate::object::Object;
use crate::options::Source;

/// The checks of one object note what they find here.
pub(crate) type Problems = Vec<Problem>;

/// Fills in what the API server would: the name of a Pod with `generateName`, numbered by its
/// place in the input so that it is the same in every run, and the namespace `default`.
pub(crate) fn complete(object: &mut Object, source: &Source) {
    let Object::Pod(pod) = object else { return };
    let metadata = &mut pod.metadata;
    if metadata.name.as_ref().is_none_or(String::is_empty)
        && let Some(prefix) = metadata.generate_name.as_ref().filter(|prefix| !prefix.is_empty())
    {
        let name = match source.item {
            Some(item) => format!("{prefix}{}-{item}", source.document),
            None => format!("{prefix}{}", source.document),
        };
        metadata.name = Some(name);
    }
}

/// Checks an object and notes what is wrong.
pub(crate) fn object(object: &Object, problems: &mut Problems) {
    metadata::check(object, problems);
    let fields = match object {
        Object::Pod(pod) => return pod::check(pod, problems),
        Object::Node(node) => return node::check(node, problems),
        Object::NodePool(object) => object.validate(),
        Object::NodeClaim(object) => object.validate(),
        Object::NodeOverlay(object) => object.validate(),
        Object::Reservation(object) => object.validate(),
        Object::FakeCapacityReservation(object) => object.validate(),
        Object::EC2NodeClass(object) => object.validate(),
        Object::NodeClass(object) => object.validate(),
        Object::FakeNodeClass(object) => object.validate(),
        _ => return workload::check(object, problems),
    };
    for field in fields {
        // Their metadata is checked above as everyone's.
        if !problems.iter().any(|problem| problem.path == field.path) {
            problems.push(Problem::new(field.path, field.message));
        }
    }
}
