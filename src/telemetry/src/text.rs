//! Metrics as OpenMetrics text.

use std::fmt::Error;

use berth_controllers::metrics::{Labels, Metric, Values};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Metrics that are written once.
#[derive(Debug)]
struct Snapshot(Vec<Metric>);

// === impl Snapshot ===

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for metric in &self.0 {
            let of_type = match &metric.values {
                Values::Gauge(_) => MetricType::Gauge,
                Values::Counter(_) => MetricType::Counter,
                Values::Histogram(_) => MetricType::Histogram,
            };
            let mut values = encoder.encode_descriptor(metric.name, metric.help, None, of_type)?;
            match &metric.values {
                Values::Gauge(all) => {
                    #[allow(
                        clippy::redundant_closure_for_method_calls,
                        reason = "a method of one lifetime is not enough"
                    )]
                    each(&mut values, all, |own, value| own.encode_gauge(value))?;
                }
                Values::Counter(all) => {
                    each(&mut values, all, |own, n| own.encode_counter::<NoLabelSet, _, f64>(n, None))?;
                }
                Values::Histogram(all) => each(&mut values, all, |own, histogram| {
                    let n = histogram.buckets.iter().map(|(_, n)| n).sum();
                    own.encode_histogram::<NoLabelSet>(histogram.sum, n, &histogram.buckets, None)
                })?,
            }
        }
        Ok(())
    }
}

fn each<T>(
    encoder: &mut MetricEncoder<'_>,
    all: &[(Labels, T)],
    encode: impl Fn(&mut MetricEncoder<'_>, &T) -> Result<(), Error>,
) -> Result<(), Error> {
    for (labels, value) in all {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        // Without labels there is no family.
        if labels.is_empty() {
            encode(encoder, value)?;
        } else {
            encode(&mut encoder.encode_family(&labels)?, value)?;
        }
    }
    Ok(())
}

/// Metrics as a Prometheus server reads them, in OpenMetrics 1.0.
pub fn text(metrics: Vec<Metric>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(metrics)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use berth_controllers::metrics::Histogram;

    use super::*;

    #[test]
    fn every_kind_of_metric_is_written_as_prometheus_reads_it() {
        let label = |value: &str| vec![("nodepool", value.to_owned())];
        let histogram = Histogram { sum: 2.5, buckets: vec![(0.5, 1), (1.0, 0), (f64::INFINITY, 1)] };
        let text = text(vec![
            Metric {
                name: "a_b",
                help: "What",
                values: Values::Gauge(vec![(label("x\"y\n"), 0.25), (label("z"), 2.0)]),
            },
            Metric { name: "c", help: "Why", values: Values::Gauge(vec![(Labels::new(), 1.0)]) },
            Metric { name: "d", help: "How", values: Values::Counter(vec![(label("w"), 3)]) },
            Metric { name: "e", help: "When", values: Values::Histogram(vec![(label("w"), histogram)]) },
        ]);
        let expected = "# HELP a_b What\n# TYPE a_b gauge\na_b{nodepool=\"x\\\"y\\n\"} 0.25\na_b{nodepool=\"z\"} 2.0\n\
            # HELP c Why\n# TYPE c gauge\nc 1.0\n\
            # HELP d How\n# TYPE d counter\nd_total{nodepool=\"w\"} 3\n\
            # HELP e When\n# TYPE e histogram\ne_sum{nodepool=\"w\"} 2.5\ne_count{nodepool=\"w\"} 2\n\
            e_bucket{le=\"0.5\",nodepool=\"w\"} 1\ne_bucket{le=\"1.0\",nodepool=\"w\"} 1\n\
            e_bucket{le=\"+Inf\",nodepool=\"w\"} 2\n# EOF\n";
        assert_eq!(text, expected);
    }
}
