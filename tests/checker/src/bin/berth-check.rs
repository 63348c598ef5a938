//! `berth-check -f FILE… --instance-types FILE PLAN.json`: prints what is wrong with a plan; exit code 1 if anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::Value;

use berth_checker::{MaxShare, Options, check};

/// Check a plan of `berth plan -o json`, independently and slowly.
#[derive(Parser)]
#[command(name = "berth-check")]
struct Arguments {
    /// Files of manifests that the plan was made from (YAML of several documents, or JSON).
    #[arg(short, long = "filename", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// The instance catalogue that the plan was made with.
    #[arg(long)]
    instance_types: PathBuf,
    /// The plan was made with the gate ReservedCapacity off.
    #[arg(long)]
    no_reserved_capacity: bool,
    /// `--node-cost` of the plan.
    #[arg(long, default_value_t = 0.0)]
    node_cost: f64,
    /// `--max-share` of the plan, as KEY=PERCENT% or KEY=VALUE=PERCENT%.
    #[arg(long)]
    max_share: Vec<String>,
    /// The plan was made with `--gpu-types-for-any-pod`.
    #[arg(long)]
    gpu_types_for_any_pod: bool,
    /// The plan, as JSON.
    plan: PathBuf,
}

/// The documents of a YAML or JSON file, Lists taken apart.
fn documents(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("unable to read {}", path.display()))?;
    let read = match serde_json::from_str::<Value>(&text) {
        Ok(value) => vec![value],
        Err(_) => serde_saphyr::from_multiple::<Value>(&text)
            .with_context(|| format!("unable to parse {}", path.display()))?,
    };
    let mut objects = Vec::new();
    for value in read {
        match value.get("items") {
            Some(Value::Array(items)) => objects.extend(items.iter().cloned()),
            _ if value.is_null() => {}
            _ => objects.push(value),
        }
    }
    Ok(objects)
}

/// The catalogue, a list of types in one document.
fn catalogue(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("unable to read {}", path.display()))?;
    serde_json::from_str(&text)
        .or_else(|_| serde_saphyr::from_str(&text))
        .with_context(|| format!("unable to parse {}", path.display()))
}

fn max_share(text: &str) -> Result<MaxShare> {
    let parts: Vec<&str> = text.trim_end_matches('%').split('=').collect();
    let (key, value, percent) = match parts.as_slice() {
        [key, percent] => (*key, None, *percent),
        [key, value, percent] => (*key, Some((*value).to_owned()), *percent),
        _ => anyhow::bail!("--max-share {text}: expected KEY=PERCENT% or KEY=VALUE=PERCENT%"),
    };
    let percent: u32 = percent.parse().with_context(|| format!("--max-share {text}: expected whole percents"))?;
    Ok(MaxShare { key: key.to_owned(), value, billionths: percent.saturating_mul(10_000_000) })
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut objects = Vec::new();
    for path in &arguments.filename {
        objects.extend(documents(path)?);
    }
    let plan =
        fs::read_to_string(&arguments.plan).with_context(|| format!("unable to read {}", arguments.plan.display()))?;
    let plan: Value =
        serde_json::from_str(&plan).with_context(|| format!("unable to parse {}", arguments.plan.display()))?;
    let options = Options {
        reserved_capacity: !arguments.no_reserved_capacity,
        node_cost: arguments.node_cost,
        max_shares: arguments.max_share.iter().map(|text| max_share(text)).collect::<Result<_>>()?,
        gpu_types_for_any_pod: arguments.gpu_types_for_any_pod,
    };
    let violations = check(&objects, &catalogue(&arguments.instance_types)?, &plan, &options);
    for violation in &violations {
        println!("{violation}");
    }
    println!("{} violations", violations.len());
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
