"""Opens pages as a reader has them: report_test.py FOLDER PAGE FIGURES ..., the number of figures on each page. Prints a line
for each check."""
import os
import sys

from browser import Browser, Page


def check(name, right, shown=""):
    print(f"[ ok ] {name}" if right else f"[ FAIL ] {name}: {shown}")


def look(chromium, path, figures, probe):
    for width, scheme in (1200, "light"), (1200, "dark"), (390, "light"):
        name = f"{path}, {width} {scheme}"
        page = Page(chromium, width=width, height=800, dark=scheme == "dark")
        page.open("file://" + os.path.abspath(path))
        check(f"{name}: it is opened", page.js("!!document.querySelector('main')"))
        seen = page.js(probe)
        check(name, (seen["width"], seen["scheme"]) == (width, scheme), seen)
        check(f"{name}: {figures} figures are drawn", seen["drawn"] == int(figures), seen["drawn"])
        check(f"{name}: nothing is wrong", not seen["wrong"], seen["wrong"])
        check(f"{name}: no error is logged", not page.trouble, page.trouble)
        chromium.call("Target.closeTarget", targetId=page.target)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.js"), encoding="utf-8") as f:
        probe = f.read()
    chromium = Browser(sys.argv[1])
    for path, figures in zip(sys.argv[2::2], sys.argv[3::2]):
        look(chromium, path, figures, probe)
    chromium.end()


main()
