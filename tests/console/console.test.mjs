// The console in a real browser, before the real daemon, with traces that come in over OTLP.
// node console.test.mjs BINARY PICTURES [CHROMIUM]

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

import { daemon, front } from './daemon.mjs';
import { recorded, send, written } from './traces.mjs';

const [binary, pictures, executablePath = '/usr/bin/chromium'] = process.argv.slice(2);
mkdirSync(pictures, { recursive: true });

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--force-color-profile=srgb',
];
const PATIENCE = 20_000;

const RECORDED = [
  'strands/s03', 'pydantic-ai-v5/s01', 'openinference-langchain/s02', 'vercel-ai-sdk/s02', 'openinference-anthropic/s08', 'mlflow/s02',
  'haystack/s09', 'openinference-openai-agents/s11', 'edge-cases/content-off-openinference', 'edge-cases/not-an-llm-trace',
];

/** Text that would act if it were taken for markup, in every place that a sender can fill. */
const ATTACK = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>';

let failures = 0;
async function step(title, test) {
  try {
    await test();
    console.log(`ok   ${title}`);
  } catch (error) {
    failures += 1;
    console.log(`FAIL ${title}\n${error.stack}`);
  }
}

const house = await daemon(binary);
const profile = mkdtempSync(join(tmpdir(), 'assayd-chromium-'));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath, headless: true, args: FLAGS, viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce',
});
browser.setDefaultTimeout(PATIENCE);

const complaints = [];
async function openPage(address = house.admin, hash = '') {
  const page = await browser.newPage();
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`http://${address}/${hash}`);
  return page;
}

const api = async (path) => (await fetch(`http://${house.admin}${path}`)).json();
const rows = (page) => page.locator('#list [role=option]');
const shot = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`) });

async function until(title, check, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await check().catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${title}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const verdictOf = ({ traceIds }) => until('the verdict', async () =>
  (await api(`/v1/verdicts?trace_id=${traceIds[0]}`)).verdicts[0]);

const page = await openPage();
let wrong;

await step('verdicts appear while the page is open', async () => {
  await page.locator('#status[data-state=live]').waitFor();
  await page.locator('#empty').waitFor();
  const sent = RECORDED.map((name) => recorded(name));
  for (const trace of sent) await send(house.otlp, trace);
  wrong = written({
    service: 'parcel-desk', agent: 'tracker', request: 'Where is order 7 📦?',
    result: '🚚📦 Order 7 was shipped on 3 May 2026 by Nordpost. Delivery takes 5 working days. The parcel weighs 2 kg.',
    answer: 'Order 7 was shipped on 3 May 2026 by Nordpost. Delivery takes 9 working days.',
  });
  await send(house.otlp, wrong);
  await verdictOf(wrong);
  const { verdicts } = await until('all verdicts', async () => {
    const all = await api('/v1/verdicts?limit=1000');
    return all.verdicts.length >= sent.length && all;
  });
  await until('all rows', async () => (await rows(page).count()) === (await api('/v1/verdicts?limit=1000')).verdicts.length);
  assert.ok(verdicts.some((verdict) => verdict.label === 'hallucination'), 'a recorded run holds a hallucination');
});

await step('filters narrow the list, also from the address, and can be cleared', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('nordpost');
  await until('one row', async () => (await rows(page).count()) === 1);
  await page.locator('#clear').click();
  await page.selectOption('#f-label', 'skipped');
  const skipped = (await api('/v1/verdicts?outcome=skipped&limit=1000')).verdicts.length;
  assert.ok(skipped >= 1);
  await until('the skipped', async () => (await rows(page).count()) === skipped);
  await page.locator('#clear').click();
  const other = await openPage(house.admin, '#service=parcel-desk');
  await until('one service', async () => (await rows(other).count()) === 1);
  await other.close();
});

await step('a verdict opens by keyboard alone', async () => {
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  const first = await page.evaluate(() => document.activeElement.dataset.id);
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), first);
  await page.keyboard.press('Enter');
  await page.locator(`article[data-id="${first}"]`).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'verdict-title');
  await page.keyboard.press('Escape');
  await page.locator('.overview').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), first);
});

async function openVerdict(on, verdict) {
  await on.locator(`[data-id="${verdict.verdict_id}"][role=option]`).click();
  await on.locator(`article[data-id="${verdict.verdict_id}"] .timeline`).waitFor();
}

await step('a claim shows its evidence, counted in code points', async () => {
  const verdict = await verdictOf(wrong);
  const { story } = await api(`/v1/verdicts/${verdict.verdict_id}`);
  const { claims } = verdict.grounding;
  const index = claims.findIndex((claim) => claim.text.includes('9 working days'));
  assert.ok(index >= 0 && claims[index].evidence.length > 0);
  await openVerdict(page, verdict);
  for (const kind of ['request', 'thought', 'tool_call', 'observation', 'answer']) {
    assert.equal(await page.locator(`.timeline .step.${kind}`).count(), 1, kind);
  }
  await page.locator(`.claim[data-claim="${index}"]`).focus();
  await page.keyboard.press('Enter');
  const wanted = claims[index].evidence.map(({ step: at, range }) => Array.from(story.steps[at].text).slice(...range).join(''));
  const marks = await page.locator('mark.evidence').allTextContents();
  assert.ok(marks.length > 0);
  for (const mark of marks) assert.ok(wanted.some((text) => text.includes(mark)), `${mark} is not in ${wanted}`);
  assert.ok(marks.join(' ').includes('5 working days'), `the evidence speaks of 5 days: ${marks}`);
  assert.equal(await page.locator(`.claim-card.chosen[data-card="${index}"] .claim-body`).count(), 1);
  assert.match(await page.locator('#said').textContent(), /Evidence in step/);
  await until('the evidence in view', () => page.locator('mark.evidence').first().evaluate((mark) => {
    const box = mark.getBoundingClientRect();
    return box.top >= 0 && box.bottom <= innerHeight;
  }));
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('mark.evidence').count(), 0);
});

await step('a verdict shows what the model was told and could call, and which release and prompt it is of', async () => {
  const verdict = await verdictOf(wrong);
  assert.deepEqual([verdict.model, verdict.service_version, verdict.prompt_version], ['model-small', '2.4.1', 'clerk@12']);
  await openVerdict(page, verdict);
  const ids = await page.locator('.verdict-head .ids').textContent();
  assert.match(ids, /model-small.*release 2\.4\.1.*prompt clerk@12/);
  assert.ok(!(await page.locator('.frame .text').first().isVisible()), 'it is folded at first');
  assert.match(await page.locator('.frame .offered > summary').textContent(), /2 tools offered: .*cancel_order/);
  await page.locator('.frame .instructions summary').click();
  assert.equal(await page.locator('.frame .instructions .text').innerText(), 'You are a clerk. Say only what the tools say.');
  await page.locator('.frame .offered > summary').focus();
  await page.keyboard.press('Enter');
  await page.locator('.frame .offered dd:has-text("Cancels an order that is not shipped yet.")').waitFor();
  await page.locator('.frame .offered dd summary').first().click();
  assert.match(await page.locator('.frame .offered dd .mono').first().innerText(), /"required"/);
});

await step('the overview shows models, releases and prompts beside their baselines', async () => {
  await page.locator('#home').click();
  const row = page.locator('.variants tr:has-text("parcel-desk")');
  await row.waitFor();
  const cells = await row.locator('td').allInnerTexts();
  const rate = (await verdictOf(wrong)).label === 'hallucination' ? '100 %' : '0 %';
  assert.deepEqual(cells, ['parcel-desk', 'model-small', '2.4.1', 'clerk@12', rate, '1', '–', 'no baseline yet']);
});

await step('a drift is seen first and said with a sign', async () => {
  const other = await browser.newPage();
  // Three days in one answer: what the daemon says of them is tested where it counts.
  await other.route('**/v1/rates*', async (route) => {
    const reply = await route.fetch();
    const rates = await reply.json();
    const of = (prompt_version, now, baseline, baseline_of, drift) => ({
      service: 'support-agent', model: 'model-small', service_version: '2.4.1', prompt_version,
      now: { scored: now[1], hallucination: now[0] }, baseline: { scored: baseline[1], hallucination: baseline[0] }, baseline_of, drift,
    });
    rates.variants = [
      of('refunds@11', [6, 140], [44, 900], 'own', 'level'),
      of('refunds@12', [36, 120], [44, 900], 'others', 'above'),
      of('triage@3', [0, 31], [9, 700], 'own', 'unknown'),
    ];
    await route.fulfill({ response: reply, json: rates });
  });
  await other.goto(`http://${house.admin}/`);
  const table = other.locator('.variants tbody tr');
  await until('three variants', async () => (await table.count()) === 3);
  assert.deepEqual(await table.first().locator('td').allInnerTexts(),
    ['support-agent', 'model-small', '2.4.1', 'refunds@12', '30 %', '120', '4.9 % *', '▲\nabove']);
  assert.equal(await table.last().locator('td').last().innerText(), '31 of 50 answers');
  assert.match(await other.locator('.variants p').textContent(), /\* new: against the service’s others/);
  await shot(other, 'drift');
  await other.close();
});

await step('a conversation has a row, a mark and a table of its own, and is no answer', async () => {
  const talkative = await daemon(binary, { sessions: '1s' });
  const other = await openPage(talkative.admin);
  const asked = async (path) => (await fetch(`http://${talkative.admin}${path}`)).json();
  const turns = [9, 5].map((days) => written({
    service: 'parcel-desk', agent: 'tracker', session: 'talk-1', request: `Where is order ${days}?`,
    result: `Order ${days} was shipped on 3 May 2026. Delivery takes 5 working days.`,
    answer: `Order ${days} was shipped on 3 May 2026. Delivery takes ${days} working days.`,
  }));
  for (const turn of turns) await send(talkative.otlp, turn);
  const talk = await until('the conversation', async () => (await asked('/v1/verdicts')).verdicts.find(({ traces }) => traces?.length === 2));
  const line = other.locator(`[data-id="${talk.verdict_id}"][role=option]`);
  await line.waitFor();
  assert.match(await line.textContent(), /◇ conversation of 2 traces/);
  await until('the tally', async () => (await other.locator('#feed-says').textContent()) === '2 verdicts, 1 conversation');
  const rates = await asked('/v1/rates');
  assert.equal(rates.agents[0].scored, 2);
  assert.equal(rates.conversations.agents[0].scored, 1);
  await other.locator('.conversations tr:has-text("parcel-desk / tracker")').waitFor();
  await other.locator('#chart-says:has-text("2 answers"):has-text("◇ 1 conversation")').waitFor();
  assert.equal(await other.locator('#chart-plot path.talk').count(), 1);
  await shot(other, 'conversation-list');
  await other.selectOption('#f-label', 'conversation');
  await until('one row', async () => (await rows(other).count()) === 1);
  await openVerdict(other, talk);
  await other.locator('.timeline .turn:has-text("Turn 2")').waitFor();
  await shot(other, 'conversation');
  await other.close();
  assert.equal(await talkative.stop(), 0);
});

await step('every piece of evidence of the recorded runs is marked exactly', async () => {
  const { verdicts } = await api('/v1/verdicts?outcome=scored&limit=1000');
  for (const verdict of verdicts.filter(({ grounding }) => grounding?.claims.length)) {
    const { story } = await api(`/v1/verdicts/${verdict.verdict_id}`);
    await openVerdict(page, verdict);
    const claims = await page.locator('.answer-text .claim').count();
    assert.ok(claims > 0, `the claims of ${verdict.service} stand in its answer`);
    for (const [index, claim] of verdict.grounding.claims.entries()) {
      await page.locator(`[data-card="${index}"] .claim-title`).click();
      const marked = (await page.locator('mark.evidence').allTextContents()).join('').replace(/\s/g, '');
      const first = claim.evidence[0];
      if (!first) continue;
      const wanted = Array.from(story.steps[first.step].text).slice(...first.range).join('').replace(/\s/g, '');
      assert.ok(marked.includes(wanted) || verdict.grounding.claims[index].evidence.length > 1, `${wanted} in ${marked}`);
    }
  }
});

await step('what an evaluator flags is seen in the list, the verdict and the overview', async () => {
  const key = ['sk', 'proj', randomBytes(24).toString('hex')].join('-');
  const leak = written({ service: 'leaky', result: 'The key is stored.', answer: `The key is stored. It is ${key}.` });
  await send(house.otlp, leak);
  const verdict = await verdictOf(leak);
  assert.equal(verdict.answers.secrets.pass, false);
  await page.selectOption('#f-label', 'flagged');
  await until('the flagged one', async () => (await rows(page).count()) === 1);
  assert.match(await rows(page).first().textContent(), /⚑ secrets/);
  await openVerdict(page, verdict);
  await page.locator('.answers:has-text("secrets") .badge.bad').waitFor();
  await page.locator('#clear').click();
  await page.locator('#home').click();
  await page.locator('.evaluators tr:has-text("secrets"):has-text("healthy")').waitFor();
});

await step('text from a trace stays text', async () => {
  const attack = written({
    service: `evil ${ATTACK}`, release: ATTACK, agent: ATTACK, prompt: ATTACK, instructions: ATTACK, request: ATTACK, tool: `tool ${ATTACK}`, args: { note: ATTACK },
    result: `The price of item 4 is 20 dollars. ${ATTACK}`, answer: `The price of item 4 is 30 dollars. ${ATTACK}`,
  });
  await send(house.otlp, attack);
  const verdict = await verdictOf(attack);
  await page.locator(`[data-id="${verdict.verdict_id}"][role=option]`).waitFor();
  await openVerdict(page, verdict);
  for (const card of await page.locator('.claim-title').all()) await card.click();
  for (const fold of await page.locator('.frame summary').all()) await fold.click();
  assert.ok((await page.locator('.frame').textContent()).includes(ATTACK));
  await page.selectOption('#f-service', verdict.service);
  await until('the one row', async () => (await rows(page).count()) === 1);
  assert.ok((await page.locator('.timeline').textContent()).includes(ATTACK));
  assert.equal(await page.evaluate(() => window.attacked), undefined);
  assert.equal(await page.locator('main img, main script').count(), 0);
  await page.locator('#clear').click();
});

await step('a trace id says why the trace was not evaluated', async () => {
  const bare = recorded('edge-cases/content-off-openinference');
  await send(house.otlp, bare);
  await verdictOf(bare);
  await page.fill('#f-text', bare.traceIds[0]);
  await page.locator('#trace:has-text("did not record content")').waitFor();
  await page.fill('#f-text', 'f'.repeat(32));
  await page.locator('#trace:has-text("No span of this trace has come")').waitFor();
  await page.locator('#clear').click();
});

await step('feedback is kept, shown, taken back and exported', async () => {
  const verdict = await verdictOf(wrong);
  const index = verdict.grounding.claims.findIndex((claim) => claim.text.includes('9 working days'));
  await openVerdict(page, verdict);
  await page.fill('.name input', 'Ann');
  await page.locator('.name input').blur();
  await page.locator('.verdict-head .feedback button.wrong').first().click();
  await page.locator('.verdict-head .said:has-text("Ann")').waitFor();
  await page.locator(`.claim[data-claim="${index}"]`).click();
  await page.locator('.claim-card.chosen .feedback [data-mark=contradicted]').click();
  await page.locator('.claim-card.chosen .said:has-text("contradicted")').waitFor();
  const lines = async () => (await (await fetch(`http://${house.admin}/v1/feedback`)).text()).trim().split('\n').filter(Boolean).map(JSON.parse);
  const found = await lines();
  assert.deepEqual(found.map(({ verdict_id, claim, by, labeled_by }) => [verdict_id, claim, by, labeled_by]),
    [[verdict.verdict_id, null, 'Ann', 'human'], [verdict.verdict_id, index, 'Ann', 'human']]);
  assert.equal(found[0].predicted, verdict.label);
  assert.notEqual(found[0].label, verdict.label);
  await page.locator('#agreement:has-text("1 claim")').waitFor();
  const again = await openPage(house.admin, `#verdict=${verdict.verdict_id}`);
  await again.locator('.verdict-head .said:has-text("Ann")').waitFor();
  await again.close();
  await page.locator('.verdict-head .said button').click();
  await until('one line', async () => (await lines()).length === 1);
});

await step('a broken connection is said and mended, and nothing is missing after it', async () => {
  const proxy = await front(house.admin);
  const other = await openPage(proxy.address);
  await other.locator('#status[data-state=live]').waitFor();
  await until('all rows', async () => (await rows(other).count()) > 0);
  proxy.down();
  await other.locator('#status[data-state=broken]').waitFor();
  const unseen = written({ service: 'meanwhile', result: 'Item 4 costs 20 dollars.', answer: 'Item 4 costs 20 dollars.' });
  await send(house.otlp, unseen);
  const verdict = await verdictOf(unseen);
  proxy.up();
  await other.locator('#status[data-state=live]').waitFor();
  await other.locator(`[data-id="${verdict.verdict_id}"]`).first().waitFor();
  await other.close();
  proxy.stop();
  complaints.length = 0; // The browser logs the connections that were broken on purpose.
});

await step('a token is asked for, kept in the tab, and sent with the feed', async () => {
  const guarded = await daemon(binary, { token: 'letmein' });
  const other = await openPage(guarded.admin);
  await other.locator('#token-dialog[open]').waitFor();
  await other.fill('#token', 'letmein');
  await other.keyboard.press('Enter');
  await other.locator('#status[data-state=live]').waitFor();
  await send(guarded.otlp, written({ result: 'Item 6 costs 20 dollars.', answer: 'Item 6 costs 20 dollars.' }));
  await rows(other).first().waitFor();
  await rows(other).first().click();
  await other.locator('.timeline').waitFor();
  await other.locator('.verdict-head .feedback button.right').first().click();
  await other.locator('.verdict-head .said').waitFor();
  assert.equal(await other.evaluate(() => sessionStorage.getItem('assayd.token')), 'letmein');
  await other.close();
  assert.equal(await guarded.stop(), 0);
  complaints.length = 0; // The browser logs each 401.
});

await step('a pause holds the list still', async () => {
  const before = await rows(page).count();
  await page.locator('#pause').click();
  const more = written({ service: 'paused', result: 'Item 5 costs 20 dollars.', answer: 'Item 5 costs 20 dollars.' });
  await send(house.otlp, more);
  await verdictOf(more);
  await page.locator('#status:has-text("1 new")').waitFor();
  assert.equal(await rows(page).count(), before);
  await page.locator('#pause').click();
  await until('the row', async () => (await rows(page).count()) === before + 1);
});

await step('dark, light and a phone look right and do not scroll sideways', async () => {
  const verdict = await verdictOf(wrong);
  const index = verdict.grounding.claims.findIndex((claim) => claim.text.includes('9 working days'));
  for (const [name, colorScheme, size] of [
    ['light', 'light', { width: 1440, height: 900 }],
    ['dark', 'dark', { width: 1440, height: 900 }],
    ['phone', 'light', { width: 390, height: 844 }],
    ['phone-dark', 'dark', { width: 360, height: 740 }],
  ]) {
    const view = await openPage();
    await view.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await view.setViewportSize(size);
    await until('rows', async () => (await rows(view).count()) > 3);
    await view.locator('.overview .evaluators table').waitFor();
    await shot(view, `${name}-list`);
    const overflow = () => view.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    assert.ok((await overflow()) <= 0, `${name}: the list is too wide by ${await overflow()}`);
    await openVerdict(view, verdict);
    await view.locator(`.claim[data-claim="${index}"]`).click();
    await view.locator('mark.evidence').first().waitFor();
    await shot(view, `${name}-verdict`);
    assert.ok((await overflow()) <= 0, `${name}: the verdict is too wide by ${await overflow()}`);
    if (size.width > 900) assert.equal(await view.evaluate(() => document.scrollingElement.scrollHeight - innerHeight), 0, 'the page itself does not scroll');
    const ground = await view.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const isDark = ground.match(/\d+/g).slice(0, 3).every((part) => Number(part) < 80);
    assert.equal(isDark, colorScheme === 'dark', ground);
    await view.close();
  }
});

await step('a thousand verdicts are shown, and the oldest make room', async () => {
  for (let number = 0; number < 1050; number += 1) {
    const days = number % 4 === 0 ? 9 : 5;
    await send(house.otlp, written({
      service: `service-${number % 7}`, agent: `agent-${number % 3}`,
      result: `Order ${number} was shipped on 3 May 2026. Delivery takes 5 working days.`,
      answer: `Order ${number} was shipped on 3 May 2026. Delivery takes ${days} working days.`,
    }));
  }
  await until('the last verdict', async () => (await api('/v1/verdicts?text=Order%201049%20')).verdicts.length > 0, 10 * PATIENCE);
  await page.locator('[role=option]:has-text("Order 1049 ")').first().waitFor();
  assert.equal(await rows(page).count(), 1000);
  const took = await page.evaluate(async () => {
    const began = performance.now();
    document.getElementById('f-text').value = 'order 77';
    document.getElementById('f-text').dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - began;
  });
  console.log(`     filtering 1,000 verdicts took ${took.toFixed(0)} ms`);
  await page.fill('#f-text', '');
  await shot(page, 'thousand');
});

await step('the browser had nothing to complain about', async () => {
  assert.deepEqual(complaints, []);
});

await browser.close();
rmSync(profile, { recursive: true, force: true });
await step('the daemon stops cleanly', async () => assert.equal(await house.stop(), 0));
if (failures > 0) {
  console.log(house.log().split('\n').filter((line) => /"level":"(WARN|ERROR)"/.test(line)).slice(-20).join('\n'));
  console.log(`${failures} steps failed`);
  process.exit(1);
}
console.log(`all steps passed; screenshots are in ${pictures}`);
