#!/usr/bin/env python3
"""EC2, STS and the price list on loopback, as far as a catalogue asks them. See README.md.

    serve.py [--port N] [--region R] [--seed N] [--account FILE] [--fault NAME=VALUE]… [--folder FOLDER]

The first line on standard output is the address. Control: POST /_emulator with JSON {"faults": {...}, "put": [...],
"take": {"cr-…": n}, "groups": {...}}; GET /_emulator counts the calls.
"""

import argparse
import base64
import datetime
import http.server
import json
import random
import sys
import threading

import facts
import protocol
from protocol import Fault
from reservations import NOW, Reservations

ACCOUNT = "123456789012"
# What each fault means is in README.md.
FAULTS = {"throttle": 0.0, "cut": 0.0, "stale": 0, "deny": [], "expired": False, "mystery": 0, "page": 0, "silent": []}


class Cloud:
    """The account and its region, with faults by seed."""

    def __init__(self, arguments):
        answers = facts.from_moto(arguments.region, arguments.folder)
        self.region, self.lock = arguments.region, threading.Lock()
        self.random, self.faults, self.calls = random.Random(arguments.seed), dict(FAULTS), {}
        self.types = answers["DescribeInstanceTypes"]
        self.offerings = answers["DescribeInstanceTypeOfferings"]
        self.zones = answers["DescribeAvailabilityZones"]
        self.prices = facts.prices()
        self.reservations = Reservations(
            ACCOUNT, {zone["ZoneName"]: zone["ZoneId"] for zone in self.zones}, {known["InstanceType"] for known in self.types}
        )
        self.before = None

    def control(self, order):
        for name, value in order.get("faults", {}).items():
            if name not in FAULTS:
                raise Fault(400, "UnknownFault", name)
            self.faults[name] = value
        self.before = json.loads(json.dumps(list(self.reservations.known.values()), default=str))
        for reservation in order.get("put", []):
            self.reservations.put(reservation)
        for identifier, count in order.get("take", {}).items():
            self.reservations.take(identifier, count)
        self.reservations.groups.update(order.get("groups", {}))

    def call(self, service, operation, params, signed):
        """The answer to a call, or a fault."""
        name = operation.name
        self.calls[name] = self.calls.get(name, 0) + 1
        key, region, _ = signed
        if self.faults["expired"]:
            raise Fault(400, "ExpiredTokenException" if service == "pricing" else "RequestExpired", "Request has expired.")
        if key != "AKIAEMULATOR":
            code = "UnrecognizedClientException" if service == "pricing" else "AuthFailure"
            raise Fault(401, code, "AWS was not able to validate the provided access credentials")
        if service == "ec2" and region != self.region:
            raise Fault(401, "AuthFailure", f"the region {region} is not enabled for this account")
        action = f"{service}:{name}"
        if action in self.faults["deny"]:
            message = f"User: arn:aws:iam::{ACCOUNT}:user/reader is not authorized to perform: {action} because no identity-based policy allows the {action} action"
            raise Fault(403, "AccessDeniedException" if service == "pricing" else "UnauthorizedOperation", message)
        if self.random.random() < self.faults["throttle"]:
            code = "ThrottlingException" if service == "pricing" else "RequestLimitExceeded"
            raise Fault(400 if service == "pricing" else 503, code, "Request limit exceeded.")
        handler = getattr(self, name, None)
        if handler is None:
            raise Fault(400, "UnsupportedOperation", f"the emulator does not know {name}")
        return handler(params)

    def page(self, items, key, params, most, default=None):
        """A page of a list, with a token for the next one."""
        size = params.get("MaxResults") or default or most
        if not 1 <= size <= most:
            raise Fault(400, "InvalidParameterValue", f"MaxResults: expected 1 to {most}, found {size}")
        size = min(size, self.faults["page"] or size)
        start = 0
        if params.get("NextToken"):
            try:
                of, start = json.loads(base64.b64decode(params["NextToken"], validate=True))
            except ValueError:
                of = None
            if of != key:
                raise Fault(400, "InvalidNextToken", f"The token '{params['NextToken']}' is invalid")
        result = {key: items[start : start + size]}
        if start + size < len(items):
            result["NextToken"] = base64.b64encode(json.dumps([key, start + size]).encode()).decode()
        return result

    def mysteries(self):
        """Types that no SDK has heard of."""
        model = next(known for known in self.types if known["InstanceType"] == "m5.xlarge")
        return [{**model, "InstanceType": f"x{99 + n}q.mystery"} for n in range(self.faults["mystery"])]

    # === EC2 ===

    def DescribeAvailabilityZones(self, params):
        return {"AvailabilityZones": self.zones}

    def DescribeInstanceTypes(self, params):
        types = self.types + self.mysteries()
        return self.page(types, "InstanceTypes", params, most=100)

    def DescribeInstanceTypeOfferings(self, params):
        if params.get("LocationType") != "availability-zone":
            raise Fault(400, "InvalidParameterValue", "the emulator lists offerings by availability-zone")
        zone = {"LocationType": "availability-zone", "Location": self.zones[0]["ZoneName"]}
        offerings = self.offerings + [{**zone, "InstanceType": known["InstanceType"]} for known in self.mysteries()]
        return self.page(offerings, "InstanceTypeOfferings", params, most=1000)

    def DescribeSpotPriceHistory(self, params):
        products = params.get("ProductDescriptions", ["Linux/UNIX"])
        start = params.get("StartTime")
        history = []
        for offering in self.offerings:
            name, zone = offering["InstanceType"], offering["Location"]
            if name not in self.prices:
                continue
            entry = {"InstanceType": name, "AvailabilityZone": zone, "ProductDescription": products[0]}
            price = facts.spot_price(name, zone, self.prices[name])
            # The price that holds at the start is from before it, and one that is older still must not be taken.
            at = (start or NOW()) - datetime.timedelta(hours=1)
            history.append({**entry, "SpotPrice": price, "Timestamp": at})
            if start is None or name.startswith("m5."):
                history.append({**entry, "SpotPrice": "9.999", "Timestamp": at - datetime.timedelta(days=1)})
        return self.page(history, "SpotPriceHistory", params, most=1000)

    def DescribeCapacityReservations(self, params):
        if self.faults["stale"] > 0 and self.before is not None:
            # Eventually consistent: what was true before, a few times more.
            self.faults["stale"] -= 1
            old = Reservations(ACCOUNT, self.reservations.zones, self.reservations.types)
            for reservation in self.before:
                old.put(reservation)
            return old.describe(params, self.page)
        return self.reservations.describe(params, self.page)

    def CreateCapacityReservation(self, params):
        return self.reservations.create(params)

    def ModifyCapacityReservation(self, params):
        return self.reservations.modify(params)

    def CancelCapacityReservation(self, params):
        return self.reservations.cancel(params)

    def GetGroupsForCapacityReservation(self, params):
        return self.reservations.groups_of(params, self.page)

    # === STS and the price list ===

    def GetCallerIdentity(self, params):
        return {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/reader", "UserId": "AIDAEMULATOR"}

    def GetProducts(self, params):
        if params.get("ServiceCode") != "AmazonEC2":
            raise Fault(400, "InvalidParameterException", "the emulator lists AmazonEC2 alone")
        wanted = {each["Field"]: each["Value"] for each in params.get("Filters", [])}
        family = wanted.get("productFamily", "Compute Instance")
        is_metal = "bare metal" in family
        products = [
            facts.product(name, price, self.region, family, "Dedicated" if is_metal else "Shared", "Linux")
            for name, price in self.prices.items()
            if ("metal" in name) == is_metal
        ]
        fields = lambda each: {**each["product"]["attributes"], "productFamily": family}
        products = [each for each in products if all(fields(each).get(field) == value for field, value in wanted.items())]
        # Booked capacity that nobody uses costs nothing, and must not make a type free.
        products += [facts.product("m5.large", "0.0000000000", self.region, family, "Shared", "Linux")] if not is_metal else []
        return self.page([json.dumps(each) for each in products], "PriceList", params, most=100)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with self.server.cloud.lock:
            self.reply(200, "application/json", json.dumps(self.server.cloud.calls).encode())

    def do_POST(self):
        cloud = self.server.cloud
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with cloud.lock:
            if self.path == "/_emulator":
                return self.ordered(cloud, body)
            service = "pricing" if self.headers.get("X-Amz-Target") else "ec2"
            try:
                signed = protocol.credential(self.headers)
                service, operation, params = protocol.parse(self.headers, body)
                result = cloud.call(service, operation, params, signed)
                content_type, text = protocol.answer(service, operation, result)
                status = 200
                if operation.name in cloud.faults["silent"]:
                    self.close_connection = True
                    return None
                if cloud.random.random() < cloud.faults["cut"]:
                    return self.cut(content_type, text)
            except Fault as fault:
                status = fault.status
                content_type, text = protocol.error(service, fault)
        return self.reply(status, content_type, text)

    def ordered(self, cloud, body):
        try:
            cloud.control(json.loads(body))
        except Fault as fault:
            return self.reply(fault.status, "text/plain", f"{fault.code}: {fault.message}".encode())
        return self.reply(200, "text/plain", b"")

    def cut(self, content_type, text):
        """Half a page: the head promises all of it."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) // 2])
        self.close_connection = True

    def reply(self, status, content_type, text):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--account", help="JSON in the form of the control orders")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=JSON")
    parser.add_argument("--folder", help="where moto's answers are kept")
    arguments = parser.parse_args()
    cloud = Cloud(arguments)
    if arguments.account:
        cloud.control(json.load(open(arguments.account)))
    cloud.control({"faults": {name: json.loads(value) for name, value in (each.split("=", 1) for each in arguments.fault)}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    server.cloud = cloud
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    # Whoever started it holds its standard input open; when that closes, so does this.
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
