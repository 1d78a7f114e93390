"""The page in headless Chromium: light, dark and 400 px wide; its own data; nothing wider than the window."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from forktool.adapters.html_report import page
from tests.support.matrix_runs import KIMI, history, sample

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# Puts what is checked into the title, which --dump-dom shows.
CHECK = """<script>
const root = document.documentElement;
const style = getComputedStyle(document.body);
document.title = JSON.stringify({
  wide: root.scrollWidth, window: innerWidth, background: style.backgroundColor, colour: style.color,
  cells: JSON.parse(document.getElementById("results").textContent).cells.length,
  sections: document.querySelectorAll("section").length, plots: document.querySelectorAll("svg").length,
  table: document.querySelector(".table").scrollWidth, frame: document.querySelector(".table").clientWidth,
  bold: document.querySelectorAll("b").length,
});
</script>"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    log = tmp_path / f"cells/{KIMI}/run-1-1/server-1-with-speculation.log"
    log.parent.mkdir(parents=True)
    log.write_text("INFO one <line>\nINFO another\n")
    path = tmp_path / "matrix.html"
    path.write_text(page(sample(), history=history(), folder=tmp_path))
    return path


def browse(path: Path, *options: str, width: int = 1100) -> str:
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
            f"--user-data-dir={path.parent / 'profile'}", f"--window-size={width},3000", *options, path.as_uri(),
        ],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


@needs_chromium
@pytest.mark.parametrize(
    ("name", "width", "options"),
    [("light", 1100, []), ("dark", 1100, ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]), ("narrow", 500, [])],
)  # fmt: skip
def test_the_page_in_a_browser(written: Path, name: str, width: int, options: list[str]) -> None:
    checked = written.with_name("checked.html")
    text = written.read_text()
    if name == "narrow":
        # Chromium's headless window is at least 500 px wide; a frame can be narrower.
        inner = written.with_name("inner.html")
        inner.write_text(
            text.replace("</body>", CHECK.replace("document.title", "parent.document.title") + "</body>")
        )
        checked.write_text(
            '<!doctype html><title></title><body style="margin:0"><iframe src="inner.html" width=400 height=3000 style="border:0">'
        )
        options = ["--allow-file-access-from-files"]
    else:
        checked.write_text(text.replace("</body>", f"{CHECK}</body>"))
    dom = browse(checked, "--dump-dom", *options, width=width)
    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title is not None
    seen = json.loads(title[1].replace("&quot;", '"'))
    assert seen["cells"] == seen["sections"] == 5
    assert seen["plots"] == 5
    assert seen["bold"] == 0
    assert seen["wide"] <= seen["window"]
    assert seen["table"] <= seen["frame"]
    light = seen["background"] == "rgb(255, 255, 255)"
    assert light == (name != "dark"), seen
    shots = os.environ.get("MATRIX_SCREENSHOTS")
    target = (Path(shots) if shots else written.parent) / f"{name}.png"
    browse(checked if name == "narrow" else written, f"--screenshot={target}", *options, width=width)
    assert target.stat().st_size > 20_000


def test_the_page_shows_logs_commands_and_data_as_they_are(written: Path) -> None:
    text = written.read_text()
    assert "INFO one &lt;line&gt;\nINFO another" in text
    assert "The log is not here." in text
    assert "serve /models/kimi" in text
    assert "&lt;/script&gt;&lt;b&gt;CUDA out of memory" in text
    embedded = text.partition('<script type="application/json" id="results">')[2].partition("</script>")[0]
    assert (
        json.loads(embedded)["cells"][2]["gates"][0]["detail"]
        == "out of memory: </script><b>CUDA out of memory</b>"
    )
    assert "<link" not in text
    assert "@import" not in text
