// From thresholds to the share of tokens they ask for, and back.
//
// Scores crowd near one end, so a slider of thresholds would do nothing over most of its way. Along the
// table that the server has of a router, every step asks for about as many tokens more.

/** The points of a table from nothing to all; without a table a threshold stands for itself. */
const whole = (table) => [[0, 0], ...(table ?? []), [1, 1]];

function between(points, from, to, value) {
  const after = points.findIndex((point) => point[from] >= value);
  if (after <= 0) return points[Math.max(after, 0)][to];
  const [low, high] = [points[after - 1], points[after]];
  const step = high[from] - low[from];
  return step === 0 ? high[to] : low[to] + ((high[to] - low[to]) * (value - low[from])) / step;
}

/** The threshold that asks for this share of tokens. */
export const thresholdAt = (table, share) => between(whole(table), 0, 1, share);

/** The share of tokens that a threshold asks for. */
export const shareOf = (table, threshold) => between(whole(table), 1, 0, threshold);
