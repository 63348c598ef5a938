//! Deployments of scenarios.

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
