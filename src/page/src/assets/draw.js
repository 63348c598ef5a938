const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const dollars = (value) => "$" + (value === 0 ? "0" : value >= 100 ? whole.format(Math.round(value)) : value.toFixed(value >= 10 ? 2 : 3));
// One digit after the point, where that is still something.
const amount = (value) => (value >= 1000 ? whole.format(Math.round(value)) : value.toFixed(1));
const percent = (part, of) => (of > 0 ? Math.round((100 * part) / of) + "%" : "–");
const KINDS = [["reserved", "On slots"], ["on-demand", "On-demand"], ["spot", "Spot"], ["other", "Not of a NodePool"]];
const BAD = new Set(["PodsFailed", "PodsStay", "LaunchRefused", "Interrupted", "MachineDied", "NodesLost"]);
const LARGE = 120;

function time(at) {
  const seconds = Math.floor(at / 1000);
  const two = (value) => String(value).padStart(2, "0");
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  return (days ? days + "d " : "") + (days || hours ? hours + ":" + two(Math.floor(seconds / 60) % 60) : Math.floor(seconds / 60)) + ":" + two(seconds % 60);
}

// A plot's times are whole minutes, hours or days where they are far apart.
const STEPS = [1, 2, 5, 10, 15, 30].flatMap((n) => [n, n * 60]).concat([3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000]).sort((a, b) => a - b);
function tick(at) {
  const days = Math.floor(at / 86400);
  const rest = at % 86400;
  if (!days) return at >= 3600 ? time(at * 1000).slice(0, -3) : time(at * 1000);
  return days + "d" + (rest ? " " + Math.floor(rest / 3600) + "h" : "");
}

function element(tag, text, className) {
  const out = document.createElement(tag);
  if (text !== undefined) out.textContent = text;
  if (className) out.className = className;
  return out;
}

function drawFigures() {
  const now = sums();
  const nodes = Object.values(now.kinds).reduce((a, b) => a + b, 0);
  const parts = KINDS.filter(([kind]) => now.kinds[kind]).map(([kind, name]) => whole.format(now.kinds[kind]) + " " + name.toLowerCase());
  const figures = [
    ["Nodes", whole.format(nodes), parts.join(", ")],
    ["Cost an hour", dollars(now.price), "slots aside"],
    ["Without reservations", dollars(now.without), now.without > now.price ? dollars(now.without - now.price) + " more" : "the same"],
    ["Pods on nodes", whole.format(now.running), now.waiting ? whole.format(now.waiting) + " waiting" : "none waiting"],
    ["CPU used", percent(now.cpuUsed, now.cpu), amount(now.cpuUsed / 1000) + " of " + amount(now.cpu / 1000)],
    ["Memory used", percent(now.memoryUsed, now.memory), whole.format(Math.round(now.memoryUsed / 1024)) + " of " + whole.format(Math.round(now.memory / 1024)) + " GiB"],
  ];
  if (now.total) figures.push(["Slots used", whole.format(now.used) + " of " + whole.format(now.total), ""]);
  const list = byId("figures");
  while (list.children.length > figures.length) list.lastChild.remove();
  figures.forEach(([name, value, more], index) => {
    let item = list.children[index];
    if (!item) {
      item = element("div");
      const dd = element("dd");
      dd.append(element("span"), element("small"));
      item.append(element("dt"), dd);
      list.append(item);
    }
    set(item.children[0], name);
    set(item.children[1].children[0], value);
    set(item.children[1].children[1], more);
  });
}

function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const bars = new Map();

function drawNodes() {
  const host = byId("nodes");
  const small = state.nodes.size > LARGE;
  for (const [kind, title] of KINDS) {
    let section = byId("kind-" + kind);
    if (!section) {
      section = element("section", undefined, "kind " + kind);
      section.id = "kind-" + kind;
      const grid = element("div", undefined, "bars");
      section.append(element("h3"), grid);
      host.append(section);
    }
    const names = [];
    for (const [name, node] of state.nodes) if ((node.capacityType in { reserved: 1, "on-demand": 1, spot: 1 } ? node.capacityType : "other") === kind) names.push(name);
    section.hidden = !names.length;
    names.sort();
    section.children[0].replaceChildren(title + " ", element("span", whole.format(names.length)));
    const grid = section.children[1];
    grid.classList.toggle("small", small);
    // Only what is new or has moved is touched.
    let before = grid.firstChild;
    for (const name of names) {
      const bar = barOf(name, state.nodes.get(name));
      if (bar === before) before = before.nextSibling;
      else grid.insertBefore(bar, before);
    }
    while (before) {
      const next = before.nextSibling;
      before.remove();
      before = next;
    }
  }
  for (const name of [...bars.keys()]) if (!state.nodes.has(name)) bars.delete(name);
  // Tab stops at one node of all; arrows go on from there.
  if (!stopped?.isConnected) stop(host.querySelector("section:not([hidden]) .node"));
  if (!state.nodes.size && !byId("none")) {
    const none = element("p", "No node.");
    none.id = "none";
    host.append(none);
  } else if (state.nodes.size) byId("none")?.remove();
}

let stopped = null;

function stop(bar) {
  if (stopped) stopped.tabIndex = -1;
  stopped = bar;
  if (bar) bar.tabIndex = 0;
}

byId("nodes").addEventListener("keydown", (event) => {
  const bar = event.target.closest?.(".node");
  if (!bar || event.altKey || event.ctrlKey || event.metaKey) return;
  const all = [...byId("nodes").querySelectorAll("section:not([hidden]) .node")];
  const at = all.indexOf(bar);
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  let next;
  if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all.at(-1);
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") next = all[at + step];
  else if (step) {
    // The nearest of the next row.
    const { left, top } = bar.getBoundingClientRect();
    let row = null;
    let best = Infinity;
    for (let index = at + step; all[index]; index += step) {
      const place = all[index].getBoundingClientRect();
      if (Math.abs(place.top - top) < 2) continue;
      row ??= place.top;
      if (Math.abs(place.top - row) > 2) break;
      if (Math.abs(place.left - left) < best) { best = Math.abs(place.left - left); next = all[index]; }
    }
  } else return;
  event.preventDefault();
  if (!next) return;
  stop(next);
  next.focus();
});

function barOf(name, node) {
  let known = bars.get(name);
  if (known && known.node === node) return known.bar;
  if (!known) {
    const bar = element("button");
    bar.type = "button";
    bar.append(element("b"), element("span"));
    for (let index = 0; index < 2; index++) {
      const use = element("span", undefined, "use");
      use.append(element("i"));
      bar.append(use);
    }
    bar.addEventListener("click", () => { stop(bar); openNode(name); });
    bar.tabIndex = -1;
    known = { bar };
    bars.set(name, known);
  }
  known.node = node;
  const { bar } = known;
  bar.className = "node " + node.state;
  set(bar.children[0], node.instanceType || name);
  set(bar.children[1], node.state === "ready" ? whole.format(node.pods) + (node.pods === 1 ? " pod, " : " pods, ") + (node.reservation || node.zone) : node.state + (node.zone ? ", " + node.zone : ""));
  const width = (used, of) => (of > 0 ? Math.min(100, (100 * used) / of).toFixed(1) : 0) + "%";
  bar.children[2].firstChild.style.width = width(node.cpuUsed, node.cpu);
  bar.children[3].firstChild.style.width = width(node.memoryUsed, node.memory);
  bar.setAttribute("aria-label", `${name}: ${node.instanceType} ${node.capacityType} ${node.zone}, ${node.state}, ${node.pods} ${node.pods === 1 ? "pod" : "pods"}, CPU ${percent(node.cpuUsed, node.cpu)}, memory ${percent(node.memoryUsed, node.memory)}`);
  bar.title = name;
  return bar;
}

// Workloads that wait, those with the same reason together: in a cluster that is full, many wait for one.
function waitingByReason() {
  const reasons = new Map();
  for (const group of state.waiting.values()) {
    const known = reasons.get(group.why);
    if (known) known.push(group);
    else reasons.set(group.why, [group]);
  }
  const pods = (groups) => groups.reduce((sum, group) => sum + group.pods, 0);
  for (const groups of reasons.values()) groups.sort((a, b) => b.pods - a.pods || (a.of < b.of ? -1 : 1));
  return [...reasons.values()].sort((a, b) => pods(b) - pods(a) || (a[0].of < b[0].of ? -1 : 1));
}

const REASONS = 8;
const WORKLOADS = 6;

function drawWaiting() {
  const reasons = waitingByReason();
  byId("waiting").hidden = !reasons.length;
  const text = JSON.stringify(reasons);
  if (byId("waiting-list").dataset.groups === text) return;
  byId("waiting-list").dataset.groups = text;
  const focused = byId("waiting-list").contains(document.activeElement) ? document.activeElement.textContent : null;
  const left = reasons.slice(REASONS).reduce((sum, groups) => sum + groups.length, 0);
  byId("waiting-list").replaceChildren(...reasons.slice(0, REASONS).map((groups) => {
    const item = element("li");
    const head = element("h3");
    groups.slice(0, WORKLOADS).forEach((group, index) => {
      const open = element("button", group.of);
      open.type = "button";
      open.addEventListener("click", () => openWaiting(group));
      head.append(index ? ", " : "", open, element("span", " " + whole.format(group.pods) + (group.pods === 1 ? " pod" : " pods")));
    });
    if (groups.length > WORKLOADS) head.append(element("span", " and " + whole.format(groups.length - WORKLOADS) + (groups.length === WORKLOADS + 1 ? " workload more" : " workloads more")));
    item.append(head, element("p", groups[0].why || "nothing was said yet: a node is on its way, or the next plan looks"));
    return item;
  }), ...(left ? [element("li", "and " + whole.format(left) + (left === 1 ? " workload more" : " workloads more"))] : []));
  if (focused !== null) [...byId("waiting-list").querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
}

function drawTable(id, heads, rows, open) {
  byId(id + "-section").hidden = !rows.length;
  const row = (tag, cells) => {
    const out = element("tr");
    out.append(...cells.map((cell, index) => element(tag, String(cell), index && typeof cell === "number" ? "n" : "")));
    return out;
  };
  const table = byId(id);
  // A button that is focused stays while nothing has changed.
  const text = JSON.stringify(rows);
  if (table.dataset.rows === text) return;
  table.dataset.rows = text;
  const focused = table.contains(document.activeElement) ? document.activeElement.textContent : null;
  table.replaceChildren(row("th", heads), ...rows.map((cells) => {
    const out = row("td", cells);
    const button = element("button", String(cells[0]), "link");
    button.type = "button";
    button.addEventListener("click", () => open(cells[0]));
    out.firstChild.replaceChildren(button);
    return out;
  }));
  if (focused !== null) [...table.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
}

// A sentence, in which each thing that is there opens its details.
function linked(message) {
  const out = element("span");
  for (const part of message.split(/([\s,;:()]+)/)) {
    const open = state.nodes.has(part) ? openNode : state.slots.has(part) ? openSlots : state.rooms.has(part) ? openRoom : null;
    if (!open) {
      out.append(part);
      continue;
    }
    const button = element("button", part, "said");
    button.type = "button";
    button.addEventListener("click", () => open(part));
    out.append(button);
  }
  return out;
}

let saidLast;

function drawSaid() {
  const last = state.said.at(-1);
  if (last === saidLast && byId("said").children.length === state.said.length) return;
  saidLast = last;
  byId("said").replaceChildren(...state.said.toReversed().map((said) => {
    const item = element("li", undefined, BAD.has(said.event) ? "bad" : said.event);
    item.append(element("time", time(said.at)), linked(said.message));
    return item;
  }));
}

const PLOTS = [
  ["Nodes", "", [["on slots", "--c2", (now) => now.kinds.reserved], ["on-demand", "--c0", (now) => now.kinds["on-demand"]], ["spot", "--c3", (now) => now.kinds.spot]]],
  ["Dollars an hour, slots aside", "$", [["as it is", "--c0", (now) => now.price], ["without reservations", "--c1", (now) => now.without]]],
  ["Pods that wait", "", [["waiting", "--c5", (now) => now.waiting]]],
];
const plots = [];

function drawPlots() {
  const host = byId("plots");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // All of them are there before any is measured: one alone is as wide as the page.
  for (const [title] of PLOTS.slice(host.children.length)) {
    const figure = element("figure");
    figure.append(element("figcaption", title));
    host.append(figure);
  }
  PLOTS.forEach(([, unit, lines], index) => {
    const figure = host.children[index];
    const width = Math.max(240, figure.clientWidth);
    const data = [state.history.map((now) => now.at / 1000), ...lines.map(([, , of]) => state.history.map(of))];
    if (!plots[index]) {
      const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const series = lines.map(([label, name]) => ({ label, stroke: () => colour(name), width: 1.6, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }), value: (_, value) => (value == null ? "–" : unit ? dollars(value) : whole.format(value)) }));
      plots[index] = new uPlot({
        width, height: 170, cursor: { y: false },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high * 1.08, unit ? 0.1 : 1)] } },
        axes: [{ ...axis, incrs: STEPS, values: (_, all) => all.map(tick) }, { ...axis, size: 54, values: (_, all) => all.map((value) => (unit ? unit + Number(value.toFixed(3)) : Number.isInteger(value) ? whole.format(value) : "")) }],
        series: [{ label: "at", value: (_, value) => (value == null ? "–" : time(value * 1000)) }, ...series],
      }, data, figure);
      return;
    }
    if (plots[index].width !== width) plots[index].setSize({ width, height: 170 });
    plots[index].setData(data);
  });
}

function draw() {
  drawFigures();
  drawWaiting();
  drawNodes();
  // Not every cloud says in what state a reservation is.
  const columns = [...state.slots.values()].some((own) => own.state) ? 4 : 3;
  drawTable("slots", ["Reservation", "Used", "Slots", "State"].slice(0, columns), [...state.slots].sort().map(([id, own]) => [id, own.used, own.total, own.state].slice(0, columns)), openSlots);
  drawTable("rooms", ["Name", "Phase", "Node", "Owners"], [...state.rooms].sort().map(([name, own]) => [name, own.phase, own.node, own.owners]), openRoom);
  drawSaid();
  drawPlots();
  redrawDetails();
}
