// The bins under heads of NodePool, zone and capacity type. Only lines that are in sight are in the document.

const GAP = 10, HEAD = 60, CARD_LEAST = 270, MARGIN = 900, MOST_PRINTED = 300, PAPER = 800;
const list = byId("list");
let current = [], lines = [];
let shown = new Map();
// By bin of which a search finds a part.
let hitsOf = new Map();

const sectionOf = (bin) => [bin.isNew ? "" : bin.state, bin.pool, bin.zone, bin.capacity].join("\u0000");

function head(section) {
  const { bin, nodes, pods, cost } = section;
  const figures = [counted(nodes, "node"), `${bin.isNew ? "" : "+"}${counted(pods, "pod")}`];
  if (bin.isNew) figures.push(`$${money.format(cost)}/h`);
  const names = placesOf(bin).map(([kind, name]) => (kind ? name : element("span", `cap ${name}`, name)));
  const title = element("h3", "", ...names.flatMap((name, at) => (at ? [" · ", name] : [name])));
  if (names.length) figures.unshift(...(bin.isNew ? [] : [bin.state]));
  else title.append(bin.isNew ? "New nodes" : bin.isLaunched ? "Nodes of static NodePools, to launch" : "Existing nodes");
  return element("div", "head", title, element("p", "", figures.join(" · ")));
}

function sectionsOf(found) {
  const sections = [];
  for (const bin of found) {
    const key = sectionOf(bin);
    if (sections.at(-1)?.key !== key) sections.push({ key, bin, bins: [], nodes: 0, pods: 0, cost: 0, rows: 0 });
    const section = sections.at(-1);
    section.bins.push(bin);
    section.nodes += bin.count;
    section.pods += bin.count * bin.pods;
    section.cost += bin.count * bin.price;
    section.rows = Math.max(section.rows, tracks(bin).length);
  }
  return sections;
}

// Lines for bins that are in the order of their sections. Small sections stand side by side.
function layout(found, width) {
  const columns = Math.max(1, Math.floor((width + GAP) / (CARD_LEAST + GAP)));
  const bands = [];
  for (const section of sectionsOf(found)) {
    const band = bands.at(-1);
    if (band && band.bins.length + section.bins.length <= columns) {
      band.heads.push({ section, column: band.bins.length });
      band.bins.push(...section.bins);
      band.rows = Math.max(band.rows, section.rows);
    } else {
      bands.push({ heads: [{ section, column: 0 }], bins: [...section.bins], rows: section.rows });
    }
  }
  const made = [];
  let y = 0, nth = 0;
  for (const { heads, bins: inBand, rows } of bands) {
    made.push({ y, height: HEAD, columns, heads });
    y += HEAD;
    const height = 52 + rows * 18;
    for (let at = 0; at < inBand.length; at += columns) {
      const inLine = inBand.slice(at, at + columns);
      made.push({ y, height, columns, bins: inLine, nth });
      nth += inLine.length;
      y += height + GAP;
    }
  }
  return { made, height: y };
}

function draw(line, total) {
  const made = element("div", "line");
  made.setAttribute("role", "presentation");
  made.style.gridTemplateColumns = `repeat(${line.columns}, minmax(0, 1fr))`;
  made.style.top = `${line.y}px`;
  made.style.height = `${line.height}px`;
  line.heads?.forEach(({ section, column }, at) => {
    const item = head(section);
    item.style.gridColumn = `${column + 1} / ${(line.heads[at + 1]?.column ?? line.columns) + 1}`;
    made.append(item);
  });
  line.bins?.forEach((bin, at) => {
    const item = element("div", "", card(bin, hitsOf.get(bin.id)));
    item.setAttribute("role", "listitem");
    item.setAttribute("aria-posinset", line.nth + at + 1);
    item.setAttribute("aria-setsize", total);
    item.firstChild.style.height = `${line.height}px`;
    made.append(item);
  });
  return made;
}

// The first line that ends below a height.
function lineAt(y) {
  let low = 0, high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].y + lines[middle].height < y) low = middle + 1; else high = middle;
  }
  return low;
}

let total = 0;
function drawVisible() {
  const top = -list.getBoundingClientRect().top;
  const [from, to] = [lineAt(top - MARGIN), lineAt(top + window.innerHeight + MARGIN)];
  for (const [index, made] of shown) {
    if ((index < from || index > to) && !made.contains(document.activeElement)) {
      made.remove();
      shown.delete(index);
    }
  }
  for (let index = from; index <= Math.min(to, lines.length - 1); index += 1) {
    if (shown.has(index)) continue;
    const made = draw(lines[index], total);
    // In the order of the page, so that Tab goes on to the next line.
    const next = [...shown.keys()].filter((other) => other > index);
    list.insertBefore(made, next.length ? shown.get(Math.min(...next)) : null);
    shown.set(index, made);
  }
  light();
}

function showBins(found) {
  const { made, height } = layout(found, list.clientWidth || 1000);
  current = found;
  lines = made;
  total = found.length;
  shown = new Map();
  list.replaceChildren();
  list.style.height = `${height}px`;
  drawVisible();
}

// === Light: the pods that are pointed at, pinned or looked for stand out ===

let pointed = null, pinned = null, sought = new Set();
function light() {
  const lit = (k) => (pointed !== null ? k === pointed : pinned !== null ? k === pinned : sought.has(k));
  const isDim = pointed !== null || pinned !== null || sought.size > 0;
  list.classList.toggle("dim", isDim);
  if (!isDim) return;
  for (const seg of list.querySelectorAll(".seg[data-k]")) seg.classList.toggle("on", lit(Number(seg.dataset.k)));
}

let isDue = false;
function soon(work) {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; work(); });
}

// Arrows go from card to card, also to those that are not drawn yet.
list.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 0, ArrowUp: 0, Home: -Infinity, End: Infinity }[event.key];
  const current = event.target.closest(".card");
  if (step === undefined || !current) return;
  event.preventDefault();
  const rows = lines.filter((line) => line.bins);
  const row = rows.findIndex((line) => line.bins.some((bin) => bin.id === Number(current.dataset.bin)));
  const column = rows[row].bins.findIndex((bin) => bin.id === Number(current.dataset.bin));
  let target;
  if (step === 0) {
    const other = rows[row + (event.key === "ArrowDown" ? 1 : -1)];
    target = other?.bins[Math.min(column, other.bins.length - 1)];
  } else if (Number.isFinite(step)) {
    target = rows[row].bins[column + step] ?? (step > 0 ? rows[row + 1]?.bins[0] : rows[row - 1]?.bins.at(-1));
  } else {
    target = step < 0 ? rows[0].bins[0] : rows.at(-1).bins.at(-1);
  }
  if (target) focusBin(target, rows.find((line) => line.bins.includes(target)));
});

function focusBin(bin, line) {
  const top = list.getBoundingClientRect().top + window.scrollY + line.y;
  if (top < window.scrollY + 60 || top + line.height > window.scrollY + window.innerHeight) {
    window.scrollTo(0, top - window.innerHeight / 3);
  }
  drawVisible();
  list.querySelector(`.card[data-bin="${bin.id}"]`)?.focus({ preventScroll: true });
}
