// A bin as a card: what it is, a bar for each resource, and who is on it.

// An element with text or children; text is never markup.
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const percent = (part, whole) => (whole > 0 ? `${Math.min(100, (part / whole) * 100)}%` : "0");
const MOST_SEGMENTS = 20;

// Pods without a colour of their own take turns between two greys.
const hue = (share) => (share.of.hue === "ko" && share.nth % 2 ? "ko odd" : share.of.hue);

function segment(share, total) {
  const made = element("span", `seg ${hue(share)}`);
  made.dataset.k = share.of.id;
  made.dataset.count = share.count;
  made.style.width = percent(share.value, total);
  // A line between pods, while there is room for lines.
  if (share.count > 1 && share.value / share.count / total > 0.02) {
    made.classList.add("units");
    made.style.backgroundSize = `${100 / share.count}% 100%`;
  }
  return made;
}

function bar(bin, resource) {
  const parts = division(bin, resource);
  const made = element("span", "bar");
  const total = Math.max(parts.total, 1);
  if (parts.kept > 0) {
    const kept = element("span", "seg kept on");
    kept.dataset.kept = bin.isNew ? "daemons, or kept from pods" : "taken before the plan";
    kept.style.width = percent(parts.kept, total);
    made.append(kept);
  }
  const { shares } = parts;
  made.append(...shares.slice(0, MOST_SEGMENTS).map((share) => segment(share, total)));
  const rest = shares.slice(MOST_SEGMENTS).reduce((sum, share) => sum + share.value, 0);
  if (rest > 0) {
    const others = element("span", "seg ko");
    others.dataset.kept = `${number.format(shares.length - MOST_SEGMENTS)} more kinds of pods`;
    others.style.width = percent(rest, total);
    made.append(others);
  }
  return made;
}

function track(bin, resource) {
  const free = Math.max(0, left(bin, resource));
  return element("span", "track", element("span", "", shortName(resource)), bar(bin, resource), element("span", "", `${amount(resource, free)} left`));
}

function spoken(bin) {
  const room = tracks(bin).map((r) => `${resourceName(r)} ${amount(r, Math.max(0, left(bin, r)))} of ${amount(r, get(bin.room, r))} left`);
  const what = bin.isNew ? `${counted(bin.count, "node")} of ${bin.type}, ${bin.capacity}${bin.zone === "-" ? "" : `, zone ${bin.zone}`}` : `node ${bin.title}, ${bin.state}`;
  return `${what}, ${counted(bin.pods, "pod")}${bin.count > 1 ? " each" : ""}, ${room.join(", ")}`;
}

// `hits`: on how many of its nodes a search finds something, where that is not all.
function card(bin, hits) {
  const top = element("span", "top", element("b", "", bin.title));
  if (bin.count > 1) top.append(element("span", "times", `×${number.format(bin.count)}`));
  top.append(element("span", "", bin.isNew ? `$${money.format(bin.price)}/h` : bin.type));
  const foot = [`${bin.isNew ? "" : "+"}${counted(bin.pods, "pod")}${bin.count > 1 ? " each" : ""}`];
  if (bin.reservation) foot.push(bin.reservation);
  if (bin.isNew && bin.types.length > 1) foot.push(bin.reservation ? `${bin.types.length} types to fall back on` : `${bin.types.length} types would do`);
  if (bin.preempted?.length) foot.push(`${counted(bin.preempted.length, "pod")} ${bin.preempted.length === 1 ? "gives" : "give"} way`);
  if (hits) foot.unshift(`found on ${number.format(hits)}`);
  const made = element("button", bin.count > 1 ? "card many" : "card", top, ...tracks(bin).map((r) => track(bin, r)));
  made.append(element("span", "foot", element("span", "", foot.join(" · "))));
  made.type = "button";
  made.dataset.bin = bin.id;
  made.setAttribute("aria-label", spoken(bin));
  made.setAttribute("aria-haspopup", "dialog");
  return made;
}
