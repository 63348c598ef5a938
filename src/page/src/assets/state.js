"use strict";
// The cluster as frames tell it: a whole one, then differences.
const state = { at: 0, nodes: new Map(), waiting: new Map(), slots: new Map(), rooms: new Map(), said: [], running: 0, history: [] };
const SAID = 300;
const HISTORY = 1200;

function take(frame) {
  if (frame.whole) {
    for (const part of ["nodes", "waiting", "slots", "rooms"]) state[part].clear();
    state.said = [];
  }
  for (const part of ["nodes", "waiting", "slots", "rooms"])
    for (const [name, value] of Object.entries(frame[part] ?? {}))
      value === null ? state[part].delete(name) : state[part].set(name, value);
  if (frame.said) state.said = state.said.concat(frame.said).slice(-SAID);
  state.running = frame.running;
  state.at = frame.at;
  // What was before this page was opened, or before it lost its server.
  if (frame.history?.length)
    state.history = frame.history.map(({ at, nodes, price, without, waiting }) => ({ at, kinds: { reserved: nodes[0], "on-demand": nodes[1], spot: nodes[2], other: nodes[3] }, price, without, waiting }));
  remember();
}

function reset() {
  take({ whole: true, at: 0, running: 0 });
  state.history = [];
}

// Sums over nodes and waiting pods, now.
function sums() {
  const out = { at: state.at, kinds: { reserved: 0, "on-demand": 0, spot: 0, other: 0 }, price: 0, without: 0, cpu: 0, cpuUsed: 0, memory: 0, memoryUsed: 0, waiting: 0, running: state.running, used: 0, total: 0 };
  for (const node of state.nodes.values()) {
    out.kinds[node.capacityType in out.kinds ? node.capacityType : "other"] += 1;
    out.price += node.price;
    out.without += node.unreserved;
    out.cpu += node.cpu;
    out.cpuUsed += node.cpuUsed;
    out.memory += node.memory;
    out.memoryUsed += node.memoryUsed;
  }
  for (const group of state.waiting.values()) out.waiting += group.pods;
  for (const slots of state.slots.values()) { out.used += slots.used; out.total += slots.total; }
  return out;
}

function remember() {
  const now = sums();
  const last = state.history.at(-1);
  if (last && now.at - last.at < 400) state.history[state.history.length - 1] = now;
  else state.history.push(now);
  // Older times are told more coarsely.
  if (state.history.length > HISTORY) state.history = state.history.filter((_, index) => index % 2 === 0 || index > HISTORY - 200);
}
