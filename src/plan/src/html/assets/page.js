// The page's controls: search and filters, legend, pointing, tables that sort, paper.

const search = byId("search"), order = byId("order"), found = byId("found"), tip = byId("tip");
const filters = { pool: byId("by-pool"), zone: byId("by-zone"), capacity: byId("by-capacity") };
let query = [], offering = null;

function fill(select, values, all) {
  const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
  select.replaceChildren(option("", all), ...values.sort(collator.compare).map((value) => option(`=${value}`, value === "-" ? "none" : value)));
  // One value is no choice.
  select.parentElement.hidden = values.length < 2;
}
for (const [field, select] of Object.entries(filters)) fill(select, [...new Set(bins.map((bin) => bin[field]))], "all");

const ORDERS = {
  cost: (a, b) => b.list * b.count - a.list * a.count,
  cpu: (a, b) => left(b, CPU) - left(a, CPU),
  memory: (a, b) => left(b, MEMORY) - left(a, MEMORY),
  pods: (a, b) => b.pods - a.pods,
  count: (a, b) => b.count - a.count,
};

// The sections keep the order in which the page was given them.
const sections = new Map();
for (const bin of bins) if (!sections.has(sectionOf(bin))) sections.set(sectionOf(bin), sections.size);
const sectionAt = bins.map((bin) => sections.get(sectionOf(bin)));

function isWanted(bin) {
  for (const [field, select] of Object.entries(filters)) if (select.value && select.value !== `=${bin[field]}`) return false;
  if (offering && !(bin.isNew && Object.entries(offering).every(([field, value]) => bin[field] === value))) return false;
  return finds(query, bin);
}

function apply() {
  query = parseQuery(search.value);
  sought = soughtClasses(query);
  hitsOf = new Map();
  const wanted = bins.filter((bin) => {
    if (!isWanted(bin)) return false;
    const count = query.length ? hits(query, bin) : bin.count;
    if (count < bin.count) hitsOf.set(bin.id, count);
    return count > 0;
  });
  wanted.sort((a, b) => sectionAt[a.id] - sectionAt[b.id] || ORDERS[order.value](a, b) || a.id - b.id);
  const nodes = wanted.reduce((sum, bin) => sum + (hitsOf.get(bin.id) ?? bin.count), 0);
  const all = bins.reduce((sum, bin) => sum + bin.count, 0);
  const alike = wanted.length < nodes ? ` in ${counted(wanted.length, "group")} of alike ones` : "";
  const isAll = nodes === all;
  found.textContent = nodes === 0 ? "No nodes found" : `${isAll ? "" : `${number.format(nodes)} of `}${counted(all, "node")}${alike}`;
  byId("clear").hidden = isAll && !search.value;
  byId("offering").hidden = !offering;
  byId("offering").textContent = offering ? `${Object.values(offering).join(" · ")} ✕` : "";
  showBins(wanted);
  writeAddress();
}

let timer = 0;
search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, bins.length > 500 ? 120 : 0); });
for (const select of [...Object.values(filters), order]) select.addEventListener("change", apply);
byId("tools").addEventListener("submit", (event) => { event.preventDefault(); apply(); });
byId("tools").addEventListener("reset", () => { offering = null; setTimeout(apply, 0); });
byId("offering").addEventListener("click", () => { offering = null; apply(); });

// === Legend ===

function legendItem(tag, hue, text) {
  const made = element(tag, "", element("i", hue), element("span", "", text));
  made.title = text;
  return made;
}
for (const of of hues.top) {
  const made = legendItem("button", of.hue, className(of));
  made.type = "button";
  made.setAttribute("aria-pressed", "false");
  made.addEventListener("click", () => {
    pinned = pinned === of.id ? null : of.id;
    for (const other of byId("legend").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === made && pinned !== null));
    light();
  });
  byId("legend").append(made);
}
if (hues.others) byId("legend").append(legendItem("span", "ko", "other pods"));
const keeps = (bin) => [CPU, MEMORY].some((r) => division(bin, r).kept > 0);
const kept = [...(data.groups.length && bins.some((bin) => bin.isNew && keeps(bin)) ? ["daemons, or kept from pods"] : []), ...(data.nodes.length ? ["taken before the plan"] : [])];
if (kept.length) byId("legend").append(legendItem("span", "kept", kept.join(", or ")));
byId("legend").append(legendItem("span", "room", "room left"));

// === Pointing ===

function tipText(seg) {
  if (seg.dataset.kept) return seg.dataset.kept;
  const of = classes[Number(seg.dataset.k)];
  const bin = bins[Number(seg.closest(".card").dataset.bin)];
  return `${className(of)}\n${number.format(Number(seg.dataset.count))}${bin.count > 1 ? " on each node" : " on this node"}, one requests ${amounts(of.requests)}`;
}
list.addEventListener("pointermove", (event) => {
  const seg = event.target.closest(".seg");
  const k = seg?.dataset.k === undefined ? null : Number(seg.dataset.k);
  if (k !== pointed) { pointed = k; light(); }
  tip.hidden = !seg;
  if (!seg) return;
  tip.textContent = tipText(seg);
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, window.innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + height > window.innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
});
list.addEventListener("pointerleave", () => { pointed = null; tip.hidden = true; light(); });
list.addEventListener("click", (event) => {
  const chosen = event.target.closest(".card");
  if (!chosen) return;
  tip.hidden = true;
  showDetails(bins[Number(chosen.dataset.bin)], query);
});

// === Tables: sort by a head, show more rows, go to the nodes of a row ===

const ROWS_SHOWN = 12;
function cut(rows, place) {
  const hidden = () => rows().slice(ROWS_SHOWN);
  if (hidden().length < 3) return () => {};
  let isOpen = false;
  const update = () => rows().forEach((row, at) => { row.hidden = !isOpen && at >= ROWS_SHOWN; });
  const button = element("button", "more");
  button.type = "button";
  const label = () => { button.textContent = isOpen ? "Show fewer" : `Show ${number.format(hidden().length)} more`; };
  button.addEventListener("click", () => { isOpen = !isOpen; update(); label(); });
  place.after(button);
  update();
  label();
  return update;
}

function sortable(made) {
  const body = made.tBodies[0];
  const update = cut(() => [...body.rows], made.parentElement);
  const value = (row, at) => row.cells[at].dataset.v ?? row.cells[at].textContent;
  [...made.tHead.rows[0].cells].forEach((cell, at) => {
    const button = element("button", "", ...cell.childNodes);
    button.type = "button";
    cell.append(button);
    button.addEventListener("click", () => {
      const isNumber = cell.classList.contains("n");
      const was = cell.getAttribute("aria-sort");
      const sign = was ? (was === "ascending" ? -1 : 1) : isNumber ? -1 : 1;
      for (const other of made.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const compare = isNumber ? (a, b) => Number(value(a, at)) - Number(value(b, at)) : (a, b) => collator.compare(value(a, at), value(b, at));
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
      update();
    });
  });
}

for (const row of byId("offerings")?.tBodies[0].rows ?? []) {
  const [pool, type, zone, capacity] = [...row.cells].map((cell) => cell.textContent);
  const button = element("button", "", type);
  button.type = "button";
  button.title = "Show these nodes";
  button.addEventListener("click", () => {
    offering = { pool, type, zone, capacity };
    apply();
    byId("nodes").scrollIntoView();
    byId("bins").focus({ preventScroll: true });
  });
  row.cells[1].replaceChildren(button);
}
const oldBins = new Map(bins.filter((bin) => !bin.isNew).map((bin) => [bin.title, bin]));
for (const row of byId("preempted")?.tBodies[0].rows ?? []) {
  const bin = oldBins.get(row.cells[1].textContent);
  const button = element("button", "", bin.title);
  button.type = "button";
  button.title = "Show this node";
  button.addEventListener("click", () => showDetails(bin, []));
  row.cells[1].replaceChildren(button);
}
for (const id of ["offerings", "reservations", "preempted"]) if (byId(id)) sortable(byId(id));
const unschedulable = document.querySelector(".left ul");
if (unschedulable) cut(() => [...unschedulable.children], unschedulable);

// === Paper: what was found, drawn as a whole while it is not too long ===

window.addEventListener("beforeprint", () => {
  let cards = 0, printed = 0;
  // Paper is narrower than most screens; its width is not known here.
  const onPaper = layout(current, PAPER).made;
  const until = onPaper.findIndex((line) => (cards += line.bins?.length ?? 0) > MOST_PRINTED);
  const drawn = until < 0 ? onPaper : onPaper.slice(0, until);
  for (const line of drawn) printed += line.bins?.length ?? 0;
  list.replaceChildren(...drawn.map((line) => draw(line, total)));
  shown = new Map();
  light();
  byId("printed").hidden = until < 0;
  byId("printed").textContent = `${number.format(total - printed)} more groups of nodes are not printed; a search narrows what is.`;
});
window.addEventListener("afterprint", () => { list.replaceChildren(); byId("printed").hidden = true; drawVisible(); });

window.addEventListener("scroll", () => soon(drawVisible), { passive: true });
let width = list.clientWidth;
window.addEventListener("resize", () => soon(() => {
  if (list.clientWidth !== width) { width = list.clientWidth; apply(); } else drawVisible();
}));

byId("tools").hidden = bins.length === 0;
byId("legend").hidden = bins.length === 0;
if (bins.length === 0) byId("nodes").hidden = true;
