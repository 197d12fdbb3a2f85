// An MCP server on standard input and output, for tests: `node mcp.js FILE`, where FILE holds
// { info, instructions, noise: [line], tools: [tool], answers: { tool: { result } | { error } } }.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const script = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const line of script.noise ?? []) process.stderr.write(`${line}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  switch (method) {
    case "initialize":
      return say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: script.info, instructions: script.instructions } });
    case "tools/list":
      return say({ id, result: { tools: script.tools } });
    case "tools/call":
      return say({ id, ...script.answers[params.name] });
    case "ping":
      return say({ id, result: {} });
    default:
      return say({ id, error: { code: -32601, message: "no such method" } });
  }
});
