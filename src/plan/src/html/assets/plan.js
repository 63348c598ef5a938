"use strict";
// The plan as the page was given it: bins, alike nodes together, and classes of alike pods.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const CPU = 0, MEMORY = 1, PODS = 2;

const number = new Intl.NumberFormat("en-US");
const oneDigit = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const twoDigits = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const money = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 4 });
const counted = (count, noun) => `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;
const collator = new Intl.Collator("en", { numeric: true });

function amount(resource, value) {
  const [, unit] = data.resources[resource];
  if (unit === "milli") return twoDigits.format(value / 1000);
  if (unit !== "bytes") return number.format(value);
  for (const [suffix, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]]) {
    if (Math.abs(value) >= size) return oneDigit.format(value / size) + suffix;
  }
  return number.format(value);
}

function amounts(values) {
  return values.flatMap((value, r) => (value && r !== PODS ? [`${resourceName(r)} ${amount(r, value)}`] : [])).join(", ") || "no requests";
}

const resourceName = (resource) => data.resources[resource][0];
const get = (values, resource) => values[resource] ?? 0;
// `nvidia.com/gpu` is `gpu` where there is little room.
const shortName = (resource) => resourceName(resource).split("/").pop();

// === Classes of alike pods ===

const classes = data.classes.map((entry, id) => {
  let end = 0;
  const runs = entry.m.map((member) => {
    const [name, first, count] = typeof member === "string" ? [member, null, 1] : member;
    end += count;
    return { name, first, begin: end - count, end };
  });
  return { id, isReservation: Boolean(entry.r), requests: entry.q, runs, count: end, hue: "ko" };
});

// The name of the member at a position of its class.
function memberName(of, position) {
  let low = 0, high = of.runs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of.runs[middle].end <= position) low = middle + 1; else high = middle;
  }
  const run = of.runs[low];
  if (!run) return "";
  return run.first === null ? run.name : `${run.name}-${run.first + position - run.begin}`;
}

function className(of) {
  const [run, ...others] = of.runs;
  const kind = of.isReservation ? "Reservation " : "";
  const more = of.count - (run ? run.end : 0);
  return `${kind}${run ? run.name : ""}${others.length ? ` and ${number.format(more)} alike` : ""}`;
}

// === Bins ===

const podCount = (contents) => contents.reduce((sum, [k, count]) => sum + (classes[k].isReservation ? 0 : count), 0);

function newBin(group) {
  const [type, room] = data.types[group.t];
  const count = group.n.reduce((sum, [, nodes]) => sum + nodes, 0);
  return {
    isNew: true, pool: group.p, type, room, zone: group.z ?? "-", capacity: group.c, reservation: group.v ?? "",
    price: group.d, list: group.l, types: data.lists[group.f], requests: group.q, contents: group.k, parts: group.n,
    count, pods: podCount(group.k), title: type,
  };
}

function oldBin(node) {
  // What is neither free nor asked for by new pods was taken before the plan.
  const length = Math.max(node.a.length, node.b.length);
  const room = Array.from({ length }, (_, r) => Math.max(get(node.a, r), get(node.b, r)));
  const asked = (r) => node.k.reduce((sum, [k, count]) => sum + count * get(classes[k].requests, r), 0);
  const requests = room.map((all, r) => all - Math.max(0, get(node.a, r)) + asked(r));
  return {
    isNew: false, pool: node.p ?? "-", type: node.t ?? "", room, zone: node.z ?? "-", capacity: node.c ?? "-", reservation: "",
    price: 0, list: 0, types: [], requests, contents: node.k, parts: [[node.o, 1, node.n]], count: 1, pods: podCount(node.k),
    title: node.o, preempted: node.e ?? [], isLaunched: Boolean(node.l), state: node.l ? "to be launched" : node.u ? "on its way" : "existing",
  };
}

const bins = [...data.groups.map(newBin), ...data.nodes.map(oldBin)];
// In all bars of a bin its pods are in one order, the largest first.
function weight({ requests }) {
  // A CPU, 4 GiB and a hundred pods weigh alike.
  return get(requests, CPU) / 1000 + get(requests, MEMORY) / 2 ** 32 + 0.01;
}
bins.forEach((bin, id) => {
  bin.id = id;
  bin.sorted = [...bin.contents].sort(([a, x], [b, y]) => y * weight(classes[b]) - x * weight(classes[a]) || a - b);
});

// The name of the nth node of a part of a bin.
const nodeName = (bin, part, nth) => (bin.isNew ? `${bin.pool}-${String(part[0] + nth).padStart(5, "0")}` : part[0]);

// What a bin has of its NodePool, zone and capacity type; nodes that exist may have none.
const placesOf = (bin) => [["NodePool", bin.pool], ["zone", bin.zone], ["", bin.capacity]].filter(([, name]) => name !== "-");

const left = (bin, resource) => get(bin.room, resource) - get(bin.requests, resource);

// How a resource of a bin is divided: by class, what daemons (or earlier pods) take, and what is left.
function division(bin, resource) {
  const shares = bin.sorted
    .map(([k, count], nth) => ({ of: classes[k], nth, count, value: count * get(classes[k].requests, resource) }))
    .filter((share) => share.value > 0);
  const pods = shares.reduce((sum, share) => sum + share.value, 0);
  return { resource, shares, kept: Math.max(0, get(bin.requests, resource) - pods), total: get(bin.room, resource), left: left(bin, resource) };
}

// CPU, memory, and of what else is asked for that which binds most; pods and disks only where they bind.
function tracks(bin) {
  const share = (r) => (get(bin.room, r) > 0 ? get(bin.requests, r) / get(bin.room, r) : 0);
  const most = Math.max(share(CPU), share(MEMORY));
  const others = data.resources.map((_, r) => r).filter((r) => r > MEMORY && get(bin.requests, r) > 0);
  const shown = others.filter((r) => share(r) > most || resourceName(r).includes("/"));
  shown.sort((a, b) => share(b) - share(a) || a - b);
  return [CPU, MEMORY, ...shown.slice(0, 1)];
}

// The classes that take most get a colour of their own.
function giveHues(count) {
  const sums = classes.map(() => 0);
  for (const bin of bins) for (const [k, each] of bin.contents) sums[k] += bin.count * each * weight(classes[k]);
  const top = classes.filter((of) => sums[of.id] > 0).sort((a, b) => sums[b.id] - sums[a.id] || a.id - b.id);
  top.slice(0, count).forEach((of, index) => { of.hue = `k${index}`; });
  return { top: top.slice(0, count), others: top.length > count };
}
const hues = giveHues(8);
