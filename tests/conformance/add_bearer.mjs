// Loopback shim that adds "Authorization: Bearer TOKEN" to every request, for tools that cannot.
// node add_bearer.mjs TARGET_URL TOKEN PORT
// the caller's Host and Origin are kept if they are not this shim's own (so DNS-rebinding probes still reach the target).
import http from 'node:http';
const [target, token, port] = process.argv.slice(2); const t = new URL(target);
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
http.createServer((req, res) => {
  const headers = { ...req.headers, authorization: `Bearer ${token}` };
  if (/^(127\.0\.0\.1|localhost|\[::1\]):/.test(headers.host) && headers.host.endsWith(':' + port)) headers.host = headers.host.replace(':' + port, ':' + t.port);
  if (headers.origin === `http://127.0.0.1:${port}` || headers.origin === `http://localhost:${port}`) headers.origin = headers.origin.replace(':' + port, ':' + t.port);
  const up = http.request({ host: t.hostname, port: t.port, path: req.url, method: req.method, headers, agent }, (r) => { res.writeHead(r.statusCode, r.headers); res.flushHeaders(); r.pipe(res); });
  up.on('error', (e) => { if (!res.headersSent) res.writeHead(502); res.end(String(e)); });
  up.on('socket', (s) => s.setNoDelay(true));
  req.pipe(up); res.on('close', () => up.destroy());
}).listen(Number(port), '127.0.0.1');
