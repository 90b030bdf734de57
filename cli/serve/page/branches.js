/* Texts that are written with a model. Each one is a branch: its text, a session that has read it, and points to go
 * back to. A point is a session, too. Copying a session copies its state, whose size does not depend on the length of
 * the text. Nothing here knows the page. */
const POINTS = 20; /* points that a branch keeps; the oldest one is removed first */

function makeBranches(server) {
  const list = [];
  const textOf = branch => branch.parts.map(part => part.text).join('');
  let made = 0, current = null;

  const remove = session => session && server.remove(session).catch(() => null);

  /* growth: a list of [position, bytes] of the session. */
  function add(model, session, parts, growth) {
    current = {name: 'Branch ' + ++made, model, session, parts, growth, points: []};
    list.push(current);
    return current;
  }

  async function start(model) {
    const session = await server.create(model);
    return add(model, session, [], [[0, session.bytes]]);
  }

  async function fork(branch) {
    const session = await server.fork(branch.session);
    return add(branch.model, session, branch.parts.map(part => ({...part})), [...branch.growth]);
  }

  async function close(branch) {
    list.splice(list.indexOf(branch), 1);
    if (current === branch) current = list[list.length - 1] || null;
    await Promise.all([branch.session, ...branch.points.map(point => point.session)].map(remove));
  }

  /* After a restart the server has lost the session. A new session reads the text again. */
  async function revive(branch) {
    branch.points = [];
    branch.session = await server.create(branch.model);
    const text = textOf(branch);
    if (text) branch.session = await server.append(branch.session, text);
    return server.fork(branch.session);
  }

  async function mark(branch, prompt) {
    const session = await server.fork(branch.session).catch(error => {
      if (error.status !== 404) throw error;
      return revive(branch);
    });
    branch.points.push({session, parts: branch.parts.length, prompt});
    if (branch.points.length > POINTS) remove(branch.points.shift().session);
  }

  /* Goes back to the beginning of the last step. Returns its prompt. */
  async function back(branch) {
    const point = branch.points[branch.points.length - 1], left = branch.session;
    branch.session = await server.show(point.session);
    branch.points.pop();
    branch.parts.length = point.parts;
    remove(left);
    return point.prompt;
  }

  /* After a stop the server may have generated tokens that never arrived. So the branch gets a session that has read
   * only what arrived. */
  async function settle(branch, prompt, made) {
    const left = branch.session, point = branch.points[branch.points.length - 1];
    branch.session = await server.fork(point.session);
    if (prompt + made) branch.session = await server.append(branch.session, prompt + made);
    remove(left);
  }

  /* Reads the prompt and generates. Calls show() after each piece of text. Returns what server.generate() does, with
   * finish: 'stopped' after `signal`. */
  async function write(branch, prompt, sampling, show, signal) {
    await mark(branch, prompt);
    if (prompt) branch.parts.push({text: prompt, made: false});
    const part = {text: '', made: true};
    branch.parts.push(part);
    try {
      const result = await server.generate(branch.session, prompt ? {...sampling, prompt} : sampling, text => {
        part.text += text;
        show(text);
      }, signal);
      branch.session = await server.show(branch.session);
      return result;
    } catch (error) {
      if (error.name !== 'AbortError') {
        await back(branch).catch(() => {});
        throw error;
      }
      await settle(branch, prompt, part.text);
      return {finish: 'stopped', tokens: 0};
    }
  }

  return {
    list, start, fork, close, back, write,
    get current() { return current; },
    choose(branch) { current = branch; },
    text: textOf,
    forget() { /* when the page is closed */
      for (const branch of list) for (const {session} of [branch, ...branch.points]) server.remove(session).catch(() => {});
      list.length = 0;
      current = null;
    },
  };
}
