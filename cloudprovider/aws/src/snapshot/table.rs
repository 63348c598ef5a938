//! The bundled table, as `hack/ec2/snapshot.py` writes it.

use std::io::Read;
use std::str::FromStr;

use berth_catalogue::Money;

use crate::{Accelerator, InstanceFacts, NeuronDevice};

static BYTES: &[u8] = include_bytes!("../../data/us-east-1.csv.gz");
const HEADER: &str = "name,arch,vcpus,memory_mib,interfaces,ipv4,hypervisor,bare_metal,nvme_gb,gpu_name,\
    gpu_manufacturer,gpu_count,gpu_mib,accelerator_name,accelerator_manufacturer,accelerator_count,neuron_cores,efas,\
    branch_interfaces,cpu_manufacturer,clock_mhz,network_mbps,ebs_mbps,encryption,price";
/// Far more than the table has: what is bundled is ours, but a limit costs nothing.
const MAX_BYTES: u64 = 16 << 20;

/// The bundled table is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the bundled snapshot of EC2, line {line}: {message}")]
pub struct TableError {
    line: usize,
    message: String,
}

/// A line of the table.
struct Row<'t> {
    line: usize,
    fields: Vec<&'t str>,
}

/// Every type with its on-demand price.
pub(super) fn read() -> Result<Vec<(InstanceFacts, Money)>, TableError> {
    let mut text = String::new();
    let unreadable = |error: std::io::Error| TableError { line: 0, message: error.to_string() };
    flate2::read::GzDecoder::new(BYTES).take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(TableError { line: 1, message: "expected other columns".to_owned() });
    }
    lines.enumerate().map(|(i, line)| Row { line: i + 2, fields: line.split(',').collect() }.facts()).collect()
}

// === impl Row ===

impl Row<'_> {
    fn facts(&self) -> Result<(InstanceFacts, Money), TableError> {
        let gpu = Accelerator {
            name: self.text(9)?,
            manufacturer: self.text(10)?,
            count: self.number(11)?,
            memory_mib: self.number(12)?,
        };
        let accelerator =
            Accelerator { name: self.text(13)?, manufacturer: self.text(14)?, count: self.number(15)?, memory_mib: 0 };
        let neuron_cores: u32 = self.number(16)?;
        let neuron = NeuronDevice {
            name: accelerator.name.clone(),
            count: accelerator.count,
            cores: neuron_cores.checked_div(accelerator.count).unwrap_or(0),
        };
        let nvme: Option<u64> = self.optional(8)?;
        let facts = InstanceFacts {
            name: self.text(0)?,
            architecture: self.text(1)?,
            vcpus: self.number(2)?,
            memory_mib: self.number(3)?,
            network_interfaces: self.number(4)?,
            ipv4_per_interface: self.number(5)?,
            hypervisor: self.text(6)?,
            is_bare_metal: self.text(7)? == "true",
            local_storage_gb: nvme.unwrap_or(0),
            local_storage_is_nvme: nvme.is_some(),
            gpus: if gpu.count > 0 { vec![gpu] } else { Vec::new() },
            accelerators: if accelerator.count > 0 && neuron_cores == 0 { vec![accelerator] } else { Vec::new() },
            neuron: if neuron_cores > 0 { vec![neuron] } else { Vec::new() },
            efas: self.number(17)?,
            branch_interfaces: self.number(18)?,
            cpu_manufacturer: self.text(19)?,
            clock_mhz: self.optional(20)?,
            network_mbps: self.optional(21)?,
            ebs_mbps: self.optional(22)?,
            encrypts_in_transit: self.text(23)? == "true",
            has_nitro_enclaves: None,
            is_on_demand: true,
            is_spot: true,
        };
        let price = self.text(24)?.parse().map_err(|_| self.wrong(24))?;
        Ok((facts, price))
    }

    fn text(&self, at: usize) -> Result<String, TableError> {
        self.fields.get(at).map(|text| (*text).to_owned()).ok_or_else(|| self.wrong(at))
    }

    fn optional<T: FromStr>(&self, at: usize) -> Result<Option<T>, TableError> {
        let text = self.fields.get(at).ok_or_else(|| self.wrong(at))?;
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| self.wrong(at)) }
    }

    fn number<T: FromStr + Default>(&self, at: usize) -> Result<T, TableError> {
        Ok(self.optional(at)?.unwrap_or_default())
    }

    fn wrong(&self, at: usize) -> TableError {
        let column = HEADER.split(',').nth(at).unwrap_or_default();
        TableError { line: self.line, message: format!("{column} is missing or no number") }
    }
}
