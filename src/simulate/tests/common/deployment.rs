//! Scenarios of one NodePool, and Deployments of theirs.

/// A Deployment of `app: name`, with this in its pods' spec.
pub(crate) fn deployment(name: &str, replicas: u32, requests: &str, spec: &str) -> String {
    format!(
        "- apiVersion: apps/v1
  kind: Deployment
  metadata: {{name: {name}}}
  spec:
    replicas: {replicas}
    selector: {{matchLabels: {{app: {name}}}}}
    template:
      metadata: {{labels: {{app: {name}}}}}
      spec:
        containers: [{{name: app, image: app, resources: {{requests: {{{requests}}}}}}}]
        {spec}
"
    )
}

/// A scenario with these settings, one NodePool whose nodes are consolidated after so long, Deployments and events.
pub(crate) fn of_one_pool(
    settings: &str,
    consolidate_after: &str,
    requirements: &str,
    deployments: &[String],
    events: &str,
) -> String {
    format!(
        "apiVersion: berth.sh/v1alpha1
kind: Scenario
instanceTypes: catalogue.yaml
{settings}
objects:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {{name: p0}}
  spec:
    disruption: {{consolidateAfter: {consolidate_after}, budgets: [{{nodes: 100%}}]}}
    template:
      spec:
        nodeClassRef: {{group: berth.sh, kind: FakeNodeClass, name: default}}
        requirements:
        {requirements}
{}events:
{events}
",
        deployments.concat()
    )
}
