//! `--from-cluster`: reads what planning needs from a live cluster, and writes nothing to it.
//!
//! Each kind that planning reads is listed once, in pages. Kinds that the cluster does not have, such as Karpenter's
//! where it is not installed, are empty.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use berth_plan::Input;
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::Value;

/// Objects of a page, as kubectl's `--chunk-size`.
const PAGE: usize = 500;
/// Pages of a kind at most: a server that never ends its list is none.
const MOST_PAGES: usize = 100_000;
/// How long a connection may take. kube waits longer, and tries again.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// After how long a cluster that did not answer is asked again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Which cluster is read.
#[derive(Clone, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Read the cluster of the kubeconfig, too, before any files; it needs the right to list, and changes nothing
    #[arg(long)]
    from_cluster: bool,
    /// The kubeconfig's context to read (default: the current one)
    #[arg(long, value_name = "NAME", requires = "from_cluster")]
    context: Option<String>,
    /// The kubeconfig (default: as for kubectl, $KUBECONFIG or ~/.kube/config)
    #[arg(long, value_name = "FILE", requires = "from_cluster")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// Whether a cluster is to be read.
    pub(crate) fn is_asked(&self) -> bool {
        self.from_cluster
    }

    /// What the cluster holds, an input for each kind.
    pub(crate) fn read(&self) -> Result<Vec<Input>> {
        if !self.from_cluster {
            return Ok(Vec::new());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("unable to start a connection")?;
        let read = runtime.block_on(async {
            let (client, context) = self.connect().await?;
            list_all(&client, &context).await
        });
        // A lookup of a name may still run; nothing is left to wait for.
        runtime.shutdown_background();
        read
    }

    async fn connect(&self) -> Result<(Client, String)> {
        let (mut config, context) = of_kubeconfig(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        (config.connect_timeout, config.read_timeout) = (Some(CONNECT), Some(ANSWER));
        let client = Client::try_from(config).map_err(|error| told(&error, &context))?;
        Ok((client, context))
    }
}

/// What a cluster holds of all that planning reads, an input for each kind.
pub(crate) async fn list_all(client: &Client, context: &str) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    let mut known: Option<(&str, Option<APIResourceList>)> = None;
    for (api_version, kind) in berth_plan::known_kinds() {
        let kinds = match &known {
            Some((of, kinds)) if *of == api_version => kinds.clone(),
            _ => {
                let kinds = kinds_of(client, api_version).await.map_err(|error| told(&error, context))?;
                known = Some((api_version, kinds.clone()));
                kinds
            }
        };
        if api_version == "v1" && kinds.is_none() {
            bail!("cluster of context {context}: it serves no v1, so it is no Kubernetes API server");
        }
        let resources = kinds.into_iter().flat_map(|kinds| kinds.resources);
        let mut names = resources.filter(|one| one.kind == kind && !one.name.contains('/')).map(|one| one.name);
        // A cluster without the kind has no objects of it.
        let Some(plural) = names.next() else { continue };
        let path = format!("{}/{plural}", path_of(api_version));
        let listed = list(client, &path).await;
        // Roles of earlier versions do not name it, and only scores depend on it.
        if kind == "Service" && matches!(&listed, Err(kube::Error::Api(status)) if status.code == 403) {
            tracing::warn!(
                "cluster of context {context}: may not list {plural}: pods without spread constraints are spread as their \
                 controllers alone say"
            );
            continue;
        }
        let items = listed.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 403 => anyhow!(
                "cluster of context {context}: may not list {plural}: {}; berth needs the verb list on all that it reads",
                status.message
            ),
            other => told(&other, context),
        })?;
        if !items.is_empty() {
            inputs.push(as_input(items, api_version, kind, &format!("context {context}: {plural}"))?);
        }
    }
    Ok(inputs)
}

/// A client for as long as the process lives, and what to call its cluster: that of the kubeconfig where one is named,
/// else the one in which this process is a pod, else the kubeconfig's as for kubectl.
pub(crate) async fn connect_long(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<(Client, String)> {
    let is_pod = kubeconfig.is_none()
        && context.is_none()
        && std::env::var_os("KUBECONFIG").is_none()
        && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let (mut config, context) = if is_pod {
        let config = kube::Config::incluster();
        (config.map_err(|error| anyhow!("this pod's cluster: {}", one_line(&error)))?, "this pod".to_owned())
    } else {
        of_kubeconfig(kubeconfig, context).await?
    };
    // Watches may be silent for long: their own time is over before that of an answer.
    config.connect_timeout = Some(CONNECT);
    // A budget answers evictions with 429, which is no fault: asked again and again, one would hold up other requests.
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| told(&error, &context))?;
    Ok((client, context))
}

/// The kinds that a cluster serves of a group and version; none where it does not have it.
pub(crate) async fn served_kinds(client: &Client, api_version: &str, context: &str) -> Result<Vec<String>> {
    let kinds = kinds_of(client, api_version).await.map_err(|error| told(&error, context))?;
    Ok(kinds.into_iter().flat_map(|kinds| kinds.resources).map(|one| one.kind).collect())
}

/// The configuration of a kubeconfig's context, and the context's name.
async fn of_kubeconfig(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<(kube::Config, String)> {
    let read = match kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = read.map_err(|error| anyhow!("unable to read {}", why_unread(kubeconfig, &error)))?;
    let known: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    let Some(context) = context.map(str::to_owned).or_else(|| kubeconfig.current_context.clone()) else {
        bail!("the kubeconfig has no current context: name one with --context ({})", known.join(", "));
    };
    if !known.contains(&context.as_str()) {
        let has = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        bail!("context {context:?} is not in the kubeconfig: {has}");
    }
    let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| anyhow!("context {context}: {}", one_line(&error)))?;
    Ok((config, context))
}

/// The file, and what is wrong with it.
fn why_unread(file: Option<&Path>, error: &KubeconfigError) -> String {
    let named = file.map_or_else(|| "a kubeconfig".to_owned(), |file| format!("the kubeconfig {}", file.display()));
    match error {
        KubeconfigError::ReadConfig(source, file) => format!("the kubeconfig {}: {source}", file.display()),
        KubeconfigError::KindMismatch | KubeconfigError::ApiVersionMismatch => {
            format!("{named}: expected kind: Config and apiVersion: v1 alone, found another kind or apiVersion")
        }
        other => format!("{named}: {}", one_line(other)),
    }
}

fn path_of(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

async fn get(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}

/// The kinds of a group and version; none where the cluster does not have it.
async fn kinds_of(client: &Client, api_version: &str) -> Result<Option<APIResourceList>, kube::Error> {
    match get(client, &path_of(api_version)).await {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(kube::Error::SerdeError),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// All objects of a kind, page by page; all at once where they change too fast for that.
async fn list(client: &Client, path: &str) -> Result<Vec<Value>, kube::Error> {
    let (mut items, mut next) = (Vec::new(), String::new());
    for _ in 0..MOST_PAGES {
        let page = if next.is_empty() {
            format!("{path}?limit={PAGE}")
        } else {
            format!("{path}?limit={PAGE}&continue={}", percent_encoded(&next))
        };
        let text = match get(client, &page).await {
            Err(kube::Error::Api(status)) if status.code == 410 && !next.is_empty() => {
                items.clear();
                get(client, path).await?
            }
            // The kind has gone since it was listed.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(items),
            other => other?,
        };
        let mut list: Value = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        if let Some(Value::Array(more)) = list.get_mut("items").map(Value::take) {
            items.extend(more);
        }
        let more = list.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
        more.clone_into(&mut next);
        if next.is_empty() {
            break;
        }
    }
    Ok(items)
}

/// A List as `kubectl get` prints it: items of an API server's list do not say what they are.
fn as_input(mut items: Vec<Value>, api_version: &str, kind: &str, name: &str) -> Result<Input> {
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.insert("apiVersion".to_owned(), api_version.into());
        item.insert("kind".to_owned(), kind.into());
        if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
            // Often half of the object, and nothing depends on it.
            metadata.remove("managedFields");
        }
    }
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    let text = serde_json::to_vec(&list).context("unable to keep what was read")?;
    Ok(Input::Text { name: name.to_owned(), text, is_of_server: true })
}

fn percent_encoded(text: &str) -> String {
    let shown = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(shown).collect()
}

/// That a cluster did not answer, and may do so in a while.
#[derive(Debug)]
struct Unanswered(String);

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

/// How long a cluster is waited for.
#[derive(Clone, clap::Args)]
pub(crate) struct PatienceArgs {
    /// How long to wait at the start for a cluster that does not answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait_for_cluster: u32,
}

impl PatienceArgs {
    /// Asks until the cluster answers, or its time is over: API servers are restarted, and may come up later than whoever
    /// asks them.
    pub(crate) async fn ask<T>(&self, mut question: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let patience = Duration::from_secs(u64::from(self.wait_for_cluster));
        let (start, mut pause) = (tokio::time::Instant::now(), FIRST_PAUSE);
        loop {
            let error = match question().await {
                Err(error) if error.is::<Unanswered>() => error,
                answer => return answer,
            };
            let left = patience.saturating_sub(start.elapsed());
            if patience.is_zero() {
                return Err(error);
            }
            if left.is_zero() {
                return Err(error.context(format!("no answer within {patience:?} (--wait-for-cluster)")));
            }
            tracing::warn!("{error:#}; it is asked again");
            tokio::time::sleep(pause.min(left)).await;
            pause = LONGEST_PAUSE.min(pause.saturating_mul(2));
        }
    }
}

pub(crate) fn told(error: &kube::Error, context: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            anyhow!("cluster of context {context}: it does not accept the kubeconfig's credentials")
        }
        kube::Error::Api(status) => {
            let text = format!("cluster of context {context}: it answers {}: {}", status.code, status.message);
            if status.code >= 500 || status.code == 429 { Unanswered(text).into() } else { anyhow!(text) }
        }
        kube::Error::Service(cause) => {
            Unanswered(format!("cluster of context {context}: unable to reach it: {}", one_line(cause.as_ref()))).into()
        }
        other => anyhow!("cluster of context {context}: unable to read it: {}", one_line(other)),
    }
}

/// An error with its causes, in one line.
fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        // Many errors repeat their cause.
        if !parts.iter().any(|known| known.contains(&text)) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}

/// The kinds without which neither Berth nor its fake cloud can do anything.
const NEEDED: [(&str, &[&str]); 2] = [
    ("karpenter.sh/v1", &["NodePool", "NodeClaim"]),
    ("berth.sh/v1alpha1", &["FakeNodeClass", "FakeCapacityReservation"]),
];

/// Whether Berth's definitions are installed in a cluster.
pub(crate) async fn expect_definitions(client: &Client, context: &str) -> Result<()> {
    for (api_version, kinds) in NEEDED {
        let known = served_kinds(client, api_version, context).await?;
        if let Some(missing) = kinds.iter().find(|kind| !known.iter().any(|known| known == *kind)) {
            bail!(
                "cluster of context {context}: it does not serve {missing} of {api_version}; install Berth's definitions first\n\n  \
                 berth crds | kubectl apply --server-side -f -"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_a_page_may_hold_what_a_query_may_not() {
        assert_eq!(percent_encoded("a+b/c=&é"), "a%2Bb%2Fc%3D%26%C3%A9");
    }

    #[test]
    fn a_group_and_the_core_are_served_at_different_roots() {
        assert_eq!((path_of("v1").as_str(), path_of("apps/v1").as_str()), ("/api/v1", "/apis/apps/v1"));
    }
}
