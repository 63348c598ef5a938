"""Capacity reservations: moto has none. Kinds, states and counts follow EC2's documents."""

import datetime
import re

from protocol import Fault, as_time

NOW = lambda: datetime.datetime.now(datetime.timezone.utc)
# What may be filtered by, and the field that it means.
FILTERS = {
    "instance-type": "InstanceType",
    "owner-id": "OwnerId",
    "instance-platform": "InstancePlatform",
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "tenancy": "Tenancy",
    "outpost-arn": "OutpostArn",
    "state": "State",
    "end-date-type": "EndDateType",
    "instance-match-criteria": "InstanceMatchCriteria",
    "placement-group-arn": "PlacementGroupArn",
}
GONE = ("expired", "cancelled", "failed", "payment-failed", "unsupported")


class Reservations:
    """The reservations of an account: `known` by id, each as `DescribeCapacityReservations` describes it."""

    def __init__(self, account, zones, types):
        self.account, self.zones, self.types = account, zones, types
        self.known, self.groups, self.tokens = {}, {}, {}

    def put(self, reservation):
        """One as it is, whatever its state: for the state that a test begins with."""
        reservation = {"OwnerId": self.account, "Tenancy": "default", "State": "active", **reservation}
        reservation.setdefault("AvailabilityZoneId", self.zones.get(reservation.get("AvailabilityZone"), ""))
        identifier = reservation["CapacityReservationId"]
        reservation.setdefault(
            "CapacityReservationArn",
            f"arn:aws:ec2:us-east-1:{reservation['OwnerId']}:capacity-reservation/{identifier}",
        )
        for name in ("StartDate", "EndDate", "CreateDate"):
            if name in reservation:
                reservation[name] = as_time(reservation[name])
        self.known[identifier] = reservation

    def take(self, identifier, count):
        """So many instances are launched in it; fewer than 0 end."""
        reservation = self.find(identifier)
        left = reservation["AvailableInstanceCount"] - count
        if not 0 <= left <= reservation["TotalInstanceCount"]:
            raise Fault(400, "ReservationCapacityExceeded", f"{identifier} has no {count} instances free")
        reservation["AvailableInstanceCount"] = left

    def find(self, identifier):
        self.age()
        if identifier not in self.known:
            raise Fault(
                400, "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{identifier}' does not exist"
            )
        return self.known[identifier]

    def age(self):
        """Those whose time has come begin; those whose time is over end."""
        now = NOW()
        is_past = lambda reservation, date: date in reservation and reservation[date] < now
        for reservation in self.known.values():
            if reservation["State"] == "scheduled" and is_past(reservation, "StartDate"):
                reservation.update(State="active", AvailableInstanceCount=reservation["TotalInstanceCount"])
            if reservation["State"] == "active" and is_past(reservation, "EndDate"):
                reservation.update(State="expired", AvailableInstanceCount=0)

    def create(self, params):
        for field in ("InstanceType", "InstancePlatform", "InstanceCount"):
            if field not in params:
                raise Fault(400, "MissingParameter", f"The request must contain the parameter {field}")
        zone = params.get("AvailabilityZone") or next(
            (name for name, identifier in self.zones.items() if identifier == params.get("AvailabilityZoneId")), None
        )
        if zone not in self.zones:
            raise Fault(400, "InvalidParameterValue", f"Invalid availability zone: [{zone}]")
        if params["InstanceType"] not in self.types:
            raise Fault(400, "InvalidInstanceType", f"The instance type '{params['InstanceType']}' does not exist")
        if params["InstanceCount"] < 1:
            raise Fault(400, "InvalidParameterValue", "InstanceCount must be at least 1")
        token = params.get("ClientToken")
        if token in self.tokens:
            return {"CapacityReservation": self.known[self.tokens[token]]}
        identifier = f"cr-{len(self.known) + 1:017x}"
        start = params.get("StartDate")
        is_future = start is not None and as_time(start) > NOW()
        self.put(
            {
                "CapacityReservationId": identifier,
                "InstanceType": params["InstanceType"],
                "InstancePlatform": params["InstancePlatform"],
                "AvailabilityZone": zone,
                "Tenancy": params.get("Tenancy", "default"),
                "TotalInstanceCount": params["InstanceCount"],
                "AvailableInstanceCount": 0 if is_future else params["InstanceCount"],
                "EbsOptimized": params.get("EbsOptimized", False),
                "EphemeralStorage": False,
                "State": "scheduled" if is_future else "active",
                "StartDate": start or NOW(),
                "EndDateType": params.get("EndDateType", "unlimited"),
                "InstanceMatchCriteria": params.get("InstanceMatchCriteria", "open"),
                "CreateDate": NOW(),
                "ReservationType": "default",
                "Tags": [tag for spec in params.get("TagSpecifications", []) for tag in spec.get("Tags", [])],
                **({"EndDate": params["EndDate"]} if "EndDate" in params else {}),
                **({"OutpostArn": params["OutpostArn"]} if "OutpostArn" in params else {}),
                **({"PlacementGroupArn": params["PlacementGroupArn"]} if "PlacementGroupArn" in params else {}),
            }
        )
        if token:
            self.tokens[token] = identifier
        return {"CapacityReservation": self.known[identifier]}

    def modify(self, params):
        reservation = self.find(params["CapacityReservationId"])
        if reservation["State"] in GONE:
            raise Fault(400, "IncorrectState", f"The reservation is {reservation['State']}")
        if "InstanceCount" in params:
            used = reservation["TotalInstanceCount"] - reservation["AvailableInstanceCount"]
            if params["InstanceCount"] < used:
                raise Fault(400, "InvalidParameterValue", f"{used} instances run in it")
            reservation["TotalInstanceCount"] = params["InstanceCount"]
            reservation["AvailableInstanceCount"] = params["InstanceCount"] - used
        if "EndDate" in params:
            reservation.update(EndDate=as_time(params["EndDate"]), EndDateType="limited")
        if params.get("EndDateType") == "unlimited":
            reservation.pop("EndDate", None)
            reservation["EndDateType"] = "unlimited"
        if "InstanceMatchCriteria" in params:
            reservation["InstanceMatchCriteria"] = params["InstanceMatchCriteria"]
        return {"Return": True}

    def cancel(self, params):
        reservation = self.find(params["CapacityReservationId"])
        if reservation.get("ReservationType") == "capacity-block" and reservation["State"] == "active":
            raise Fault(400, "InvalidOperation", "A capacity block cannot be cancelled")
        if reservation["State"] in GONE:
            raise Fault(400, "IncorrectState", f"The reservation is {reservation['State']}")
        reservation.update(State="cancelled", AvailableInstanceCount=0)
        return {"Return": True}

    def describe(self, params, page):
        self.age()
        identifiers = params.get("CapacityReservationIds")
        if identifiers and "MaxResults" in params:
            raise Fault(400, "InvalidParameterCombination", "MaxResults cannot be used with CapacityReservationIds")
        found = [self.find(each) for each in identifiers] if identifiers else list(self.known.values())
        for condition in params.get("Filters", []):
            found = [each for each in found if matches(each, condition["Name"], condition.get("Values", []))]
        found.sort(key=lambda each: each["CapacityReservationId"])
        return page(found, "CapacityReservations", params, most=1000)

    def groups_of(self, params, page):
        identifier = self.find(params["CapacityReservationId"])["CapacityReservationId"]
        groups = [
            {"GroupArn": f"arn:aws:resource-groups:us-east-1:{self.account}:group/{name}", "OwnerId": self.account}
            for name, members in sorted(self.groups.items())
            if identifier in members
        ]
        return page(groups, "CapacityReservationGroups", params, most=1000)


def matches(reservation, name, values):
    tags = {tag["Key"]: tag.get("Value", "") for tag in reservation.get("Tags", [])}
    if name.startswith("tag:"):
        found = tags.get(name[4:])
        return found is not None and any(alike(value, found) for value in values)
    if name == "tag-key":
        return any(alike(value, key) for value in values for key in tags)
    if name in ("start-date", "end-date"):
        date = reservation.get({"start-date": "StartDate", "end-date": "EndDate"}[name])
        return date is not None and date.strftime("%Y-%m-%dT%H:%M:%S.000Z") in values
    if name not in FILTERS:
        raise Fault(400, "InvalidParameterValue", f"The filter '{name}' is invalid")
    return any(alike(value, str(reservation.get(FILTERS[name], ""))) for value in values)


def alike(pattern, text):
    """EC2's filters know * and ?."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text) is not None
