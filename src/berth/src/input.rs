//! What `plan` and `explain` read, and how they solve it.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use berth_plan::{
    Effort, FeatureGates, Input, MaxShare, Money, Options, Plan, PreferencePolicy, Replicas, Validate, parse_max_share,
    parse_money,
};
use clap::ValueEnum;
use jiff::Timestamp;
use jiff::civil::date;
use jiff::fmt::temporal::Pieces;

use crate::cluster::ClusterArgs;
use crate::kustomize;
use crate::output::to_stderr;
use crate::progress::Progress;

/// More threads than parsing has work for; some thousand would only wait for each other.
const MOST_THREADS: i64 = 256;

/// Flags that say where objects are.
#[derive(Clone, clap::Args)]
pub(crate) struct FileArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for standard input; may be repeated
    #[arg(short, long = "filename", num_args = 1.., value_name = "FILE")]
    filename: Vec<String>,
    /// Read the folders in folders, too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// A folder with a kustomization, built by the kustomize or kubectl on the PATH; may be repeated
    #[arg(short = 'k', long, value_name = "FOLDER")]
    kustomize: Vec<PathBuf>,
    /// What becomes of fields that a kind does not have
    #[arg(long, value_enum, default_value_t = ValidateArg::Strict)]
    validate: ValidateArg,
}

/// Flags that say what to plan.
#[derive(Clone, clap::Args)]
pub(crate) struct InputArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How many replicas of workloads that a HorizontalPodAutoscaler scales: as many as they have (from minReplicas to maxReplicas),
    /// minReplicas, or maxReplicas
    #[arg(long, value_enum, default_value_t = ReplicasArg::Current)]
    replicas: ReplicasArg,
    /// Instance catalogue, JSON or YAML; without it, the fake provider's (see `berth catalog`)
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
    #[command(flatten)]
    solve: SolveArgs,
    /// The time of the plan, RFC 3339: what has expired by then is over (default: the clock's)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    now: Option<Timestamp>,
    /// Threads that parse, 1 to 256; the plan does not depend on them (default: one a core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    threads: Option<u16>,
}

/// Flags that say how nodes are planned.
#[derive(Clone, clap::Args)]
pub(crate) struct SolveArgs {
    /// How much work to spend on a cheaper plan
    #[arg(long, value_enum, default_value_t = EffortArg::Default)]
    effort: EffortArg,
    /// Dollars an hour that every new node costs beyond its price
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = parse_money)]
    node_cost: Money,
    /// At most this share of what is put on new nodes may be on nodes of any one value, or of one that is named: zone=0.5,
    /// instanceType=20%, capacityType=spot=70%; measured by requested CPU, rounded up to a whole pod; may be repeated
    #[arg(long, value_name = "KEY[=VALUE]=SHARE", value_delimiter = ',', value_parser = parse_max_share)]
    max_share: Vec<MaxShare>,
    /// Launch types with GPUs or other accelerators also for pods that ask for none, where these are cheapest
    #[arg(long)]
    gpu_types_for_any_pod: bool,
    /// Whether nodes are launched and kept for what pods prefer: preferred affinity, ScheduleAnyway spread, PreferNoSchedule taints
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = PreferencePolicyArg::Respect, ignore_case = true)]
    preference_policy: PreferencePolicyArg,
    /// Feature gates: ReservedCapacity (on by default), NodeOverlay, SpotToSpotConsolidation, NodeRepair, StaticCapacity
    #[arg(long, value_name = "GATE=BOOL,…", default_value = "", hide_default_value = true, value_parser = parse_gates)]
    feature_gates: FeatureGates,
    /// kube-scheduler configuration whose ReservationArgs and PodTopologySpreadArgs hold
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
}

/// What is to be found out beside the plan.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent questions")]
pub(crate) struct Asked<'a> {
    /// What any plan costs at least.
    pub(crate) bound: bool,
    /// What each restriction costs.
    pub(crate) what_restrictions_cost: bool,
    /// What the cluster costs planned from scratch.
    pub(crate) repack: bool,
    /// Files whose effect is asked for.
    pub(crate) diff: &'a [String],
    /// Which nodes would be disrupted.
    pub(crate) disrupt: bool,
    /// The price of an eviction where nodes go.
    pub(crate) eviction_price: Money,
    /// The node of which is asked what would come of removing it.
    pub(crate) without_node: Option<&'a str>,
    pub(crate) keeps_objects: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum EffortArg {
    /// Pack once, first fit
    Low,
    /// Try other packings, and search for a cheaper one in about a second
    Default,
    /// Search longer, for up to minutes
    High,
}

#[derive(Clone, Copy, ValueEnum)]
enum PreferencePolicyArg {
    /// A node is launched where a preference asks for one, and pods keep what they prefer when nodes are consolidated
    #[value(name = "Respect")]
    Respect,
    /// Nodes are launched and kept for what pods require alone
    #[value(name = "Ignore")]
    Ignore,
}

#[derive(Clone, Copy, ValueEnum)]
enum ReplicasArg {
    Current,
    Min,
    Max,
}

#[derive(Clone, Copy, ValueEnum)]
enum ValidateArg {
    Strict,
    Warn,
    Ignore,
}

fn parse_gates(text: &str) -> Result<FeatureGates, berth_plan::UnknownGate> {
    let mut gates = FeatureGates::default();
    gates.set_gates(text)?;
    Ok(gates)
}

// The last two days of the year 9999 are beyond what a timestamp can say: they are taken for its last moment.
fn parse_time(text: &str) -> Result<Timestamp, String> {
    let is_last =
        |time: &Pieces<'_>| time.time().is_some() && time.offset().is_some() && time.date() >= date(9999, 12, 30);
    let last = || Pieces::parse(text).ok().filter(is_last).map(|_| Timestamp::MAX);
    text.parse()
        .ok()
        .or_else(last)
        .ok_or_else(|| "expected a time in RFC 3339, such as 2026-01-31T12:00:00Z".to_owned())
}

impl FileArgs {
    /// Whether none is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.filename.is_empty() && self.kustomize.is_empty()
    }

    /// Kustomizations, which are built, then files.
    pub(crate) fn inputs(&self) -> Result<Vec<Input>> {
        let built = self.kustomize.iter().map(|folder| kustomize::build(folder));
        built.chain(self.filename.iter().map(|name| Ok(Input::from_arg(name)))).collect()
    }

    /// What becomes of fields that a kind does not have.
    pub(crate) const fn validate(&self) -> Validate {
        match self.validate {
            ValidateArg::Strict => Validate::Strict,
            ValidateArg::Warn => Validate::Warn,
            ValidateArg::Ignore => Validate::Ignore,
        }
    }
}

impl InputArgs {
    /// Takes the last of the files, as one that is none: `-f` takes all that follows it.
    pub(crate) fn pop_file(&mut self) -> Option<String> {
        self.files.filename.pop()
    }

    /// Reads and plans; what people should know is on standard error. `usage` are lines that show how the command is used;
    /// `asked` is what is to be found out beside the plan.
    pub(crate) fn plan(&self, what: &str, usage: &str, asked: Asked<'_>) -> Result<Plan> {
        if self.files.is_empty() && !self.cluster.is_asked() {
            bail!(
                "nothing to {what}: give manifests with -f FILE, a folder, or - for standard input, or --from-cluster\n\n{usage}"
            );
        }
        let Asked { bound, what_restrictions_cost, repack, diff, disrupt, eviction_price, without_node, keeps_objects } =
            asked;
        let without_node = without_node.map(str::to_owned);
        let reads_twice = self.files.filename.iter().chain(diff).filter(|name| *name == "-").count() > 1;
        if reads_twice {
            bail!("standard input (-) is given more than once, and can be read once");
        }
        self.start_threads()?;
        let mut inputs = self.cluster.read()?;
        inputs.extend(self.files.inputs()?);
        let changes: Vec<Input> = diff.iter().map(|name| Input::from_arg(name)).collect();
        let options = self.options()?;
        let options = Options {
            bound,
            what_restrictions_cost,
            repack,
            disrupt,
            eviction_price,
            without_node,
            keeps_objects,
            ..options
        };
        let progress = Progress::start("planning (--effort low is quicker)");
        let plan = berth_plan::plan_change(&inputs, &changes, self.instance_types.as_deref(), &options)?;
        drop(progress);
        for warning in plan.warnings() {
            to_stderr(format_args!("warning: {warning}"));
        }
        Ok(plan)
    }

    // One a core unless said otherwise: rayon's own default would take any number from its environment variable.
    fn start_threads(&self) -> Result<()> {
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads);
        if let Some(threads) = self.threads {
            return pool(usize::from(threads))
                .build_global()
                .with_context(|| format!("unable to start {threads} threads"));
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // Where the system gives no threads, this one reads.
        pool(cores.min(256))
            .build_global()
            .or_else(|_| pool(1).use_current_thread().build_global())
            .context("unable to start threads")
    }

    /// The options of the plan.
    pub(crate) fn options(&self) -> Result<Options> {
        let mut options = Options {
            now: self.now,
            recursive: self.files.recursive,
            validate: self.files.validate(),
            ..self.solve.options()?
        };
        options.gates.replicas = match self.replicas {
            ReplicasArg::Current => Replicas::Current,
            ReplicasArg::Min => Replicas::Min,
            ReplicasArg::Max => Replicas::Max,
        };
        Ok(options)
    }
}

impl SolveArgs {
    /// The options that are the same for manifests and for a cluster.
    pub(crate) fn options(&self) -> Result<Options> {
        let mut gates = self.feature_gates.clone();
        // Names in the input must not be able to choose their hashes.
        gates.hash_key = std::array::from_fn(|i| RandomState::new().hash_one(i));
        gates.preferences = match self.preference_policy {
            PreferencePolicyArg::Respect => PreferencePolicy::Respect,
            PreferencePolicyArg::Ignore => PreferencePolicy::Ignore,
        };
        if let Some(file) = &self.scheduler_config {
            let config = berth_plan::read_scheduler_config(file)?;
            (gates.reservations, gates.pod_topology_spread) = (config.reservations, config.spread);
        }
        Ok(Options {
            effort: match self.effort {
                EffortArg::Low => Effort::Low,
                EffortArg::Default => Effort::Default,
                EffortArg::High => Effort::High,
            },
            node_cost: self.node_cost,
            max_shares: self.max_share.clone(),
            gpu_types_for_any_pod: self.gpu_types_for_any_pod,
            gates,
            ..Options::default()
        })
    }
}
