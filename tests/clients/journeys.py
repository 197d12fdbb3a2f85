"""Journeys of MCP clients that others wrote, through the gate, with a person at the pages.

journeys.py GATE COUNTER NAME=COMMAND…   GATE is the program, COUNTER the server whose tool leaves a line per effect, each
COMMAND a client that is given the address and a key. Exits with 1 if a journey ends otherwise than it should.
"""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading
import time

from person import Person

# Longer than a TypeScript client waits, and than this server keeps an unknown one waiting.
LATE = 90

RULES = """
version: 1
tiers:
  - { server: waited, tool: add, tier: moderate }
  - { server: free, tool: add, tier: safe }
rules:
  - { id: free, kind: allow_tool, match: { server: free, tool: add } }
  - { id: blocked, kind: block_tool, match: { server: blocked, tool: add } }
  - { id: waited, kind: require_approval, match: { server: waited, tool: add }, approval: { timeout: 300s } }
  - { id: confirmed, kind: require_approval, match: { server: confirmed, tool: add }, approval: { timeout: 60s } }
  - { id: brief, kind: require_approval, match: { server: brief, tool: add }, approval: { timeout: 2s } }
"""
SERVERS = ["free", "blocked", "waited", "confirmed", "brief"]


class Gate:
    def __init__(self, program, counter, folder):
        self.program, self.folder = program, folder
        counted = {name: str(folder / f"{name}.count") for name in SERVERS}
        servers = {name: {"command": counter, "args": [path]} for name, path in counted.items()}
        (folder / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}))
        (folder / "policy_rules.yaml").write_text(RULES)
        self.process = subprocess.Popen(
            [program, "--listen", "127.0.0.1:0"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self.link = None
        while not (self.address and self.link):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the gate ended")
            self.address = line.removeprefix("Ready: ").strip() if line.startswith("Ready: ") else self.address
            self.link = line.removeprefix("Sign in: ").strip() if line.startswith("Sign in: ") else self.link

    def key(self, name):
        made = subprocess.run(
            [self.program, "key", "create", "--name", name], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return made.stdout.splitlines()[-1]

    def effects(self, server, line):
        path = self.folder / f"{server}.count"
        return path.read_text().splitlines().count(line) if path.exists() else 0


class Client:
    def __init__(self, command, gate, key):
        self.command = [*shlex.split(command), f"{gate.address}/mcp", key]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the client ended")
        answer = json.loads(line)
        if "failed" in answer:
            raise AssertionError(answer["failed"])
        return answer

    def call(self, server, line, progress=False):
        self.begin(server, line, progress)
        return self.hear()

    def begin(self, server, line, progress=False):
        self.say(do="call", tool=f"{server}__add", arguments={"line": line}, progress=progress)

    def end(self):
        self.process.kill()
        self.process.wait()


def status(answer):
    return answer["result"].get("_meta", {}).get("sluicegate/status", {})


def text(answer):
    return answer["result"]["content"][0]["text"]


def expect(wanted, found, what):
    if wanted != found:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def eventually(what, found, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found():
            return
        time.sleep(0.2)
    raise AssertionError(what)


def listed(gate, _person, client, _name):
    def all_there():
        client.say(do="list")
        tools = client.hear()["tools"]
        return all(f"{server}__add" in tools for server in SERVERS)

    eventually("the tools are listed", all_there)


def allowed(gate, _person, client, name):
    expect("added", text(client.call("free", name)), "an allowed call")
    expect(1, gate.effects("free", name), "effects")


def denied(gate, _person, client, name):
    answer = client.call("blocked", name)
    expect((True, "rule"), (answer["result"]["isError"], status(answer)["code"]), "a denied call")
    expect(0, gate.effects("blocked", name), "effects")


def approved_late(progress):
    def journey(gate, person, client, name):
        line = f"{name}-{progress}"
        began = time.monotonic()
        client.begin("waited", line, progress)
        approval = person.newest(name)
        timer = threading.Timer(max(0, LATE - (time.monotonic() - began)), person.answer, (approval, "approve"))
        timer.start()
        heard, asked = 0, 1
        while True:
            answer = client.hear()
            heard += answer["heard"]
            if status(answer).get("code") != "pending":
                break
            expect(0, gate.effects("waited", line), "effects before the click")
            asked += 1
            client.begin("waited", line, progress)
        timer.join()
        expect("added", text(answer), "a call approved late")
        expect(1, gate.effects("waited", line), "effects")
        if progress and not heard:
            raise AssertionError("no progress was heard")
        print(f"    ({name}: after {time.monotonic() - began:.0f} s, asked {asked} times, progress heard {heard} times)")

    return journey


def confirmed(gate, person, client, name):
    line = f"{name}-yes"
    expect("pending", status(client.call("confirmed", line)).get("code"), "a call to be confirmed")
    expect(0, gate.effects("confirmed", line), "effects before the click")
    person.answer(person.newest(name), "approve")
    expect("added", text(client.call("confirmed", line)), "a confirmed call")
    expect(1, gate.effects("confirmed", line), "effects")


def refused(gate, person, client, name):
    line = f"{name}-no"
    expect("pending", status(client.call("confirmed", line)).get("code"), "a call to be confirmed")
    person.answer(person.newest(name), "deny")
    expect("denied_by_person", status(client.call("confirmed", line)).get("code"), "a cancelled call")
    expect(0, gate.effects("confirmed", line), "effects")


def expired(gate, _person, client, name):
    expect("pending", status(client.call("brief", name)).get("code"), "a call to be confirmed")
    expect("expired", status(client.call("brief", name)).get("code"), "a call that nobody confirmed")
    expect(0, gate.effects("brief", name), "effects")


def gone_while_waiting(gate, person, client, name):
    line = f"{name}-gone"
    client.begin("waited", line)
    approval = person.newest(name)
    action, fields = person.held(approval, "approve")
    client.end()
    eventually("it is withdrawn", lambda: person.held(approval, "approve") is None)
    page = person.post(action, fields)
    if "ithdrawn" not in page:
        raise AssertionError("the page does not say why nothing was run")
    expect(0, gate.effects("waited", line), "effects")
    client.start()


def gone_after_confirmation_id(gate, person, client, name):
    line = f"{name}-later"
    expect("pending", status(client.call("confirmed", line)).get("code"), "a call to be confirmed")
    client.end()
    person.answer(person.newest(name), "approve")
    eventually("it runs at the click", lambda: gate.effects("confirmed", line) == 1)
    client.start()
    expect("added", text(client.call("confirmed", line)), "collected")
    expect("pending", status(client.call("confirmed", line)).get("code"), "after that it is a new call")
    person.answer(person.newest(name), "deny")
    expect(1, gate.effects("confirmed", line), "effects")


JOURNEYS = [
    ("list", listed),
    ("an allowed call", allowed),
    ("a denied call", denied),
    ("confirmed", confirmed),
    ("cancelled", refused),
    ("expired", expired),
    ("gone while it waits", gone_while_waiting),
    ("gone with a confirmation id", gone_after_confirmation_id),
    (f"approved after {LATE} s", approved_late(False)),
    (f"approved after {LATE} s, with progress", approved_late(True)),
]


def main(program, counter, *clients):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(program, counter, pathlib.Path(folder))
        try:
            person = Person(gate.address, gate.link)

            def journeys(name, command):
                client = Client(command, gate, gate.key(name))
                for what, journey in JOURNEYS:
                    try:
                        journey(gate, person, client, name)
                        print(f"{name}: {what}: ok", flush=True)
                    except Exception as error:  # told, and the next journey is made
                        failures.append((name, what))
                        print(f"{name}: {what}: FAILED: {error!r}", flush=True)
                        client.end()
                        client.start()
                client.end()

            threads = [threading.Thread(target=journeys, args=client.split("=", 1)) for client in clients]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print(subprocess.run([program, "audit", "verify"], cwd=folder, capture_output=True, text=True).stdout.strip())
        finally:
            gate.process.terminate()
            gate.process.wait()
    return 1 if failures else 0


sys.exit(main(*sys.argv[1:]))
