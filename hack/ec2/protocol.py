"""EC2's and STS' query protocol and the price list's JSON, held to the service models that botocore ships.

A request that the model does not allow is refused; an answer that the model does not allow is an error of the emulator.
"""

import datetime
import json
import re
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.loaders
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

LOADER = botocore.loaders.Loader()
MODELS = {name: ServiceModel(LOADER.load_service_model(name, "service-2"), name) for name in ("ec2", "sts", "pricing")}
VALIDATOR = ParamValidator()


class Fault(Exception):
    """An answer that is an error."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def parse(headers, body):
    """The service, the operation and its parameters."""
    target = headers.get("X-Amz-Target")
    if target:
        service, name = "pricing", target.split(".")[-1]
        operation = operation_of(service, name)
        params = json.loads(body or b"{}")
    else:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body)))
        name, version = fields.pop("Action", ""), fields.pop("Version", "")
        service = next((s for s in ("ec2", "sts") if MODELS[s].api_version == version), None)
        if service is None:
            raise Fault(400, "InvalidParameterValue", f"no service has version {version!r}")
        operation = operation_of(service, name)
        tree = {}
        for key, value in fields.items():
            node = tree
            *parents, last = key.split(".")
            for part in parents:
                node = node.setdefault(part, {})
            node[last] = value
        params = read_structure(operation.input_shape, tree, service) if operation.input_shape else {}
    if operation.input_shape is not None:
        report = VALIDATOR.validate(params, operation.input_shape)
        if report.has_errors():
            raise Fault(400, "InvalidParameterCombination", f"{name}: {report.generate_report()}")
    return service, operation, params


def operation_of(service, name):
    if name not in MODELS[service].operation_names:
        raise Fault(400, "InvalidAction", f"The action {name} is not valid for this web service.")
    return MODELS[service].operation_model(name)


def query_name(shape, name, service):
    """The name of a member in a request."""
    serialization = shape.serialization
    if service == "ec2":
        if "queryName" in serialization:
            return serialization["queryName"]
        name = serialization.get("name", name)
        return name[0].upper() + name[1:]
    return serialization.get("name", name)


def read_structure(shape, tree, service):
    names = {query_name(member, name, service): (name, member) for name, member in shape.members.items()}
    params = {}
    for key, value in tree.items():
        if key not in names:
            raise Fault(400, "UnknownParameter", f"The parameter {key} is not recognized")
        name, member = names[key]
        params[name] = read_value(member, value, service)
    return params


def read_value(shape, value, service):
    kind = shape.type_name
    if kind == "structure":
        return read_structure(shape, value, service)
    if kind == "list":
        if not all(key.isdigit() for key in value):
            raise Fault(400, "InvalidParameterValue", f"expected numbered members, found {sorted(value)}")
        return [read_value(shape.member, value[key], service) for key in sorted(value, key=int)]
    try:
        if kind in ("integer", "long"):
            return int(value)
        if kind in ("double", "float"):
            return float(value)
        if kind == "timestamp":
            return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise Fault(400, "InvalidParameterValue", f"expected {kind}, found {value!r}") from None
    if kind == "boolean":
        if value not in ("true", "false"):
            raise Fault(400, "InvalidParameterValue", f"expected true or false, found {value!r}")
        return value == "true"
    return value


def answer(service, operation, result):
    """Content type and body of an answer."""
    report = VALIDATOR.validate(result, operation.output_shape)
    if report.has_errors():
        raise Fault(500, "InternalError", f"the emulator's {operation.name}: {report.generate_report()}")
    if service == "pricing":
        return "application/x-amz-json-1.1", json.dumps(result).encode()
    inner = write_members(operation.output_shape, result)
    request = "<requestId>00000000-0000-0000-0000-000000000000</requestId>"
    namespace = MODELS[service].metadata.get("xmlNamespace", "http://ec2.amazonaws.com/doc/2016-11-15/")
    name = operation.name
    if service == "sts":
        inner = f"<{name}Result>{inner}</{name}Result><ResponseMetadata><RequestId>0</RequestId></ResponseMetadata>"
    else:
        inner = request + inner
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}Response xmlns="{namespace}">{inner}</{name}Response>'
    return "text/xml;charset=UTF-8", text.encode()


def write_members(shape, value):
    parts = []
    for name, member in shape.members.items():
        if value.get(name) is not None:
            parts.append(write_value(member, value[name], member.serialization.get("name", name)))
    return "".join(parts)


def write_value(shape, value, name):
    if shape.type_name == "structure":
        inner = write_members(shape, value)
    elif shape.type_name == "list":
        inner_name = shape.member.serialization.get("name", "item")
        inner = "".join(write_value(shape.member, each, inner_name) for each in value)
    elif shape.type_name == "boolean":
        inner = "true" if value else "false"
    elif shape.type_name == "timestamp":
        inner = as_time(value).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    else:
        inner = escape(str(value))
    return f"<{name}>{inner}</{name}>"


def as_time(value):
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    return value.astimezone(datetime.timezone.utc)


def error(service, fault):
    """Content type and body of an error."""
    if service == "pricing":
        body = {"__type": f"com.amazonaws.pricing#{fault.code}", "Message": fault.message}
        return "application/x-amz-json-1.1", json.dumps(body).encode()
    code, message = escape(fault.code), escape(fault.message)
    if service == "sts":
        text = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    else:
        text = f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors><RequestID>0</RequestID></Response>"
    return "text/xml;charset=UTF-8", text.encode()


CREDENTIAL = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")


def credential(headers):
    """Access key, region and service that a request is signed for."""
    found = CREDENTIAL.search(headers.get("Authorization", ""))
    if not found:
        raise Fault(401, "MissingAuthenticationToken", "The request must contain a valid access key ID")
    return found.groups()
