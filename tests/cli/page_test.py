"""Uses the page of `longline serve` as a reader does: page_test.py PROGRAM MODEL FOLDER OTHER-MODEL KEYS [AXE]. Prints a
line for each check. browser.py has Chromium, serve_process.py the server."""
import os
import signal
import sys
import time

import browser
from browser import CONTROL, Browser, Page
from serve_process import Server, check, folder, model

KEY = "a-key-that-nobody-guesses-0123456789"
axe = sys.argv[6] if len(sys.argv) > 6 else None
BEGIN = "line 17 of"


def address(server):
    return f"http://127.0.0.1:{server.port}/"


def opened(chromium, server, **how):
    page = Page(chromium, **how)
    page.open(address(server))
    page.wait("!document.getElementById('generate').disabled")
    return page


def set_field(page, name, value):
    """Replaces the value of a field, with keys alone."""
    reached = page.tab_to(name)
    page.js("document.activeElement.select()")
    page.key("Backspace")
    page.type(value)
    return reached


def idle(page, seconds=60):
    return page.wait("document.getElementById('stop').disabled && !document.getElementById('generate').disabled", seconds)


def generate(page, text, **sampling):
    fields = all([set_field(page, name, str(value)) for name, value in sampling.items()])
    reached = page.tab_to("prompt")
    page.type(text)
    page.key("Enter", CONTROL)
    return fields and reached and idle(page)


def looks_right(page, name):
    check(f"{name}: nothing is wider than the screen",
          page.js("document.documentElement.scrollWidth <= innerWidth"))
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    nameless = [n["role"]["value"] for n in nodes if not n.get("ignored") and not n.get("name", {}).get("value") and
                any(p["name"] == "focusable" and p["value"].get("value") for p in n.get("properties", [])) and
                n["role"]["value"] not in ("RootWebArea", "generic")]
    check(f"{name}: what has the focus has a name", not nameless, nameless)
    if axe:
        with open(axe, encoding="utf-8") as f:
            page.js(f.read())
        found = page.js("axe.run(document).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html)))")
        check(f"{name}: axe finds nothing", found == [], found)
    check(f"{name}: its policy refused nothing, its console is empty", not page.trouble, page.trouble)
    if os.environ.get("LL_PICTURES"):
        page.picture(os.path.join(os.environ["LL_PICTURES"], name.replace(" ", "-") + ".png"))


def test_policy(chromium, server):
    page = opened(chromium, server)
    page.js("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
            "const i = new Image(); i.src = 'http://127.0.0.2:1/x.png'; document.body.append(i)")
    page.wait("false", 0.3)
    check("its policy refuses a script and a picture from elsewhere",
          page.js("window.ran") is None and len(page.trouble) == 2, page.trouble)


def test_writing(chromium, server, page):
    sampling = {"max_tokens": 40, "seed": 7, "temperature": 0.9, "top_k": 50, "top_p": 0.9}
    check("keys alone generate", generate(page, BEGIN, **sampling), page.text("error"))
    alone = server.post("/v1/completions", {"prompt": BEGIN, **sampling})[2]["choices"][0]["text"]
    check("the text is the server's for these settings", page.text("text") == BEGIN + alone, (page.text("text"), alone))
    check("the length is shown", page.text("length") == f"{len(BEGIN) + 40} tokens", page.text("length"))
    state = page.text("state")
    session = server.ask("GET", "/v1/sessions")[2]["data"][0]
    check("and the state", state == f"{session['bytes'] / 1000:.3g} KB", (state, session))
    check("a second step goes on", generate(page, "", max_tokens=60) and len(page.text("text")) > 90, page.text("text"))
    check("the state stayed as it was", page.text("state") == state and "stayed at " + state in page.text("growth-words"),
          page.text("growth-words"))
    check("the speed is shown", page.text("speed").endswith(" tokens/s"), page.text("speed"))


def test_branches(page):
    text, length = page.text("text"), page.text("length")
    check("fork makes a branch", page.press("fork") and page.wait("document.getElementById('branches').children.length === 2"))
    idle(page)
    check("which has the text", page.text("text") == text and page.text("length") == length)
    generate(page, "line 3 ", seed=8)
    second = page.text("text")
    check("and goes its own way", second.startswith(text + "line 3 ") and page.text("length") != length, second)
    page.press("Branch 1")
    check("the first is as it was", page.text("text") == text and page.text("length") == length, page.text("text"))
    generate(page, "line 3 ", seed=8)
    check("the same step there makes the same text", page.text("text") == second, (page.text("text"), second))
    page.press("back")
    idle(page)
    check("back is where the step began", page.text("text") == text and page.text("length") == length and
          page.js("document.getElementById('prompt').value") == "line 3 ", page.text("text"))
    page.key("Enter", CONTROL)
    idle(page)
    check("from there the same again", page.text("text") == second, page.text("text"))
    page.press("close")
    idle(page)
    check("a branch is closed", page.js("document.getElementById('branches').children.length") == 0)


def length_of(page):
    return int(page.text("length").split()[0].replace(",", ""))


def test_stop(page, server):
    length, text = length_of(page), page.text("text")
    set_field(page, "max_tokens", "60000")
    page.tab_to("prompt")
    page.key("Enter", CONTROL)
    page.wait("!document.getElementById('stop').disabled")
    page.wait("parseInt(document.getElementById('length').textContent.replace(',', '')) > 400")
    page.key("Escape")
    check("Escape stops", idle(page) and page.text("status") == "Stopped.", page.text("error"))
    made = page.text("text")[len(text):].encode()
    check("the session has read what is shown", len(made) > 200 and length_of(page) == length + len(made),
          (length_of(page), length, len(made)))
    for _ in range(100):
        if "longline_active_choices 0" in server.ask("GET", "/metrics")[2]:
            break
        time.sleep(0.1)
    check("nothing runs on", "longline_active_choices 0" in server.ask("GET", "/metrics")[2])


def test_attention(page, server):
    page.press("attend")
    page.wait("!document.getElementById('attention-picture').hidden")
    text = page.text("text")[-1000:]
    answer = server.post("/v1/attention", {"input": text})[2]
    n, row = len(answer["tokens"]), [sum(w) / len(w) for w in zip(*answer["weights"])]
    shown = page.js("[...document.getElementById('tokens').children].map(t => +t.style.getPropertyValue('--weight'))")
    check("a token for each of the text", len(shown) == n == len(text.encode()), (len(shown), n))
    check("as dark as its weight", all(abs(a - b / max(row)) < 1e-3 for a, b in zip(shown, row)))
    first = page.text("attention-words")
    page.tab_to("tokens")
    page.key("ArrowLeft")
    check("arrow keys choose the token", page.wait(f"document.getElementById('attention-words').textContent.startsWith('Token {n - 1} ')"), first)
    page.tab_to("head")
    page.key("ArrowDown")
    one = page.wait("document.getElementById('head').value === '0'")
    check("a head by itself", one and page.text("attention-words") != first)


def test_mistakes(page):
    set_field(page, "max_tokens", "40")
    set_field(page, "temperature", "-1")
    page.tab_to("prompt")
    page.key("Enter", CONTROL)
    idle(page)
    check("a value out of range is said", "out of its range" in page.text("error"), page.text("error"))
    text = page.text("text")
    set_field(page, "temperature", "1")
    page.tab_to("prompt")
    page.type("line " * 20000)
    page.key("Enter", CONTROL)
    idle(page)
    check("what the server refuses is said", "at most 65536" in page.text("error") and page.text("text") == text, page.text("error"))
    page.js("document.getElementById('prompt').value = ''")


def test_keys(chromium):
    server = Server("--api-keys", sys.argv[5], sys.argv[4])
    page = Page(chromium)
    page.open(address(server))
    page.wait("!document.getElementById('key-form').hidden")
    check("a key is asked for", page.js("document.activeElement.id") == "key" and "Bearer" in page.text("error"), page.text("error"))
    page.type("wrong")
    page.key("Enter")
    page.wait("!document.getElementById('error').hidden")
    page.js("document.getElementById('key').value = ''")
    page.type(KEY)
    page.key("Enter")
    check("with it the page works", page.wait("!document.getElementById('generate').disabled") and
          generate(page, BEGIN, max_tokens=20) and page.text("length") == "30 tokens", page.text("error"))
    check("models to choose from", page.js("[...document.getElementById('model').options].map(o => o.value).join()") == "run,other")
    page.tab_to("model")
    page.key("ArrowDown")
    page.wait("document.getElementById('text').textContent === ''")
    check("the other one writes", generate(page, BEGIN) and page.text("length") == "30 tokens", page.text("error"))
    page.trouble[:] = [t for t in page.trouble if "401" not in t]  # the browser's own message for each refusal
    looks_right(page, "with a key")
    page.call("Page.navigate", url="about:blank")
    held = {"Authorization": "Bearer " + KEY}
    for _ in range(100):
        left = server.ask("GET", "/v1/sessions", headers=held)[2]["data"]
        if not left:
            break
        time.sleep(0.1)
    check("who leaves the page leaves no session", not left, left)
    check("the server ends", server.end() == 0)


def test_restart(chromium):
    server = Server()
    page = opened(chromium, server)
    generate(page, BEGIN, max_tokens=20)
    text, port = page.text("text"), server.port
    server.end()
    page.tab_to("prompt")
    page.key("Enter", CONTROL)
    idle(page)
    check("a server that is gone is said", "does not answer" in page.text("error"), page.text("error"))
    again = Server(listen=f"127.0.0.1:{port}")
    check("one that was started anew goes on with the text", generate(page, "") and page.text("text").startswith(text) and
          page.text("length") == f"{len(text.encode()) + 20} tokens", (page.text("error"), page.text("length")))
    again.end()


def main():
    signal.alarm(200)  # ends the test if something hangs
    server = Server("--max-body", "65536")
    chromium = Browser(folder)
    page = opened(chromium, server)
    test_writing(chromium, server, page)
    test_branches(page)
    looks_right(page, "a screen")
    test_attention(page, server)
    for name, dark in {"light": False, "dark": True}.items():
        page.scheme(dark)
        looks_right(page, "attention " + name)
    test_mistakes(page)
    test_stop(page, server)
    for name, dark in {"a phone, light": False, "a phone, dark": True}.items():
        small = opened(chromium, server, width=390, height=844, phone=True, dark=dark)
        generate(small, BEGIN, max_tokens=40)
        small.press("attend")
        small.wait("!document.getElementById('attention-picture').hidden")
        check(name + ": buttons are as large as a finger",
              small.js("[...document.querySelectorAll('button, input, select')].every(b => !b.offsetHeight || b.offsetHeight >= 44)"))
        looks_right(small, name)
    test_policy(chromium, server)
    check("the server ends after it", server.end() == 0)
    test_keys(chromium)
    test_restart(chromium)


if browser.PROGRAM:
    main()
