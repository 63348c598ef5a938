// The page's filters in its address, so that a link shows what its sender saw.

const controls = { q: search, order, ...filters };

// What an address asks for. What the plan does not have is left out.
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) {
    const value = asked.get(name) ?? "";
    control.value = name in filters && value ? `=${value}` : value;
    if (control.tagName === "SELECT" && control.selectedIndex < 0) control.selectedIndex = 0;
  }
  const row = ["pool", "type", "zone", "capacity"].map((field) => [field, asked.get(`row-${field}`)]);
  offering = row.every(([, value]) => value !== null) ? Object.fromEntries(row) : null;
}

function writeAddress() {
  const asked = new URLSearchParams();
  for (const [name, control] of Object.entries(controls)) {
    const value = name in filters ? control.value.slice(1) : control.value;
    const isDefault = name === "order" && control.selectedIndex === 0;
    if (value && !isDefault) asked.set(name, value);
  }
  for (const [field, value] of Object.entries(offering ?? {})) asked.set(`row-${field}`, value);
  const hash = asked.toString() ? `#${asked}` : "";
  if (hash === location.hash) return;
  // Where a page has no address of its own, as in a frame, it cannot be written.
  try { history.replaceState(null, "", hash || location.pathname + location.search); } catch { /* nothing to do */ }
}

window.addEventListener("hashchange", () => { readAddress(); apply(); });

readAddress();
apply();
