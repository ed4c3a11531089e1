"""`musacoder-train report` in a real browser: curves of several runs, the keyboard, dark colours, hostile texts, no network.

Run: pytest tests/python/test_train_report.py
     MUSACODER_SCREENSHOTS=/tmp pytest tests/python/test_train_report.py   # also leaves pictures there
"""

import json
import shutil
import subprocess

import pytest
from llm_support import require_train

require_train()

from llm_support import TRAIN  # noqa: E402
from test_dashboard import HOSTILE, Browser, needs_browser  # noqa: E402


def write_run(folder, name, steps, gain, hostile=""):
    run = folder / name
    run.mkdir()
    lines = []
    for step in range(1, steps + 1):
        line = {"step": step, "time": 1764500000.0 + 60 * step, "reward/mean": -1 + gain * step / steps}
        line |= {
            "train/grad_norm": None if step == 3 else 0.5 / step,
            "rollout/entropy": 3 / step,
            "own/name": step * step,
        }
        if step % 5 == 0:
            line["eval/pass@1"] = gain * step / steps / 2
        lines.append(json.dumps(line))
    # A run that is writing leaves half a line.
    (run / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 99, "ti')
    answer = {
        "step": steps,
        "serial": 1,
        "task": hostile or "t1",
        "sample": 0,
        "end": "turns",
        "retry": False,
    }
    answer["turns"] = [
        {"text": hostile or "fine", "status": "ok", "reward": None, "tokens": 3, "feedback": hostile}
    ]
    (run / "answers.jsonl").write_text(json.dumps(answer) + "\n")
    checkpoint = run / "checkpoints" / f"step-{steps:08}"
    checkpoint.mkdir(parents=True)
    state = {"format": 1, "config": {"optimizer.lr": gain, "rollout.group": 8, "model.path": hostile or "m"}}
    (checkpoint / "trainer.json").write_text(json.dumps(state))
    return run


def report(folder, *arguments, check=True):
    out = folder / "report.html"
    done = subprocess.run(
        [TRAIN, "report", *map(str, arguments), "-o", str(out)], capture_output=True, text=True, timeout=60
    )
    assert not check or done.returncode == 0, done.stderr
    return out if check else done


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    profile = tmp_path_factory.mktemp("browser")
    page = Browser(profile)
    yield page
    page.close()
    shutil.rmtree(profile, ignore_errors=True)


@needs_browser
def test_curves_of_two_runs(browser, tmp_path):
    runs = [write_run(tmp_path, "with-mask", 20, 1.5), write_run(tmp_path, "without", 12, 0.5)]
    browser.look()
    browser.open(report(tmp_path, *runs).as_uri())
    browser.until("document.querySelectorAll('#charts .card').length === 5")
    # One line a run and chart; where a number was not finite the line begins anew.
    assert browser.value("document.querySelectorAll('[data-name=\"reward/mean\"] path.line').length") == 2
    broken = browser.value(
        "document.querySelector('[data-name=\"train/grad_norm\"] path.line').getAttribute('d')"
    )
    assert broken.count("M") == 2
    assert "0.5 at 20" in browser.text('[data-name="reward/mean"] .now').replace("\n", " ")
    assert browser.value("document.querySelectorAll('#last tbody tr').length") >= 4
    # Of the configuration the keys that differ stand first.
    assert browser.value(
        "[...document.querySelectorAll('#config tr.differs td:first-child')].map((x) => x.textContent)"
    ) == ["optimizer.lr"]
    browser.picture("report_light")
    # The keyboard moves along a curve.
    browser.value("document.querySelector('[data-name=\"own/name\"] svg').focus()")
    browser.press("ArrowLeft")
    browser.until("document.querySelector('[data-name=\"own/name\"] .now').textContent.includes('361 at 19')")
    # A run that is switched off, a filter, hours, logarithms.
    browser.value("document.querySelectorAll('#legend input')[1].click()")
    assert browser.value("document.querySelectorAll('[data-name=\"reward/mean\"] path.line').length") == 1
    browser.value(
        "(f => { f.value = 'entropy'; f.dispatchEvent(new Event('input')) })(document.getElementById('filter'))"
    )
    assert browser.value("[...document.querySelectorAll('.card[data-name]')].filter((c) => !c.hidden).length") == 1
    browser.value(
        "(s => { s.value = 'time'; s.dispatchEvent(new Event('change')) })(document.getElementById('axis'))"
    )
    browser.value("document.getElementById('log').click()")
    assert "0.15 at 0.316" in browser.text('[data-name="rollout/entropy"] .now')
    assert browser.faults() == []


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_other_screens(browser, tmp_path, width, scheme):
    browser.look(width=width, scheme=scheme)
    browser.open(report(tmp_path, write_run(tmp_path, "run", 20, 1.0)).as_uri())
    browser.until("document.querySelectorAll('#charts svg path.line').length === 5")
    dark = browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 24)"
    assert dark == (scheme == "dark")
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("performance.getEntriesByType('resource').length") == 0
    browser.picture(f"report_{width}_{scheme}")
    assert browser.faults() == []


@needs_browser
def test_what_models_write_is_shown_and_never_run(browser, tmp_path):
    page = report(tmp_path, write_run(tmp_path, "run", 5, 1.0, HOSTILE), "--title", HOSTILE)
    browser.look()
    browser.open(page.as_uri())
    browser.until("document.querySelectorAll('#answers details').length === 1")
    assert browser.value("document.querySelector('#answers pre').textContent") == HOSTILE
    assert browser.value("window.pwned === undefined && !document.querySelector('img, iframe, #answers svg')")
    assert browser.faults() == []


def test_folders_that_are_no_runs(tmp_path):
    done = report(tmp_path, tmp_path / "absent", check=False)
    assert done.returncode == 2 and "not the folder of a training run" in done.stderr
    run = write_run(tmp_path, "run", 3, 1.0)
    (run / "metrics.jsonl").write_text('{"step": 1, "time": 2.0}\nnot json\n')
    done = report(tmp_path, run, check=False)
    assert done.returncode == 2 and "metrics.jsonl:2: not a line of metrics" in done.stderr
