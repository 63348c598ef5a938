"""The emulator's own tests: botocore's client asks it, as any client would."""

import argparse
import datetime
import json
import subprocess
import sys
import urllib.request

import boto3
import botocore.config
from botocore.exceptions import ClientError

parser = argparse.ArgumentParser()
parser.add_argument("--folder", required=True)
FOLDER = parser.parse_args().folder


def start():
    server = subprocess.Popen(
        [sys.executable, "serve.py", "--folder", FOLDER, "--seed", "7"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return server, server.stdout.readline().strip()


SERVER, URL = start()
ONCE = botocore.config.Config(retries={"max_attempts": 1, "mode": "standard"})


def client(service, region="us-east-1", key="AKIAEMULATOR"):
    return boto3.client(
        service, region, endpoint_url=URL, aws_access_key_id=key, aws_secret_access_key="secret", config=ONCE
    )


def order(**orders):
    request = urllib.request.Request(URL + "/_emulator", json.dumps(orders).encode(), method="POST")
    urllib.request.urlopen(request, timeout=30).read()


def code_of(call):
    try:
        call()
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


def test_types_are_motos_page_by_page(ec2):
    pages = list(ec2.get_paginator("describe_instance_types").paginate())
    types = {known["InstanceType"] for page in pages for known in page["InstanceTypes"]}
    assert len(pages) == 14 and len(types) > 1300 and "m5.xlarge" in types
    offerings = ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
    assert sum(len(page["InstanceTypeOfferings"]) for page in offerings) > 5000
    assert [zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]][0] == "use1-az6"


def test_a_reservation_lives_as_in_ec2(ec2):
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "web"}]}]
    made = ec2.create_capacity_reservation(
        InstanceType="m5.xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=4,
        InstanceMatchCriteria="targeted", TagSpecifications=tags, ClientToken="once",
    )["CapacityReservation"]
    again = ec2.create_capacity_reservation(
        InstanceType="m5.xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=4, ClientToken="once"
    )["CapacityReservation"]
    identifier = made["CapacityReservationId"]
    assert again["CapacityReservationId"] == identifier and made["AvailableInstanceCount"] == 4
    order(take={identifier: 3}, groups={"web": [identifier]})
    ask = lambda **filters: [
        each["CapacityReservationId"]
        for each in ec2.describe_capacity_reservations(
            Filters=[{"Name": name.replace("_", "-").replace("tag-team", "tag:team"), "Values": [value]} for name, value in filters.items()]
        )["CapacityReservations"]
    ]
    assert ask(state="active", tag_team="w*") == [identifier] and ask(tag_team="db") == []
    assert ask(instance_match_criteria="targeted", availability_zone="us-east-1a") == [identifier]
    groups = ec2.get_groups_for_capacity_reservation(CapacityReservationId=identifier)["CapacityReservationGroups"]
    assert [group["GroupArn"].split("/")[-1] for group in groups] == ["web"]
    assert code_of(lambda: ec2.modify_capacity_reservation(CapacityReservationId=identifier, InstanceCount=2)) == "InvalidParameterValue"
    ec2.modify_capacity_reservation(CapacityReservationId=identifier, InstanceCount=10)
    found = ec2.describe_capacity_reservations(CapacityReservationIds=[identifier])["CapacityReservations"][0]
    assert (found["TotalInstanceCount"], found["AvailableInstanceCount"]) == (10, 7)
    ec2.cancel_capacity_reservation(CapacityReservationId=identifier)
    assert ask(state="cancelled") == [identifier]
    assert code_of(lambda: ec2.cancel_capacity_reservation(CapacityReservationId=identifier)) == "IncorrectState"


def test_time_begins_and_ends_reservations(ec2):
    now = datetime.datetime.now(datetime.timezone.utc)
    base = {"InstanceType": "c5.large", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-east-1b",
            "TotalInstanceCount": 2, "AvailableInstanceCount": 0}
    past, future = (now - datetime.timedelta(hours=1)).isoformat(), (now + datetime.timedelta(hours=1)).isoformat()
    order(put=[
        {**base, "CapacityReservationId": "cr-begun", "State": "scheduled", "StartDate": past},
        {**base, "CapacityReservationId": "cr-waits", "State": "scheduled", "StartDate": future},
        {**base, "CapacityReservationId": "cr-ended", "AvailableInstanceCount": 2, "EndDate": past},
    ])
    found = ec2.describe_capacity_reservations(Filters=[{"Name": "instance-type", "Values": ["c5.large"]}])
    states = {each["CapacityReservationId"]: (each["State"], each["AvailableInstanceCount"]) for each in found["CapacityReservations"]}
    assert states == {"cr-begun": ("active", 2), "cr-waits": ("scheduled", 0), "cr-ended": ("expired", 0)}, states


def test_pages_are_cut_and_tokens_are_checked(ec2):
    order(faults={"page": 1})
    pages = list(ec2.get_paginator("describe_capacity_reservations").paginate())
    assert len(pages) == 4 and all(len(page["CapacityReservations"]) == 1 for page in pages)
    assert code_of(lambda: ec2.describe_capacity_reservations(NextToken="bm90IG9uZQ==")) == "InvalidNextToken"
    assert code_of(lambda: ec2.describe_instance_types(NextToken=pages[0]["NextToken"])) == "InvalidNextToken"
    order(faults={"page": 0})


def test_the_model_is_held(ec2):
    assert code_of(lambda: ec2.describe_capacity_reservations(Filters=[{"Name": "colour", "Values": ["red"]}])) == "InvalidParameterValue"
    request = urllib.request.Request(URL, b"Action=DescribeInstanceTypes&Version=2016-11-15&Colour=red", method="POST")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAEMULATOR/20260101/us-east-1/ec2/aws4_request")
    try:
        urllib.request.urlopen(request, timeout=30)
        raise AssertionError("an unknown parameter was taken")
    except urllib.error.HTTPError as error:
        assert b"UnknownParameter" in error.read()


def test_faults_are_as_ordered(ec2):
    order(faults={"deny": ["ec2:DescribeInstanceTypes"]})
    assert code_of(ec2.describe_instance_types) == "UnauthorizedOperation"
    order(faults={"deny": [], "expired": True})
    assert code_of(ec2.describe_instance_types) == "RequestExpired"
    order(faults={"expired": False, "throttle": 1.0})
    assert code_of(ec2.describe_availability_zones) == "RequestLimitExceeded"
    order(faults={"throttle": 0.0, "mystery": 1})
    names = [known["InstanceType"] for page in ec2.get_paginator("describe_instance_types").paginate() for known in page["InstanceTypes"]]
    assert "x99q.mystery" in names
    order(faults={"mystery": 0, "stale": 1}, put=[{
        "CapacityReservationId": "cr-late", "InstanceType": "c5.large", "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1b", "TotalInstanceCount": 1, "AvailableInstanceCount": 1}])
    ids = lambda: {each["CapacityReservationId"] for each in ec2.describe_capacity_reservations()["CapacityReservations"]}
    assert "cr-late" not in ids() and "cr-late" in ids()
    assert code_of(client("ec2", "eu-west-1").describe_instance_types) == "AuthFailure"
    assert code_of(client("ec2", key="AKIANOBODY").describe_instance_types) == "AuthFailure"


def test_prices_and_the_caller(_):
    products = [json.loads(item) for page in client("pricing").get_paginator("get_products").paginate(
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
                 {"Type": "TERM_MATCH", "Field": "productFamily", "Value": "Compute Instance"}],
    ) for item in page["PriceList"]]
    assert len(products) > 1000
    assert client("sts").get_caller_identity()["Account"] == "123456789012"
    spot = client("ec2").describe_spot_price_history(InstanceTypes=["m5.xlarge"], StartTime=datetime.datetime.now())
    assert spot["SpotPriceHistory"]


def main():
    ec2 = client("ec2")
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    try:
        for name, test in tests:
            test(ec2)
            print(f"ok: {name[5:].replace('_', ' ')}")
    finally:
        SERVER.stdin.close()
        SERVER.wait(timeout=30)


if __name__ == "__main__":
    main()
