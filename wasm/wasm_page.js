/* What the page of `make wasm` does besides that of the server: it loads a model, and scores a text. The page's own code
 * begins when there is a model. */
'use strict';
(() => {
  const MOST = 4000; // tokens of a scored text that are shown
  const server = wasmServer(), find = id => document.getElementById(id);
  let begun = false, loading = false;
  find('generate').disabled = true;

  const number = n => n.toLocaleString('en');
  const megabytes = n => (n / 1e6).toFixed(1) + ' MB';

  function report(error) {
    find('error').hidden = !error;
    find('error').textContent = error ? error.message : '';
  }

  /* ---- Loading ---- */

  function showProgress({got, size}) {
    find('load-progress').value = got / size;
    find('load-words').textContent = `${megabytes(got)} of ${megabytes(size)} read.`;
  }

  function showModel(model) {
    find('load-words').textContent = `${model.name}: ${number(model.parameters)} parameters, layers: ${model.layers}, heads: ${model.heads}, ` +
      `attention: ${model.kernel}, positions: ${model.position}. A token is a ${model.unit}.`;
    find('machine').textContent = `Kernels: ${model.cpu}; threads: ${model.threads}.`;
    find('score-button').disabled = false;
  }

  /* The page shows one model; texts that an earlier one wrote go with it. */
  function begin(name) {
    if (!begun) return begun = true, longlinePage(server);
    find('model').replaceChildren(new Option(name, name));
    find('model-name').textContent = name;
    find('model').dispatchEvent(new Event('change'));
  }

  /* After a model could not be loaded. */
  function showOld([model]) {
    find('load-words').textContent = model ? `The model before, ${model.id}, is still loaded.` : 'No model is loaded.';
    find('score-button').disabled = !model;
  }

  async function load(source, name) {
    if (loading) return;
    loading = true;
    report(null);
    find('file').disabled = find('score-button').disabled = true;
    find('load-progress').hidden = false;
    try {
      showModel(await server.load(source, name, showProgress));
      find('score-tokens').hidden = true;
      find('score-words').textContent = '';
      begin(name);
    } catch (error) {
      showOld(await server.models().catch(() => []));
      report(error);
    } finally {
      loading = find('file').disabled = false;
      find('load-progress').hidden = true;
    }
  }

  find('file').addEventListener('change', event => {
    const [file] = event.target.files;
    if (file) load(file, file.name);
  });
  addEventListener('dragover', event => {
    event.preventDefault();
    find('drop').classList.add('over');
  });
  addEventListener('dragleave', event => event.relatedTarget || find('drop').classList.remove('over'));
  addEventListener('drop', event => {
    event.preventDefault();
    find('drop').classList.remove('over');
    const [file] = event.dataTransfer.files;
    find('file').value = ''; // it names another file, or none
    if (file) load(file, file.name);
  });

  /* ---- Scores ---- */

  function showScore({tokens, bits}, bytes) {
    const sum = bits.reduce((a, b) => a + b, 0), left = tokens.length - MOST;
    const most = bits.reduce((a, b) => Math.max(a, b), 1e-9); // a call takes some 100,000 arguments at most
    const each = tokens.length < 2 ? 'The first token has nothing before it.'
      : `${(sum / (tokens.length - 1)).toFixed(3)} bits a token, perplexity ${(2 ** (sum / (tokens.length - 1))).toFixed(2)}`;
    find('score-words').textContent = tokens.length < 2 ? each
      : `${number(tokens.length)} tokens, ${number(bytes)} bytes: ${sum.toFixed(1)} bits, ${each}` +
        (left > 0 ? `. The first ${number(MOST)} tokens are shown.` : '.');
    find('score-tokens').replaceChildren(...tokens.slice(0, MOST).map((text, i) => {
      const span = document.createElement('span');
      span.textContent = text.startsWith('bytes:') ? text.slice(6) : text;
      span.style.setProperty('--weight', bits[i] / most);
      span.title = bits[i].toFixed(2) + ' bits';
      return span;
    }));
    find('score-tokens').hidden = !tokens.length;
  }

  async function score() {
    const text = find('score-text').value;
    if (!text) return report(new Error('Write a text to score.'));
    report(null);
    find('score-button').disabled = true;
    try {
      showScore(await server.score(text, ({got, size}) => {
        find('score-words').textContent = `${number(got)} of ${number(size)} tokens read.`;
      }), new TextEncoder().encode(text).length);
    } catch (error) {
      report(error);
    } finally {
      find('score-button').disabled = false;
    }
  }

  find('score-form').addEventListener('submit', event => {
    event.preventDefault();
    score();
  });

  server.models().catch(report); // where the worker cannot start

  /* A model beside the page: ?model=NAME. */
  const beside = new URLSearchParams(location.search).get('model');
  if (beside) load(beside, beside);
})();
