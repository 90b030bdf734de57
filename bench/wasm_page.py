#!/usr/bin/env python3
"""Tokens a second of a model in the page of `make wasm` in headless Chromium, on one thread.

    python3 bench/wasm_page.py build/wasm MODEL

Prints the best of five turns of 2,000 tokens by the clock of the page."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/cli"))
from browser import Browser, Page, serve  # noqa: E402

GENERATE = """(async () => {
  const server = wasmServer();
  await server.load(location.origin + '/measured.safetensors', 'measured', () => {});
  const session = await server.create();
  let best = 0;
  for (let turn = 0; turn < 5; turn++) {
    const start = performance.now();
    await server.generate(session, {prompt: 'The ', max_tokens: 2000, seed: turn}, () => {});
    best = Math.max(best, 2e6 / (performance.now() - start));
  }
  return best;
})()"""


def main(folder, model):
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder, scratch + "/page")
        shutil.copy(model, scratch + "/page/measured.safetensors")
        browser = Browser(scratch)
        page = Page(browser)
        page.open(serve(scratch + "/page") + "?threads=1")
        print(f"tokens_per_second={page.js(GENERATE):.0f}")
        browser.end()


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
