// The commands of the journeys: `list`, and `call` with or without progress.
import readline from 'node:readline';

export async function serve({ list, call }) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer;
    try {
      if (command.do === 'list') {
        answer = { tools: await list() };
      } else {
        let heard = 0;
        const options = command.progress ? { onprogress: () => { heard += 1; } } : {};
        const result = await call({ name: command.tool, arguments: command.arguments }, options);
        answer = { result, heard };
      }
    } catch (error) {
      answer = { failed: String(error) };
    }
    console.log(JSON.stringify(answer));
  }
  process.exit(0);
}
