// The TypeScript SDK, second generation, in the newest era that the server speaks. Reads one JSON command per line, answers
// one JSON line each.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { serve } from './serve.mjs';

const [url, key] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
const client = new Client({ name: 'journey', version: '1' }, { capabilities: {}, versionNegotiation: { mode: 'auto' } });
await client.connect(transport);
serve({
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: (request, options) => client.callTool(request, options),
});
