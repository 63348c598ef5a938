// All about a bin: its resources, its pods, each of its nodes by name, and the types to fall back on.

const details = byId("details");
const PAGE_OF_NODES = 50, PODS_SHOWN = 60, TYPES_SHOWN = 24;

function table(heads, rows) {
  const made = element("table");
  const headRow = element("tr");
  for (const [text, isNumber] of heads) {
    const cell = element("th", isNumber ? "n" : "", text);
    cell.scope = "col";
    headRow.append(cell);
  }
  const body = element("tbody");
  for (const cells of rows) body.append(element("tr", "", ...cells.map((cell, at) => element("td", heads[at][1] ? "n" : "", cell))));
  made.append(element("thead", "", headRow), body);
  return made;
}

// A button that adds what is left, `step` at a time.
function more(label, step, isDone) {
  const made = element("button", "more", label());
  made.type = "button";
  made.addEventListener("click", () => {
    step();
    if (isDone()) made.remove(); else made.textContent = label();
  });
  return made;
}

function resourcesTable(bin) {
  const rows = data.resources.map((_, r) => r).filter((r) => get(bin.room, r) > 0 || get(bin.requests, r) > 0).map((r) => {
    const { kept, total } = division(bin, r);
    const share = total > 0 ? `${Math.floor((get(bin.requests, r) / total) * 100)}%` : "-";
    return [resourceName(r), amount(r, get(bin.requests, r) - kept), amount(r, kept), amount(r, Math.max(0, left(bin, r))), amount(r, total), share];
  });
  const kept = bin.isNew ? "Daemons and kept" : "Before";
  return table([["Resource"], ["Pods", true], [kept, true], ["Left", true], ["Of", true], ["Requested", true]], rows);
}

function podsTable(bin) {
  const rows = bin.sorted.map(([k, count]) => {
    const of = classes[k];
    return [element("span", "", element("i", of.hue), className(of)), number.format(count), amounts(of.requests)];
  });
  return table([["Pods"], ["On each node", true], ["Requests of one"]], rows);
}

// The names on one node: all of them, but the first few where there are very many.
function podNames(bin, part, nth, query) {
  const made = element("span");
  let written = 0, all = 0;
  const items = [];
  bin.contents.forEach(([k, each], at) => {
    all += each;
    const first = part[2][at] + nth * each;
    for (let position = first; position < first + each && items.length < 5000; position += 1) items.push(memberName(classes[k], position));
  });
  const isSought = (name) => query.some(({ word }) => name.toLowerCase().includes(word));
  items.sort((a, b) => isSought(b) - isSought(a));
  const write = (until) => {
    for (; written < Math.min(until, items.length); written += 1) {
      if (written) made.append(", ");
      made.append(isSought(items[written]) ? element("span", "found", items[written]) : items[written]);
    }
  };
  write(PODS_SHOWN);
  if (written < items.length) {
    const names = element("span", "", made, " ");
    names.append(more(() => `and ${number.format(all - written)} more`, () => write(Infinity), () => true));
    return names;
  }
  return made;
}

// The nodes of a bin in order; those that a search is about come first.
function* nodesOf(bin, query) {
  if (query.length) for (const wanted of [true, false]) {
    for (const part of bin.parts) for (let nth = 0; nth < part[1]; nth += 1) {
      if (findsNode(query, bin, part, nth) === wanted) yield [part, nth];
    }
  } else for (const part of bin.parts) for (let nth = 0; nth < part[1]; nth += 1) yield [part, nth];
}

function nodesTable(bin, query) {
  const made = table([["Node"], ["Pods on it"]], []);
  const body = made.querySelector("tbody");
  const nodes = nodesOf(bin, query);
  let written = 0;
  const write = () => {
    for (let step = 0; step < PAGE_OF_NODES; step += 1) {
      const { value, done } = nodes.next();
      if (done) break;
      const [part, nth] = value;
      body.append(element("tr", "", element("td", "", nodeName(bin, part, nth)), element("td", "", podNames(bin, part, nth, query))));
      written += 1;
    }
  };
  write();
  const box = element("div", "", made);
  if (written < bin.count) box.append(more(() => `${number.format(bin.count - written)} more nodes`, write, () => written >= bin.count));
  return box;
}

function typesList(bin) {
  const names = bin.types.map((type) => data.types[type][0]);
  const made = element("ol", "types", ...names.slice(0, TYPES_SHOWN).map((name) => element("li", "", name)));
  const box = element("div", "", made);
  const rest = names.slice(TYPES_SHOWN);
  if (rest.length) {
    box.append(more(() => `${number.format(rest.length)} more types`, () => made.append(...rest.map((name) => element("li", "", name))), () => true));
  }
  return box;
}

function showDetails(bin, query) {
  const title = element("h2", "", bin.title, bin.count > 1 ? ` ×${number.format(bin.count)}` : "");
  title.id = "details-title";
  const close = element("button", "close", "Close");
  close.type = "button";
  close.addEventListener("click", () => details.close());
  const what = placesOf(bin).map(([kind, name]) => (kind ? `${kind} ${name}` : name));
  if (!bin.isNew) what.unshift(bin.isLaunched ? "node of a static NodePool, to be launched" : "existing node", ...(bin.type ? [bin.type] : []));
  if (bin.reservation) what.push(`capacity reservation ${bin.reservation}`);
  const parts = [title, close, element("p", "", what.join(" · "))];
  if (bin.isNew) {
    const cost = [`$${money.format(bin.price)}/h${bin.count > 1 ? ` each, $${money.format(bin.price * bin.count)}/h together` : ""}`];
    if (bin.list !== bin.price) cost.push(`$${money.format(bin.list)}/h each by list price`);
    parts.push(element("p", "", cost.join(" · ")));
  }
  parts.push(element("h3", "", bin.count > 1 ? "Room of each node" : "Room"), resourcesTable(bin));
  parts.push(element("h3", "", bin.isNew ? "Kinds of pods" : "New pods"), podsTable(bin));
  if (bin.preempted?.length) parts.push(element("h3", "", "Pods that give way"), element("p", "", bin.preempted.join(", ")));
  parts.push(element("h3", "", bin.count > 1 ? "Nodes" : "By name"), nodesTable(bin, query));
  if (bin.isNew) {
    const isReserved = bin.capacity === "reserved";
    parts.push(element("h3", "", isReserved ? "Instance types to fall back on" : "Instance types that would do"));
    if (bin.types.length) parts.push(element("p", "", "On paid capacity, cheapest first."), typesList(bin));
    else parts.push(element("p", "", "None: this NodePool allows reserved capacity alone."));
  }
  details.replaceChildren(...parts);
  details.showModal();
  details.scrollTop = 0;
  close.focus();
}

// A click beside the drawer closes it.
details.addEventListener("click", (event) => {
  if (event.target === details && event.clientX < details.getBoundingClientRect().left) details.close();
});
