"""What moto knows of EC2, asked once; spot prices and the price list, which it does not have or has as one number."""

import gzip
import hashlib
import csv
import io
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "cloudprovider/aws/data/us-east-1.csv.gz"
CALLS = {
    "DescribeInstanceTypes": ("describe_instance_types", "InstanceTypes", {}),
    "DescribeInstanceTypeOfferings": (
        "describe_instance_type_offerings", "InstanceTypeOfferings", {"LocationType": "availability-zone"}
    ),
    "DescribeAvailabilityZones": ("describe_availability_zones", "AvailabilityZones", {}),
}


def from_moto(region, folder):
    """moto's answers by operation, kept in `folder` as it takes its time over them."""
    kept = pathlib.Path(folder) / f"moto-{region}.json" if folder else None
    if kept and kept.exists():
        return json.loads(kept.read_text())
    os.environ.update(AWS_ACCESS_KEY_ID="moto", AWS_SECRET_ACCESS_KEY="moto")
    import boto3
    from moto import mock_aws

    answers = {}
    with mock_aws():
        client = boto3.client("ec2", region)
        for operation, (call, key, params) in CALLS.items():
            pages = client.get_paginator(call).paginate(**params) if client.can_paginate(call) else [getattr(client, call)()]
            answers[operation] = [item for page in pages for item in page[key]]
    if kept:
        beside = kept.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(answers, default=str))
        beside.rename(kept)
    return answers


def prices():
    """On-demand prices by type, those of the bundled snapshot; a tenth more, so that nobody can mistake one for the other."""
    rows = csv.DictReader(io.StringIO(gzip.decompress(TABLE.read_bytes()).decode()))
    return {row["name"]: f"{float(row['price']) * 1.1:.7f}" for row in rows}


def spot_price(name, zone, on_demand):
    """30 to 59 percent of on-demand, by type and zone."""
    percent = 30 + hashlib.sha256(f"{name} {zone}".encode()).digest()[0] % 30
    return f"{float(on_demand) * percent / 100:.6f}"


def product(name, price, region, family, tenancy, system):
    """A product of the price list, with the fields that a catalogue reads and some that it does not."""
    sku = hashlib.sha256(f"{name} {system}".encode()).hexdigest()[:16].upper()
    attributes = {
        "instanceType": name, "regionCode": region, "operatingSystem": system, "tenancy": tenancy, "preInstalledSw": "NA",
        "capacitystatus": "Used", "licenseModel": "No License required", "marketoption": "OnDemand",
        "servicecode": "AmazonEC2",
    }
    dimension = {"unit": "Hrs", "rateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7", "pricePerUnit": {"USD": price}}
    offer = {"sku": sku, "offerTermCode": "JRTCKXETXF", "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}}
    return {
        "product": {"productFamily": family, "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": offer}},
    }
