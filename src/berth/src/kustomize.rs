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
            bail!("{shown}: {tool} {verb} fails: {}", said.trim());
        }
        let name = format!("{tool} {verb} {shown}");
        return Ok(Input::Text { name, text: output.stdout, is_of_server: false });
    }
    bail!("{shown}: -k needs kustomize or kubectl on the PATH, and neither is there")
}
