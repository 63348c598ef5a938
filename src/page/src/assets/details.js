// What is behind a node or a workload that waits.
let shown = null;

function openDialog(title, key) {
  const dialog = byId("details");
  const head = element("h2", title);
  head.id = "details-title";
  const close = element("button", "Close", "close");
  close.type = "button";
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(close, head);
  shown = key;
  if (!dialog.open) dialog.showModal();
  return dialog;
}

byId("details").addEventListener("close", () => { shown = null; });

function openNode(name) {
  const node = state.nodes.get(name);
  if (!node) return;
  const dialog = openDialog(name, { name });
  dialog.append(element("p", [node.instanceType, node.capacityType, node.zone, node.pool && "NodePool " + node.pool, node.reservation && "on " + node.reservation].filter(Boolean).join(" · ")));
  const facts = [
    ["State", node.state],
    ["CPU", (node.cpuUsed / 1000).toFixed(2) + " of " + (node.cpu / 1000).toFixed(2) + ", " + ((node.cpu - node.cpuUsed) / 1000).toFixed(2) + " left"],
    ["Memory", (node.memoryUsed / 1024).toFixed(1) + " of " + (node.memory / 1024).toFixed(1) + " GiB"],
    ["Dollars an hour", dollars(node.price) + (node.unreserved > node.price ? ", " + dollars(node.unreserved) + " without the reservation" : "")],
  ];
  const table = element("table");
  for (const [head, value] of facts) {
    const row = element("tr");
    row.append(element("th", head), element("td", value));
    table.append(row);
  }
  dialog.append(table);
  story(dialog, [name, name.replace(/^NodeClaim /, "")]);
  explain(dialog, "node/" + name.replace(/^NodeClaim /, ""));
  pods(dialog, "/node?name=" + encodeURIComponent(name), "Pods on it");
}

function openPod(name) {
  const dialog = openDialog(name, { of: name });
  story(dialog, [name, name.split("/").pop()]);
  explain(dialog, "pod/" + name);
}

function openRoom(name) {
  const room = state.rooms.get(name);
  const dialog = openDialog(name, { of: name });
  if (room) dialog.append(element("p", ["Reservation", room.phase, room.node && "on " + room.node, room.owners + (room.owners === 1 ? " owner" : " owners")].filter(Boolean).join(" · ")));
  story(dialog, [name]);
  explain(dialog, "reservation/" + name);
}

function openSlots(id) {
  const slots = state.slots.get(id);
  const dialog = openDialog(id, { of: id });
  if (slots) dialog.append(element("p", "Capacity reservation, " + slots.state + ": " + slots.used + " of " + slots.total + " slots used."));
  const nodes = [...state.nodes].filter(([, node]) => node.reservation === id).map(([name]) => name).sort();
  if (nodes.length) {
    dialog.append(element("h3", "Nodes on it"));
    list(dialog, nodes.slice(0, LISTED), openNode);
    if (nodes.length > LISTED) dialog.append(element("p", "and " + whole.format(nodes.length - LISTED) + " more"));
  }
  story(dialog, [id]);
}

const LISTED = 200;

// Names that open their own details.
function list(dialog, names, open) {
  const items = element("ul", undefined, "names");
  items.append(...names.map((name) => {
    const item = element("li");
    const button = element("button", name, "link");
    button.type = "button";
    button.addEventListener("click", () => open(name));
    item.append(button);
    return item;
  }));
  dialog.append(items);
}

// Why it is where it is: from the cluster as it is now, which only a page that is served can ask for.
async function explain(dialog, of) {
  if (recording) return;
  const key = shown;
  const place = element("div");
  place.append(element("h3", "Why"), element("p", "Asking…"));
  dialog.append(place);
  let text;
  try {
    const answer = await fetch("/explain?of=" + encodeURIComponent(of));
    if (answer.status === 404) return place.remove();
    text = await answer.text();
  } catch {
    text = "Nobody answers.";
  }
  if (shown === key) place.lastChild.replaceWith(element("pre", text.trim()));
}

function openWaiting(group) {
  const dialog = openDialog(group.of, { of: group.of, waits: true });
  dialog.append(element("p", whole.format(group.pods) + " of its pods wait for a node."));
  dialog.append(element("p", group.why || "Nothing was said yet."));
  story(dialog, [group.of, group.of.split("/").pop()]);
  // Its pods are alike: one tells for all.
  pods(dialog, "/waiting?of=" + encodeURIComponent(group.of), "Its pods that wait");
}

// What was said of it.
function story(dialog, names) {
  const own = state.said.filter((said) => names.some((name) => said.message.includes(name)));
  if (!own.length) return;
  dialog.append(element("h3", "What happened to it"));
  const table = element("table");
  for (const said of own.toReversed()) {
    const row = element("tr");
    row.append(element("td", time(said.at)), element("td", said.message));
    table.append(row);
  }
  dialog.append(table);
}

// The pods, which only a page that is served can ask for.
async function pods(dialog, address, title) {
  if (recording) return;
  const key = shown;
  try {
    const answer = await (await fetch(address)).json();
    if (shown !== key || !answer.pods.length) return;
    dialog.append(element("h3", title));
    list(dialog, answer.pods.map((pod) => pod.name), openPod);
    if (key.waits) explain(dialog, "pod/" + answer.pods[0].name);
  } catch {
    // The page says already that nobody answers.
  }
}

// A node that has gone closes its details.
function redrawDetails() {
  if (shown?.name && !state.nodes.has(shown.name)) byId("details").close();
}
