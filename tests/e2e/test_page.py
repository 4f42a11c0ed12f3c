"""The web page, driven in headless Chromium: on TAPE checkpoints, whose answers are known, and on the real model. Whatever a
test does, the page must ask nothing of any other machine and must log no error."""
import json
import pathlib
import time

import pytest

from browser import Browser, find_chromium
from served import Served
from tape import TEMPLATE, write_tape

NASTY = ["<img src=x onerror='window.pwned=1'>\n\n", "<script>window.pwned=2</script>\n\n", "<svg onload='window.pwned=3'></svg>\n\n",
         "[go](javascript:window.pwned=4) ", "[data](data:text/html,<script>window.pwned=5</script>) ",
         "![i](http://127.0.0.1:9/a.png) ", "<iframe src='javascript:parent.pwned=6'></iframe>\n\n",
         "[q](https://a.example/\"onmouseover=\"window.pwned=7)\n\n", "```html\n<script>window.pwned=8</script>\n```\n\n",
         "$\\text{<img src=x onerror=window.pwned=9>}$ and $$\\href{javascript:window.pwned=10}{x}$$"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_tape(folder / "plain", ["A ", "**bold** ", "answer", ", so."])
    write_tape(folder / "endless", ["tick ", "tock "], loop=True, context=32768)
    write_tape(folder / "nasty", NASTY)
    write_tape(folder / "thinker", ["<think>", "It is ", "simple.", "</think>", "Four", " it is."],
               template=TEMPLATE + "{# <think></think> #}")
    return folder


@pytest.fixture(scope="module")
def served(program, models):
    s = Served(program, *(models / name for name in ("plain", "endless", "nasty", "thinker")))
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="module")
def chromium():
    program = find_chromium()
    if not program:
        pytest.skip("chromium is not installed: ./dev test installs it")
    b = Browser(program)
    yield b
    b.close()


def open_page(chromium, port, ready="document.querySelector('#model option')"):
    """An empty browser that shows the page."""
    address = f"http://127.0.0.1:{port}/"
    chromium.command("Storage.clearDataForOrigin", origin=address[:-1], storageTypes="all")
    chromium.resize(1200, 800)
    chromium.prefer("light")
    chromium.open("about:blank")
    chromium.requests.clear()
    chromium.bodies.clear()
    chromium.problems.clear()
    chromium.open(address, ready)
    return address


@pytest.fixture
def page(chromium, served):
    address = open_page(chromium, served.port)
    yield chromium
    chromium.run("1")
    assert chromium.problems == []
    assert all(url.startswith((address, "blob:" + address)) for url in chromium.requests), chromium.requests


GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "embed" / "bert"


def test_only_models_that_chat_are_offered(program, models, chromium, tmp_path):
    """Of those that are loaded and those that are not: an encoder, a text completer, and a sentence-transformer with a head."""
    write_tape(tmp_path / "completer", ["a ", "b "], template=None)
    write_tape(tmp_path / "vectors", ["c ", "d "])
    (tmp_path / "vectors" / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]')
    others = [GOLDEN, tmp_path / "completer", tmp_path / "vectors"]
    s = Served(program, *others, models / "plain")
    tasks = {m["id"]: m["tasks"] for m in json.loads(s.call("GET", "/v1/models")[1])["data"]}
    assert tasks == {"bert": ["embedding"], "completer": ["completion"], "vectors": ["completion"], "plain": ["completion", "chat"]}
    open_page(chromium, s.port)
    assert chromium.run("[...document.querySelectorAll('#model option')].map((o) => o.value)") == ["plain"]
    ask(chromium, "hello")
    chromium.wait("document.querySelector('#status').textContent.includes('of 256 tokens')")  # it was loaded by that
    assert s.stop() == 0 and chromium.problems == []
    s = Served(program, *others)
    open_page(chromium, s.port, "document.querySelector('#notice')?.hidden === false")
    assert "bert" in chromium.run("document.querySelector('#notice').textContent")
    assert chromium.run("document.querySelector('#send').disabled") is True
    assert s.stop() == 0 and chromium.problems == []


def choose(page, model):
    page.run(f"(() => {{ const m = document.querySelector('#model'); m.value = {json.dumps(model)};"
             " m.dispatchEvent(new Event('change')); })()")


def answered(page):
    page.wait("document.querySelector('.assistant.last .stats')?.textContent && !document.querySelector('.running')")


def ask(page, text, wait=True):
    page.click("#prompt")
    page.type(text)
    page.press("Enter")
    if wait:
        answered(page)


def text_of(page, selector):
    return page.run(f"document.querySelector({json.dumps(selector)})?.innerText")


def saved(page):
    """The conversations in the browser's storage, the latest first."""
    return page.run("(async () => { const s = await import('/page/store.js');"
                    " return s.listChats().map((c) => s.loadChat(c.id)); })()")


# ---- over HTTP ----

def head(served, path, headers=()):
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_every_file_is_in_the_program(served):
    answer, body = head(served, "/")
    assert answer.status == 200 and answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert b"<title>lockstep</title>" in body
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml"),
                       ("math.woff2", "font/woff2"), ("math-font.txt", "text/plain")):
        answer, body = head(served, f"/page/{name}")
        assert answer.status == 200 and body and answer.getheader("Content-Type").startswith(kind)
    assert head(served, "/page/../page.c")[0].status == 404
    assert head(served, "/page/none.js")[0].status == 404


def test_the_policy_is_strict(served):
    for path in ("/", "/page/app.js"):
        policy = head(served, path)[0].getheader("Content-Security-Policy")
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy and "http" not in policy and "*" not in policy
        assert head(served, path)[0].getheader("X-Content-Type-Options") == "nosniff"


def test_what_has_not_changed_is_not_sent_again(served):
    first, _ = head(served, "/page/app.js")
    again, body = head(served, "/page/app.js", {"If-None-Match": first.getheader("ETag")})
    assert again.status == 304 and body == b""
    assert head(served, "/page/app.js", {"If-None-Match": '"other"'})[0].status == 200


# ---- asking ----

def test_a_question_is_answered(page):
    ask(page, "Hello")
    assert text_of(page, ".bubble") == "Hello"
    assert text_of(page, ".assistant .body") == "A bold answer, so."
    assert page.run("document.querySelector('.assistant .body strong').textContent") == "bold"
    assert "5 tokens" in text_of(page, ".stats")
    assert "of 256 tokens of context used" in text_of(page, "#status")
    assert page.run("document.title") == "Hello · lockstep"


def test_the_next_question_has_the_conversation(page):
    ask(page, "Hello")
    ask(page, "And then?")
    assert page.bodies[-1]["messages"] == [
        {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "A **bold** answer, so."},
        {"role": "user", "content": "And then?"}]


def test_keys(page):
    page.click("#prompt")
    page.type("one")
    page.press("Enter", shift=True)
    page.type("two")
    assert page.bodies == []
    page.press("Enter")
    answered(page)
    assert page.bodies[0]["messages"][0]["content"] == "one\ntwo"
    page.press("ArrowUp")
    assert page.run("document.activeElement.value") == "one\ntwo"
    page.press("Escape")
    assert text_of(page, ".bubble") == "one\ntwo"


@pytest.mark.parametrize("how", ["key", "button"])
def test_an_answer_streams_until_it_is_stopped(page, how):
    choose(page, "endless")
    ask(page, "Go", wait=False)
    first = page.wait("document.querySelector('.assistant .body')?.innerText.length > 20")
    assert first and page.run("document.querySelector('.assistant').getAttribute('aria-busy')") == "true"
    assert page.wait("document.querySelector('#status').textContent.includes('tokens/s')")
    if how == "key":
        page.press("Escape")
    else:
        page.click("#send")
    page.wait("!document.querySelector('.running')")
    assert text_of(page, ".note") == "Stopped."
    length = page.run("document.querySelector('.assistant .body').innerText.length")
    time.sleep(0.3)
    assert page.run("document.querySelector('.assistant .body').innerText.length") == length
    assert saved(page)[0]["messages"][1]["variants"][0]["finish"] == "stopped"
    assert page.run("fetch('/health').then((r) => r.status)") == 200


def test_what_reached_its_limit_goes_on(page):
    choose(page, "endless")
    page.click("#show-settings")
    page.click("#set-max_tokens")
    page.type("3")
    ask(page, "Go")
    assert text_of(page, ".note") == "The answer reached its limit of tokens."
    assert text_of(page, ".assistant .body").strip() == "tick tock tick"
    page.click("[aria-label='Continue the answer']")
    page.wait("document.querySelector('.assistant .body').innerText.length > 16 && !document.querySelector('.running')")
    assert page.bodies[-1]["messages"][-1] == {"role": "assistant", "content": "tick tock tick "}
    assert text_of(page, ".assistant .body").strip() == "tick tock tick tock tick tock"


def test_regenerate_keeps_the_earlier_answer(page):
    ask(page, "Hello")
    page.click("[aria-label='Regenerate']")
    page.wait("document.querySelector('.count')?.textContent === '2 / 2' && !document.querySelector('.running')")
    assert page.bodies[0] == page.bodies[1]
    page.click("[aria-label='Earlier version']")
    assert text_of(page, ".count") == "1 / 2"
    assert len(saved(page)[0]["messages"][1]["variants"]) == 2


def test_an_edited_message_is_asked_anew(page):
    ask(page, "Hello")
    ask(page, "Again")
    page.click(".user [aria-label='Edit']")
    page.run("document.activeElement.select()")
    page.type("Good day")
    page.press("Enter")
    page.wait("document.querySelectorAll('.message').length === 2 && !document.querySelector('.running')")
    assert page.bodies[-1]["messages"] == [{"role": "user", "content": "Good day"}]
    assert [m.get("content") for m in saved(page)[0]["messages"]] == ["Good day", None]


def test_reasoning_is_folded(page):
    choose(page, "thinker")
    ask(page, "2+2")
    assert text_of(page, ".assistant .body") == "Four it is."
    assert page.run("document.querySelector('.thought').open") is False
    assert page.run("document.querySelector('.thought .markdown').textContent") == "It is simple."
    page.click(".thought summary")
    assert page.run("document.querySelector('.thought').open") is True


def test_settings_go_into_the_request(page):
    page.click("#show-settings")
    for field, value in (("system", "Be brief."), ("temperature", "0.5"), ("top_p", "0.9"), ("top_k", "40"), ("min_p", "0.05"),
                         ("repetition_penalty", "1.1"), ("max_tokens", "7"), ("seed", "3")):
        page.click(f"#set-{field}")
        page.type(value)
    ask(page, "Hello")
    sent = page.bodies[0]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert {k: v for k, v in sent.items() if k not in ("messages", "stream", "stream_options")} == {
        "model": "plain", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1,
        "max_tokens": 7, "seed": 3}
    page.click("#reset-settings")
    ask(page, "Hello")
    assert set(page.bodies[1]) == {"model", "messages", "stream", "stream_options"}


def test_what_the_server_refuses_is_shown_and_not_sent_again(page):
    ask(page, "x" * 300, wait=False)
    page.wait("document.querySelector('.note.error:not([hidden])')")
    assert "256" in text_of(page, ".note.error")
    page.run("1")
    page.problems.clear()  # the browser itself logs the status 400
    ask(page, "Hello")
    assert page.bodies[-1]["messages"] == [{"role": "user", "content": "Hello"}]


# ---- what a model writes ----

def test_nothing_a_model_writes_runs(page):
    choose(page, "nasty")
    ask(page, "Go")
    assert page.run("window.pwned") is None
    assert page.run("document.querySelectorAll('.markdown :is(img, script, iframe, object, embed, form, style)').length") == 0
    assert page.run("document.querySelectorAll('.markdown [onload], .markdown [onerror], .markdown [onmouseover]').length") == 0
    links = page.run("[...document.querySelectorAll('.markdown a')].map((a) => a.protocol + a.rel)")
    assert links and set(links) <= {"https:noopener noreferrer nofollow", "http:noopener noreferrer nofollow"}
    shown = text_of(page, ".assistant .body")
    assert "<img src=x onerror='window.pwned=1'>" in shown and "<script>window.pwned=8</script>" in shown


def test_the_policy_stops_what_would_get_past(page):
    page.run("(() => { try { const s = document.createElement('script'); s.setAttribute('src', 'data:,window.pwned=1');"
             " document.body.append(s); } catch { } })()")
    assert page.run("(() => { try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (e) { return e.name; } })()") == "TypeError"
    assert page.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert page.run("window.pwned") is None
    assert all("blocked" in p or "violates" in p for p in page.problems), page.problems
    page.problems.clear()
    page.requests.clear()


MARKDOWN = [
    ("# One\n### Three", "<h2>One</h2><h4>Three</h4>"),
    ("a *b* **c** ***d*** ~~e~~ `f*g*`", "<p>a <em>b</em> <strong>c</strong> <strong><em>d</em></strong> <del>e</del> <code>f*g*</code></p>"),
    ("snake_case_name and 2*3*4", "<p>snake_case_name and 2<em>3</em>4</p>"),
    ("**a *b* c** and *a **b** c*", "<p><strong>a <em>b</em> c</strong> and <em>a <strong>b</strong> c</em></p>"),
    ("a < b & c > d", "<p>a &lt; b &amp; c &gt; d</p>"),
    ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
    ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("1. a\n\n   more\n2. b", "<ol><li><p>a</p><p>more</p></li><li>b</li></ol>"),
    ("text\n- a\n- b\nlazy", "<p>text</p><ul><li>a</li><li>b<br>lazy</li></ul>"),
    ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("---\n***", "<hr><hr>"),
    ("\\*not\\* \\_this\\_", "<p>*not* _this_</p>"),
    ("**a *b***", "<p><strong>a <em>b</em></strong></p>"),
    ("``a ` b`` and `", "<p><code>a ` b</code> and `</p>"),
    ("costs $5 and $6", "<p>costs $5 and $6</p>"),
    ("![a](x.png)", "<p>![a](x.png)</p>"),
    ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"),
    ("**open", "<p>**open</p>"),
]


def render(page, text):
    return page.run("(async () => { const m = await import('/page/markdown.js'); const e = document.createElement('div');"
                    f" m.renderMarkdown(e, {json.dumps(text)}); return e.innerHTML; }})()")


def test_markdown(page):
    for text, wanted in MARKDOWN:
        assert render(page, text) == wanted, text


def test_tables_and_code(page):
    html = render(page, "| a | b |\n|:--|--:|\n| 1 | `x\\|y` |\n| 2 |\n\nafter")
    assert '<th scope="col">a</th><th class="right" scope="col">b</th>' in html
    assert '<td>1</td><td class="right"><code>x|y</code></td>' in html
    assert '<td>2</td><td class="right"></td>' in html and html.endswith("<p>after</p>")
    html = render(page, "```c\nint x = 1; // <b>\n```\nafter")
    assert '<span class="tok-keyword">int</span> x = <span class="tok-number">1</span>' in html
    assert '<span class="tok-comment">// &lt;b&gt;</span>' in html and html.endswith("<p>after</p>")
    html = render(page, '```python\n"""One\nfor two."""\nx\n```')
    assert '<span class="tok-string">"""One\nfor two."""</span>\nx' in html
    assert '<span class="tok-comment">/* a\n b */</span>' in render(page, "```js\n/* a\n b */\n```")
    assert render(page, "```\nstill open").count("<figure") == 1


def test_a_growing_text_keeps_its_blocks(page):
    kept = page.run("""(async () => { const m = await import('/page/markdown.js'); const e = document.createElement('div');
        m.renderMarkdown(e, 'one\\n\\ntwo'); const first = e.firstChild, last = e.lastChild;
        m.renderMarkdown(e, 'one\\n\\ntwo more'); return [first === e.firstChild, last === e.lastChild, e.textContent]; })()""")
    assert kept == [True, False, "onetwo more"]


def test_long_lines_of_marks_take_no_time(page):
    for mark in ("*", "_", "[", "`", "$", "**a ", "> ", "- ", "|", "\\(", "~~", "<", "{"):
        start = time.monotonic()
        render(page, mark * 20000)
        assert time.monotonic() - start < 5, mark


MATHS = [
    (r"\frac{1}{n}", "<mfrac><mn>1</mn><mi>n</mi></mfrac>"),
    (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
    (r"x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
    (r"f'", '<mrow><mi>f</mi><mo stretchy="false" lspace="0" rspace="0">′</mo></mrow>'),
    (r"\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
    (r"\alpha\le\Omega", '<mi>α</mi><mo>≤</mo><mi mathvariant="normal">Ω</mi>'),
    (r"\mathbb{R}", '<mi mathvariant="normal">ℝ</mi>'),
    (r"\text{if } x", "<mtext>if&nbsp;</mtext><mi>x</mi>"),
    (r"\unknown x", '<mtext class="unknown">\\unknown</mtext><mi>x</mi>'),
    (r"\overline{x}", '<mrow class="overline"><mi>x</mi></mrow>'),
    (r"a<b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
]


def test_maths(page):
    for source, wanted in MATHS:
        html = page.run("(async () => { const m = await import('/page/math.js');"
                        f" return m.mathNode({json.dumps(source)}, false).innerHTML; }})()")
        assert html == f"<mrow>{wanted}</mrow>", source
    html = render(page, "$$\n\\sum_{i=1}^n i = \\begin{cases} 1 & x \\\\ 2 & y \\end{cases}\n$$")
    assert "<munderover" in html and html.count("<mtr>") == 2 and 'display="block"' in html
    assert "<math" in render(page, "so \\(x\\) and $y$") and render(page, "\\[ x").count("<math") == 1
    page.wait("[...document.fonts].some((f) => f.family === '\"lockstep Math\"' || f.family === 'lockstep Math')")
    for broken in ("\\frac{", "{" * 500, "\\left( x", "\\begin{matrix} a & b", "^", "_", "}", "\\", "\\sqrt[", "\\end{x}", "\\not"):
        page.run(f"import('/page/math.js').then((m) => m.mathNode({json.dumps(broken)}, true).tagName)")


# ---- conversations ----

def test_conversations_are_kept_renamed_and_deleted(page):
    address = page.run("location.href")
    ask(page, "First")
    page.click("#new-chat")
    ask(page, "Second")
    page.open("about:blank")
    page.open(address, "document.querySelector('#model option')")
    assert page.run("[...document.querySelectorAll('.chat')].map((e) => e.textContent)") == ["Second", "First"]
    page.click("[title='First']")
    assert text_of(page, ".bubble") == "First" and text_of(page, ".assistant .body") == "A bold answer, so."
    page.click("[aria-label='Rename First']")
    page.run("document.activeElement.select()")
    page.type("Eins")
    page.press("Enter")
    page.wait("document.querySelector(\"[title='Eins']\")")
    page.click("[aria-label='Delete Second']")
    page.wait("document.querySelector('#delete-dialog').open")
    page.click("#delete-dialog [value='yes']")
    page.wait("document.querySelectorAll('.chat').length === 1")
    assert [chat["title"] for chat in saved(page)] == ["Eins"]


def test_export_and_import(page):
    ask(page, "Hello")
    before = saved(page)
    text = page.run("import('/page/store.js').then((s) => s.exportChats(s.listChats().map((c) => c.id)))")
    assert json.loads(text)["chats"][0]["messages"][0] == {"role": "user", "content": "Hello"}
    page.run("localStorage.clear()")
    taken = page.run(f"import('/page/store.js').then((s) => s.importChats({json.dumps(text)}))")
    after = saved(page)
    assert taken == 1 and after[0]["messages"] == before[0]["messages"] and after[0]["id"] != before[0]["id"]
    for wrong in ("", "[]", "{}", '{"format": "lockstep-chats", "chats": 3}'):
        assert page.run(f"import('/page/store.js').then((s) => {{ try {{ s.importChats({json.dumps(wrong)}); }} catch (e)"
                        " { return e.message; } })").startswith("this file"), wrong
    page.run("import('/page/store.js').then((s) => s.importChats(JSON.stringify({format: 'lockstep-chats',"
             " chats: [null, {}, {id: 5, title: 7, messages: [null, {role: 'assistant', variants: []}, {role: 'user'}]}]})))")
    assert sorted(len(chat["messages"]) for chat in saved(page)) == [0, 1, 2]


# ---- how it looks ----

def background(page):
    return page.run("getComputedStyle(document.body).backgroundColor")


def test_dark_and_light(page):
    address = page.run("location.href")
    assert background(page) == "rgb(253, 253, 252)"
    page.prefer("dark")
    assert background(page) == "rgb(24, 25, 27)"
    page.click("#theme")
    assert background(page) == "rgb(253, 253, 252)"
    page.open("about:blank")
    page.open(address, "document.querySelector('#model option')")
    assert background(page) == "rgb(253, 253, 252)"


def test_on_a_phone(page):
    page.resize(360, 740, phone=True)
    ask(page, "A word that is very long: " + "m" * 80, wait=False)
    page.click("#send")
    answered(page)
    assert page.run("document.documentElement.scrollWidth") == 360
    assert page.run("document.querySelector('#scroll').scrollWidth") <= 360
    assert page.run("getComputedStyle(document.querySelector('#sidebar')).visibility") == "hidden"
    page.click("#show-sidebar")
    page.wait("document.querySelector('#sidebar').getBoundingClientRect().x === 0")
    page.click(".chat")
    page.wait("getComputedStyle(document.querySelector('#sidebar')).visibility === 'hidden'")
    page.click("#show-settings")
    assert page.run("document.querySelector('#settings').getBoundingClientRect().width") == 360
    page.click("#hide-settings")


def test_every_control_has_a_name(page):
    ask(page, "Hello")
    page.click("#show-settings")
    nameless = page.run("""[...document.querySelectorAll('button, input, select, textarea')].filter((e) =>
        !e.getAttribute('aria-label') && !e.innerText?.trim() && !e.textContent.trim() && !(e.labels?.length)).map((e) => e.outerHTML)""")
    assert nameless == []


# ---- beyond ----

def test_a_key_is_asked_for(program, models, chromium):
    s = Served(program, models / "plain", "--api-key", "sesame")
    try:
        open_page(chromium, s.port, "document.querySelector('#key-dialog')?.open")
        chromium.type("parsley")
        chromium.press("Enter")
        chromium.wait("document.querySelector('#key-why').textContent.includes('does not know')")
        chromium.click("#key-cancel")
        chromium.click("#notice button")
        chromium.click("#key")
        chromium.run("document.activeElement.select()")
        chromium.type("sesame")
        chromium.press("Enter")
        chromium.wait("document.querySelector('#model option')?.value === 'plain'")
        ask(chromium, "Hello")
        assert text_of(chromium, ".assistant .body") == "A bold answer, so."
        chromium.open("about:blank")
    finally:
        assert s.stop() == 0


def test_a_real_model(program, smollm2, chromium):
    s = Served(program, smollm2)
    try:
        open_page(chromium, s.port)
        chromium.click("#show-settings")
        chromium.click("#set-temperature")
        chromium.type("0")
        ask(chromium, "What is the capital of France?")
        assert text_of(chromium, ".assistant .body") == "The capital of France is Paris."
        chromium.run("1")
        assert chromium.problems == []
        chromium.open("about:blank")
    finally:
        assert s.stop() == 0
