#!/usr/bin/env python3
"""Makes the bundled snapshot of EC2's instance types, cloudprovider/aws/data/us-east-1.csv.gz, and what its tests expect.

    hack/ec2/snapshot.py TYPES.csv KARPENTER

TYPES.csv lists types with vCPUs, memory, what pods may use and on-demand prices (columns type, arch, vcpu, mem_mib,
gpu_name, gpu_count, alloc_cpu, alloc_mem, alloc_pods, alloc_accel, usd_per_h). KARPENTER is a checkout of
aws/karpenter-provider-aws (Apache-2.0): its reference page has the labels of each type, its table of VPC limits the
network interfaces. The same input makes the same bytes.
"""

import csv
import gzip
import io
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "cloudprovider" / "aws"
LABEL = "karpenter.k8s.aws/instance-"

# The columns of the snapshot, as src/snapshot/table.rs reads them.
COLUMNS = [
    "name", "arch", "vcpus", "memory_mib", "interfaces", "ipv4", "hypervisor", "bare_metal", "nvme_gb", "gpu_name",
    "gpu_manufacturer", "gpu_count", "gpu_mib", "accelerator_name", "accelerator_manufacturer", "accelerator_count",
    "neuron_cores", "efas", "branch_interfaces", "cpu_manufacturer", "clock_mhz", "network_mbps", "ebs_mbps",
    "encryption", "price",
]


def reference(text):
    """Labels and resources by type, of the reference page."""
    types = {}
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        rows = re.findall(r"^ \|([^|]+)\|([^|]*)\|$", section, re.M)
        types[re.match(r"`([^`]+)`", section).group(1)] = dict(rows)
    return types


def limits(text):
    """Interfaces of the default network card, addresses of each, branch interfaces and bare metal, by type."""
    types = {}
    for name, body in re.findall(r'^\t"([^"]+)": \{\n(.*?)^\t\},$', text, re.M | re.S):
        number = lambda key, within: int(re.search(rf"\b{key}:\s+(\d+)", within).group(1))
        cards = {
            number("NetworkCardIndex", card): number("MaximumNetworkInterfaces", card)
            for card in re.findall(r"\{\s*MaximumNetworkInterfaces.*?\}", body, re.S)
        }
        trunking = re.search(r"IsTrunkingCompatible:\s+true", body)
        types[name] = {
            "interfaces": cards[number("DefaultNetworkCardIndex", body)],
            "ipv4": number("IPv4PerInterface", body),
            "branch_interfaces": number("BranchInterface", body) if trunking else 0,
            "bare_metal": "true" if re.search(r"IsBareMetal:\s+true", body) else "",
        }
    return types


def row(entry, known, network):
    label = lambda name: known.get(LABEL + name, "")
    return {
        "name": entry["type"],
        "arch": entry["arch"],
        "vcpus": entry["vcpu"],
        "memory_mib": entry["mem_mib"],
        **network,
        "hypervisor": label("hypervisor"),
        "nvme_gb": label("local-nvme"),
        "gpu_name": label("gpu-name"),
        "gpu_manufacturer": label("gpu-manufacturer"),
        "gpu_count": label("gpu-count"),
        "gpu_mib": label("gpu-memory"),
        "accelerator_name": label("accelerator-name"),
        "accelerator_manufacturer": label("accelerator-manufacturer"),
        "accelerator_count": label("accelerator-count"),
        "neuron_cores": known.get("aws.amazon.com/neuroncore", ""),
        "efas": known.get("vpc.amazonaws.com/efa", ""),
        "cpu_manufacturer": label("cpu-manufacturer"),
        "clock_mhz": label("cpu-sustained-clock-speed-mhz"),
        "network_mbps": label("network-bandwidth"),
        "ebs_mbps": label("ebs-bandwidth"),
        "encryption": label("encryption-in-transit-supported"),
        "price": entry["usd_per_h"],
    }


def write(path, columns, rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{path}: {len(rows)} types, {path.stat().st_size} bytes")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    entries = sorted(csv.DictReader(open(sys.argv[1])), key=lambda entry: entry["type"])
    karpenter = pathlib.Path(sys.argv[2])
    known = reference((karpenter / "website/content/en/preview/reference/instance-types.md").read_text())
    networks = limits((karpenter / "pkg/providers/instancetype/zz_generated.vpclimits.go").read_text())
    missing = [e["type"] for e in entries if e["type"] not in known or e["type"] not in networks]
    if missing:
        print(f"left out, for want of labels or network limits: {', '.join(missing)}", file=sys.stderr)
    entries = [entry for entry in entries if entry["type"] not in missing]
    rows = [row(entry, known[entry["type"]], networks[entry["type"]]) for entry in entries]
    write(ROOT / "data/us-east-1.csv.gz", COLUMNS, rows)
    expected = ["type", "alloc_cpu", "alloc_mem", "alloc_pods", "alloc_accel"]
    write(ROOT / "tests/data/us-east-1-allocatable.csv.gz", expected, [{c: e[c] for c in expected} for e in entries])


if __name__ == "__main__":
    main()
