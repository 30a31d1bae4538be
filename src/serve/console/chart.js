// The hallucination rate over time: a line with its 95 % band, above bars of how many answers it is of.

import { byId, clock, count, percent, svg, wilson } from './page.js';

const HEIGHT = 92;
const LEFT = 40;
const RIGHT = 10;
const TOP = 6;
const BARS = 18;
const AXIS = 16;

let shown = null;

/** Draws what `GET /v1/rates` said. */
export function draw(rates) {
  shown = rates;
  const plot = byId('chart-plot');
  const width = Math.max(280, plot.clientWidth);
  const points = rates.points.map((point) => ({
    ...point,
    rate: point.scored ? point.hallucination / point.scored : null,
    band: wilson(point.hallucination, point.scored),
  }));
  const total = sum(points);
  const talks = rates.conversations.points;
  const most = Math.max(1, ...points.map((point) => point.scored));
  const top = ceiling(points, talks);
  const step = (width - LEFT - RIGHT) / points.length;
  const bottom = HEIGHT - AXIS - BARS;
  const x = (index) => LEFT + (index + 0.5) * step;
  const y = (share) => TOP + (1 - Math.min(1, share / top)) * (bottom - TOP);

  const picture = svg('svg', {
    viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: 'img', 'aria-label': both(total, sum(talks)),
  });
  for (const share of [0, top / 2, top]) {
    picture.append(
      svg('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }),
      svg('text', { class: 'tick', x: LEFT - 6, y: y(share) + 3.5, 'text-anchor': 'end' }, percent(share)),
    );
  }
  points.forEach((point, index) => {
    if (point.scored === 0) return;
    const height = Math.max(1.5, (point.scored / most) * (BARS - 4));
    picture.append(svg('rect', {
      class: 'bar', x: x(index) - step * 0.38, y: HEIGHT - AXIS - height, width: Math.max(1, step * 0.76), height, rx: 1,
    }));
  });
  for (const run of runs(points)) {
    const upper = run.map((index) => `${x(index)},${y(points[index].band[1])}`);
    const lower = run.map((index) => `${x(index)},${y(points[index].band[0])}`).reverse();
    const line = run.map((index) => `${x(index)},${y(points[index].rate)}`).join(' ');
    if (run.length > 1) {
      picture.append(
        svg('polygon', { class: 'band', points: [...upper, ...lower].join(' ') }),
        svg('polyline', { class: 'line', points: line }),
      );
    }
    for (const index of run) {
      if (run.length === 1) {
        const [low, high] = points[index].band;
        picture.append(svg('line', { class: 'whisker', x1: x(index), x2: x(index), y1: y(low), y2: y(high) }));
      }
      picture.append(svg('circle', { class: 'point', cx: x(index), cy: y(points[index].rate), r: run.length === 1 ? 3 : 2 }));
    }
  }
  // Conversations are no answers: they have marks of their own, and no part in line, band and bars.
  rates.conversations.points.forEach((point, index) => {
    if (point.scored === 0) return;
    const [across, down] = [x(index), y(point.hallucination / point.scored)];
    picture.append(svg('path', { class: 'talk', d: `M${across} ${down - 4}l4 4l-4 4l-4-4z` }));
  });
  const labels = Math.max(2, Math.min(6, Math.floor(width / 150)));
  for (let number = 0; number <= labels; number += 1) {
    const index = Math.min(points.length - 1, Math.round((number * (points.length - 1)) / labels));
    const anchor = number === 0 ? 'start' : number === labels ? 'end' : 'middle';
    const at = number === 0 ? LEFT : number === labels ? width - RIGHT : x(index);
    picture.append(svg('text', { class: 'tick', x: at, y: HEIGHT - 4, 'text-anchor': anchor }, clock(points[index].time, rates.seconds_each < 60)));
  }
  const cursor = svg('line', { class: 'cursor', y1: TOP, y2: HEIGHT - AXIS, x1: -9, x2: -9 });
  picture.append(cursor);
  picture.addEventListener('pointermove', (event) => {
    const place = (event.clientX - picture.getBoundingClientRect().left - LEFT) / step;
    const index = Math.max(0, Math.min(points.length - 1, Math.floor(place)));
    cursor.setAttribute('x1', x(index));
    cursor.setAttribute('x2', x(index));
    byId('chart-says').textContent = `${clock(points[index].time)} · ${both(points[index], talks[index])}`;
  });
  picture.addEventListener('pointerleave', () => {
    cursor.setAttribute('x1', -9);
    cursor.setAttribute('x2', -9);
    byId('chart-says').textContent = both(total, sum(talks));
  });
  plot.replaceChildren(picture);
  byId('chart-says').textContent = both(total, sum(talks));
}

/** Draws again where the page has another width. */
export function redraw() {
  if (shown) draw(shown);
}

function sum(points) {
  const total = { scored: 0, hallucination: 0, unsure: 0, skipped: 0, failed: 0 };
  for (const point of points) for (const key of Object.keys(total)) total[key] += point[key];
  return total;
}

/** Answers, and conversations apart from them. */
function both(answers, { scored, hallucination }) {
  const talked = scored ? ` ◇ ${count(scored, 'conversation')}, ${hallucination} with a hallucination` : '';
  return inWords(answers) + talked;
}

function inWords({ scored, hallucination, unsure, skipped, failed }) {
  if (scored + skipped + failed === 0) return 'no verdicts';
  const rest = [unsure && `${unsure} unsure`, skipped && `${skipped} skipped`, failed && `${failed} failed`].filter(Boolean);
  const tail = rest.length ? ` · ${rest.join(', ')}` : '';
  if (scored === 0) return `nothing scored${tail}`;
  const [low, high] = wilson(hallucination, scored).map((share) => Math.round(100 * share));
  return `${percent(hallucination / scored)} (${low}–${high} %) of ${count(scored, 'answer')}${tail}`;
}

/** The top of the scale: what holds all rates, and bands unless they are of very few answers. */
function ceiling(points, talks) {
  const rates = points.filter((point) => point.scored > 0).map((point) => Math.max(point.rate, point.scored >= 10 ? point.band[1] : 0));
  const talked = talks.filter(({ scored }) => scored > 0).map(({ hallucination, scored }) => hallucination / scored);
  const highest = Math.max(0, ...rates, ...talked);
  return [0.05, 0.1, 0.2, 0.5, 1].find((top) => highest <= top * 0.98) ?? 1;
}

/** Stretches of points without a hole. */
function runs(points) {
  const found = [];
  points.forEach((point, index) => {
    if (point.rate === null) return;
    if (index > 0 && points[index - 1].rate !== null) found.at(-1).push(index);
    else found.push([index]);
  });
  return found;
}
