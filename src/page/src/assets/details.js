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
  pods(dialog, "/node?name=" + encodeURIComponent(name), "Pods on it");
}

function openWaiting(group) {
  const dialog = openDialog(group.of, { of: group.of });
  dialog.append(element("p", whole.format(group.pods) + " of its pods wait for a node."));
  dialog.append(element("p", group.why || "Nothing was said yet."));
  story(dialog, [group.of, group.of.split("/").pop()]);
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
    const table = element("table");
    for (const pod of answer.pods) {
      const row = element("tr");
      row.append(element("td", pod.name), element("td", pod.phase));
      table.append(row);
    }
    dialog.append(table);
  } catch {
    // The page says already that nobody answers.
  }
}

// A node that has gone closes its details.
function redrawDetails() {
  if (shown?.name && !state.nodes.has(shown.name)) byId("details").close();
}
