// Which bins a search finds. A word may be part of the name of a pod or of a node, or of what a bin is.

// The numbers from `first` on, `count` of them, whose decimal text (padded to `width`) begins with `digits`.
function numbersBeginningWith(digits, width, first, count) {
  const spans = [];
  for (let length = Math.max(width, digits.length); length <= 12; length += 1) {
    // Shorter numbers are padded; longer ones do not begin with a zero.
    if (digits[0] === "0" && length > width && length > 1) break;
    const step = 10 ** (length - digits.length);
    const low = Math.max(Number(digits) * step, length > width && length > 1 ? 10 ** (length - 1) : 0, first);
    const high = Math.min((Number(digits) + 1) * step, first + count);
    if (low < high) spans.push([low, high]);
  }
  return spans;
}

// Where in a run of numbered names a word occurs, as spans of numbers; `null` is everywhere.
function occurs(word, name, first, count, width) {
  if (name.includes(word)) return null;
  if (first === null) return [];
  const cut = /^(.*)-(\d*)$/.exec(word);
  if (!cut || !name.endsWith(cut[1])) return [];
  return cut[2] === "" ? null : numbersBeginningWith(cut[2], width, first, count);
}

// By class, spans of the positions that a word finds.
function membersWith(word) {
  const found = new Map();
  for (const of of classes) {
    const spans = [];
    for (const run of of.runs) {
      const at = occurs(word, run.name.toLowerCase(), run.first, run.end - run.begin, 1);
      if (at === null) spans.push([run.begin, run.end]);
      else for (const [low, high] of at) spans.push([run.begin + low - run.first, run.begin + high - run.first]);
    }
    if (spans.length) found.set(of.id, spans);
  }
  return found;
}

const overlaps = (spans, low, high) => spans.some(([begin, end]) => begin < high && low < end);

// Whether the word is about the bin as a whole.
function isOf(bin, word) {
  return [bin.pool, bin.type, bin.zone, bin.capacity, bin.reservation, bin.title].some((text) => text.toLowerCase().includes(word));
}

// Whether the word is (part of) the name of a node in a part, or of the nth alone.
function namesNode(bin, part, word, nth) {
  if (!bin.isNew) return part[0].toLowerCase().includes(word);
  if (nth !== undefined) return nodeName(bin, part, nth).toLowerCase().includes(word);
  const at = occurs(word, bin.pool.toLowerCase(), part[0], part[1], 5);
  return at === null || at.length > 0;
}

function hasMember(bin, part, members, nth) {
  return bin.contents.some(([k, each], at) => {
    const spans = members.get(k);
    if (!spans) return false;
    const first = part[2][at] + (nth ?? 0) * each;
    return overlaps(spans, first, first + each * (nth === undefined ? part[1] : 1));
  });
}

// A query: every word must be found, each in the bin, in a node's name or in a pod's.
function parseQuery(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.map((word) => ({ word, members: membersWith(word) }));
}

function finds(query, bin) {
  return query.every(({ word, members }) => isOf(bin, word)
    || bin.parts.some((part) => namesNode(bin, part, word) || hasMember(bin, part, members)));
}

// On how many of a bin's nodes everything is found; a bin may be found for words that no one node has.
function hits(query, bin) {
  let count = 0;
  if (query.every(({ word }) => isOf(bin, word))) return bin.count;
  for (const part of bin.parts) for (let nth = 0; nth < part[1]; nth += 1) count += findsNode(query, bin, part, nth);
  return count;
}

// Whether the nth node of a part is one of those looked for.
function findsNode(query, bin, part, nth) {
  return query.every(({ word, members }) => isOf(bin, word) || namesNode(bin, part, word, nth) || hasMember(bin, part, members, nth));
}

// The classes that a query is about, where it is about pods.
function soughtClasses(query) {
  const sought = new Set();
  for (const { members } of query) for (const k of members.keys()) sought.add(k);
  return sought;
}
