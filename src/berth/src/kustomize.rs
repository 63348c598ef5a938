//! `-k`: a kustomization, built by the tool that people have.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use berth_plan::Input;

/// What builds a kustomization, the first that is on the PATH.
const TOOLS: [(&str, &str); 2] = [("kustomize", "build"), ("kubectl", "kustomize")];

/// The manifests of a kustomization.
pub(crate) fn build(folder: &Path) -> Result<Input> {
    let shown = folder.display();
    if !folder.exists() {
        bail!("{shown}: cannot be read: no such folder");
    }
    for (tool, verb) in TOOLS {
        let output = match Command::new(tool).arg(verb).arg(folder).output() {
            Ok(output) => output,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => bail!("{shown}: unable to run {tool}: {error}"),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{shown}: {tool} {verb} fails: {}", without_log_prefix(said.trim()));
        }
        let name = format!("{tool} {verb} {shown}");
        return Ok(Input::Text { name, text: output.stdout, is_of_server: false });
    }
    bail!("{shown}: -k needs kustomize or kubectl on the PATH, and neither is there")
}

/// What kubectl says through its log, as `E1123 10:20:30.456789 42 run.go:72] "command failed" err="…"`, without what only a
/// log needs.
fn without_log_prefix(said: &str) -> String {
    let logged = said.split_once("err=\"").filter(|(prefix, _)| prefix.starts_with('E') && prefix.contains("] "));
    let Some((_, message)) = logged else { return said.to_owned() };
    message.strip_suffix('"').unwrap_or(message).replace("\\\"", "\"").replace("\\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::without_log_prefix;

    #[test]
    fn what_kubectl_logs_is_told_without_time_process_and_source_line() {
        let logged = r#"E1123 19:29:28.665869   23273 run.go:72] "command failed" err="no \"a.yaml\": such file""#;
        assert_eq!(without_log_prefix(logged), r#"no "a.yaml": such file"#);
        assert_eq!(without_log_prefix("Error: no such file"), "Error: no such file");
    }
}
