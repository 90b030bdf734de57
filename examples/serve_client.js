// A client of `longline serve`: node examples/serve_client.js [URL]. Streams a completion, then uses a session.
const url = process.argv[2] || "http://127.0.0.1:8080";
const post = (path, fields = {}) => fetch(url + path,
    {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(fields)});

async function main() {
    const answer = await post("/v1/completions", {prompt: "It was", max_tokens: 80, temperature: 0.8, seed: 1, stream: true});
    let rest = "";
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
        const events = (rest + part).split("\n\n");
        rest = events.pop();
        for (const event of events)
            if (event.startsWith("data: {")) process.stdout.write(JSON.parse(event.slice(6)).choices[0].text);
    }
    const session = "/v1/sessions/" + (await (await post("/v1/sessions", {prompt: "It was"})).json()).id;
    const fork = "/v1/sessions/" + (await (await post(session + "/fork")).json()).id;
    for (const each of [session, fork])
        console.log("\n--", (await (await post(each + "/generate", {max_tokens: 40, seed: 2})).json()).choices[0].text);
}
main();
