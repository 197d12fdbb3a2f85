// A model on a loopback port that speaks as Gemini does and says what a test wants.
import { createServer } from "node:http";

/** `answer({ text, declared })` gives the parts: `text` is the last thing said, undefined after a tool's result. */
export async function startModel(answer) {
  const server = createServer(async (asked, given) => {
    let body = "";
    for await (const piece of asked) body += piece;
    const request = JSON.parse(body);
    const text = request.contents?.at(-1)?.parts?.[0]?.text;
    const declared = (request.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map(({ name }) => name);
    const told = answer({ text, declared });
    if (told.status) {
      given.writeHead(told.status, { "content-type": "application/json" });
      given.end(JSON.stringify(told.body));
      return;
    }
    given.writeHead(200, { "content-type": "text/event-stream" });
    for (const [at, part] of told.entries()) {
      const last = at === told.length - 1;
      given.write(`data: ${JSON.stringify({
        candidates: [{ content: { role: "model", parts: [part] }, index: 0, ...(last && { finishReason: "STOP" }) }],
        usageMetadata: { promptTokenCount: 20, candidatesTokenCount: 5, totalTokenCount: 25 },
      })}\r\n\r\n`);
    }
    given.end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    environment: { GEMINI_API_KEY: "test-key", GEMINI_BASE_URL: `http://127.0.0.1:${server.address().port}` },
    stop: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }),
  };
}
