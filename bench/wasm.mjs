/* Tokens a second of a model in WebAssembly, on one thread of Node: node bench/wasm.mjs build/wasm MODEL. Prints the best of
 * five turns, by the clock and by processor time, which other programs disturb less. */
import fs from 'node:fs';
import {startWorker} from '../tests/wasm/worker.mjs';

const [folder, model] = process.argv.slice(2), TOKENS = 2000;
const worker = startWorker(folder);
await worker.ask('load', [new Blob([fs.readFileSync(model)]), model]);
const session = await worker.ask('create', []);
let clock = 0, processor = 0;
for (let turn = 0; turn < 5; turn++) {
  const start = performance.now(), used = process.cpuUsage();
  await worker.ask('generate', [session.id, {prompt: 'The ', max_tokens: TOKENS, seed: turn}]);
  clock = Math.max(clock, 1000 * TOKENS / (performance.now() - start));
  processor = Math.max(processor, 1e6 * TOKENS / process.cpuUsage(used).user);
}
console.log(`tokens_per_second=${clock.toFixed(0)}\ntokens_per_processor_second=${processor.toFixed(0)}`);
process.exit(0);
