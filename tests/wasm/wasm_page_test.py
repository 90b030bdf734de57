"""The page of `make wasm`: wasm_page_test.py FOLDER MODEL EXPECTED TEXT [AXE]. Prints a line a check. EXPECTED is what the
model writes after BEGIN; TEXT is a file that is no model. browser.py has Chromium."""
import os
import shutil
import signal
import sys
import tempfile

from browser import CONTROL, Browser, Files, Isolated, Page, serve

FOLDER, MODEL, EXPECTED, TEXT = map(os.path.abspath, sys.argv[1:5])
AXE = sys.argv[5] if len(sys.argv) > 5 else None
BEGIN = "line 17 of"
POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"


def check(what, holds, seen=""):
    print(f"[ ok ] {what}" if holds else f"[ FAIL ] {what}: {seen}", flush=True)


def choose(page, path):
    document = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
    page.call("DOM.setFileInputFiles", files=[path], nodeId=node)


def drop(page, path):
    """As from a file manager."""
    x, y = page.js("(r => [r.x + r.width / 2, r.y + r.height / 2])(document.getElementById('drop').getBoundingClientRect())")
    data = {"items": [], "files": [path], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        page.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)


def loaded(page):
    return page.wait("/parameters/.test(document.getElementById('load-words').textContent) && "
                     "!document.getElementById('generate').disabled", 60)


def idle(page):
    return page.wait("document.getElementById('stop').disabled && !document.getElementById('generate').disabled", 60)


def write(page, text, **sampling):
    for name, value in sampling.items():
        page.js(f"document.querySelector('[name={name}]').value = '{value}'")
    page.js("document.getElementById('prompt').value = ''; document.getElementById('prompt').focus()")
    page.type(text)
    page.key("Enter", CONTROL)
    page.wait("!document.getElementById('stop').disabled", 5)
    return idle(page)


def looks_right(page, name, width=1200):
    check(f"{name}: nothing is wider than the screen", page.js(f"document.documentElement.scrollWidth <= {width}"))
    if AXE:
        with open(AXE, encoding="utf-8") as f:
            page.call("Runtime.evaluate", expression=f.read())
        found = page.js("axe.run(document).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html)))")
        check(f"{name}: axe finds nothing", found == [], found)
    check(f"{name}: its policy refused nothing, its console is empty", not page.trouble, page.trouble)
    if os.environ.get("LL_PICTURES"):
        page.picture(os.path.join(os.environ["LL_PICTURES"], name.replace(" ", "-").replace(",", "") + ".png"))


def test_loading(page, address):
    page.open(address)
    check("nothing can be done before there is a model",
          page.js("document.getElementById('generate').disabled && document.getElementById('score-button').disabled"))
    looks_right(page, "without a model")
    choose(page, TEXT)
    page.wait("!document.getElementById('error').hidden")
    check("a file that is no model is refused", "not a safetensors file" in page.text("error"), page.text("error"))
    drop(page, MODEL)
    check("a model is dropped", loaded(page) and page.js("document.getElementById('error').hidden"), page.text("error"))


def test_writing(page):
    with open(EXPECTED, encoding="utf-8") as f:
        expected = f.read()
    check("it generates", write(page, BEGIN, max_tokens=100, temperature=0), page.text("error"))
    check("what the program writes", page.text("text") == BEGIN + expected, page.text("text"))
    state = page.text("state")
    check("and goes on", write(page, "", max_tokens=300, temperature=1), page.text("error"))
    check("with the same state", page.text("state") == state and page.text("length") == "410 tokens", page.text("length"))
    page.press("back")
    idle(page)
    check("back is where it was", page.text("text") == BEGIN + expected and page.text("length") == "110 tokens", page.text("text"))
    page.js("document.querySelector('[name=max_tokens]').value = 1e9")
    page.tab_to("prompt")
    page.key("Enter", CONTROL)
    page.wait("parseInt(document.getElementById('length').textContent.replace(',', '')) > 200")
    page.key("Escape")
    check("Escape stops", idle(page) and page.text("status") == "Stopped.", page.text("error"))


def test_another(page):
    page.js("document.querySelector('[name=max_tokens]').value = 1e9")
    page.tab_to("prompt")
    page.key("Enter", CONTROL)
    page.wait("!document.getElementById('stop').disabled")
    choose(page, MODEL)
    check("another model comes while one writes", page.wait("document.getElementById('text').textContent === ''") and idle(page) and
          page.js("document.getElementById('error').hidden"), (page.text("error"), page.text("text")[:99]))


def test_answers(page):
    page.press("attend")
    shown = page.wait("!document.getElementById('attention-picture').hidden")
    check("attention is shown", shown and page.js("document.getElementById('bars').children.length") > 100, page.text("error"))
    page.js("document.getElementById('score-text').focus()")
    page.type("line 3 of 3 says 9\nzebra")
    page.press("score-button")
    page.wait("!document.getElementById('score-tokens').hidden")
    dark = page.js("[...document.getElementById('score-tokens').children].map(t => +t.style.getPropertyValue('--weight'))")
    check("a text is scored", "24 tokens" in page.text("score-words") and len(dark) == 24, page.text("score-words"))
    check("what it never saw surprises it more", sum(dark[19:]) / 5 > 1.5 * sum(dark[1:19]) / 18, dark)


def test_long(page):
    page.js("document.getElementById('score-text').value = 'line 3 of 3 says 9\\n'.repeat(10000)")
    page.press("score-button")
    ended = page.wait("!document.getElementById('score-button').disabled", 60)
    check("a text of 190,000 tokens is scored", ended and page.text("score-words").startswith("190,000 tokens") and
          page.js("document.getElementById('error').hidden"), (page.text("score-words"), page.text("error")))


def test_threads(chromium, folder):
    page = Page(chromium)
    page.open(serve(folder, Isolated) + "?model=model.safetensors&threads=2")
    check("a model beside the page is loaded by its address", loaded(page), page.text("error"))
    check("an isolated page has threads", "threads: 2" in page.text("machine"), page.text("machine"))
    with open(EXPECTED, encoding="utf-8") as f:
        check("and writes the same", write(page, BEGIN, max_tokens=100, temperature=0) and
              page.text("text") == BEGIN + f.read(), page.text("text"))
    check("its policy refused nothing", not page.trouble, page.trouble)


class Elsewhere(Files):
    """Another server, which lets every page read its files. It notes what is asked of it."""
    asked = []

    def end_headers(self):
        self.asked.append(self.path)
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()


class Redirecting(Files):
    """The model moved.safetensors is at `elsewhere`."""
    elsewhere = ""

    def send_head(self):
        if not self.path.startswith("/moved"):
            return super().send_head()
        self.send_response(302)
        self.send_header("Location", self.elsewhere)
        self.end_headers()
        return None


class WithPolicy(Isolated):
    """Sends worker.js with the policy of docs/wasm.md."""

    def end_headers(self):
        if self.path.startswith("/worker.js"):
            self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()


def test_elsewhere(chromium, folder):
    Redirecting.elsewhere = model = serve(folder, Elsewhere).replace("index.html", "model.safetensors")
    page = Page(chromium)
    page.open(serve(folder) + "?model=" + model)
    page.wait("!document.getElementById('error').hidden")
    check("a model of another server is refused", "another server" in page.text("error"), page.text("error"))
    page.open(serve(folder, Redirecting) + "?model=moved.safetensors")
    page.wait("!document.getElementById('error').hidden")
    check("so is one behind a redirection", "redirects to another server" in page.text("error"), page.text("error"))
    check("that server was asked for nothing", not Elsewhere.asked, Elsewhere.asked)
    page.trouble.clear()
    page.open(serve(folder, WithPolicy) + "?model=model.safetensors&threads=2")
    check("the worker runs under its policy", loaded(page) and "threads: 2" in page.text("machine") and not page.trouble,
          (page.text("error"), page.trouble))


def test_broken(chromium, folder, work):
    """A site without its program."""
    broken = shutil.copytree(folder, os.path.join(work, "broken"))
    os.remove(os.path.join(broken, "longline.js"))
    page = Page(chromium)
    page.open(serve(broken))
    said = page.wait("document.getElementById('error').textContent", 10)
    check("a program that is not there is an error", said and "longline.js" in said, said)
    choose(page, MODEL)
    ended = page.wait("/No model/.test(document.getElementById('load-words').textContent)", 10)
    check("so is a model after that", ended and page.text("error") == said and
          not page.js("document.getElementById('file').disabled"), page.text("load-words"))


def test_kept(page, work):
    """A file that cannot be read leaves the model before."""
    gone = os.path.join(work, "gone.safetensors")
    shutil.copy(MODEL, gone)
    page.js("document.getElementById('file').addEventListener('change', e => e.stopImmediatePropagation(), {capture: true, once: true})")
    choose(page, gone)
    os.remove(gone)
    page.js("document.getElementById('file').dispatchEvent(new Event('change'))")
    page.wait("!document.getElementById('error').hidden")
    words, model = page.text("load-words"), os.path.basename(MODEL)
    check("a file that cannot be read leaves the model before", words == f"The model before, {model}, is still loaded.", words)
    check("it can still score", not page.js("document.getElementById('score-button').disabled"))


def main():
    signal.alarm(200)  # whatever hangs
    work = tempfile.mkdtemp()
    folder = shutil.copytree(FOLDER, os.path.join(work, "site"))
    shutil.copy(MODEL, os.path.join(folder, "model.safetensors"))
    chromium = Browser(work)
    page = Page(chromium)
    test_loading(page, serve(folder))
    page.trouble.clear()
    test_writing(page)
    test_answers(page)
    for name, dark in {"wasm, light": False, "wasm, dark": True}.items():
        page.scheme(dark)
        looks_right(page, name)
    test_long(page)
    test_another(page)
    test_kept(page, work)
    phone = Page(chromium, width=390, height=844, phone=True)
    phone.open(serve(folder) + "?model=model.safetensors")
    check("a phone", loaded(phone) and write(phone, BEGIN, max_tokens=100), phone.text("error"))
    looks_right(phone, "wasm on a phone", 390)
    test_threads(chromium, folder)
    test_elsewhere(chromium, folder)
    test_broken(chromium, folder, work)
    chromium.process.kill()
    shutil.rmtree(work, ignore_errors=True)


main()
