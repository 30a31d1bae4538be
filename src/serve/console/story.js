// A story as a timeline: thought, tool, observation, answer. The answer's claims are coloured, and evidence is marked.

import { STANDINGS, calm, clock, count, duration, el, parts, slice } from './page.js';

/** Texts longer than this many characters, or lines, are folded. */
const LONG = 900;
const LINES = 14;
/** Of stories with more steps than this, the browser lays out only what is in view. */
const MANY = 200;

const KINDS = {
  request: { name: 'Request', sign: '›' },
  thought: { name: 'Thought', sign: '∴' },
  tool_call: { name: 'Tool', sign: '⚙' },
  observation: { name: 'Observation', sign: '◉' },
  answer: { name: 'Answer', sign: '¶' },
  handoff: { name: 'Handoff', sign: '⇢' },
};

/** The timeline of `story`. `choose(index)` is called when somebody points at a claim of the answer. */
export function timeline(story, claims, choose) {
  const answerAt = answerStep(story);
  const began = story.steps.map((step) => step.time).find(Boolean);
  const list = el('ol', { class: `timeline${story.steps.length > MANY ? ' many' : ''}` });
  let turn = 0;
  for (const step of story.steps) {
    if (step.turn !== turn && story.steps.at(-1).turn > 1) list.append(el('li', { class: 'turn' }, `Turn ${step.turn}`));
    turn = step.turn;
    list.append(item(step, began, list.childElementCount <= 1, step === answerAt ? answer(story.answer, claims, choose) : null));
  }
  if (!answerAt && story.answer) {
    list.append(item({ kind: 'answer', text: story.answer }, began, false, answer(story.answer, claims, choose)));
  }
  return list;
}

/** What the models were told before it all, and what they could call; null where nothing of it was recorded. */
export function frame(story) {
  const { instructions = [], tools = [] } = story;
  if (instructions.length + tools.length === 0) return null;
  return el('div', { class: 'frame' },
    instructions.length ? el('details', { class: 'instructions' },
      el('summary', {}, 'Instructions', instructions.length > 1 ? ` (${instructions.length})` : ''),
      ...instructions.map(({ agents = [], text: told }) => el('div', { class: 'told' }, whose(agents), text(told, {})))) : null,
    tools.length ? el('details', { class: 'offered' },
      el('summary', {}, `${count(tools.length, 'tool')} offered: `, el('span', { class: 'mono' }, shortList(tools.map(({ name }) => name)))),
      el('dl', {}, ...tools.flatMap(offered))) : null);
}

const whose = (agents) => (agents.length ? el('p', { class: 'quiet' }, `to ${agents.join(', ')}`) : null);

function shortList(names) {
  const shown = names.slice(0, 6).map((name) => name.slice(0, 60)).join(', ');
  return names.length > 6 ? `${shown}, …` : shown;
}

function offered({ name, description, parameters, agents = [], unlisted = false }) {
  return [
    el('dt', {}, el('span', { class: 'mono' }, name), whose(agents)),
    el('dd', {},
      description ? text(description, {}) : null,
      unlisted ? el('p', { class: 'quiet' }, 'Seen by its run only: no request of a model lists it.') : null,
      parameters ? el('details', {}, el('summary', {}, 'Arguments'), text(JSON.stringify(parameters, null, 2), { mono: true })) : null),
  ];
}

/** The step that tells the final answer. */
function answerStep(story) {
  const answers = story.steps.filter((step) => step.kind === 'answer');
  return answers.findLast((step) => step.text === story.answer) ?? null;
}

function item(step, began, isFirst, body) {
  const { name, sign } = KINDS[step.kind] ?? { name: step.kind, sign: '·' };
  const isTool = step.kind === 'tool_call' || step.kind === 'observation';
  const offset = step.time && began ? new Date(step.time) - new Date(began) : null;
  const facts = [
    step.tool && el('code', { class: 'tool' }, step.tool),
    step.is_error && el('span', { class: 'badge bad' }, el('span', { class: 'sign', 'aria-hidden': 'true' }, '!'), 'error'),
    step.agent && el('span', { class: 'quiet' }, step.agent),
    step.time && el('time', { class: 'quiet when', datetime: step.time, title: step.time }, offset > 0 ? `+${duration(offset)}` : step.time === began && isFirst ? clock(step.time) : ''),
  ];
  const content = [];
  if (step.arguments !== undefined) content.push(text(json(step.arguments), { mono: true }));
  if (body) content.push(body);
  else if (step.text) content.push(text(step.text, { mono: isTool, step: step.index }));
  return el('li', { class: `step ${step.kind}`, 'data-step': step.index ?? '' },
    el('span', { class: 'node', 'aria-hidden': 'true' }, sign),
    el('div', { class: 'step-head' }, el('h4', {}, name), ...facts),
    ...content,
  );
}

const json = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 1).replace(/\n\s*/g, ' '));

/** A text that may be long. Its first lines are shown; a button shows the rest. */
function text(whole, { mono = false, step = null }) {
  const box = el('div', { class: `text${mono ? ' mono' : ''}`, 'data-text': step ?? '' });
  box.whole = whole;
  fold(box, !isLong(whole));
  return box;
}

const isLong = (whole) => whole.length > LONG || whole.split('\n', LINES + 1).length > LINES;

/** Fills the box with its text, folded or whole, with `marks` of `[from, to, tone]`. */
function fold(box, unfolded, marks = []) {
  const { whole } = box;
  const head = whole.split('\n').slice(0, LINES).join('\n').slice(0, LONG);
  const visible = unfolded ? whole : head.replace(/[\uD800-\uDBFF]$/, '');
  box.replaceChildren(...parts(visible, marks).map(({ text: piece, tag }) => (tag ? el('mark', { class: tag, tabindex: -1 }, piece) : piece)));
  if (!isLong(whole)) return;
  const button = el('button', { type: 'button', class: 'fold', 'aria-expanded': String(unfolded) },
    unfolded ? 'Fold' : `Show all ${whole.length.toLocaleString('en')} characters`);
  button.addEventListener('click', () => {
    fold(box, !unfolded, marks);
    box.querySelector('button.fold').focus({ preventScroll: true });
  });
  if (!unfolded) box.append('…');
  box.append(el('br'), button);
}

/** The answer with its claims as buttons. */
function answer(whole, claims, choose) {
  const ranges = claims.map((claim, index) => [...claim.range, index]);
  const box = el('div', { class: 'text answer-text' });
  for (const { text: piece, tag } of parts(whole, ranges)) {
    if (tag === null) {
      box.append(piece);
      continue;
    }
    const standing = claims[tag].standing ?? 'none';
    const { sign, tone } = STANDINGS[standing];
    const claim = el('span', {
      class: `claim ${tone} ${standing}`, role: 'button', tabindex: 0, 'data-claim': tag, 'aria-pressed': 'false',
      title: `${standing}: ${STANDINGS[standing].means}`,
    }, el('span', { class: 'sign', 'aria-hidden': 'true' }, sign), piece, el('span', { class: 'unseen' }, ` (${standing})`));
    claim.addEventListener('click', () => choose(tag));
    claim.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      choose(tag);
    });
    box.append(claim);
  }
  return box;
}

/**
 * Marks the evidence of a claim in the timeline `root`, unfolded and in view, and takes away other marks. Returns the first
 * mark, or null. Ranges count Unicode code points.
 */
export function mark(root, claim, focusFirst) {
  for (const box of root.querySelectorAll('.text.marked')) {
    box.classList.remove('marked');
    fold(box, !isLong(box.whole));
  }
  for (const step of root.querySelectorAll('.step.witness')) step.classList.remove('witness');
  if (!claim) return null;
  const { tone } = STANDINGS[claim.standing ?? 'none'];
  const byStep = new Map();
  for (const { step, range } of claim.evidence) byStep.set(step, [...(byStep.get(step) ?? []), [...range, `evidence ${tone}`]]);
  for (const [step, marks] of byStep) {
    root.querySelector(`.step[data-step="${step}"]`)?.classList.add('witness');
    const box = root.querySelector(`.text[data-text="${step}"]`);
    if (!box) continue;
    box.classList.add('marked');
    fold(box, true, marks);
  }
  const best = claim.evidence[0]?.step;
  const first = root.querySelector(`.text[data-text="${best}"] mark`) ?? root.querySelector('mark.evidence');
  const target = first ?? root.querySelector('.step.witness');
  target?.scrollIntoView({ block: 'center', behavior: calm() ? 'auto' : 'smooth' });
  if (focusFirst) first?.focus({ preventScroll: true });
  return first;
}

/** A piece of evidence in words: where it is and what it says. */
export function excerpt(story, { step, range }) {
  const found = story?.steps[step];
  const where = found ? [`step ${step + 1}`, KINDS[found.kind]?.name.toLowerCase(), found.tool].filter(Boolean).join(' · ') : `step ${step + 1}`;
  const said = found?.text ? slice(found.text, range[0], range[1]) : null;
  return { where, said: said && said.length > 400 ? `${said.slice(0, 400)}…` : said, size: count(range[1] - range[0], 'character') };
}
