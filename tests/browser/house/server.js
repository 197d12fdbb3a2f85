// The built program in a folder of its own, on a free port.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const repository = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const program = join(process.env.CARGO_TARGET_DIR ?? join(repository, "target"), "debug/sluicegate");

/** Starts it; `files` are written into its folder first. Ends with `stop()`. */
export async function start({ environment = {}, files = {} } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "sluicegate-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const running = await launch(folder, environment);
  return {
    folder,
    get url() { return running.url; },
    get signIn() { return running.signIn; },
    get log() { return running.log.join("\n"); },
    file: (name) => readFile(join(folder, name), "utf8"),
    /** Kills it and starts it again at the same address. */
    async restart() {
      await running.end("SIGKILL");
      Object.assign(running, await launch(folder, { ...environment, LISTEN: new URL(running.url).host }));
    },
    async stop() {
      await running.end("SIGTERM");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function launch(folder, environment) {
  const child = spawn(program, [], {
    cwd: folder,
    env: { LISTEN: "127.0.0.1:0", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log = [];
  createInterface({ input: child.stderr }).on("line", (line) => log.push(line));
  const ended = new Promise((done) => child.once("exit", done));
  const found = {};
  const ready = new Promise((done) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [, what, address] = /^(Ready|Sign in): (\S+)$/.exec(line) ?? [];
      if (what) found[what] = address;
      if (found.Ready && found["Sign in"]) done();
    });
  });
  await Promise.race([
    ready,
    ended.then((code) => { throw new Error(`the program ended with ${code}:\n${log.join("\n")}`); }),
  ]);
  const end = async (signal) => { child.kill(signal); await ended; };
  return { url: found.Ready, signIn: found["Sign in"], log, end };
}
