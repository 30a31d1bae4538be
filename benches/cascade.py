#!/usr/bin/env python3
"""What the cascade costs against one judge call with all questions, on the same stories and over the wire.

usage: benches/cascade.py [target/release/assayd]     (Python 3.9 or newer, nothing else)

The stories are the recorded traces of tests/fixtures/traces, every n-th of those with an answer and observations. Each is posted
to /v1/check of a daemon, one at a time: once with a decision model that answers at once and is sure of nothing, so that the judge
gets all claims in one call, and then with the embedded model at several thresholds. The judge is a scripted server that speaks chat/completions: it takes 800 ms for
whatever it is asked and picks the first label; a token is four characters, an answer has 60. Prices are 2.5 and 10 dollars per
million tokens. Latencies are those of the whole request. Only ratios of one run mean anything.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STORIES = 40
LATENCY = 0.8
THRESHOLDS = [0.0, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]
ROOT = Path(__file__).resolve().parent.parent


class Models(BaseHTTPRequestHandler):
    """The judge, and the decision model that is sure of nothing."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(404, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.answer(200, self.decided(body) if self.path.endswith("/systemone") else self.judged(body))

    def decided(self, body):
        def unsure(question):
            names = list(question["criteria"])
            return {"type": "choice", "choice": names[0], "probabilities": {name: 1 / len(names) for name in names}, "confidence": 0.0}

        answers = {key: unsure(question) for key, question in body["questions"].items()}
        return {"model": "unsure", "answers": answers, "usage": {"input_tokens": 1, "output_tokens": 0}}

    def judged(self, body):
        asked = body["response_format"]["json_schema"]["schema"]["properties"]["answers"]["properties"]
        picks = {key: {"reasoning": "r", "answer": schema["properties"]["answer"]["enum"][0]} for key, schema in asked.items()}
        read = sum(len(message["content"]) for message in body["messages"]) // 4
        message = {"role": "assistant", "content": json.dumps({"answers": picks})}
        time.sleep(LATENCY)
        return {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": read, "completion_tokens": 60 * len(picks)},
        }

    def answer(self, status, body):
        reply = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


class Daemon:
    """A daemon with this decision section, before the scripted judge."""

    def __init__(self, binary, folder, decide, judge):
        config = folder / "assayd.yaml"
        config.write_text(
            "receive: { grpc: null, http: null }\n"
            "serve: { listen: 127.0.0.1:0, timeout: 60s }\n"
            f"decide: {decide}\n"
            f"judge: {{ openai: {{ url: 'http://127.0.0.1:{judge}/v1', model: judge-large }}, cache: {{ max_bytes: 0B }},\n"
            "         prices: { judge-large: { usd_per_million_input: 2.5, usd_per_million_output: 10 } } }\n"
            f"data_dir: {folder}/data\n"
        )
        self.process = subprocess.Popen(
            [binary, "serve", "--config", str(config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for line in self.process.stderr:
            if " admin=" in line:
                self.url = "http://" + line.split(" admin=")[1].split()[0]
                break
        # Its log is read to the end, so that it never waits for us.
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
        while True:
            try:
                urllib.request.urlopen(self.url + "/readyz").read()
                return
            except OSError:
                time.sleep(0.05)

    def check(self, story):
        request = urllib.request.Request(
            self.url + "/v1/check", json.dumps(story).encode(), {"content-type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def stories(binary):
    told = subprocess.run(
        [binary, "convert", "--output", "json", str(ROOT / "tests/fixtures/traces")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ).stdout
    found = []
    for line in told.splitlines():
        story = json.loads(line)
        seen = [step["text"] for step in story.get("steps", []) if step["kind"] == "observation" and step.get("text")]
        if seen and story.get("answer"):
            found.append({"context": "\n".join(seen), "query": story.get("request"), "response": story["answer"]})
    every = -(-len(found) // STORIES)
    return found[::every]


def measure(binary, decide, judge, checks):
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(binary, Path(folder), decide, judge)
        daemon.check(checks[0])
        seconds, cost, claims, judged = [], 0.0, 0, 0
        for story in checks:
            start = time.monotonic()
            verdict = daemon.check(story)
            seconds.append(time.monotonic() - start)
            cost += verdict["usage"]["judge_cost_usd"]
            by = [claim["by"] for claim in (verdict.get("grounding") or {}).get("claims", [])]
            claims += len(by)
            judged += by.count("judge")
        daemon.stop()
    return statistics.mean(seconds), statistics.median(seconds), cost / len(checks), judged / max(claims, 1), claims


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/assayd")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    judge = server.server_address[1]
    checks = stories(binary)
    unsure = f"{{ model: {{ systemone: {{ url: 'http://127.0.0.1:{judge}' }} }}, min_confidence: 1.0 }}"
    alone = measure(binary, unsure, judge, checks)
    print(f"{len(checks)} stories, {alone[4]} claims, judge {LATENCY * 1000:.0f} ms a call")
    print(f"{'threshold':>10} {'to judge':>9} {'mean s':>8} {'median s':>9} {'USD/story':>10} {'time':>6} {'cost':>6}")
    rows = [("judge only", alone)]
    rows += [(f"{t:.1f}", measure(binary, f"{{ model: embedded, min_confidence: {t} }}", judge, checks)) for t in THRESHOLDS]
    for name, (mean, median, cost, share, _) in rows:
        print(f"{name:>10} {share:>8.0%} {mean:>8.3f} {median:>9.3f} {cost:>10.6f} {mean / alone[0]:>6.2f} {cost / alone[2]:>6.2f}")


main()
