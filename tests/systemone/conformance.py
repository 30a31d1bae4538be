"""Starts `assayd serve`, runs jevcompat against it, and says what holds. Exit code 1 if a promise is broken."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from typesafe_sdk import Choice, Noul, TypeSafeClient, TypeSafeUnprocessableEntityError

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "tests/fixtures/decider/checkpoints/tiny-lora"
JEVCOMPAT = pathlib.Path(sys.executable).with_name("jevcompat")
REPORTS = ROOT / "target/conformance"
broken = []


def hold(what, is_so):
    print(f"  {'ok  ' if is_so else 'FAIL'} {what}")
    if not is_so:
        broken.append(what)


class House:
    """A running daemon."""

    def __init__(self, binary, model, token=None):
        self.folder = tempfile.TemporaryDirectory()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        config = {
            "decide": {"model": model},
            "serve": {
                "listen": f"127.0.0.1:{port}",
                "tokens": [{"env": "ASSAYD_TOKEN"}] if token else [],
                # The suite tries a model that nobody has: once it is answered, once it is not found.
                "any_model": not token,
            },
            "receive": {"grpc": {"listen": "127.0.0.1:0"}, "http": None, "acknowledge": "admitted"},
            "data_dir": self.folder.name,
        }
        path = pathlib.Path(self.folder.name) / "assayd.yaml"
        path.write_text(json.dumps(config))
        self.log = open(pathlib.Path(self.folder.name) / "log", "w+")
        environment = {**os.environ, "ASSAYD_TOKEN": token or ""}
        self.process = subprocess.Popen(
            [binary, "serve", "--config", str(path)], env=environment, stdout=subprocess.DEVNULL, stderr=self.log
        )
        self.wait()

    def wait(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        self.log.seek(0)
        sys.exit(f"assayd serve is not ready:\n{self.log.read()}")

    def close(self):
        self.process.terminate()
        hold("the daemon stops cleanly", self.process.wait(timeout=60) == 0)
        self.log.close()
        self.folder.cleanup()


def suite(house, name, token=None, is_shown=True):
    """jevcompat's exit code and report."""
    report = REPORTS / f"{name}.json"
    command = [str(JEVCOMPAT), "test", house.url, "--timeout", "300", "--json", str(report)]
    environment = dict(os.environ)
    if token:
        environment["CONFORMANCE_TOKEN"] = token
        command += ["--key-env", "CONFORMANCE_TOKEN"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if is_shown:
        print("  " + "\n  ".join((done.stdout + done.stderr).strip().splitlines()))
    return done.returncode, json.loads(report.read_text())


def conformant(house, name, may_skip, token=None):
    code, report = suite(house, name, token)
    print(f"  {report['summary']}")
    hold("jevcompat calls it conformant", code == 0 and report["summary"]["verdict"] == "conformant")
    bad = [r["id"] for r in report["results"] if r["status"] == "fail"]
    hold(f"no MUST and no SHOULD fails {bad or ''}", not bad)
    skipped = {r["id"] for r in report["results"] if r["status"] == "skip"}
    hold(f"only {sorted(may_skip)} do not apply {sorted(skipped - may_skip) or ''}", skipped <= may_skip)


def embedded(house):
    """It answers claims only, so the suite's first question is refused, and the suite stops there."""
    code, report = suite(house, "embedded", is_shown=False)
    print(f"  jevcompat: {report['aborted']}")
    hold("jevcompat: not tested, for the model refuses general questions", code == 2)
    hold("the refusal is a 422 that says what is answered", "only whether the state supports a claim" in report["aborted"])
    standings = {"grounded": None, "ungrounded": None, "contradicted": None}
    state = "Unworn footwear may be returned within 30 days of delivery."
    with TypeSafeClient(api_key="any", base_url=house.url) as client:
        claim = Choice(instructions={"claim": "Footwear may be returned within 30 days."}, criteria=standings)
        noul = Noul(instructions={"claim": "Footwear may be returned within 30 days."})
        answers = client.system_one(state=state, questions={"claim": claim, "noul": noul})
        hold("the official SDK gets the standing of a claim", answers.choices["claim"].choice == "grounded")
        hold("and its probability as a noul", answers.nouls["noul"].noul > 0.5)
        hold("answers have a request id", bool(answers.request_id))
        large = client.system_one(state=state + " Nothing else is said." * 500, questions={"claim": claim})
        hold("bodies that the SDK compresses are read", large.choices["claim"].choice in standings)
        hold("the SDK lists the models", "jev-latest" in [model.name for model in client.models.list().models])
        try:
            client.system_one(state=state, questions={"mood": Noul(instructions="Is the customer angry?")})
            hold("a general question is refused", False)
        except TypeSafeUnprocessableEntityError as error:
            hold("a general question is refused, and the SDK shows why", "grounded, ungrounded" in str(error))


def main(binary):
    REPORTS.mkdir(parents=True, exist_ok=True)
    print("tiny checkpoint, without tokens")
    house = House(binary, str(CHECKPOINT))
    conformant(house, "checkpoint", {"auth.bearer", "auth.missing", "auth.invalid", "errors.shape"})
    house.close()
    print("tiny checkpoint, with a token")
    house = House(binary, str(CHECKPOINT), token="conformance-token")
    conformant(house, "checkpoint-token", {"auth.ignored-when-off"}, token="conformance-token")
    house.close()
    print("embedded model")
    house = House(binary, "embedded")
    embedded(house)
    house.close()
    if broken:
        sys.exit(f"{len(broken)} broken: " + "; ".join(broken))
    print("all right")


main(sys.argv[1])
