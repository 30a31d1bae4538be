// What people say: right or wrong, kept by the daemon.

import { byId, count, el, fixed, say } from './page.js';
import { Refused, get, post } from './source.js';

const NAME = 'assayd.by';
const OF_ANSWERS = ['faithful', 'hallucination'];
const OF_CLAIMS = ['grounded', 'ungrounded', 'contradicted', 'complementary'];

/** What `w` says: the plainest other word. What assayd did not decide has none. */
const OPPOSITE = {
  faithful: 'hallucination', hallucination: 'faithful', grounded: 'ungrounded', complementary: 'ungrounded', ungrounded: 'grounded',
  contradicted: 'grounded',
};

export const name = () => localStorage.getItem(NAME) ?? '';

/** The control for an answer (`claim` null) or a claim. `state` is `{verdict, feedback}` of the open verdict. */
export function control(state, claim) {
  const box = el('div', { class: 'feedback', role: 'group', 'aria-label': claim === null ? 'Is this verdict right?' : 'Is this standing right?' });
  paint(box, state, claim);
  return box;
}

function paint(box, state, claim, trouble = null) {
  const predicted = predictedOf(state.verdict, claim);
  const words = claim === null ? OF_ANSWERS : OF_CLAIMS;
  const mine = mineOf(state, claim);
  box.dataset.predicted = predicted;
  const others = state.feedback.filter((record) => record.claim === claim && (record.by ?? '') !== name());
  const act = async (label) => {
    try {
      await send(state, claim, label);
      paint(box, state, claim);
    } catch (error) {
      paint(box, state, claim, error instanceof Refused ? error.message : 'the server cannot be reached');
    }
  };
  const choices = words.map((word) => {
    const isRight = word === predicted;
    const isOpposite = !isRight && words.length === 2 && words.includes(predicted);
    const button = el('button', {
      type: 'button', 'data-mark': word, 'aria-pressed': String(mine?.label === word), class: isRight ? 'right' : 'wrong',
      title: isRight ? `It is ${word}, as assayd says` : `assayd says ${predicted}; it is ${word}`,
    }, isRight ? `✓ right: ${word}` : isOpposite ? `✕ wrong: ${word}` : word);
    button.addEventListener('click', () => act(mine?.label === word ? null : word));
    return button;
  });
  const said = mine
    ? el('span', { class: 'quiet said' }, `you${name() ? ` (${name()})` : ''} say ${mine.label}`,
      button('Take back', () => act(null)))
    : null;
  const rest = others.length ? el('span', { class: 'quiet' }, others.map((record) => `${record.by ?? 'someone'}: ${record.label}`).join(', ')) : null;
  box.replaceChildren(...[
    el('span', { class: 'ask' }, words.includes(predicted) ? 'Right?' : 'What is it?'), ...choices, said, rest,
    trouble && el('span', { class: 'trouble', role: 'alert' }, trouble),
  ].filter(Boolean));
}

function button(words, react) {
  return el('button', { type: 'button', class: 'link', onclick: react }, words);
}

const predictedOf = (verdict, claim) => (claim === null ? verdict.label : verdict.grounding.claims[claim].standing ?? 'none');

const mineOf = (state, claim) => state.feedback.find((record) => record.claim === claim && (record.by ?? '') === name());

/** Sends a mark; `label` null takes back. The last four fields are for a daemon that has forgotten the verdict. */
async function send(state, claim, label) {
  const { verdict } = state;
  const found = claim === null ? null : verdict.grounding.claims[claim];
  const probabilities = found?.probabilities ?? {};
  const supported = (probabilities.grounded ?? 0) + (probabilities.complementary ?? 0);
  const taken = await post('v1/feedback', {
    verdict_id: verdict.verdict_id, claim, label, by: name() || null,
    predicted: predictedOf(verdict, claim), trace_id: verdict.trace_id,
    hallucination_probability: claim === null ? verdict.hallucination_probability : Object.keys(probabilities).length ? Math.max(0, 1 - supported) : null,
    confidence: found ? found.confidence : null,
  });
  state.feedback = state.feedback.filter((record) => record.claim !== claim || (record.by ?? '') !== name());
  if (taken.feedback.label) state.feedback.push(taken.feedback);
  say(label ? `kept: ${label}` : 'taken back');
  showAgreement();
}

/** Presses right or wrong for somebody at the keyboard: of a claim or, if none is chosen, of the verdict. */
export function press(root, isRight) {
  const box = root.querySelector('.claim-card.chosen .feedback') ?? root.querySelector('.feedback');
  const wrong = box?.querySelector(`button[data-mark=${OPPOSITE[box.dataset.predicted]}]`);
  (isRight ? box?.querySelector('button.right') : wrong)?.click();
}

/** Where a person says who they are. Kept in this browser. */
export function nameField() {
  const input = el('input', { type: 'text', maxlength: 100, placeholder: 'anonymous', autocomplete: 'off', value: name(), 'aria-label': 'Your name, for feedback' });
  input.addEventListener('change', () => localStorage.setItem(NAME, input.value.trim()));
  return el('label', { class: 'name' }, 'as ', input);
}

/** In the head of the page: how far people and verdicts agree. */
export async function showAgreement() {
  const line = byId('agreement');
  const found = await get('v1/feedback/agreement').catch(() => null);
  const labels = found ? found.verdicts.labels + found.claims.labels : 0;
  line.hidden = labels === 0;
  if (labels === 0) return;
  const part = ({ labels: n, kappa, false_positives: fp, false_negatives: fn }, thing) =>
    n ? `${count(n, thing)}${kappa === null ? '' : ` κ ${fixed(kappa)}`}${fp + fn ? ` (${fp} false alarms, ${fn} missed)` : ''}` : null;
  line.textContent = `People: ${[part(found.verdicts, 'verdict'), part(found.claims, 'claim')].filter(Boolean).join(' · ')}`;
}
