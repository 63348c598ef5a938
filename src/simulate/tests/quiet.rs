//! What a simulation asks for while nothing happens.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_simulate::{Client, CloudEvent, FakeCloud, Onlooker, Simulation};
use jiff::Timestamp;

const SCENARIO: &str = "
apiVersion: berth.sh/v1alpha1
kind: Scenario
duration: 80m
objects:
- apiVersion: v1
  kind: Pod
  metadata: {name: web}
  spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
";

/// The watches that were asked for so far, by kind, after ten minutes and an hour later.
#[derive(Default)]
struct Asked(Arc<Mutex<Vec<Vec<String>>>>);

impl Onlooker for Asked {
    fn begin(&mut self, client: &Client, _: &FakeCloud) {
        let (client, asked) = (client.clone(), Arc::clone(&self.0));
        tokio::spawn(async move {
            for minutes in [10, 60] {
                tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
                let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
                let metrics = client.request_text(request).await.unwrap();
                asked.lock().unwrap().push(watches(&metrics));
            }
        });
    }

    fn happened(&mut self, _: Timestamp, _: &CloudEvent) {}
    fn step(&mut self, _: &str) {}
    fn end(&mut self) {}
}

/// What the simulation itself looks at: its client takes watches up again by itself.
const OWN: [&str; 3] = ["pods", "fakecapacityreservations", "fakenodeclasses"];

fn watches(metrics: &str) -> Vec<String> {
    let requests = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let watches = requests.filter(|line| line.contains("verb=\"WATCH\""));
    let is_own = |line: &&str| OWN.iter().any(|own| line.contains(&format!("resource=\"{own}\"")));
    watches.filter(|line| !is_own(line)).map(str::to_owned).collect()
}

/// No watch breaks in virtual time: to list and watch every kind anew every five minutes would cost much and tell nothing.
#[test]
fn a_quiet_hour_takes_no_watch_up_again() {
    let file = std::env::temp_dir().join(format!("berth-simulate-{}-quiet.yaml", std::process::id()));
    std::fs::write(&file, SCENARIO).unwrap();
    let mut asked = Asked::default();
    let simulation = Simulation::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    simulation.run_watched(&mut asked).unwrap();
    let asked = asked.0.lock().unwrap().clone();
    assert!(asked.len() == 2 && asked[0].len() > 20, "every kind is watched: {asked:#?}");
    assert_eq!(asked[1], asked[0], "watches within an hour in which nothing happens");
}
