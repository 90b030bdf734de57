// Tests a server with OpenAI's own client: node serve_openai.js URL. Prints a line for each check.
const OpenAI = require("openai").default || require("openai");
const client = new OpenAI({baseURL: process.argv[2] + "/v1", apiKey: "any", maxRetries: 0});
const check = (name, good, more) =>
    console.log((good ? "[ ok ] " : "[ FAIL ] ") + name + (good ? "" : ": " + JSON.stringify(more)));

async function refused(name, call, status, param) {
    try {
        check(name, false, await call());
    } catch (e) {
        check(name, e instanceof OpenAI.APIError && e.status === status && e.param === param, {status: e.status, param: e.param});
    }
}

async function main() {
    const models = [];
    for await (const m of client.models.list()) models.push(m.id);
    const model = models[0], fields = {model, prompt: "line 3", max_tokens: 30, seed: 4, logprobs: 2};
    check("openai: models", models.length === 1 && (await client.models.retrieve(model)).id === model, models);
    const whole = await client.completions.create({...fields, n: 2});
    check("openai: a completion", whole.choices.length === 2 && whole.usage.completion_tokens === 60, whole);
    let text = "", finish = null;
    for await (const part of await client.completions.create({...fields, stream: true})) {
        text += part.choices[0].text;
        finish = part.choices[0].finish_reason || finish;
    }
    check("openai: a stream has the same text", text === whole.choices[0].text && finish === "length", [text, whole]);
    const messages = [{role: "user", content: "17"}], ask = {model, messages, max_completion_tokens: 20, seed: 4};
    const chat = await client.chat.completions.create({...ask, logprobs: true, top_logprobs: 2});
    check("openai: a chat", chat.choices[0].message.role === "assistant" &&
        chat.choices[0].logprobs.content[0].top_logprobs.length === 2, chat);
    let said = "";
    for await (const part of await client.chat.completions.create({...ask, stream: true})) said += part.choices[0].delta.content;
    check("openai: a chat as a stream", said === chat.choices[0].message.content, [said, chat]);
    const plain = await client.embeddings.create({model, input: ["a b", "c"], encoding_format: "float"});
    const packed = await client.embeddings.create({model, input: ["a b", "c"]}); // base64, unpacked by the client
    check("openai: embeddings, packed or not", packed.data[1].embedding.length === plain.data[1].embedding.length &&
        packed.data[1].embedding.every((x, i) => Math.abs(x - plain.data[1].embedding[i]) < 1e-6), packed);
    await refused("openai: an error names its field", () => client.completions.create({...fields, temperature: -1}), 400, "temperature");
    await refused("openai: a model that is not there", () => client.completions.create({...fields, model: "none"}), 404, "model");
}
main().catch((e) => check("openai: " + e, false));
