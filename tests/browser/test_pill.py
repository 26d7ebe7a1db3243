"""What the pill says of what is known, and what morphing leaves alone: modules of the page, asked in a real browser."""

from __future__ import annotations

import pytest

FINE = {
    "socket": "open", "signedOut": False, "asOf": None, "paused": False, "newer": 0, "revision": 18274,
    "unsure": 0, "behind": False, "age": 0.4, "why": "",
}  # fmt: skip
AGO = "40s"
SAYS = [
    ({}, "live", "live · revision 18274 · 0.4s ago", "pause"),
    ({"socket": "connecting"}, "connecting", "connecting · revision 18274", "pause"),
    ({"socket": "closed", "unsure": 1}, "live", "live · revision 18274 · 0.4s ago", "pause"),
    ({"socket": "closed", "unsure": 4, "age": 40, "why": "reconnecting"}, "stale",
     f"stale {AGO} · revision 18274 · reconnecting", "reconnect"),
    ({"unsure": 4, "age": 40, "why": "the server answers 500"}, "stale",
     f"stale {AGO} · revision 18274 · the server answers 500", "reconnect"),
    ({"socket": "closed", "unsure": 70, "age": 185, "why": "reconnecting"}, "offline",
     "offline 3m 5s · last revision 18274 · reconnecting", "reconnect"),
    ({"behind": True, "age": 40}, "stale", f"stale {AGO} · revision 18274 · the database is away", "reconnect"),
    ({"socket": "closed"}, "polling", "polling every 5s · revision 18274", "pause"),
    ({"socket": "blocked"}, "polling", "polling every 5s · revision 18274", "pause"),
    ({"socket": "refused"}, "polling", "polling every 5s · revision 18274", "pause"),
    ({"paused": True, "newer": 12}, "paused", "paused at 18274 · 12 newer", "play"),
    ({"paused": True, "socket": "closed", "unsure": 9}, "paused", "paused at 18274 · not connected", "play"),
    ({"signedOut": True, "paused": True}, "signed-out",
     "signed out · revision 18274 · what you see is old", "signin"),
    ({"asOf": {"revision": "18240", "more": "03:11:02"}}, "as-of", "as of 18240 · 03:11:02", "back"),
]  # fmt: skip

PAINT = """async known => {
  const { paintPill } = await import('/static/dashboard/js/pill.js');
  paintPill(known);
  const pill = document.getElementById('live');
  return [pill.dataset.state, pill.querySelector('.live-t').textContent.replace(/\\s+/g, ' ').trim(),
    pill.querySelector('button').dataset.does, document.body.classList.contains('stale')];
}"""

# A part as the server renders it, morphed into the page.
MORPH = """async ([before, after, options]) => {
  const { morphPart } = await import('/static/dashboard/js/morph.js');
  const part = html => `<section class="part" id="part-x" data-part="x" data-on="*" data-hold-new>${html}</section>`;
  const main = document.getElementById('main');
  if (before !== null) main.innerHTML = part(before);
  const box = document.createElement('template');
  box.innerHTML = part(after);
  morphPart(document.getElementById('part-x'), box.content.firstElementChild, options ?? {});
}"""


LISTEN = """document.addEventListener('pdcp:refresh', event => {
  window.asked = event.detail;
  event.stopImmediatePropagation();
}, { capture: true })"""


def row(key: str, more: str = "") -> str:
    return f'<tr data-key="{key}"><td><a href="/{key}">{key}</a>{more}</td></tr>'


def table(*rows: str, log: bool = False) -> str:
    return f"<span data-new-chip></span><table><tbody{' data-log' if log else ''}>{''.join(rows)}</tbody></table>"


@pytest.fixture
def page(site):
    """A page that asks for nothing by itself: the parts of these tests are not the server's."""
    opened = site.open("/")
    opened.live()
    opened.page.evaluate("document.dispatchEvent(new CustomEvent('pdcp:pause'))")
    return opened.page


def morph(page, before, after, **options):
    page.evaluate(MORPH, [before, after, options])


def keys(page):
    return page.evaluate("[...document.querySelectorAll('#part-x [data-key]')].map(row => row.dataset.key)")


def test_the_pill_says_what_is_going_on(page):
    for known, key, text, does in SAYS:
        said = page.evaluate(PAINT, FINE | known)
        said[1] = said[1].replace("\u202f", " ")
        assert said == [key, text, does, key in ("stale", "offline", "signed-out")], known


def test_the_pill_fits_a_narrow_screen_whatever_it_says(site):
    look = site.open("/", size="narrow")
    look.live()
    for known, *_ in SAYS:
        look.page.evaluate(PAINT, FINE | known)
        wide = look.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, known


def test_a_row_that_moves_stays_itself_and_keeps_the_focus(page):
    morph(page, table(row("a"), row("b")), table(row("a"), row("b")))
    page.locator("a[href='/b']").focus()
    handle = page.evaluate_handle("document.activeElement")
    morph(page, None, table(row("b"), row("a")))
    assert keys(page) == ["b", "a"]
    assert page.evaluate("node => node === document.activeElement && node.getAttribute('href') === '/b'", handle)


def test_what_is_new_waits_behind_a_chip_and_a_click_asks_for_it(page):
    morph(page, table(row("a"), row("b")), table(row("n"), row("a"), row("b", "!")))
    assert keys(page) == ["a", "b"] and "b!" in page.locator("#part-x").inner_text()
    chip = page.locator("#part-x [data-new-chip] button")
    assert chip.inner_text() == "1 new"
    chip.focus()
    morph(page, None, table(row("m"), row("n"), row("a"), row("b")))
    assert chip.inner_text() == "2 new"
    assert page.evaluate("document.activeElement.textContent") == "2 new", "the same button"
    page.evaluate(LISTEN)
    chip.click()
    assert page.evaluate("window.asked") == {"parts": ["x"], "open": True}
    morph(page, None, table(row("m"), row("n"), row("a"), row("b")), showNew=True)
    assert keys(page) == ["m", "n", "a", "b"] and not chip.is_visible()
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/m", (
        "whoever pressed the chip is at what came"
    )


def test_a_row_that_ended_goes_at_once_but_not_one_that_new_ones_push_out_of_a_log(page):
    morph(page, table(row("c"), row("b"), row("a")), table(row("d"), row("c"), row("b")))
    assert keys(page) == ["c", "b"]
    morph(page, table(row("c"), row("b"), row("a"), log=True), table(row("d"), row("c"), row("b"), log=True))
    assert keys(page) == ["c", "b", "a"]
    morph(page, None, table(row("g"), row("f"), row("e"), log=True))
    assert keys(page) == ["c", "b", "a"] and page.locator("[data-new-chip]").inner_text() == "3 or more new"


def test_a_log_in_groups_keeps_the_groups_that_are_pushed_out(page):
    def groups(*found: tuple[str, ...]) -> str:
        inner = "".join(
            f"<tbody id='run-{keys[-1]}'>{''.join(map(row, keys))}<tr><td>fold</td></tr></tbody>" for keys in found
        )
        return f"<span data-new-chip></span><table data-log>{inner}</table>"

    morph(page, groups(("f", "e"), ("d", "c"), ("b", "a")), groups(("h",), ("g", "f", "e"), ("d",)))
    assert keys(page) == ["f", "e", "d", "c", "b", "a"]
    assert page.locator("#part-x").inner_text().split().count("fold") == 3
    assert page.locator("[data-new-chip]").inner_text() == "2 new"


def test_the_first_rows_are_shown_at_once(page):
    morph(page, table(), table(row("a")))
    assert keys(page) == ["a"] and not page.locator("[data-new-chip] button").count()


def test_what_a_person_has_typed_ticked_and_opened_stays(page):
    form = (
        '<input id="t" value="old"><input id="c" type="checkbox"><details id="d"><summary>more</summary>x</details>{}'
    )
    morph(page, form.format(""), form.format(""))
    page.fill("#t", "typed")
    page.check("#c")
    page.locator("#d summary").click()
    for round in ("one", "two"):
        morph(page, None, form.format(f"<p>{round}</p>"))
    assert page.input_value("#t") == "typed" and page.is_checked("#c")
    assert page.evaluate("document.getElementById('d').open")
    assert page.locator("#part-x p").inner_text() == "two"


def test_the_cells_of_a_grid_of_the_same_shape_are_left_alone(page):
    said = '<div data-shape="{}" aria-description="{}"><i>{}</i></div>'
    morph(page, said.format("2x2", "candidate", "old"), said.format("2x2", "current", "new"))
    grid = page.locator("#part-x [data-shape]")
    assert grid.inner_text() == "old" and grid.get_attribute("aria-description") == "current"
    morph(page, None, said.format("2x3", "current", "new"))
    assert page.locator("#part-x").inner_text() == "new"


def test_a_focused_button_says_what_it_does(page):
    said = '<a id="b" href="/act/{0}">{0}</a><select id="s"><option>1<option selected>2</select>'
    morph(page, said.format("drain"), said.format("drain"))
    page.select_option("#s", "1")
    page.locator("#b").focus()
    morph(page, None, said.format("uncordon"))
    assert page.evaluate("document.activeElement.textContent + document.activeElement.getAttribute('href')") == (
        "uncordon/act/uncordon"
    )
    assert page.input_value("#s") == "1", "somebody has chosen it"


def test_what_htmx_does_works_on_elements_that_came_later(page):
    morph(page, "", "<button hx-get='/?one' hx-swap='none'>one</button>")
    with page.expect_request(lambda request: request.url.endswith("/?one")):
        page.get_by_role("button", name="one", exact=True).click()
    morph(page, None, "<button hx-get='/?two' hx-swap='none'>two</button>")
    with page.expect_request(lambda request: request.url.endswith("/?two")):
        page.get_by_role("button", name="two", exact=True).click()


def test_focus_is_not_lost_when_what_had_it_is_gone(page):
    morph(page, table(row("a"), row("b")), table(row("a"), row("b")))
    page.locator("a[href='/b']").focus()
    morph(page, None, table(row("a")))
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/a"


def test_the_clock_here_follows_the_servers_even_when_it_is_set(page):
    said = page.evaluate("""async () => {
      const time = await import('/static/dashboard/js/time.js');
      const off = () => Math.round(time.now() - Date.now());
      const second = Math.floor(Date.now() / 1000) * 1000;
      const found = [];
      time.serverSaid(second + 60000, 0); found.push(off());
      time.serverSaid(second + 60000, 0); found.push(off());
      time.serverSaid(second - 60000, 100); found.push(off());
      return found;
    }""")
    assert 58_900 <= said[0] <= 60_000 and said[1] == said[0] and -60_000 <= said[2] <= -57_900
