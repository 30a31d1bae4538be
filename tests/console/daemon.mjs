// The real daemon on free ports, and a server before it that can go away.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** With `token`, its API asks for it; with `sessions`, traces become conversations. */
export async function daemon(binary, { token = null, sessions = null } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'assayd-console-'));
  const config = join(folder, 'assayd.yaml');
  if (token) writeFileSync(join(folder, 'token'), token);
  writeFileSync(config, `
receive: { grpc: { listen: '127.0.0.1:0' }, http: { listen: '127.0.0.1:0' } }
assemble: { root_grace: 200ms, idle: 1500ms${sessions ? `, sessions: { idle: ${sessions} }` : ''} }
serve: { listen: '127.0.0.1:0', tokens: ${token ? `[{ file: ${JSON.stringify(join(folder, 'token'))} }]` : '[]'} }
evaluate: { use: [secrets] }
emit: { jsonl: { path: ${JSON.stringify(join(folder, 'verdicts.jsonl'))} } }
data_dir: ${JSON.stringify(join(folder, 'data'))}
log: { format: json }
`);
  const child = spawn(binary, ['serve', '--config', config], { stdio: ['ignore', 'inherit', 'pipe'] });
  // Whatever becomes of the test, the daemon does not outlive it.
  process.once('exit', () => child.kill('SIGKILL'));
  let log = '';
  const found = {};
  await new Promise((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`assayd ended with ${code}:\n${log}`)));
    child.stderr.on('data', (bytes) => {
      log += bytes;
      const address = (word) => log.match(new RegExp(`"${word}":"([0-9.]+:[0-9]+)"`))?.[1];
      found.http = address('http');
      found.admin = address('admin');
      if (found.http && found.admin && log.includes('"ready"')) resolve();
    });
  });
  return {
    otlp: found.http,
    admin: found.admin,
    log: () => log,
    async stop() {
      const ended = new Promise((resolve) => { child.removeAllListeners('exit'); child.on('exit', resolve); });
      child.kill('SIGTERM');
      const code = await ended;
      rmSync(folder, { recursive: true, force: true });
      return code;
    },
  };
}

/** Passes on to `target`. `down()` breaks all connections and takes no more until `up()`. */
export async function front(target) {
  let isDown = false;
  const sockets = new Set();
  const server = createServer((incoming, outgoing) => {
    if (isDown) return incoming.socket.destroy();
    const [host, port] = target.split(':');
    const onward = request({ host, port, path: incoming.url, method: incoming.method, headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${server.address().port}`,
    down() {
      isDown = true;
      for (const socket of sockets) socket.destroy();
    },
    up() { isDown = false; },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
