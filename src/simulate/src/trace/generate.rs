//! Days and weeks of a made-up cluster: services that follow the day, rollouts, and batch at night.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::write::{Lines, container, pod};
use crate::chance;

/// How often services are scaled, in seconds.
const SCALED_EVERY: u64 = 900;
const DAY: u64 = 86_400;
const NAMESPACE: &str = "default";
/// A Monday: the first five days are weekdays.
const START: &str = "2026-01-05T00:00:00Z";
/// The least that a Deployment has at its busiest time.
pub const LEAST_SERVICE_PODS: u64 = 2;

/// What is generated.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How many days.
    pub days: u64,
    /// How many Deployments.
    pub services: u64,
    /// Pods of all Deployments together at the busiest time of a weekday.
    pub service_pods: u64,
    /// Pods of batch a day, most of them at night.
    pub batch_pods: u64,
}

/// A Deployment, and how it follows the day.
struct Service {
    name: String,
    milli_cpu: u64,
    mebibytes: u64,
    /// Pods at its busiest time.
    most: f64,
    /// The part of them that is left at its quietest time.
    least: f64,
    /// When it is busiest, in hours.
    noon: f64,
    replicas: u64,
    version: u64,
}

/// Writes a trace of days: Deployments whose replicas follow a daily curve as a HorizontalPodAutoscaler would move them, with
/// quieter weekends; rollouts in working hours; batch pods of many lengths, most of them at night.
///
/// # Errors
/// What the writer says.
pub fn generate(options: &GenerateOptions, writer: impl Write) -> io::Result<()> {
    let mut state = options.seed;
    let mut lines = Lines::begin_with(writer, &json!({"start": START}))?;
    let mut services = services(options, &mut state);
    let shapes = [(500, 1024), (1000, 4096), (2000, 4096), (4000, 16_384), (7000, 8192)];
    for (index, (milli_cpu, mebibytes)) in shapes.into_iter().enumerate() {
        let name = format!("batch-{index}");
        lines.template(&name, &pod(NAMESPACE, &name, milli_cpu, mebibytes, 0))?;
    }
    for service in &mut services {
        service.replicas = service.wanted(0, 0.5);
        lines.apply(0.0, &service.deployment())?;
    }
    let mut n_batch = 0_u64;
    for tick in 0..options.days * DAY / SCALED_EVERY {
        let now = tick * SCALED_EVERY;
        for service in &mut services {
            let wanted = service.wanted(now, uniform(&mut state));
            // As a HorizontalPodAutoscaler: up at once, down by a tenth at a time, and not for a tenth.
            let is_near = wanted.abs_diff(service.replicas) * 10 <= service.replicas;
            let next = if wanted < service.replicas {
                wanted.max(service.replicas - service.replicas.div_ceil(10))
            } else {
                wanted
            };
            if now > 0 && !is_near && next != service.replicas {
                service.replicas = next;
                lines.scale(seconds(now) + uniform(&mut state) * 60.0, NAMESPACE, &service.name, next)?;
            }
            // On a weekday a service is rolled out with a chance of two in five, in working hours.
            let is_working = (32..72).contains(&(now % DAY / SCALED_EVERY)) && now / DAY % 7 < 5;
            if is_working && uniform(&mut state) < 0.01 {
                service.version += 1;
                lines.apply(seconds(now) + 60.0 + uniform(&mut state) * 800.0, &service.deployment())?;
            }
        }
        let hour = hour(now);
        // Four fifths of it between 22 and 6.
        let part = if (6.0..22.0).contains(&hour) { 0.2 / 64.0 } else { 0.8 / 32.0 };
        let mean = seconds(options.batch_pods) * part;
        let mut left = mean + uniform(&mut state);
        while left >= 1.0 {
            left -= 1.0;
            let at = seconds(now) + uniform(&mut state) * seconds(SCALED_EVERY);
            // Ten minutes in the middle, and some for hours.
            let length = 600.0 * (normal(&mut state) * 1.1).exp();
            let shape = index(&mut state, shapes.len());
            lines.create(
                millis(at),
                &format!("batch-{shape}"),
                &format!("batch-{n_batch}"),
                millis(length.clamp(20.0, 36_000.0)),
            )?;
            n_batch += 1;
        }
    }
    lines.end(seconds(options.days * DAY))
}

fn services(options: &GenerateOptions, state: &mut u64) -> Vec<Service> {
    let shapes = [(250, 512), (500, 1024), (1000, 2048), (1000, 8192), (2000, 4096), (3500, 7168)];
    // Few are large, many are small.
    let weights: Vec<f64> = (1..=options.services).map(|rank| 1.0 / seconds(rank).powf(0.8)).collect();
    let all: f64 = weights.iter().sum();
    let service = |(rank, weight): (usize, f64)| {
        let (milli_cpu, mebibytes) = shapes.get(index(state, shapes.len())).copied().unwrap_or((1000, 2048));
        Service {
            name: format!("service-{rank}"),
            milli_cpu,
            mebibytes,
            most: (weight / all * seconds(options.service_pods)).max(seconds(LEAST_SERVICE_PODS)),
            least: 0.25 + uniform(state) * 0.35,
            noon: 11.0 + uniform(state) * 6.0,
            replicas: 0,
            version: 1,
        }
    };
    weights.into_iter().enumerate().map(service).collect()
}

// === impl Service ===

impl Service {
    /// How many replicas its load asks for, with a little noise.
    fn wanted(&self, now: u64, noise: f64) -> u64 {
        let distance = ((hour(now) - self.noon).abs()).min(24.0 - (hour(now) - self.noon).abs());
        let curve = 0.5 + 0.5 * (distance / 12.0 * std::f64::consts::PI).cos();
        let weekend = if now / DAY % 7 < 5 { 1.0 } else { 0.6 };
        let wanted = self.most * (self.least + (1.0 - self.least) * curve) * weekend * (0.96 + 0.08 * noise);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = wanted.round() as u64;
        whole.max(1)
    }

    fn deployment(&self) -> Value {
        let image = format!("registry.example/{}:{}", self.name, self.version);
        let mut container = container(&self.name, self.milli_cpu, self.mebibytes, 0);
        if let Some(fields) = container.as_object_mut() {
            fields.insert("image".to_owned(), image.into());
        }
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {"replicas": self.replicas, "selector": {"matchLabels": {"app": self.name}},
                "template": {"metadata": {"labels": {"app": self.name}}, "spec": {"containers": [container]}}}})
    }
}

fn hour(now: u64) -> f64 {
    seconds(now % DAY) / 3600.0
}

#[allow(clippy::cast_precision_loss)]
const fn seconds(whole: u64) -> f64 {
    whole as f64
}

fn millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// From 0 to less than 1.
fn uniform(state: &mut u64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let bits = (chance::next(state) >> 11) as f64;
    bits / 9_007_199_254_740_992.0
}

/// About the standard normal distribution: the sum of twelve.
fn normal(state: &mut u64) -> f64 {
    (0..12).map(|_| uniform(state)).sum::<f64>() - 6.0
}

fn index(state: &mut u64, n: usize) -> usize {
    usize::try_from(chance::next(state) % n.max(1) as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_days_and_another_gives_others() {
        let days = |seed| {
            let options = GenerateOptions { seed, days: 1, services: 5, service_pods: 100, batch_pods: 200 };
            let mut out = Vec::new();
            generate(&options, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = days(1);
        assert_eq!(text, days(1));
        assert_ne!(text, days(2));
        let n_batch = text.matches("\"create\"").count();
        assert!((170..=230).contains(&n_batch), "{n_batch}");
        assert!(text.matches("\"scale\"").count() > 20);
        let mut steps = Vec::new();
        let path = std::env::temp_dir().join(format!("berth-generated-{}", std::process::id()));
        std::fs::write(&path, &text).unwrap();
        let read = super::super::read(&path, 0, &mut steps);
        std::fs::remove_file(&path).unwrap();
        let read = read.unwrap();
        assert_eq!(read.end, 86_400_000);
        // So that CronJobs and budgets by days of the week see its weekends where they are.
        let start = read.start.unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        assert_eq!(start.weekday(), jiff::civil::Weekday::Monday);
    }
}
