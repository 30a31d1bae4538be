// The daemon's HTTP paths: requests, the live feed, and the token where one is asked for.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
/** The feed shows a sign of life every 10 seconds; without one for this long it is dead. */
const SILENCE = 30_000;
const TOKEN = 'assayd.token';

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
};

/** Asked for a token, or the one that was sent is wrong. */
let unauthorized = () => {};
export const whenUnauthorized = (react) => { unauthorized = react; };

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function send(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  return fetch(path, { ...options, headers, cache: 'no-store', credentials: 'same-origin' });
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  if (response.status === 401) unauthorized();
  throw new Refused(response.status, body?.detail?.message ?? `the server answered ${response.status}`);
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  const response = await checked(await send(query.size ? `${path}?${query}` : path));
  return response.json();
}

export async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  const response = await checked(await send(path, { method: 'POST', headers, body: JSON.stringify(body) }));
  return response.json();
}

/**
 * Reads the live feed for ever, and comes back with growing pauses when it breaks. A stream over fetch and not an
 * EventSource, which can send no token and does not say why it failed.
 */
export function follow({ onVerdict, onMissed, onState }) {
  let wait = FIRST_WAIT;
  let wake = () => {};
  let current = null;

  async function once() {
    current = new AbortController();
    let silence = setTimeout(() => current.abort(), SILENCE);
    try {
      const headers = { accept: 'text/event-stream' };
      const response = await checked(await send('v1/verdicts', { headers, signal: current.signal }));
      onState('live');
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        wait = FIRST_WAIT;
        clearTimeout(silence);
        silence = setTimeout(() => current.abort(), SILENCE);
        const blocks = (rest + value).split('\n\n');
        rest = blocks.pop();
        blocks.forEach(take);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  function take(block) {
    const lines = block.split('\n');
    const field = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join('\n');
    const [event, data] = [field('event'), field('data')];
    if (event === 'verdict') onVerdict(JSON.parse(data));
    if (event === 'missed') onMissed(JSON.parse(data).missed);
  }

  async function forever() {
    for (;;) {
      const error = await once().then(() => null, (failure) => failure);
      // Each reader comes back at its own time, or a restarted daemon meets them all at once.
      const pause = wait * (0.5 + Math.random());
      onState(error?.status === 401 ? 'locked' : 'broken', pause);
      await new Promise((resolve) => {
        wake = resolve;
        if (error?.status !== 401) setTimeout(resolve, pause);
      });
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  }

  forever();
  return {
    /** Tries again now, as after a new token. */
    retry() {
      wait = FIRST_WAIT;
      wake();
      current?.abort();
    },
  };
}
