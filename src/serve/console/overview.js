// What is shown while no verdict is open: agents, worst first, and what the evaluators do.

import { badge, byId, el, percent, wilson } from './page.js';

const STATES = {
  healthy: { sign: '✓', tone: 'good' },
  ready: { sign: '✓', tone: 'good' },
  failing: { sign: '✕', tone: 'bad' },
  unreachable: { sign: '✕', tone: 'bad' },
  stopped: { sign: '✕', tone: 'bad' },
  queued: { sign: '…', tone: 'info' },
  starting: { sign: '…', tone: 'info' },
  'never ran': { sign: '–', tone: 'none' },
};

/** `agents` is of `GET /v1/rates`, `status` what `GET /v1/status` said, if it did; `choose` is called with an agent. */
export function overview(agents, status, choose) {
  byId('detail').replaceChildren(el('div', { class: 'overview' },
    el('h2', {}, 'Agents, worst first'),
    el('p', { class: 'quiet' }, 'The last three hours, by the lower end of the 95 % band. Choose a verdict to see its story and its evidence.'),
    agents.length ? agentTable(agents, choose) : el('p', { class: 'empty' }, 'No verdicts yet.'),
    status?.evaluators && Object.keys(status.evaluators).length ? evaluatorTable(status) : null,
  ));
}

function agentTable(agents, choose) {
  const ranked = agents.map((pair) => ({ ...pair, band: wilson(pair.hallucination, pair.scored) }));
  ranked.sort((a, b) => b.band[0] - a.band[0] || b.hallucination - a.hallucination || b.scored - a.scored);
  const rows = ranked.map((pair) => [
    el('button', { type: 'button', class: 'link clipped', onclick: () => choose(pair) },
      [pair.service ?? 'unknown service', pair.agent].filter(Boolean).join(' / ')),
    pair.scored ? percent(pair.hallucination / pair.scored) : '–',
    pair.scored ? `${Math.round(100 * pair.band[0])}–${Math.round(100 * pair.band[1])} %` : '',
    number(pair.scored), number(pair.hallucination), number(pair.unsure), number(pair.skipped + pair.failed),
  ]);
  return table(['Agent', 'Rate', '95 %', 'Scored', 'Hallucinations', 'Unsure', 'Not scored'], rows);
}

function evaluatorTable({ evaluators, decider, judge }) {
  const rows = Object.entries(evaluators).map(([name, row]) => [
    el('span', {}, el('b', {}, name), ' ', state(row.status), row.trouble ? el('span', { class: 'quiet' }, ` ${row.trouble}`) : null),
    number(row.seen), number(row.sampled), number(row.evaluated), number(row.flagged), number(row.unanswered + row.failed),
    Object.entries(row.skipped ?? {}).filter(([, n]) => n).map(([reason, n]) => `${reason.replaceAll('_', ' ')} ${number(n)}`).join(', ') || '–',
  ]);
  return el('section', { class: 'evaluators' },
    el('h2', {}, 'Evaluators'),
    el('p', { class: 'quiet' },
      decider ? el('span', { title: calibration(decider) }, `Decision model ${decider.name} `, state(decider.health)) : null,
      judge ? ` · judge ${judge.model}` : ' · no judge'),
    table(['Evaluator', 'Seen', 'Sampled', 'Evaluated', 'Flagged', 'No answer', 'Skipped'], rows));
}

const calibration = ({ calibration: words }) => (words === 'uncalibrated' ? words : `calibrated ${words}`);

function state(word) {
  return badge(word.replaceAll('_', ' '), STATES);
}

const number = (value) => (value ?? 0).toLocaleString('en');

function table(titles, rows) {
  const cell = (content, index) => el('td', index ? { class: 'number' } : {}, content);
  return el('div', { class: 'scroller', tabindex: 0 }, el('table', {},
    el('thead', {}, el('tr', {}, ...titles.map((title, index) => el('th', { scope: 'col', class: index ? 'number' : null }, title)))),
    el('tbody', {}, ...rows.map((cells) => el('tr', {}, ...cells.map(cell))))));
}
