#!/usr/bin/env python3
"""pages.py HTML [CHROMIUM CHROMEDRIVER]: the HTML that docs/build.sh made. Each language has its page, the user's pages come before the internals, and the
functions of a group before all else. In a browser: a dark page where one is asked for, and pictures and tables that stay within a phone's width.
"""
import pathlib
import re
import sys

html, *browser = sys.argv[1:]
html = pathlib.Path(html)


# How much wider the page is than the window, its colour, and what neither fits nor is scrolled by itself.
OUTSIDE = """
const width = document.documentElement.clientWidth, scrolls = e => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
return [document.documentElement.scrollWidth - width, getComputedStyle(document.body).backgroundColor,
  [...document.querySelectorAll(".contents img, .contents table, .contents pre, .contents div.fragment")]
    .filter(e => e.getBoundingClientRect().right > width + 1 && !(e.tagName === "TABLE" && scrolls(e.closest(".memproto, .memberdecls"))))
    .map(e => e.outerHTML.slice(0, 80))];
"""


def check_order():
    tree = (html / "navtreedata.js").read_text()
    pages = re.findall(r'^    \[ "([^"]+)", "(md_[^"]+\.html)"', tree, re.M)
    titles = [title for title, _ in pages]
    of = dict(pages)
    assert of["kvrt for C"] == "md_include_README.html" and "kvrt.h" in (html / of["kvrt for C"]).read_text(), pages
    assert any(title.startswith("kvrt for C# ") and "csharp" in page for title, page in pages), pages
    assert len(titles) == len(set(titles)), titles
    user = [i for i, page in enumerate(of.values()) if re.search("USING|SCHEMAS|EVAL|bindings|include|SECURITY|CHANGELOG", page)]
    inner = [i for i, page in enumerate(of.values()) if re.search("CONTRIBUTING|ARCHITECTURE|KV|FORMAT|NUMERICS|tests|ci_", page)]
    assert max(user) < min(inner) and len(user) + len(inner) == len(titles), titles
    groups = sorted(html.glob("group__kvrt__*.html"))
    assert len(groups) > 6, groups
    for group in groups:
        heads = re.findall(r'class="groupheader">(?:<a[^>]*></a>\s*)?([A-Z][A-Za-z ]+)', group.read_text())
        assert "Functions" not in heads or heads[0] == "Functions", (group.name, heads)
    session = (html / "group__kvrt__session.html").read_text()
    assert "kvrt_session_generate" in session and "Functions" in session
    assert 'href="md_docs_SCHEMAS.html"' in session and "Refused" in (html / "md_docs_SCHEMAS.html").read_text()


def check_in_browser(chromium, driver):
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--allow-file-access-from-files"):
        options.add_argument(argument)
    page = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        for name in ("index.html", "md_docs_USING.html", "md_docs_SCHEMAS.html", "group__kvrt__session.html", "md_include_README.html"):
            for width in (390, 1400):
                page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
                for scheme in ("light", "dark"):
                    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
                    page.get((html / name).resolve().as_uri())
                    WebDriverWait(page, 60).until(lambda p: p.find_elements("css selector", "#nav-tree-contents a"))
                    wide, back, outside = page.execute_script(OUTSIDE)
                    light = sum(map(int, re.findall(r"\d+", back)[:3])) / 3
                    assert (light > 200) == (scheme == "light"), (name, scheme, back)
                    assert wide <= 0 and not outside, (name, width, wide, outside)
    finally:
        page.quit()


check_order()
if len(browser) == 2:
    check_in_browser(*browser)
print("pages: ok" + ("" if len(browser) == 2 else ", no browser"))
