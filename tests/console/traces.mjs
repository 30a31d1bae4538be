// Traces for the console's test: recorded ones under new ids, and small ones written here, sent as any exporter would.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

const FIXTURES = new URL('../fixtures/traces/', import.meta.url);

/** A recorded run under trace ids of its own, so that it can be sent many times; `service` and `agent` replace the recorded ones. */
export function recorded(name, { service = null } = {}) {
  const text = readFileSync(new URL(`${name}.otlp.json`, FIXTURES), 'utf8');
  const ids = new Map();
  const renamed = text.replace(/"(traceId|trace_id)":\s*"([0-9a-f]{32})"/g, (_, key, id) => {
    if (!ids.has(id)) ids.set(id, randomBytes(16).toString('hex'));
    return `"${key}":"${ids.get(id)}"`;
  });
  const request = JSON.parse(renamed);
  for (const { resource } of request.resourceSpans) {
    const found = resource.attributes.find(({ key }) => key === 'service.name');
    if (service && found) found.value.stringValue = service;
  }
  return { request, traceIds: [...ids.values()] };
}

/** A run of one tool call, by the conventions for generative AI. */
export function written({
  service = 'shop', release = '2.4.1', agent = 'clerk', prompt = 'clerk', promptVersion = 12, session = null,
  instructions = 'You are a clerk. Say only what the tools say.', request = 'Where is my order?', tool = 'lookup_order', args = { id: 7 }, result, answer,
}) {
  const traceId = randomBytes(16).toString('hex');
  const root = randomBytes(8).toString('hex');
  const now = BigInt(Date.now()) * 1_000_000n;
  const string = (key, value) => ({ key, value: { stringValue: typeof value === 'string' ? value : JSON.stringify(value) } });
  const span = (name, spanId, after, attributes, parentSpanId = root) => ({
    traceId, spanId, parentSpanId, name, kind: 1,
    startTimeUnixNano: String(now + BigInt(after) * 1_000_000n),
    endTimeUnixNano: String(now + BigInt(after + 90) * 1_000_000n),
    attributes: [string('gen_ai.agent.name', agent), ...attributes],
  });
  const user = { role: 'user', parts: [{ type: 'text', content: request }] };
  const call = { role: 'assistant', parts: [{ type: 'text', content: 'I look it up.' }, { type: 'tool_call', id: 'call_1', name: tool, arguments: args }] };
  const response = { role: 'tool', parts: [{ type: 'tool_call_response', id: 'call_1', response: result }] };
  const final = { role: 'assistant', parts: [{ type: 'text', content: answer }] };
  const offered = [
    { type: 'function', name: tool, description: 'Finds an order by its number.', parameters: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] } },
    { type: 'function', name: 'cancel_order', description: 'Cancels an order that is not shipped yet.' },
  ];
  const chat = (after, input, output) => span('chat', randomBytes(8).toString('hex'), after, [
    string('gen_ai.system_instructions', [{ type: 'text', content: instructions }]), string('gen_ai.tool.definitions', offered),
    string('langfuse.observation.prompt.name', prompt), { key: 'langfuse.observation.prompt.version', value: { intValue: promptVersion } },
    ...(session ? [string('gen_ai.conversation.id', session)] : []),
    string('gen_ai.operation.name', 'chat'), string('gen_ai.request.model', 'model-small'), string('gen_ai.provider.name', 'openai'),
    string('gen_ai.input.messages', input), string('gen_ai.output.messages', [output]),
  ]);
  const spans = [
    chat(10, [user], call),
    span(`execute_tool ${tool}`, randomBytes(8).toString('hex'), 120, [
      string('gen_ai.operation.name', 'execute_tool'), string('gen_ai.tool.name', tool), string('gen_ai.tool.call.id', 'call_1'),
      string('gen_ai.tool.call.arguments', args), string('gen_ai.tool.call.result', result),
    ]),
    chat(230, [user, call, response], final),
    span(`invoke_agent ${agent}`, root, 0, [string('gen_ai.operation.name', 'invoke_agent')], ''),
  ];
  const resource = { attributes: [string('service.name', service), string('service.version', release)] };
  return { request: { resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'test' }, spans }] }] }, traceIds: [traceId] };
}

/** Sends over OTLP/HTTP, and comes back when the daemon asks for it, as exporters do. */
export async function send(address, { request }) {
  for (;;) {
    const response = await fetch(`http://${address}/v1/traces`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(request),
    });
    if (response.ok) return;
    const wait = Number(response.headers.get('retry-after'));
    if (![429, 503].includes(response.status) || !wait) throw new Error(`OTLP was refused: ${response.status} ${await response.text()}`);
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
  }
}
