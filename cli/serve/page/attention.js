/* Shows the attention of one token: a bar for each token, and the text, in which the shade of a token is its weight.
 * Arrow keys or a click choose the token whose attention is shown. */
const SHOWN = 1000; /* only the last characters of a text are shown */

function attentionPicture(server, find, report) {
  const svg = 'http://www.w3.org/2000/svg';
  const [bars, tokens, words, layer, head] = ['bars', 'tokens', 'attention-words', 'layer', 'head'].map(find);
  let shown = null, asked = 0;

  const bare = text => text === null ? '▏' : text.startsWith('bytes:') ? text.slice(6) : text;
  const written = text => text === null ? 'the first place' : text === ' ' ? 'space' :
    text.startsWith('bytes:') ? text.slice(6) : JSON.stringify(text).slice(1, -1);

  /* Fills a <select> with the numbers 1 to `count`, after an entry named `all` if there is one. */
  function fill(select, count, all) {
    const names = [...(all ? [[-1, all]] : []), ...Array.from({length: count}, (_, i) => [i, String(i + 1)])];
    if (select.options.length === names.length) return;
    select.replaceChildren(...names.map(([value, name]) => new Option(name, value)));
  }

  function weights() {
    const rows = shown.weights, chosen = +head.value;
    if (chosen >= 0 && rows[chosen]) return rows[chosen];
    return rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);
  }

  function draw() {
    const row = weights(), n = row.length, most = Math.max(...row.map(Math.abs), 1e-9);
    bars.replaceChildren(...row.map((weight, i) => {
      const bar = document.createElementNS(svg, 'rect'), height = 100 * Math.abs(weight) / most;
      bar.setAttribute('x', 1000 * i / n);
      bar.setAttribute('width', Math.max(800 / n, 1));
      bar.setAttribute('y', 100 - height);
      bar.setAttribute('height', height);
      if (i === shown.query) bar.classList.add('query');
      return bar;
    }));
    [...tokens.children].forEach((token, i) => {
      token.style.setProperty('--weight', Math.abs(row[i]) / most);
      token.setAttribute('aria-selected', i === shown.query);
      token.title = row[i].toPrecision(3);
    });
    const chosen = tokens.children[shown.query];
    tokens.setAttribute('aria-activedescendant', chosen.id);
    tokens.scrollTop = Math.max(0, chosen.offsetTop - tokens.offsetTop - tokens.clientHeight / 2);
    const first = row.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 5).filter(([w]) => w > 0);
    words.textContent = `Token ${shown.query + 1} of ${n}, “${written(shown.tokens[shown.query])}”, attends most to ` +
      first.map(([w, i]) => `“${written(shown.tokens[i])}” at ${i + 1} (${(100 * w).toFixed(1)} %)`).join(', ') + '.';
  }

  function showTokens() {
    tokens.replaceChildren(...shown.tokens.map((text, i) => {
      const token = document.createElement('span');
      token.id = 'token-' + i;
      token.setAttribute('role', 'option');
      token.textContent = bare(text);
      if (!token.textContent.trim()) token.setAttribute('aria-label', written(text));
      return token;
    }));
  }

  /* Asks the server. If several requests are under way, only the answer to the last one is shown. */
  async function load(model, text, query) {
    const number = ++asked;
    try {
      const answer = await server.attention(model, text, layer.value === '' ? -1 : +layer.value, query);
      if (number !== asked) return;
      const fresh = !shown || shown.text !== text;
      shown = {...answer, model, text};
      fill(layer, answer.layers);
      layer.value = answer.layer;
      fill(head, answer.weights.length, 'mean');
      find('attention-picture').hidden = find('attention-choice').hidden = false;
      if (fresh) showTokens();
      draw();
    } catch (error) {
      report(error);
    }
  }

  const again = query => shown && load(shown.model, shown.text, Math.max(0, Math.min(shown.tokens.length - 1, query)));

  tokens.addEventListener('keydown', event => {
    const steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -1e9, End: 1e9};
    if (!(event.key in steps) || !shown) return;
    event.preventDefault();
    again(shown.query + steps[event.key]);
  });
  tokens.addEventListener('click', event => {
    const i = [...tokens.children].indexOf(event.target);
    if (i >= 0) again(i);
  });
  layer.addEventListener('change', () => again(shown ? shown.query : -1));
  head.addEventListener('change', () => shown && draw());

  return {
    show: (model, text) => load(model, [...text].slice(-SHOWN).join(''), -1),
    clear() {
      shown = null;
      asked++;
      for (const select of [layer, head]) select.replaceChildren();
      find('attention-picture').hidden = find('attention-choice').hidden = true;
    },
  };
}
