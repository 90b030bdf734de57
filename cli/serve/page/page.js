/* The page: its buttons and what it shows. */
function longlinePage(server) {
  const find = id => document.getElementById(id);
  const branches = makeBranches(server), picture = attentionPicture(server, find, report);
  let running = null, busy = false, idle = Promise.resolve();

  const number = n => n.toLocaleString('en');
  function size(bytes) {
    const units = ['bytes', 'KB', 'MB', 'GB'];
    let unit = 0, n = bytes;
    while (n >= 1000 && unit < 3) n /= 1000, unit++;
    return unit ? n.toPrecision(3) + ' ' + units[unit] : n + ' bytes';
  }

  function report(error) {
    find('error').hidden = !error;
    find('error').textContent = error ? error.message : '';
    if (error && error.status === 401) {
      find('key-form').hidden = false;
      find('key').focus();
    }
  }

  /* ---- Display ---- */

  function drawGrowth(growth) {
    const most = column => growth.reduce((most, g) => Math.max(most, g[column]), 1), longest = most(0), largest = most(1);
    const line = y => growth.map((g, i) => `${200 * i / Math.max(growth.length - 1, 1)},${62 - y(g)}`).join(' ');
    find('growth-length').setAttribute('points', line(g => 60 * g[0] / longest));
    find('growth-state').setAttribute('points', line(g => 30 * g[1] / largest));
    const [first, last] = [growth[0], growth[growth.length - 1]];
    find('growth-words').textContent = growth.length < 2 ? '' : growth.every(g => g[1] === first[1])
      ? `The state stayed at ${size(last[1])} from token ${number(first[0])} to token ${number(last[0])}.`
      : 'The state of this model grows with the text.';
  }

  /* Shows length, state and speed of a branch. `session` is what the server just answered. */
  function showFigures(branch, session) {
    const growth = branch ? branch.growth : [], position = session ? session.position || 0 : 0;
    while (growth.length && growth[growth.length - 1][0] >= position) growth.pop();
    if (session) growth.push([position, session.bytes]);
    find('length').textContent = number(position) + ' tokens';
    find('state').textContent = session ? size(session.bytes) : 'none yet';
    drawGrowth(growth);
  }

  function showText(branch) {
    dropLate();
    find('text').replaceChildren(...(branch ? branch.parts : []).map(part => {
      const span = document.createElement('span');
      span.className = part.made ? 'made' : 'given';
      span.textContent = part.text;
      return span;
    }));
    find('text').scrollTop = find('text').scrollHeight;
  }

  /* Text arrives token by token and is shown 25 times a second, because each update makes the browser lay it out
   * again. */
  let late = '', timer = 0;
  function addLate() {
    const box = find('text'), end = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    box.lastChild.append(late);
    if (end) box.scrollTop = box.scrollHeight;
    late = '';
    timer = 0;
  }

  function addText(text) {
    late += text;
    timer = timer || setTimeout(addLate, 40);
  }

  function dropLate() {
    clearTimeout(timer);
    late = '';
    timer = 0;
  }

  function showBranches() {
    find('branches').replaceChildren(...(branches.list.length < 2 ? [] : branches.list.map(branch => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = branch.name;
      button.disabled = busy;
      button.setAttribute('aria-pressed', branch === branches.current);
      button.addEventListener('click', () => {
        branches.choose(branch);
        showAll();
        [...find('branches').children].find(b => b.textContent === branch.name).focus();
      });
      return button;
    })));
  }

  function showButtons() {
    const branch = branches.current, text = branch && branch.parts.length > 0;
    find('generate').disabled = busy || !find('model').value;
    find('model').disabled = busy;
    find('stop').disabled = !running;
    find('back').disabled = busy || !branch || !branch.points.length;
    find('fork').disabled = find('attend').disabled = busy || !text;
    find('close').disabled = busy || !branch;
    for (const button of find('branches').children) button.disabled = busy;
  }

  function showAll() {
    const branch = branches.current;
    showText(branch);
    showFigures(branch, branch && branch.session);
    showBranches();
    showButtons();
  }

  /* ---- Actions ---- */

  /* Shows an error. The page stays usable. */
  async function perform(action) {
    busy = true;
    report(null);
    showButtons();
    try {
      await action();
    } catch (error) {
      report(error);
    } finally {
      busy = false;
      running = null;
      showBranches();
      showButtons();
    }
  }

  /* Runs one action at a time. Resolves when it is done. */
  function run(action) {
    if (!busy) idle = perform(action);
    return idle;
  }

  function sampling() {
    const form = find('sampling'), values = {};
    if (!form.reportValidity()) throw new Error('A value of the sampling is out of its range.');
    for (const input of form.elements) if (input.value !== '') values[input.name] = Number(input.value);
    return values;
  }

  /* While text is generated, asks the server for length and state four times a second. */
  function watch(branch) {
    const session = branch.session;
    const look = () => server.show(session).then(now => branch.session === session && running && showFigures(branch, now), () => {});
    const timer = setInterval(look, 250);
    return () => clearInterval(timer);
  }

  async function generate() {
    const options = sampling(), prompt = find('prompt').value;
    const branch = branches.current || await branches.start(find('model').value);
    if (!prompt && !branch.session.position) {
      find('prompt').focus();
      throw new Error('Write how the text begins; then the model goes on.');
    }
    running = new AbortController();
    showButtons();
    find('status').textContent = 'Generating.';
    const writing = branches.write(branch, prompt, options, text => {
      if (!begun) begun = performance.now(), showText(branch);
      else addText(text);
    }, running.signal);
    let begun = 0;
    const unwatch = watch(branch);
    try {
      const {finish, tokens} = await writing, seconds = (performance.now() - begun) / 1000;
      find('prompt').value = '';
      if (begun && tokens > 1) find('speed').textContent = Math.round((tokens - 1) / seconds) + ' tokens/s';
      find('status').textContent = {stopped: 'Stopped.', stop: 'The text came to its end.'}[finish] || 'Done.';
    } catch (error) {
      find('status').textContent = '';
      throw error;
    } finally {
      unwatch();
      showText(branch);
      showFigures(branch, branch.session);
    }
  }

  async function back() {
    const prompt = await branches.back(branches.current);
    find('prompt').value = prompt;
    find('status').textContent = 'Went back by one step.';
    showAll();
  }

  async function fork() {
    const branch = await branches.fork(branches.current);
    find('status').textContent = branch.name + ' goes on from here.';
    showAll();
  }

  async function close() {
    const branch = branches.current, closed = branches.close(branch);
    find('status').textContent = branch.name + ' is closed.';
    picture.clear();
    showAll();
    await closed;
  }

  const attend = () => picture.show(branches.current.model, branches.text(branches.current));

  async function changeModel() {
    branches.forget();
    picture.clear();
    showAll();
  }

  async function loadModels() {
    const models = (await server.models()).filter(model => model.generates);
    if (!models.length) throw new Error('No model that is served here generates text.');
    find('model').replaceChildren(...models.map(model => new Option(model.id, model.id)));
    find('model-choice').hidden = models.length < 2;
    find('model-name').textContent = models.length < 2 ? models[0].id : '';
    find('key-form').hidden = true;
  }

  const stop = () => running && running.abort();

  find('write').addEventListener('submit', event => {
    event.preventDefault();
    run(generate);
  });
  find('key-form').addEventListener('submit', event => {
    event.preventDefault();
    server.setKey(find('key').value.trim());
    run(loadModels).then(() => find('key-form').hidden && find('prompt').focus());
  });
  find('sampling').addEventListener('submit', event => {
    event.preventDefault();
    run(generate);
  });
  find('stop').addEventListener('click', stop);
  find('back').addEventListener('click', () => run(back));
  find('fork').addEventListener('click', () => run(fork));
  find('close').addEventListener('click', () => run(close));
  find('attend').addEventListener('click', () => run(attend));
  /* The choice of the model is locked while something runs. A page that loads models (wasm/) changes it then, too. */
  find('model').addEventListener('change', () => {
    stop();
    idle.then(() => run(changeModel));
  });
  addEventListener('keydown', event => {
    if (event.key === 'Escape') stop();
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run(generate);
  });
  addEventListener('pagehide', () => branches.forget());
  run(loadModels);
}
