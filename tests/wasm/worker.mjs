/* The worker of `make wasm` in Node: the same files as in a browser, in a scope that has what they use of one. */
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import {MessageChannel} from 'node:worker_threads';

/* ask(call, given, take) as wasm_server.js has it; stop(number of the call) ends one. */
export function startWorker(folder) {
  const asked = new Map();
  let number = 0;
  const read = name => fs.readFileSync(path.join(folder, path.basename(name)));
  const scope = {
    console, performance, setTimeout, clearTimeout, WebAssembly, TextEncoder, TextDecoder, MessageChannel, Blob, URL, URLSearchParams,
    DOMException, navigator: {hardwareConcurrency: 1}, crossOriginIsolated: false,
    location: new URL('http://localhost/worker.js'),
    fetch: async name => new Response(read(name), {headers: {'Content-Type': 'application/wasm'}}),
    importScripts: name => vm.runInContext(read(name).toString(), context, name),
    postMessage({id, part, result, error}) {
      const call = asked.get(id);
      if (part !== undefined) return call.take(part);
      asked.delete(id);
      if (error) call.reject(Object.assign(new Error(error.message), {name: error.name}));
      else call.resolve(result);
    },
  };
  scope.self = scope;
  const context = vm.createContext(scope);
  vm.runInContext(read('worker.js').toString(), context, 'worker.js');
  return {
    ask: (call, given, take = () => {}) => new Promise((resolve, reject) => {
      asked.set(++number, {resolve, reject, take});
      scope.self.onmessage({data: {id: number, call, given}});
    }),
    stop: id => scope.self.onmessage({data: {stop: id}}),
    get number() { return number; },
    get module() { return scope.Module; }, // the functions of C
  };
}
