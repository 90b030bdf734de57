/* The interface of the page to the server. It knows nothing of the page, and the page knows nothing of HTTP. Any object
 * with these functions can replace it.
 *
 *   models()                                   [{id, generates}]
 *   create(model)                              a session: {id, position, bytes}
 *   append(session, text), show(session)       the same
 *   fork(session)                              a copy of the session
 *   generate(session, options, take, signal)   calls take(text) for each piece of text; returns {finish, tokens}:
 *                                              why it ended, and the number of generated tokens
 *   remove(session)
 *   attention(model, text, layer, query)       {layer, layers, query, tokens, weights: [head][token]}
 *
 * A failure throws an Error whose message is a sentence. Its `status` is 401 if a key is needed. */
function httpServer() {
  let key = '';

  const headers = () => ({
    'Content-Type': 'application/json',
    ...(key ? {Authorization: 'Bearer ' + key} : {}),
  });

  const sentence = text => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');

  async function failure(response) {
    let message = 'The server answered with status ' + response.status;
    try {
      message = (await response.json()).error.message;
    } catch { /* the body is not JSON; the message names the status */ }
    return Object.assign(new Error(sentence(message)), {status: response.status});
  }

  async function request(method, path, body, more) {
    let response;
    try {
      response = await fetch(path, {method, headers: headers(), body: body && JSON.stringify(body), ...more});
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Error('The server does not answer. Is it still running?');
    }
    if (!response.ok) throw await failure(response);
    return response;
  }

  const ask = async (...args) => (await request(...args)).json();
  const of = (session, what) => '/v1/sessions/' + session.id + (what ? '/' + what : '');

  /* Calls `take` with the JSON of each server-sent event. */
  async function readEvents(response, take) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '', ended = false;
    for (;;) {
      const {value, done} = await reader.read();
      if (done) break;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (line === 'data: [DONE]') ended = true;
        else if (line.startsWith('data: ')) take(JSON.parse(line.slice(6)));
      }
    }
    if (!ended) throw new Error('The server broke off.');
  }

  return {
    setKey(text) { key = text; },
    models: async () => (await ask('GET', '/v1/models')).data,
    create: model => ask('POST', '/v1/sessions', {model}),
    append: (session, prompt) => ask('POST', of(session, 'append'), {prompt}),
    show: session => ask('GET', of(session)),
    fork: session => ask('POST', of(session, 'fork'), {}),
    remove: session => ask('DELETE', of(session), undefined, {keepalive: true}),
    attention: (model, input, layer, query) => ask('POST', '/v1/attention', {model, input, layer, query}),

    async generate(session, options, take, signal) {
      const response = await request('POST', of(session, 'generate'), {...options, stream: true,
        stream_options: {include_usage: true}}, {signal});
      const result = {finish: null, tokens: 0};
      await readEvents(response, event => {
        if (event.error) throw new Error(sentence(event.error.message));
        for (const choice of event.choices) {
          if (choice.text) take(choice.text);
          result.finish = choice.finish_reason || result.finish;
        }
        if (event.usage) result.tokens = event.usage.completion_tokens;
      });
      return result;
    },
  };
}
