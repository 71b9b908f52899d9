// What two lists have in common, in order.

const LARGEST = 4_000_000; // products of lengths that are compared in full

/**
 * Pairs of positions of the longest common subsequence of two lists of strings. Lists whose lengths' product is over
 * the bound share only their beginning and end: a difference that nobody reads is not worth a page that hangs.
 */
export function commonPairs(one, other) {
  const pairs = [];
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) pairs.push([start, start++]);
  let [end, otherEnd] = [one.length, other.length];
  const tail = [];
  while (end > start && otherEnd > start && one[end - 1] === other[otherEnd - 1]) tail.push([--end, --otherEnd]);
  const [height, width] = [end - start, otherEnd - start];
  if (height && width && height * width <= LARGEST) {
    const lengths = new Uint32Array((height + 1) * (width + 1)); // of what is common from a place on
    for (let i = height - 1; i >= 0; i -= 1) {
      for (let j = width - 1; j >= 0; j -= 1) {
        const at = i * (width + 1) + j;
        lengths[at] = one[start + i] === other[start + j] ? lengths[at + width + 2] + 1 : Math.max(lengths[at + width + 1], lengths[at + 1]);
      }
    }
    for (let i = 0, j = 0; i < height && j < width; ) {
      if (one[start + i] === other[start + j]) pairs.push([start + i++, start + j++]);
      else if (lengths[(i + 1) * (width + 1) + j] >= lengths[i * (width + 1) + j + 1]) i += 1;
      else j += 1;
    }
  }
  return [...pairs, ...tail.reverse()];
}

/** Two lists side by side: `[position or null, position or null, same]`, those that differ beside each other. */
export function aligned(one, other) {
  const rows = [];
  let [i, j] = [0, 0];
  const until = (to, otherTo) => {
    for (; i < to || j < otherTo; ) rows.push([i < to ? i++ : null, j < otherTo ? j++ : null, false]);
  };
  for (const [first, second] of commonPairs(one, other)) {
    until(first, second);
    rows.push([i++, j++, true]);
  }
  until(one.length, other.length);
  return rows;
}
