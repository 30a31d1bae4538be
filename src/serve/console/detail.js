// The open verdict: what it says, its story beside its claims, what it is made of and what it cost.

import { LABELS, STANDINGS, badge, byId, clock, count, duration, el, fixed, labelOf, say } from './page.js';
import * as feedback from './feedback.js';
import { excerpt, frame, mark, timeline } from './story.js';

let state = null;
let chosen = null;

const root = () => byId('detail');

/** Shows a verdict; `whole` is what `GET /v1/verdicts/{id}` said, or just `{verdict}` until it has. */
export function show({ verdict, story = null, story_missing: missing = null, message = null, feedback: words = [], pending = false }) {
  const keepsChoice = state?.verdict.verdict_id === verdict.verdict_id ? chosen : null;
  state = { verdict, story, feedback: words };
  chosen = null;
  const claims = verdict.grounding?.claims ?? [];
  root().replaceChildren(el('article', { class: 'verdict', 'data-id': verdict.verdict_id },
    head(verdict, message),
    el('div', { class: 'columns' },
      el('section', { class: 'story', 'aria-label': 'Story', tabindex: 0 },
        el('h3', {}, 'Story'),
        story ? frame(story) : null,
        story ? timeline(story, claims, (index) => choose(index)) : el('p', { class: 'empty' }, pending ? 'Loading…' : whyNoStory(missing)),
        notes('Warnings', story?.warnings),
      ),
      el('aside', { class: 'facts', 'aria-label': 'Claims and facts', tabindex: 0 },
        claims.length ? claimList(claims) : null,
        answers(verdict.answers ?? {}),
        metrics(verdict.metrics ?? {}),
        provenance(verdict),
      ),
    ),
  ));
  if (keepsChoice !== null) choose(keepsChoice, { quietly: true });
}

/** On a narrow page, where claims and story are below each other: the chosen claim stays in sight, and leads back. */
function pin(claim) {
  root().querySelector('.pinned')?.remove();
  if (!claim) return;
  const { sign, tone } = STANDINGS[claim.standing ?? 'none'];
  const back = () => root().querySelector('.claim-card.chosen')?.scrollIntoView({ block: 'start' });
  root().append(el('button', { type: 'button', class: 'pinned', onclick: back },
    el('span', { class: `sign ${tone}`, 'aria-hidden': 'true' }, sign), el('span', {}, claim.text), el('span', { class: 'quiet' }, '↑ claim')));
}

/** No verdict is open any more. */
export function clear() {
  state = null;
  chosen = null;
}

export const isOpen = () => state !== null;
export const openId = () => state?.verdict.verdict_id ?? null;

function head(verdict, message) {
  const { grounding } = verdict;
  const facts = [
    ['service', verdict.service], ['agent', verdict.agent], ['model', verdict.model], ['release', verdict.service_version],
    ['prompt', verdict.prompt_version], ['session', verdict.session_id],
    ['revision', verdict.revision || null], ['traces', verdict.traces?.length || null],
  ].filter(([, value]) => value);
  const warnings = [
    verdict.judge_error && `The judge did not answer: ${verdict.judge_error}`,
    verdict.degraded && !verdict.judge_error && 'Something could not be evaluated as planned.',
    ...(verdict.truncated ?? []).map((cut) => `Cut: ${cut}`),
  ].filter(Boolean);
  return el('header', { class: 'verdict-head' },
    el('div', { class: 'verdict-line' },
      el('button', { type: 'button', class: 'back', 'data-back': true }, '‹ Verdicts'),
      el('h2', { id: 'verdict-title', tabindex: -1 }, badge(labelOf(verdict), LABELS)),
      typeof verdict.hallucination_probability === 'number'
        ? el('span', { class: 'fact', title: 'The largest over the claims of 1 − p(grounded) − p(complementary)' }, 'p(hallucination) ', el('b', {}, fixed(verdict.hallucination_probability)))
        : null,
      grounding ? el('span', { class: 'fact' }, 'S ', el('b', {}, fixed(grounding.score)), ` → ${grounding.tier}`) : null,
      el('time', { class: 'quiet', datetime: verdict.times.emitted, title: verdict.times.emitted }, clock(verdict.times.emitted)),
    ),
    el('p', { class: 'ids' },
      ...facts.flatMap(([key, value]) => [el('span', { class: 'quiet' }, `${key} `), el('b', {}, String(value)), ' ']),
      verdict.trace_id ? el('span', { class: 'quiet' }, 'trace ') : null,
      verdict.trace_id ? copyable(verdict.trace_id) : null),
    verdict.label ? null : el('p', { class: 'why' }, message ?? verdict.reason ?? ''),
    warnings.length ? el('ul', { class: 'warnings' }, ...warnings.map((line) => el('li', {}, line))) : null,
    verdict.label ? el('div', { class: 'feedback-line' }, feedback.control(state, null), feedback.nameField()) : null,
  );
}

function copyable(text) {
  const button = el('button', { type: 'button', class: 'link mono', title: 'Copy' }, text);
  button.addEventListener('click', async () => {
    // Without a secure context the browser has no clipboard; the text can still be selected.
    await navigator.clipboard?.writeText(text);
    say('copied');
  });
  return button;
}

function claimList(claims) {
  return el('section', { class: 'claims' },
    el('h3', {}, count(claims.length, 'claim')),
    tally(claims),
    el('ol', {}, ...claims.map((claim, index) => {
      const standing = claim.standing ?? 'none';
      const title = el('button', { type: 'button', class: 'claim-title', 'aria-expanded': 'false' },
        el('span', { class: `sign ${STANDINGS[standing].tone}`, 'aria-hidden': 'true' }, STANDINGS[standing].sign),
        el('span', { class: 'claim-text' }, claim.text), el('span', { class: 'unseen' }, ` (${standing})`));
      title.addEventListener('click', () => choose(chosen === index ? null : index));
      return el('li', { class: `claim-card ${STANDINGS[standing].tone}`, 'data-card': index }, title);
    })));
}

function tally(claims) {
  const counts = Object.keys(STANDINGS).map((standing) => [standing, claims.filter((claim) => (claim.standing ?? 'none') === standing).length]);
  return el('p', { class: 'tally' }, ...counts.filter(([, n]) => n).map(([standing, n]) => {
    const mark = badge(standing === 'none' ? 'unanswered' : standing, { ...STANDINGS, unanswered: STANDINGS.none });
    mark.prepend(`${n} `);
    return mark;
  }));
}

/** What a claim's card shows once it is chosen. */
function claimBody(claim, index) {
  const probabilities = Object.entries(claim.probabilities ?? {}).sort((a, b) => b[1] - a[1]);
  const facts = [
    ['standing', claim.standing ?? 'nobody could say'],
    ['said by', claim.by],
    ['confidence', claim.confidence === null ? null : fixed(claim.confidence)],
    ['computed from the evidence', (claim.derived ?? []).join(' ')],
    ['evidence type', `${claim.evidence_type.replaceAll('_', ' ')}, weight ${fixed(claim.weight)}`],
  ].filter(([, value]) => value);
  return el('div', { class: 'claim-body' },
    probabilities.length ? el('ul', { class: 'bars' }, ...probabilities.map(bar)) : null,
    definitions(facts),
    claim.reasoning ? el('p', { class: 'reasoning' }, claim.reasoning) : null,
    evidenceList(claim),
    feedback.control(state, index));
}

function evidenceList(claim) {
  if (claim.evidence.length === 0) return el('p', { class: 'quiet' }, 'No piece of evidence speaks of it.');
  return el('ul', { class: 'evidence-list' }, ...claim.evidence.map((piece) => {
    const { where, said, size } = excerpt(state.story, piece);
    const button = el('button', { type: 'button', class: 'link' }, where);
    button.addEventListener('click', () => mark(root(), { ...claim, evidence: [piece] }, true));
    return el('li', {}, button, el('span', { class: 'quiet' }, ` ${size}`), said ? el('blockquote', {}, said) : null);
  }));
}

function bar([word, share]) {
  const fill = el('span', { class: `fill ${STANDINGS[word]?.tone ?? 'info'}` });
  fill.style.width = `${Math.max(1, 100 * share)}%`;
  return el('li', {}, el('span', { class: 'bar-word' }, word), el('span', { class: 'track', 'aria-hidden': 'true' }, fill), el('span', { class: 'number' }, fixed(share, 3)));
}

/** Chooses a claim: its card opens and its evidence is marked in the story. */
export function choose(index, { quietly = false } = {}) {
  if (!state) return;
  const claims = state.verdict.grounding?.claims ?? [];
  chosen = claims[index] ? index : null;
  for (const element of root().querySelectorAll('.claim')) {
    const isChosen = Number(element.dataset.claim) === chosen && chosen !== null;
    element.setAttribute('aria-pressed', String(isChosen));
    element.classList.toggle('chosen', isChosen);
  }
  for (const card of root().querySelectorAll('.claim-card')) {
    const isChosen = Number(card.dataset.card) === chosen && chosen !== null;
    card.classList.toggle('chosen', isChosen);
    card.querySelector('.claim-title').setAttribute('aria-expanded', String(isChosen));
    card.querySelector('.claim-body')?.remove();
    if (isChosen) card.append(claimBody(claims[chosen], chosen));
  }
  pin(chosen === null ? null : claims[chosen]);
  if (chosen === null) {
    mark(root(), null);
    return;
  }
  // The card first: on a narrow page the story is below, and the evidence is what should be in view in the end.
  const card = root().querySelector('.claim-card.chosen');
  if (getComputedStyle(card.closest('.facts')).overflowY === 'auto') card.scrollIntoView({ block: 'nearest' });
  const first = mark(root(), claims[chosen], false);
  if (quietly) return;
  const claim = claims[chosen];
  const evidence = first ? `Evidence in ${excerpt(state.story, claim.evidence[0]).where}: ${first.textContent.slice(0, 200)}` : 'No evidence is marked.';
  say(`Claim ${chosen + 1} of ${claims.length}, ${claim.standing ?? 'nobody could say'}. ${evidence}`);
}

/** The next or the previous claim. */
export function step(by) {
  const n = state?.verdict.grounding?.claims.length ?? 0;
  if (n === 0) return;
  const next = chosen === null ? (by > 0 ? 0 : n - 1) : (chosen + by + n) % n;
  choose(next);
  (root().querySelector(`.claim[data-claim="${next}"]`) ?? root().querySelector(`[data-card="${next}"] button`))?.focus({ preventScroll: true });
}

/** Takes back the choice of a claim; false if there was none. */
export function unchoose() {
  if (chosen === null) return false;
  choose(null);
  return true;
}

export const press = (isRight) => feedback.press(root(), isRight);

/** Answers of the evaluators. */
function answers(all) {
  const entries = Object.entries(all);
  if (entries.length === 0) return null;
  return el('section', {}, el('h3', {}, 'Evaluators'), el('ul', { class: 'answers' }, ...entries.map(([id, answer]) =>
    el('li', {},
      el('b', {}, id), ' ',
      answer.label === null ? el('span', { class: 'quiet' }, 'nobody could say') : outcomeOf(answer),
      el('span', { class: 'quiet' }, ` ${[answer.type, `by ${answer.by}`, answer.confidence === null ? null : `confidence ${fixed(answer.confidence)}`, answer.escalated ? 'escalated' : null].filter(Boolean).join(' · ')}`),
      answer.reasoning ? el('p', { class: 'reasoning' }, answer.reasoning) : null))));
}

function outcomeOf({ label, pass }) {
  if (pass === undefined) return el('span', { class: 'badge none' }, label);
  return badge(label, { [label]: pass ? STANDINGS.grounded : STANDINGS.contradicted });
}

function metrics(all) {
  const entries = Object.entries(all);
  if (entries.length === 0) return null;
  return el('section', {}, el('h3', {}, 'Metrics'),
    definitions(entries.map(([name, { value, error }]) => [name, error ?? (typeof value === 'string' ? value : JSON.stringify(value))])));
}

function provenance(verdict) {
  const { provenance: made, usage, times } = verdict;
  const took = times.closed ? new Date(times.emitted) - new Date(times.closed) : NaN;
  const judged = usage.judge_input_tokens + usage.judge_output_tokens > 0;
  return el('section', {},
    el('h3', {}, 'Provenance and cost'),
    definitions([
      ['decider', made.decider],
      ['judge', made.judge ?? 'not asked'],
      ['decider tokens', usage.decider_tokens.toLocaleString('en')],
      ['judge tokens', judged ? `${usage.judge_input_tokens.toLocaleString('en')} in, ${usage.judge_output_tokens.toLocaleString('en')} out` : null],
      ['judge cost', judged || usage.judge_cost_usd ? `$${usage.judge_cost_usd.toFixed(6)}` : null],
      ['closed', verdict.closed],
      ['complete → verdict', Number.isFinite(took) ? duration(took) : null],
      ['first span', times.first_span],
      ['verdict id', verdict.verdict_id],
      ['plan', made.plan],
      ['assayd', made.version],
    ].filter(([, value]) => value)),
    el('details', {}, el('summary', {}, 'Thresholds'),
      definitions(Object.entries(made.thresholds ?? {}).map(([key, value]) => [key, String(value)]))));
}

function definitions(pairs) {
  return el('dl', { class: 'definitions' }, ...pairs.flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, String(value))]));
}

function notes(title, lines) {
  return lines?.length ? el('details', { class: 'notes' }, el('summary', {}, `${title} (${lines.length})`), el('ul', {}, ...lines.map((line) => el('li', {}, line)))) : null;
}

function whyNoStory(missing) {
  return {
    never: 'Nothing could be told of this trace, so there is no story.',
    forgotten: 'The story has made room for newer ones, or was too large to keep (emit.recent.story_bytes).',
    off: 'Stories are not kept (emit.recent.story_bytes is 0).',
    gone: 'The verdict is no longer among the recent ones.',
  }[missing] ?? 'The story could not be loaded.';
}
