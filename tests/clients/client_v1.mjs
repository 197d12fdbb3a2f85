// The TypeScript SDK, first generation. Reads one JSON command per line, answers one JSON line each.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { serve } from './serve.mjs';

const [url, key] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
const client = new Client({ name: 'journey', version: '1' }, { capabilities: {} });
await client.connect(transport);
serve({
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: (request, options) => client.callTool(request, undefined, options),
});
