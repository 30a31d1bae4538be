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

const DRIFTS = {
  above: { sign: '▲', tone: 'bad' },
  below: { sign: '▼', tone: 'good' },
  level: { sign: '=', tone: 'none' },
};
/** Most variants that are listed. */
const VARIANTS = 25;

/** First `GET /v1/rates`' reply, then what `GET /v1/status` said, if it did; `choose` is called with an agent. */
export function overview({ agents, variants, conversations }, status, choose) {
  byId('detail').replaceChildren(el('div', { class: 'overview' },
    el('h2', {}, agents.length ? 'Agents, worst first' : 'No verdicts in the last three hours'),
    agents.length
      ? el('p', { class: 'quiet' }, 'The last three hours, by the lower end of the 95 % band. Choose a verdict to see its story and its evidence.')
      : null,
    agents.length ? agentTable(agents, choose) : firstSteps(status),
    conversations.agents.length ? el('section', { class: 'conversations' },
      el('h2', {}, 'Conversations'),
      el('p', { class: 'quiet' }, 'Those that ended in the last three hours, each with the worst label of its answers. They do not count among the answers.'),
      agentTable(conversations.agents, choose)) : null,
    variants.length ? variantTable(variants) : null,
    status?.evaluators && Object.keys(status.evaluators).length ? evaluatorTable(status) : null,
  ));
}

/** Where to send spans, for those who wait for a first verdict. */
function firstSteps(status) {
  const { http, grpc } = status?.receivers ?? {};
  const kafka = status?.config?.receive?.kafka;
  const scheme = status?.config?.receive?.tls ? 'https' : 'http';
  const [protocol, address] = http ? ['http/protobuf', http] : ['grpc', grpc];
  const sdk = address && [
    `export OTEL_EXPORTER_OTLP_PROTOCOL=${protocol}`,
    `export OTEL_EXPORTER_OTLP_ENDPOINT=${scheme}://${reachable(address)}`,
    'export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true',
  ].join('\n');
  return el('div', { class: 'steps' },
    sdk ? el('p', {}, 'Point the OpenTelemetry SDK of an agent here, and let it record what is said:') : null,
    sdk ? el('pre', { tabindex: 0 }, sdk) : null,
    kafka ? el('p', {}, 'Spans are read from Kafka; assayd_receive_kafka_lag_records says what waits there.') : null,
    el('p', { class: 'quiet' },
      'A trace without message content is skipped, not judged. Put a trace id into the filter above to see what became of that trace.'));
}

/** An address that another machine may be told: one that stands for all addresses becomes the one of this page. */
function reachable(address) {
  const port = address.slice(address.lastIndexOf(':') + 1);
  const host = address.slice(0, -port.length - 1);
  return ['0.0.0.0', '[::]'].includes(host) ? `${location.hostname}:${port}` : address;
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

/** Those that drifted first, then the busiest. */
function variantTable(variants) {
  const rank = ({ drift }) => ['above', 'below', 'level', 'unknown'].indexOf(drift);
  const ranked = [...variants].sort((a, b) => rank(a) - rank(b) || b.now.scored - a.now.scored || b.baseline.scored - a.baseline.scored);
  const rows = ranked.slice(0, VARIANTS).map((variant) => [
    name(variant.service ?? 'unknown service'), name(variant.model), name(variant.service_version), name(variant.prompt_version),
    share(variant.now), number(variant.now.scored),
    el('span', { title: BASELINES[variant.baseline_of] }, variant.baseline_of === 'nothing' ? '–' : share(variant.baseline), variant.baseline_of === 'others' ? ' *' : ''),
    DRIFTS[variant.drift] ? badge(variant.drift, DRIFTS) : el('span', { class: 'quiet' }, tooFew(variant)),
  ]);
  const isNew = ranked.slice(0, VARIANTS).some(({ baseline_of: of }) => of === 'others');
  return el('section', { class: 'variants' },
    el('h2', {}, 'Models, releases and prompts'),
    el('p', { class: 'quiet' }, 'The last hour against the three days that ended six hours before it, as far as this process remembers.',
      isNew ? ' * new: against the service’s others.' : null,
      ranked.length > VARIANTS ? ` ${VARIANTS} of ${ranked.length} are shown; /v1/rates has all.` : null),
    table(['Service', 'Model', 'Release', 'Prompt', 'Rate', 'Scored', 'Baseline', 'Drift'], rows, 4));
}

/** A sender's word, in one line. */
const name = (word) => el('span', { class: 'word', title: word ?? null }, word ?? '–');

const BASELINES = {
  own: 'its own last days',
  others: 'the last days of the service’s other models, releases and prompts',
  nothing: 'fewer than 200 answers',
};

const share = ({ scored, hallucination }) => (scored ? percent(hallucination / scored) : '–');

const tooFew = ({ now, baseline_of: of }) => (of === 'nothing' ? 'no baseline yet' : `${now.scored} of 50 answers`);

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

/** The first `words` columns hold names, the others numbers. */
function table(titles, rows, words = 1) {
  const cell = (content, index) => el('td', index >= words ? { class: 'number' } : {}, content);
  return el('div', { class: 'scroller', tabindex: 0 }, el('table', {},
    el('thead', {}, el('tr', {}, ...titles.map((title, index) => el('th', { scope: 'col', class: index >= words ? 'number' : null }, title)))),
    el('tbody', {}, ...rows.map((cells) => el('tr', {}, ...cells.map(cell))))));
}
