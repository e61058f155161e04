// Pieces of words put together, as zoo.evaluation.heat_map.merge_words does.

const START = "\u2581"; // what SentencePiece puts before the first piece of a word

// The words that tokens make, and the index of the first token of each.
function words(tokens) {
  const marked = tokens.some((token) => token.startsWith(START));
  const made = [];
  const starts = [];
  tokens.forEach((token, i) => {
    if (i === 0 || !marked || token.startsWith(START)) {
      made.push("");
      starts.push(i);
    }
    made[made.length - 1] += token.startsWith(START) ? token.slice(1) : token;
  });
  return [made, starts];
}

// A pair of words has what all pieces of the source's word have together, in the mean of the pieces
// of the target's word: a row still sums to one.
export function mergeWords(sourceTokens, targetTokens, weights) {
  const [source, from] = words(sourceTokens);
  const [target, to] = words(targetTokens);
  const merged = target.map((_, i) => {
    const pieces = weights.slice(to[i], to[i + 1]); // to the end, after the last word
    return source.map((_, j) => {
      const sums = pieces.map((row) => row.slice(from[j], from[j + 1]).reduce((a, b) => a + b, 0));
      return sums.reduce((a, b) => a + b, 0) / pieces.length;
    });
  });
  return { source, target, weights: merged };
}

// The rows and columns of a padded matrix that stand for tokens.
export function rows(weights, height, width) {
  return weights.slice(0, height).map((row) => row.slice(0, width));
}
