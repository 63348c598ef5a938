//! Why a class could not be placed.

use berth_model::ClassId;

use crate::planner::Planner;
use crate::solution::Refusal;

impl Planner<'_> {
    /// The reasons, counted, against the cluster as the plan leaves it.
    pub(crate) fn refusals(&mut self, id: ClassId) -> Vec<Refusal> {
        let _ = id;
        Vec::new()
    }
}
