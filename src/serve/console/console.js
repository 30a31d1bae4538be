// The console put together: the feed, the filters, the keys, and the address that says what is open.

import * as chart from './chart.js';
import * as detail from './detail.js';
import * as feedback from './feedback.js';
import * as list from './list.js';
import { overview as showOverview } from './overview.js';
import { LABELS, STANDINGS, byId, el, say } from './page.js';
import { follow, get, token, whenUnauthorized } from './source.js';

const FILTERS = ['text', 'service', 'agent', 'label', 'tier'];
const REFRESH = 5000;
/** Verdicts that came are shown together, so that a busy feed does not keep the page busy. */
const BATCH = 200;

let incoming = [];
let isPaused = false;
let batch = null;
let agents = [];
/** What `GET /v1/rates` said last. */
let counted = { agents: [], variants: [], conversations: { agents: [], points: [] } };
let status = null;
let chartWindow = '1h';
let windowChosen = false;

const wide = () => matchMedia('(min-width: 900px)').matches;

// ---- The feed ----

function arrived(verdict) {
  incoming.push(verdict);
  if (incoming.length > list.MOST) incoming.shift();
  if (isPaused) return says('live');
  batch ??= setTimeout(flush, BATCH);
}

function flush() {
  batch = null;
  if (isPaused || incoming.length === 0) return;
  list.take(incoming, { fresh: true });
  incoming = [];
  options();
  list.show();
}

let feedState = 'connecting';
let missed = 0;

function says(state, pause = 0) {
  feedState = state;
  const words = {
    connecting: 'connecting',
    live: isPaused ? `paused, ${incoming.length} new` : 'live',
    broken: `no connection, next try in ${Math.max(1, Math.round(pause / 1000))} s`,
    locked: 'a token is needed',
  }[state];
  byId('status').dataset.state = isPaused && state === 'live' ? 'paused' : state;
  byId('status-text').textContent = missed ? `${words}, ${missed} missed` : words;
}

async function backlog() {
  const found = await get('v1/verdicts', { limit: list.MOST }).catch(() => null);
  if (!found) return;
  list.take(found.verdicts);
  options();
  list.show();
  openFromAddress();
}

const feed = follow({
  onVerdict: arrived,
  onMissed: (n) => {
    missed += n;
    backlog();
  },
  onState: (state, pause) => {
    const cameBack = state === 'live' && feedState !== 'live';
    says(state, pause);
    // The feed has what comes from now on; what came before is asked for now, so that nothing falls between.
    if (cameBack) {
      backlog();
      rates();
      feedback.showAgreement();
    }
  },
});

function setPaused(paused) {
  isPaused = paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  byId('pause').textContent = paused ? 'Go on' : 'Pause';
  says(feedState);
  if (!paused) flush();
}

// ---- Rates ----

async function rates() {
  if (document.hidden) return;
  const { service, agent } = wanted();
  const found = await get('v1/rates', { window: chartWindow, points: 60, service, agent }).catch(() => null);
  if (!found) return;
  counted = found;
  agents = [...found.agents, ...found.conversations.agents];
  if (!detail.isOpen()) status = await get('v1/status').catch(() => status);
  options();
  if (!windowChosen && isYoung(found)) return setWindow('15m');
  windowChosen = true;
  chart.draw(found);
  if (!detail.isOpen() && !root().contains(document.activeElement)) overview();
}

/** A daemon that has counted for minutes only is better seen close. */
const isYoung = ({ points, seconds_each: width }) => points.slice(0, Math.floor(-900 / width)).every((point) => point.scored === 0);

function setWindow(name) {
  windowChosen = true;
  chartWindow = name;
  for (const button of document.querySelectorAll('[data-window]')) button.setAttribute('aria-pressed', String(button.dataset.window === name));
  return rates();
}

const root = () => byId('detail');

function overview() {
  detail.clear();
  showOverview(counted, status, ({ service, agent }) => {
    byId('f-service').value = service ?? '';
    options();
    byId('f-agent').value = agent ?? '';
    apply();
    list.focus();
  });
}

// ---- Filters ----

const wanted = () => Object.fromEntries(FILTERS.map((name) => [name, byId(`f-${name}`).value.trim()]));

function apply() {
  const filters = wanted();
  options();
  list.filter(wanted());
  list.show();
  byId('clear').hidden = !Object.values(filters).some(Boolean);
  remember();
  rates();
  older(filters);
  trace(filters.text);
}

/** What passes the filters and is older than what the page holds. */
let asked = 0;
function older(filters) {
  asked += 1;
  const mine = asked;
  setTimeout(async () => {
    const { label, ...rest } = filters;
    if (label === 'flagged' || label === 'conversation') return;
    const isOutcome = label === 'skipped' || label === 'failed';
    if (mine !== asked || !Object.values(filters).some(Boolean)) return;
    const found = await get('v1/verdicts', { ...rest, ...(isOutcome ? { outcome: label } : { label }), limit: 200 }).catch(() => null);
    if (!found || mine !== asked) return;
    const unknown = found.verdicts.filter((verdict) => !list.verdictOf(verdict.verdict_id));
    if (unknown.length === 0) return;
    list.take(unknown, { found: true });
    list.show();
  }, 300);
}

/** A trace id in the search says what became of that trace. */
async function trace(text) {
  const box = byId('trace');
  const id = text.toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(id)) {
    box.hidden = true;
    return;
  }
  const found = await get(`v1/traces/${id}`).catch((error) => ({ stage: 'unknown', message: error.message }));
  if (byId('f-text').value.trim().toLowerCase() !== id) return;
  note(`Trace: ${found.stage}`, found.message);
}

/** Above the list. */
function note(title, message) {
  byId('trace').replaceChildren(el('b', {}, `${title}. `), message);
  byId('trace').hidden = false;
}

/** Services and agents that are known, in the selects. */
function options() {
  const held = list.all();
  const known = [...agents, ...held];
  choices('f-service', known.map((item) => item.service));
  const service = byId('f-service').value;
  choices('f-agent', known.filter((item) => !service || item.service === service).map((item) => item.agent));
}

function choices(id, names) {
  const select = byId(id);
  const wantedNames = [...new Set([...names.filter(Boolean), ...(select.value ? [select.value] : [])])].sort();
  const present = [...select.options].slice(1).map((option) => option.value);
  if (wantedNames.join('\n') === present.join('\n')) return;
  const { value } = select;
  select.replaceChildren(select.options[0], ...wantedNames.map((name) => el('option', { value: name }, name)));
  select.value = value;
}

// ---- Opening ----

let opening = 0;

async function open(id, { focusDetail = true } = {}) {
  const verdict = list.verdictOf(id);
  const wasOpen = detail.isOpen();
  opening += 1;
  const mine = opening;
  list.setOpen(id);
  document.body.classList.add('open');
  if (verdict) detail.show({ verdict, pending: true });
  // One step back, as on a phone, leads from a verdict to the list.
  remember({ asStep: !wasOpen });
  if (focusDetail) byId('verdict-title')?.focus({ preventScroll: true });
  const whole = await get(`v1/verdicts/${encodeURIComponent(id)}`).catch((error) => ({ error }));
  if (mine !== opening) return;
  const keepsFocus = root().contains(document.activeElement);
  if (!whole.error) detail.show(whole);
  else if (verdict) detail.show({ verdict, story_missing: whole.error.status === 404 ? 'gone' : 'failed' });
  else {
    close();
    note('That verdict', whole.error.message);
    return;
  }
  if (focusDetail || keepsFocus) byId('verdict-title')?.focus({ preventScroll: true });
}

function close() {
  opening += 1;
  list.setOpen(null);
  document.body.classList.remove('open');
  overview();
  remember();
  list.focus();
}

/** The address says what is open and filtered, so that it can be kept and sent to others. */
function remember({ asStep = false } = {}) {
  const parameters = new URLSearchParams(Object.entries(wanted()).filter(([, value]) => value));
  if (detail.isOpen()) parameters.set('verdict', detail.openId());
  const hash = parameters.size ? `#${parameters}` : '';
  if (location.hash === hash) return;
  const address = hash || location.pathname + location.search;
  if (asStep) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
}

let isFresh = true;
function openFromAddress() {
  if (!isFresh) return;
  isFresh = false;
  const id = new URLSearchParams(location.hash.slice(1)).get('verdict');
  if (id) open(id, { focusDetail: false });
}

function filtersFromAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const name of FILTERS) {
    const value = parameters.get(name);
    const field = byId(`f-${name}`);
    if (value && field.tagName === 'SELECT' && ![...field.options].some((option) => option.value === value)) {
      field.append(el('option', { value }, value));
    }
    if (value) field.value = value;
  }
  list.filter(wanted());
  byId('clear').hidden = !Object.values(wanted()).some(Boolean);
  if (wanted().text) trace(wanted().text);
}

// ---- Keys ----

let followed = null;

function moved(by) {
  const id = list.move(by);
  // Beside the list there is room for the verdict: it follows, as soon as the keys rest.
  clearTimeout(followed);
  if (id && detail.isOpen() && wide()) followed = setTimeout(() => open(id, { focusDetail: false }), 120);
}

const KEYS = {
  j: () => moved(1),
  k: () => moved(-1),
  n: () => detail.step(1),
  N: () => detail.step(-1),
  r: () => detail.press(true),
  w: () => detail.press(false),
  p: () => setPaused(!isPaused),
  '/': () => byId('f-text').select(),
  '?': () => byId('help-dialog').showModal(),
};

document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const { target, key } = event;
  const isTyping = target.matches('input, select, textarea');
  if (key === 'Escape') {
    if (isTyping) return list.focus();
    if (!detail.unchoose() && detail.isOpen()) close();
    return;
  }
  if (isTyping) return;
  const onRow = target.closest('[role=option]');
  if (onRow && ['ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown', 'PageUp'].includes(key)) {
    event.preventDefault();
    moved({ ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -list.MOST, End: list.MOST }[key]);
  } else if (onRow && (key === 'Enter' || key === ' ')) {
    event.preventDefault();
    clearTimeout(followed);
    open(onRow.dataset.id);
  } else if (KEYS[key]) {
    event.preventDefault();
    KEYS[key]();
  }
});

// ---- Everything else on the page ----

list.start({ open: (id) => open(id) });
byId('filters').addEventListener('input', apply);
byId('filters').addEventListener('submit', (event) => event.preventDefault());
byId('filters').addEventListener('reset', () => setTimeout(apply));
byId('pause').addEventListener('click', () => setPaused(!isPaused));
byId('home').addEventListener('click', close);
byId('help').addEventListener('click', () => byId('help-dialog').showModal());
root().addEventListener('click', (event) => {
  if (event.target.closest('[data-back]')) close();
});
for (const button of document.querySelectorAll('[data-window]')) {
  button.addEventListener('click', () => setWindow(button.dataset.window));
}
byId('signs').append(...[...Object.entries(LABELS), ...Object.entries(STANDINGS)].flatMap(([word, { sign, tone, means }]) => [
  el('dt', {}, el('span', { class: `badge ${tone}` }, el('span', { class: 'sign' }, sign), word)), el('dd', {}, means),
]));

whenUnauthorized(() => {
  if (!byId('token-dialog').open) byId('token-dialog').showModal();
});
byId('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  token.set(byId('token').value.trim());
  byId('token').value = '';
  byId('token-dialog').close();
  say('connecting');
  feed.retry();
});

new ResizeObserver(() => chart.redraw()).observe(byId('chart-plot'));
document.addEventListener('visibilitychange', rates);
window.addEventListener('popstate', () => {
  const id = new URLSearchParams(location.hash.slice(1)).get('verdict');
  if (id) open(id, { focusDetail: false });
  else if (detail.isOpen()) close();
});
setInterval(rates, REFRESH);
filtersFromAddress();
list.show();
overview();
