//! `[{"name","values","hourlyCost","unschedulable"}]`: what the plan was restricted by.

use berth_provisioning::Restriction;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Plan;
use crate::decimal::Exact;
use crate::restrictions;

pub(super) struct Restrictions<'a>(pub(super) &'a Plan);

impl Restrictions<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.solution.restrictions.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Has<'a>>>,
    hourly_cost: Option<Exact>,
    unschedulable: Option<u64>,
}

#[derive(Serialize)]
struct Has<'a> {
    value: &'a str,
    nodes: u64,
    share: Box<RawValue>,
}

impl Serialize for Restrictions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0;
        let mut entries = Vec::new();
        for known in &plan.solution.restrictions {
            let is_share = matches!(known.restriction, Restriction::MaxShare(_));
            let mut values = Vec::new();
            for value in &known.values {
                let part = format!("{}.{:09}", value.billionths / 1_000_000_000, value.billionths % 1_000_000_000);
                let part = RawValue::from_string(part).map_err(serde::ser::Error::custom)?;
                values.push(Has { value: &value.value, nodes: value.nodes, share: part });
            }
            entries.push(Entry {
                name: restrictions::name(plan, known),
                values: is_share.then_some(values),
                hourly_cost: known.cost.map(|cost| Exact(cost.hourly)),
                unschedulable: known.cost.map(|cost| cost.unplaced),
            });
        }
        entries.serialize(serializer)
    }
}
