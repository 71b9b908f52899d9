// How the segments of a trajectory hang together: a segment that begins with the ids of an earlier one, and then goes
// another way, is its branch. A map of bars shows what was given, what was sampled, and where branches leave.
import { button, h } from "./dom.js";
import { counted, number } from "./format.js";

const SHARED = 8; // ids that two segments must have in common: less is the template's beginning
const MOST = 200; // segments on the map

/** Stretches of one loss mask: `{start, end, sampled}`. */
export function stretches(mask, length) {
  const found = [];
  for (let start = 0; start < length; ) {
    let end = start + 1;
    while (end < length && (mask?.[end] === 1) === (mask?.[start] === 1)) end += 1;
    found.push({ start, end, sampled: mask?.[start] === 1 });
    start = end;
  }
  return found;
}

const idsOf = (segment) => (Array.isArray(segment?.input_ids) ? segment.input_ids : []);

function common(one, other) {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length += 1;
  return length;
}

/** For each segment `{parent, shared, depth}`: which earlier one it leaves, after how many ids, and how deep it is. */
export function branches(segments) {
  const found = [];
  segments.slice(0, MOST).forEach((segment, index) => {
    let [parent, shared] = [null, SHARED - 1];
    for (let earlier = 0; earlier < index; earlier += 1) {
      const length = common(idsOf(segment), idsOf(segments[earlier]));
      if (length > shared) [parent, shared] = [earlier, length];
    }
    found.push(parent === null ? { parent, shared: 0, depth: 0 } : { parent, shared, depth: found[parent].depth + 1 });
  });
  return found;
}

/** The order of a tree: each segment, then its branches. */
function inTree(tree) {
  const order = [];
  const visit = (parent) => tree.forEach((each, index) => {
    if (each.parent !== parent) return;
    order.push(index);
    visit(index);
  });
  visit(null);
  return order;
}

/** The map; `open(index)` is called with a segment. */
export function branchMap(segments, tree, open) {
  const longest = Math.max(1, ...segments.slice(0, MOST).map((segment) => idsOf(segment).length));
  const share = (ids) => `${(100 * ids) / longest}%`;
  const rows = inTree(tree).map((index) => {
    const [segment, { parent, shared, depth }] = [segments[index], tree[index]];
    const parts = stretches(segment?.loss_mask, idsOf(segment).length).filter(({ end }) => end > shared)
      .map(({ start, end, sampled }) => h("i", { class: sampled ? "sampled" : "given", style: { left: share(Math.max(start, shared)), width: share(end - Math.max(start, shared)) } }));
    const about = parent === null ? "" : `, leaves segment ${parent + 1} after ${counted(shared, "id")}`;
    const label = `Segment ${index + 1}: ${counted(idsOf(segment).length, "id")}${about}`;
    return h("li", { style: { "--depth": Math.min(depth, 8) } },
      button([h("span", { class: "branch-name" }, parent === null ? "" : "\u2514 ", number(index + 1)), h("span", { class: "branch-bar" }, parent !== null && h("i", { class: "shared", style: { left: 0, width: share(shared) } }), parts)],
        () => open(index), { class: "branch", title: label, "aria-label": label }));
  });
  return h("nav", { class: "branch-map", "aria-label": "Segments" }, h("h3", {}, `${counted(segments.length, "segment")}, as a tree`), h("ol", {}, rows),
    h("p", { class: "branch-key note" }, h("span", {}, h("i", { class: "given" }), "given (loss mask 0)"), h("span", {}, h("i", { class: "sampled" }), "sampled (loss mask 1)"), h("span", {}, h("i", { class: "shared" }), "shared with the segment it leaves")));
}
