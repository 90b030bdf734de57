/* worker_test.mjs WASM-FOLDER MODEL CLASSIFIER ENCODER-DECODER, called by worker.sh in the folder with its files. Prints a
 * line a check. */
import fs from 'node:fs';
import {startWorker} from './worker.mjs';

const [folder, model, classifier, copier] = process.argv.slice(2);
const worker = startWorker(folder), BEGIN = 'line 17 of';

function check(what, holds, ...seen) {
  console.log(holds ? `[ ok ] ${what}` : `[ FAIL ] ${what}: ${seen.map(s => JSON.stringify(s)).join(' ')}`);
}
const load = (file, name = 'model') => worker.ask('load', [new Blob([fs.readFileSync(file)]), name]);
const refused = promise => promise.then(() => 'not refused', error => error.message);

async function write(options) {
  const session = await worker.ask('create', []);
  let text = '';
  const end = await worker.ask('generate', [session.id, options], part => { text += part; });
  return {text, end, session: await worker.ask('show', [session.id])};
}

check('a file that is none is refused', /not a safetensors/.test(await refused(load('text.txt', 'text'))));
check('so is one that is cut short', /Short is truncated/.test(await refused(load('short', 'short'))), await refused(load('short', 'short')));
check('so is a classifier', /classif/.test(await refused(load(classifier))), await refused(load(classifier)));
check('so is an encoder-decoder', /seq2seq.*longline generate/.test(await refused(load(copier))), await refused(load(copier)));
if (fs.existsSync('imported.safetensors')) {
  const words = await refused(load('imported.safetensors'));
  check('so is one with the tokenizer of another program', /tokenizer is that of another program.*longline serve/.test(words), words);
}
check('no session without a model', /no model/.test(await refused(worker.ask('create', []))));
const parts = [];
const facts = await worker.ask('load', [new Blob([fs.readFileSync(model)]), 'm'], part => parts.push(part));
check('a model is read with its progress', parts.at(-1).got === fs.statSync(model).size && facts.parameters > 1000, facts);
check('by kernels with vectors', facts.cpu === 'wasm' && facts.unit === 'byte', facts);

for (const [file, options] of [['most-likely', {temperature: 0}], ['drawn', {temperature: 0.8, seed: 5}]]) {
  const {text} = await write({prompt: BEGIN, max_tokens: 400, ...options}), expected = new TextDecoder().decode(fs.readFileSync(file));
  check(`the same text as with plain kernels: ${file}`, text === expected, text, expected);
}

/* A logit is a sum of about a hundred numbers in another order, without fused multiply-adds. */
const one = fs.readFileSync('one', 'utf8');
const expected = JSON.parse(fs.readFileSync('scores.json', 'utf8')).token_logp, scored = await worker.ask('score', [one]);
const away = expected.map((logp, i) => Math.abs(scored.bits[i] * Math.LN2 + logp));
check('a score for each token', scored.bits.length === one.length && expected.length === one.length, scored.bits.length);
console.log(`    log-probabilities differ from those of plain kernels by at most ${Math.max(...away).toExponential(1)} nats`);
check('scores are those of plain kernels within 1e-5 nats', Math.max(...away) < 1e-5, Math.max(...away));

const seen = await worker.ask('attention', ['', one.slice(0, 300), 0, 200]);
check('attention is causal, and its weights add up to 1', seen.weights.length === facts.heads && seen.tokens.length === 300 &&
  seen.weights.every(row => Math.abs(row.reduce((a, b) => a + b) - 1) < 1e-4 && row.slice(201).every(w => w === 0)));
check('a layer that is not there is refused', /Layer 99/.test(await refused(worker.ask('attention', ['', 'abc', 99, 0]))));
const nothing = await worker.ask('create', []), unread = await refused(worker.ask('generate', [nothing.id, {max_tokens: 3}]));
check('a session that has read nothing generates nothing', /has read nothing; give a prompt/.test(unread), unread);

const begun = await write({prompt: BEGIN, max_tokens: 50, temperature: 0});
const fork = await worker.ask('fork', [begun.session.id]);
let first = '', second = '';
await worker.ask('generate', [begun.session.id, {max_tokens: 50, seed: 3}], part => { first += part; });
await worker.ask('generate', [fork.id, {max_tokens: 50, seed: 3}], part => { second += part; });
check('a fork goes on to the same text', first === second && first.length > 0, first, second);
check('its state has not grown', (await worker.ask('show', [fork.id])).bytes === begun.session.bytes);
await worker.ask('remove', [fork.id]);
check('what was removed is gone', /no such session/.test(await refused(worker.ask('show', [fork.id]))));

const endless = worker.ask('generate', [begun.session.id, {max_tokens: 1e9}]);
setTimeout(() => worker.stop(worker.number), 100);
check('a call ends when it is told to', await refused(endless) === 'stopped');
const small = await load('int8.safetensors');
const {text} = await write({prompt: BEGIN, max_tokens: 400, temperature: 0});
check('a quantized model writes the same as with plain kernels', text === fs.readFileSync('most-likely-int8', 'utf8'), small, text);

/* malloc gives the same place again where it was freed. */
class Short extends Blob {
  get size() { return 3e7; }
}
const place = () => {
  const at = worker.module._malloc(3e7);
  worker.module._free(at);
  return at;
};
const before = place(), broken = await refused(worker.ask('load', [new Short(['{']), 'other']));
check('a file that breaks off is refused', /broke off after 1 of 30000000/.test(broken), broken);
check('its memory is free again', place() === before);
check('the model before is still there', (await worker.ask('models', []))[0].id === 'model');

await load('positions.safetensors');
const full = await write({prompt: BEGIN, max_tokens: 400, temperature: 0});
check('a text ends where learned positions end', full.end.finish === 'length' && full.end.tokens === 54 &&
  full.session.position === 64 && full.text === fs.readFileSync('most-likely-positions', 'utf8'), full);

await refused(load('text.txt', 'text'));
check('after a model was refused there is none', /no model/.test(await refused(worker.ask('attention', ['', 'abc', 0, 0]))));

/* Memory that nobody touches costs nothing. What is reserved after it lies above 2 GB. */
if (worker.module._malloc(1.9e9) && worker.module._malloc(3e8)) {
  await load(model);
  const {text} = await write({prompt: BEGIN, max_tokens: 400, temperature: 0});
  check('memory above 2 GB is used', text === fs.readFileSync('most-likely', 'utf8'), text);
}
process.exit(0);
