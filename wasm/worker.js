/* The model, in a thread of its own, so that the page stays awake. A message {id, call, given} asks for what
 * `calls` has; {id, result} or {id, error} answers it, after any number of {id, part}. {stop: id} ends a call early. */
'use strict';
const told = Number(new URLSearchParams(location.search).get('threads')), MOST_THREADS = 16;
/* Two hardware threads of a core share its multipliers. Memory is shared only where the page is isolated. */
const wanted = Math.min(Math.max(Math.floor(told || navigator.hardwareConcurrency / 2), 1), MOST_THREADS);
const threads = self.crossOriginIsolated ? wanted : 1;
const script = threads > 1 ? 'longline-threads.js' : 'longline.js';
const started = new Promise((resolve, reject) => {
  self.Module = {
    mainScriptUrlOrBlob: script, // where threads find the program, which is not this file
    workers: threads - 1,
    onRuntimeInitialized: resolve,
    onAbort: reason => reject(new Error('WebAssembly stopped: ' + reason)),
    print() {}, printErr() {},
  };
});
importScripts(script);

const BLOCK = 256; // tokens read between two looks at the messages
const SLICE = 40; // milliseconds of generation between them
const FULL = 'The browser gives this page no more memory.';
const stopped = new Set(), running = new Set();
const sessions = new Map();
let opened = null, numbered = 0;

/* ---- From and to C ---- */

const failure = () => {
  const text = UTF8ToString(Module._ll_web_error());
  return new Error(text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.'));
};

/* Returns the result of a C function, or throws if it is -1. */
function good(value) {
  if (value === -1) throw failure();
  return value;
}

/* The same for an address, which is 0 after a failure. Addresses above 2 GB arrive as negative numbers. */
function address(value) {
  if (!value) throw failure();
  return value >>> 0;
}

function reserve(size) {
  const at = Module._malloc(size);
  if (!at) throw new Error(FULL);
  return at >>> 0;
}

function needModel() {
  if (!opened) throw new Error('There is no model yet.');
}

function withText(text, use) {
  const bytes = new TextEncoder().encode(text), at = reserve(bytes.length + 1);
  HEAPU8.set(bytes, at);
  HEAPU8[at + bytes.length] = 0;
  try {
    return use(at, bytes.length);
  } finally {
    Module._free(at);
  }
}

/* The tokens of a text. */
function encode(text) {
  needModel();
  const at = withText(text, (from, size) => address(Module._ll_web_encode(from, size)));
  const tokens = HEAP32.slice(at / 4, at / 4 + Module._ll_web_count());
  Module._ll_text_free(at);
  return tokens;
}

/* Calls use(address, n) for tokens in the memory of C. */
function withTokens(tokens, use) {
  const at = reserve(4 * tokens.length);
  HEAP32.set(tokens, at / 4);
  try {
    return use(at, tokens.length);
  } finally {
    Module._free(at);
  }
}

/* Calls use() for one block after the other, and handles messages in between. */
async function inBlocks(id, tokens, use) {
  for (let first = 0; first < tokens.length; first += BLOCK) {
    withTokens(tokens.subarray(first, first + BLOCK), (at, n) => use(at, n, first));
    await turn();
    stopIfTold(id);
  }
}

function bytesOf(token) {
  const at = Module._ll_web_text(token) >>> 0;
  return HEAPU8.slice(at, at + Module._ll_web_text_size());
}

/* The text of one token. Bytes that are not UTF-8 are written as numbers. */
function nameOf(token) {
  const bytes = bytesOf(token);
  try {
    return new TextDecoder('utf-8', {fatal: true}).decode(bytes);
  } catch {
    return 'bytes:' + [...bytes].map(b => '\\x' + b.toString(16).padStart(2, '0')).join('');
  }
}

/* One turn of the event loop, so that messages are handled. setTimeout would wait for milliseconds. */
const turns = new MessageChannel(), waiting = [];
turns.port1.onmessage = () => waiting.shift()();
const turn = () => new Promise(resolve => {
  waiting.push(resolve);
  turns.port2.postMessage(0);
});

function stopIfTold(id) {
  if (stopped.delete(id)) throw new DOMException('stopped', 'AbortError');
}

/* ---- Calls ---- */

async function* bytesFrom(source) {
  const stream = source instanceof Blob ? source.stream() : (await fetched(source)).body;
  const reader = stream.getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    yield value;
  }
}

/* A worker does not have the policy of its page, so it refuses addresses on other servers, and redirections to them. */
async function request(path, method) {
  const {origin, href} = new URL(path, location.href);
  if (origin !== location.origin) throw new Error(href + ' is on another server. Download it, and choose the file here.');
  try {
    return await fetch(href, {method, mode: 'same-origin'});
  } catch {
    throw new Error(href + ' cannot be read: the server does not answer, or redirects to another server.');
  }
}

async function fetched(path) {
  const response = await request(path, 'GET');
  if (!response.ok) throw new Error(path + ' is not there: status ' + response.status + '.');
  return response;
}

/* The size of a file on the server, without its body. */
async function sizeOf(path) {
  const response = await request(path, 'HEAD'), size = Number(response.headers.get('Content-Length'));
  if (!response.ok || !size) throw new Error(path + ' is not there, or the server does not tell its size.');
  return size;
}

/* Copies a file from the disk or the server into the memory of WebAssembly, piece by piece. */
async function copy(id, source, name, size) {
  const at = address(Module._ll_web_reserve(size));
  let got = 0, shown = 0;
  for await (const bytes of bytesFrom(source)) {
    stopIfTold(id);
    if (got + bytes.length > size) throw new Error(name + ' became longer while it was read.');
    HEAPU8.set(bytes, at + got);
    got += bytes.length;
    if (performance.now() - shown > 50) postMessage({id, part: {got, size}}), shown = performance.now();
  }
  if (got < size) throw new Error(name + ' broke off after ' + got + ' of ' + size + ' bytes.');
  postMessage({id, part: {got, size}});
}

/* A file that cannot be read leaves the model before; one that cannot be opened does not. */
async function load(id, source, name) {
  await started;
  const size = source instanceof Blob ? source.size : await sizeOf(source);
  try {
    await copy(id, source, name, size);
    for (const session of sessions.values()) Module._ll_web_free(session);
    sessions.clear();
    opened = null;
    withText(name, text => good(Module._ll_web_open(size, text, threads)));
    opened = name;
  } finally {
    Module._ll_web_release();
  }
  const fact = key => withText(key, text => UTF8ToString(Module._ll_web_fact(text)));
  return {
    name, parameters: Module._ll_web_parameters(), layers: Module._ll_web_layers(), heads: Module._ll_web_heads(),
    kernel: fact('attention.kernel'), position: fact('position.type'), unit: UTF8ToString(Module._ll_web_unit()),
    cpu: UTF8ToString(Module._ll_web_cpu()), threads,
  };
}

const show = id => ({id, position: Module._ll_web_position(held(id)), bytes: Module._ll_web_bytes(held(id))});

function held(id) {
  if (!sessions.has(id)) throw Object.assign(new Error('There is no such session.'), {status: 404});
  return sessions.get(id);
}

function begin(from) {
  needModel();
  const id = 'session-' + ++numbered;
  sessions.set(id, address(Module._ll_web_session(from)));
  return show(id);
}

const read = (id, session, text) =>
  inBlocks(id, encode(text), (at, n) => good(Module._ll_web_read(held(session), at, n)));

async function generate(id, session, {prompt = '', max_tokens = 200, temperature = 1, top_k = 0, top_p = 1, seed}) {
  if (prompt) await read(id, session, prompt);
  const drawn = seed === undefined ? Math.floor(Math.random() * 2 ** 48) : seed;
  const letters = new TextDecoder();
  let text = '', since = performance.now();
  const send = () => {
    if (text) postMessage({id, part: text});
    text = '';
  };
  let made = 0;
  for (; made < max_tokens && !Module._ll_web_full(held(session)); made++) {
    text += letters.decode(bytesOf(good(Module._ll_web_next(held(session), temperature, top_k, top_p, drawn))), {stream: true});
    if (performance.now() - since < SLICE) continue;
    send();
    await turn();
    stopIfTold(id);
    since = performance.now();
  }
  text += letters.decode();
  send();
  return {finish: 'length', tokens: made};
}

/* The surprisal of each token in bits, given those before it. The first token has none. */
async function score(id, text) {
  const tokens = encode(text), session = begin(0).id, bits = new Float32Array(tokens.length);
  try {
    await inBlocks(id, tokens, (at, n, first) => {
      const logp = address(Module._ll_web_score(held(session), at, n)) / 4;
      for (let i = 0; i < n; i++) bits[first + i] = -HEAPF32[logp + i] / Math.LN2;
      postMessage({id, part: {got: first + n, size: tokens.length}});
    });
    return {tokens: [...tokens].map(nameOf), bits};
  } finally {
    remove(id, session);
  }
}

function attention(id, model, text, layer, query) {
  const tokens = encode(text), layers = Module._ll_web_layers(), heads = Module._ll_web_heads(), n = tokens.length;
  if (!n) throw new Error('The text has no tokens.');
  const which = layer < 0 ? layers - 1 : layer, asks = query < 0 ? n - 1 : query;
  const at = withTokens(tokens, from => address(Module._ll_web_attention(from, n, which, asks))) / 4;
  const row = h => [...HEAPF32.slice(at + h * n, at + (h + 1) * n)];
  return {layer: which, layers, query: asks, tokens: [...tokens].map(nameOf), weights: Array.from({length: heads}, (_, h) => row(h))};
}

function remove(id, session) {
  Module._ll_web_free(held(session));
  sessions.delete(session);
}

const calls = {
  load, generate, score, attention, remove,
  models: () => opened ? [{id: opened, generates: true}] : [],
  create: () => begin(0),
  show: (id, session) => show(session),
  fork: (id, session) => begin(held(session)),
  async append(id, session, text) {
    await read(id, session, text);
    return show(session);
  },
};

self.onmessage = async ({data: {id, call, given, stop}}) => {
  if (stop) return void (running.has(stop) && stopped.add(stop));
  running.add(id);
  try {
    postMessage({id, result: await calls[call](id, ...given)});
  } catch (error) {
    postMessage({id, error: {message: error.message, name: error.name, status: error.status}});
  } finally {
    running.delete(id);
    stopped.delete(id);
  }
};
