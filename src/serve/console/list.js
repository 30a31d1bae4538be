// The list of verdicts: what is held, what the filters let through, and moving about in it.

import { LABELS, STANDINGS, badge, byId, clock, count, el, fixed, isConversation, labelOf } from './page.js';

/** Verdicts that the page holds; older ones go. */
export const MOST = 1000;

/** All held verdicts by id, with what is needed to show and to find them quickly. */
const held = new Map();
/** Ids of what is shown, newest first. */
let shown = [];
const rows = new Map();
let filters = {};
let openId = null;
let focusId = null;
let onOpen = () => {};

export function start({ open }) {
  onOpen = open;
  const list = byId('list');
  list.addEventListener('click', (event) => {
    const row = event.target.closest('[role=option]');
    if (row) onOpen(row.dataset.id);
  });
  list.addEventListener('focusin', (event) => {
    const row = event.target.closest('[role=option]');
    if (row) settle(row.dataset.id);
  });
}

export const all = () => [...held.values()].map((item) => item.verdict);
export const verdictOf = (id) => held.get(id)?.verdict ?? null;

/**
 * Takes verdicts in; one that is there already is replaced. Newest ones stay, and beside them those that are `found`: older
 * ones that were asked for because they pass the filters.
 */
export function take(verdicts, { fresh = false, found = false } = {}) {
  for (const verdict of verdicts) {
    drop(verdict.verdict_id);
    held.set(verdict.verdict_id, { verdict, time: verdict.times.emitted, hay: hay(verdict), fresh, found });
  }
  const passing = [...held.entries()].filter(([, item]) => !item.found);
  if (passing.length <= MOST) return;
  passing.sort((a, b) => (a[1].time < b[1].time ? -1 : 1));
  for (const [id] of passing.slice(0, passing.length - MOST)) drop(id);
}

function drop(id) {
  held.delete(id);
  rows.delete(id);
}

/** `{text, service, agent, label, tier}`; empty ones let all through. */
export function filter(wanted) {
  filters = { ...wanted, text: wanted.text.toLowerCase() };
  for (const [id, item] of held) if (item.found && id !== openId) drop(id);
}

/** Shows what is held and passes. */
export function show() {
  const list = byId('list');
  const hadFocus = list.contains(document.activeElement);
  shown = [...held.values()].filter(passes).sort((a, b) => (a.time < b.time ? 1 : -1)).map((item) => item.verdict.verdict_id);
  const wanted = shown.map(rowOf);
  // Most of the time there are a few new rows at the top and a few old ones at the end: only those are touched.
  const keep = new Set(wanted);
  for (const row of [...list.children]) if (!keep.has(row)) row.remove();
  let next = list.firstElementChild;
  for (const row of wanted) {
    if (row === next) next = next.nextElementSibling;
    else list.insertBefore(row, next);
  }
  if (!shown.includes(focusId)) settle(shown.includes(openId) ? openId : shown[0] ?? null);
  if (hadFocus && !list.contains(document.activeElement)) focus();
  const isFiltered = Object.values(filters).some(Boolean);
  const talks = shown.filter((id) => isConversation(held.get(id).verdict)).length;
  const tally = [count(shown.length - talks, 'verdict'), talks && count(talks, 'conversation')].filter(Boolean).join(', ');
  byId('feed-says').textContent = isFiltered ? `${shown.length} of ${held.size}` : tally;
  byId('empty').hidden = shown.length > 0;
  byId('empty').textContent = held.size === 0
    ? 'No verdicts yet. Each trace shows here a few seconds after it is complete.'
    : 'No verdict passes the filters.';
}

function passes({ verdict, hay: text }) {
  return (!filters.service || verdict.service === filters.service)
    && (!filters.agent || verdict.agent === filters.agent)
    && (!filters.label || labelOf(verdict) === filters.label || (filters.label === 'flagged' && flags(verdict).length > 0)
      || (filters.label === 'conversation' && isConversation(verdict)))
    && (!filters.tier || verdict.grounding?.tier === filters.tier)
    && (!filters.text || text.includes(filters.text));
}

/** All text of a verdict's values, in lower case. Names of fields are not in it. */
function hay(value) {
  const words = [];
  const walk = (part) => {
    if (typeof part === 'string') words.push(part.toLowerCase());
    else if (part && typeof part === 'object') Object.values(part).forEach(walk);
  };
  walk(value);
  return words.join('\n');
}

function rowOf(id) {
  if (!rows.has(id)) rows.set(id, row(held.get(id)));
  return rows.get(id);
}

function row(item) {
  const { verdict, fresh } = item;
  const label = labelOf(verdict);
  const who = [verdict.service, verdict.agent].filter(Boolean).join(' / ') || 'unknown service';
  const element = el('li', {
    role: 'option',
    class: `row ${LABELS[label]?.tone ?? 'none'}${isConversation(verdict) ? ' talk' : ''}${fresh ? ' fresh' : ''}`,
    id: `v-${verdict.verdict_id}`,
    'data-id': verdict.verdict_id,
    tabindex: verdict.verdict_id === focusId ? 0 : -1,
    'aria-selected': verdict.verdict_id === openId ? 'true' : 'false',
  },
    el('span', { class: 'row-label' }, badge(label, LABELS)),
    el('span', { class: 'row-who', title: who }, who),
    el('time', { class: 'row-time', datetime: verdict.times.emitted }, clock(verdict.times.emitted)),
    headline(verdict),
    el('span', { class: 'row-score' }, verdict.grounding ? `${verdict.grounding.tier} · ${fixed(verdict.grounding.score)}` : ''),
  );
  item.fresh = false;
  return element;
}

/** The evaluators that call the answer a failure. */
function flags(verdict) {
  return Object.entries(verdict.answers ?? {}).filter(([, answer]) => answer.pass === false).map(([id]) => id);
}

/** What evaluators flag, and the worst claim, or why there is none. */
function headline(verdict) {
  const flagged = flags(verdict);
  const covers = isConversation(verdict)
    ? el('span', { class: 'talk-mark' }, el('span', { 'aria-hidden': 'true' }, '◇ '), `conversation of ${count(verdict.traces.length, 'trace')} `) : null;
  return el('span', { class: 'row-text' }, covers,
    flagged.length ? el('span', { class: 'flag' }, `⚑ ${flagged.join(', ')} `) : null, ...worstClaim(verdict));
}

function worstClaim(verdict) {
  if (verdict.outcome !== 'scored') return [verdict.reason ?? ''];
  const claims = verdict.grounding?.claims ?? [];
  if (isConversation(verdict)) return [];
  if (claims.length === 0) return ['no claim'];
  const rank = { contradicted: 4, ungrounded: 3, none: 2, complementary: 1, grounded: 0 };
  const badness = (claim) => rank[claim.standing ?? 'none'] + 1 - (claim.probabilities?.grounded ?? 0);
  const worst = claims.reduce((a, b) => (badness(b) > badness(a) ? b : a));
  const { sign, tone } = STANDINGS[worst.standing ?? 'none'];
  return [el('span', { class: `sign ${tone}`, 'aria-hidden': 'true' }, sign), ' ', worst.text.slice(0, 300)];
}

/** The row that Tab comes to. */
function settle(id) {
  rows.get(focusId)?.setAttribute('tabindex', '-1');
  focusId = id;
  rows.get(focusId)?.setAttribute('tabindex', '0');
}

/** Puts the keyboard on the current row. */
export function focus() {
  const current = rows.get(focusId);
  if (current?.isConnected) current.focus({ preventScroll: false });
  else byId('list').focus();
}

/** Moves the keyboard by so many rows; returns the row's id. */
export function move(by) {
  const at = shown.indexOf(focusId);
  const onList = byId('list').contains(document.activeElement);
  const next = at < 0 || (!onList && at === 0 && openId === null) ? 0 : Math.max(0, Math.min(shown.length - 1, at + by));
  if (shown.length === 0) return null;
  settle(shown[next]);
  focus();
  return shown[next];
}

export const focused = () => focusId;

/** Marks the row whose verdict is open. */
export function setOpen(id) {
  rows.get(openId)?.setAttribute('aria-selected', 'false');
  openId = id;
  rows.get(openId)?.setAttribute('aria-selected', 'true');
  if (id !== null && rows.has(id)) settle(id);
}
