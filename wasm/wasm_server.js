/* What the page asks of whoever has the models (cli/serve/page/server.js lists it), here of a worker that has one, and
 * what this page asks besides:
 *
 *   load(source, name, progress)  a File, or the address of a file on the server; calls progress({got, size}); gives
 *                                 {name, parameters, layers, heads, kernel, position, unit, cpu, threads}
 *   score(text, progress)         {tokens, bits: how surprising each is} */
function wasmServer() {
  const threads = new URLSearchParams(location.search).get('threads');
  const worker = new Worker('worker.js' + (threads ? '?threads=' + Number(threads) : '')), asked = new Map();
  let number = 0, broken = null; // why the worker has ended

  function finish({data: {id, part, result, error}}) {
    const call = asked.get(id);
    if (part !== undefined) return call.take(part);
    asked.delete(id);
    if (!error) return call.resolve(result);
    const {message, name, status} = error;
    call.reject(name === 'AbortError' ? new DOMException(message, name) : Object.assign(new Error(message), {status}));
  }
  worker.onmessage = finish;
  worker.onerror = event => {
    const why = event.message || 'worker.js cannot be loaded.';
    broken = new Error('The program cannot run here; reload the page to try again: ' + why);
    for (const call of asked.values()) call.reject(broken);
    asked.clear();
  };

  function ask(call, given, take = () => {}, signal = null) {
    const id = ++number;
    if (signal) signal.addEventListener('abort', () => worker.postMessage({stop: id}));
    return new Promise((resolve, reject) => {
      if (broken) return reject(broken);
      asked.set(id, {resolve, reject, take});
      worker.postMessage({id, call, given});
    });
  }

  return {
    setKey() {},
    models: () => ask('models', []),
    create: () => ask('create', []),
    append: (session, text) => ask('append', [session.id, text]),
    show: session => ask('show', [session.id]),
    fork: session => ask('fork', [session.id]),
    remove: session => ask('remove', [session.id]),
    generate: (session, options, take, signal) => ask('generate', [session.id, options], take, signal),
    attention: (model, text, layer, query) => ask('attention', [model, text, layer, query]),
    load: (source, name, progress) => ask('load', [source, name], progress),
    score: (text, progress) => ask('score', [text], progress),
  };
}
