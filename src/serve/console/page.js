// Making and writing things on the page. Text from verdicts goes in as text, never as markup.

/** An element: properties (`class`, `on…`, `data-…`, `aria-…`, any attribute) and children (nodes or text; null and false are left out). */
export function el(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** The same for drawings. */
export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', name), properties, children);
}

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value') element.value = value;
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Tells those who cannot see it what has happened. */
export function say(text) {
  byId('said').textContent = text;
}

/** How a verdict ended, with its sign. A sign, not only a colour. */
export const LABELS = {
  hallucination: { sign: '✕', tone: 'bad', means: 'a claim is not in the evidence, or against it' },
  unsure: { sign: '?', tone: 'warn', means: 'neither can be said with confidence' },
  faithful: { sign: '✓', tone: 'good', means: 'every claim stands' },
  skipped: { sign: '–', tone: 'none', means: 'there was nothing to evaluate' },
  failed: { sign: '!', tone: 'bad', means: 'it could not be evaluated' },
  scored: { sign: '·', tone: 'none', means: 'evaluated; the answer makes no claim' },
};

/** Where a claim stands, with its sign. */
export const STANDINGS = {
  grounded: { sign: '✓', tone: 'good', means: 'the evidence supports it' },
  ungrounded: { sign: '?', tone: 'warn', means: 'the evidence does not speak of it' },
  contradicted: { sign: '✕', tone: 'bad', means: 'the evidence says otherwise' },
  complementary: { sign: '+', tone: 'info', means: 'not from the evidence, but consistent with it' },
  none: { sign: '–', tone: 'none', means: 'nobody could say' },
};

/** Whether a verdict is on a conversation: its traces have verdicts of their own. */
export const isConversation = (verdict) => (verdict.traces?.length ?? 0) > 0;

export const labelOf = (verdict) => verdict.label ?? verdict.outcome;

export function badge(word, kinds) {
  const { sign, tone } = kinds[word] ?? { sign: '–', tone: 'none' };
  return el('span', { class: `badge ${tone}` }, el('span', { class: 'sign', 'aria-hidden': 'true' }, sign), word);
}

const two = (number) => String(number).padStart(2, '0');

export function clock(time, seconds = true) {
  const at = new Date(time);
  const minutes = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return seconds ? `${minutes}:${two(at.getSeconds())}` : minutes;
}

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export const fixed = (number, digits = 2) => (typeof number === 'number' ? number.toFixed(digits) : '–');

export const count = (number, thing) => `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`;

export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return '–';
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 120_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.round(milliseconds / 60_000)} min`;
}

/** 95 % of Wilson's interval: honest for few and for extreme counts. */
export function wilson(hits, n) {
  if (n === 0) return [0, 1];
  const z = 1.959964;
  const share = hits / n;
  const middle = share + (z * z) / (2 * n);
  const reach = z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
  const whole = 1 + (z * z) / n;
  return [Math.max(0, (middle - reach) / whole), Math.min(1, (middle + reach) / whole)];
}

export const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** Characters `from` to `to` as assayd counts them: Unicode code points, where JavaScript counts UTF-16 units. */
export function slice(text, from, to) {
  if (!/[\uD800-\uDFFF]/.test(text)) return text.slice(from, to);
  return Array.from(text).slice(from, to).join('');
}

/** Parts of a text: plain ones and those of `ranges`, `[from, to, tag]` in code points, the earlier one winning an overlap. */
export function parts(text, ranges) {
  const letters = /[\uD800-\uDFFF]/.test(text) ? Array.from(text) : text;
  const piece = (from, to) => (typeof letters === 'string' ? letters.slice(from, to) : letters.slice(from, to).join(''));
  const found = [];
  let at = 0;
  for (const [from, to, tag] of [...ranges].sort((a, b) => a[0] - b[0] || b[1] - a[1])) {
    const begin = Math.max(from, at);
    const end = Math.min(to, letters.length);
    if (begin >= end) continue;
    if (begin > at) found.push({ text: piece(at, begin), tag: null });
    found.push({ text: piece(begin, end), tag });
    at = end;
  }
  if (at < letters.length) found.push({ text: piece(at, letters.length), tag: null });
  return found;
}
