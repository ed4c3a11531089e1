// Style and script of the run report (train/report/report.h), kept as text so that the page needs no other file.
#pragma once

namespace musacoder::train {

inline constexpr const char* kRunReportCss = R"css(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#5b6470;--line:#dfe3e8;--accent:#2457c5;--code:#f1f3f6;
--s0:#2457c5;--s1:#c2660c;--s2:#1a8754;--s3:#c02b3c;--s4:#7a3fb0;--s5:#0f7f8f;--s6:#8a6d12;--s7:#5b6470}
@media (prefers-color-scheme:dark){:root{--bg:#111418;--card:#1a1f25;--ink:#e7eaee;--soft:#9aa5b1;--line:#2c333c;--accent:#82aaff;--code:#12161b;
--s0:#82aaff;--s1:#e8954a;--s2:#3fb97f;--s3:#f0606f;--s4:#b98be8;--s5:#5cc6d6;--s6:#d9b544;--s7:#9aa5b1}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1320px;margin:0 auto;padding:28px 20px 80px}
h1{font-size:24px;line-height:1.25;margin:0 0 2px;overflow-wrap:anywhere}
h2{font-size:16px;margin:26px 0 10px}
h3{font-size:13.5px;margin:0;font-weight:600;overflow-wrap:anywhere}
p.sub{margin:0 0 18px;color:var(--soft);overflow-wrap:anywhere}
.legend{display:flex;flex-wrap:wrap;gap:8px 18px;margin:0 0 14px;padding:0;list-style:none}
.legend label{display:inline-flex;gap:7px;align-items:center;cursor:pointer;overflow-wrap:anywhere}
.key{width:22px;height:0;border-top:3px solid var(--c);flex:none}
.controls{display:flex;flex-wrap:wrap;gap:10px 18px;align-items:center;margin-bottom:8px;color:var(--soft);font-size:13.5px}
.controls label{display:inline-flex;gap:8px;align-items:center}
input[type=search],select{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:7px;padding:6px 10px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:14px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px 8px;min-width:0}
.card .now{color:var(--soft);font-size:12.5px;min-height:1.6em;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.card .now b{font-weight:600;color:var(--ink)}
svg{display:block;width:100%;height:190px;overflow:visible;touch-action:pan-y}
svg text{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
svg .axis{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
svg .line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round;vector-effect:non-scaling-stroke}
svg .raw{opacity:.25;stroke-width:1}
svg .dot{fill:var(--c)}
svg .cursor{stroke:var(--soft);stroke-dasharray:3 3}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:4px 10px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600}
td.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.differs td:first-child{font-weight:650}
tr.differs td:first-child::after{content:" ≠";color:var(--s1)}
.scroll{overflow-x:auto}
details{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px;margin-bottom:8px}
summary{cursor:pointer;overflow-wrap:anywhere}
pre{background:var(--code);border:1px solid var(--line);border-radius:8px;padding:10px 12px;overflow:auto;max-height:420px;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere;tab-size:4}
.muted{color:var(--soft)}
@media print{body{background:#fff}.controls{display:none}.card,details{break-inside:avoid}}
)css";

inline constexpr const char* kRunReportJs = R"js(
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const runs = data.runs.map((run, i) => ({...run, color: `var(--s${i % 8})`, on: true}));
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}, ...children) => {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) name in out ? (out[name] = value) : out.setAttribute(name, value);
  out.append(...children);
  return out;
};
const svg = (tag, props = {}) => {
  const out = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) out.setAttribute(name, value);
  return out;
};
const short = (x) => {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const a = Math.abs(x);
  if (a !== 0 && (a < 1e-3 || a >= 1e6)) return x.toExponential(2);
  return String(Number(x.toPrecision(4)));
};
const state = {smooth: 0, x: "step", log: false, filter: ""};

// What a section's name means; others go by their own.
const sections = [["eval", "Held-out tasks"], ["reward", "Reward"], ["turns", "Turns"], ["train", "Training"], ["ratio", "Policy against rollout"],
  ["staleness", "Staleness"], ["rollout", "Rollouts"], ["groups", "Groups"], ["retry", "Retries"], ["status", "Verdicts by class"],
  ["verify", "Verifier"], ["account", "Accounting of samples"], ["time", "Seconds by stage"]];
const names = [...new Set(runs.flatMap((run) => Object.keys(run.series)))];
const sectionOf = (name) => name.split("/")[0];
const order = [...sections.map(([key]) => key), ...new Set(names.map(sectionOf))].filter((key, i, all) => all.indexOf(key) === i);

const smoothed = (values) => {
  if (!state.smooth) return values;
  let mean = null, weight = 0;
  return values.map((v) => {
    if (v === null) return null;
    mean = mean === null ? v * (1 - state.smooth) : mean * state.smooth + v * (1 - state.smooth);
    weight = weight * state.smooth + (1 - state.smooth);
    return mean / weight;   // without the pull of the beginning towards 0
  });
};
const xsOf = (series) => state.x === "step" ? series.step : series.time.map((t) => (t - series.began) / 3600);
const ticks = (low, high, count) => {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || power;
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return out;
};

const H = 190, L = 46, R = 8, T = 8, B = 22;
let W = 400;   // as wide as the card is
function draw(card, name) {
  const lines = runs.filter((run) => run.on && run.series[name]).map((run) => {
    const s = run.series[name];
    return {run, x: xsOf({...s, began: run.began}), raw: s.value, y: smoothed(s.value)};
  });
  const plot = card.querySelector("svg"), now = card.querySelector(".now");
  plot.replaceChildren();
  now.replaceChildren();
  W = plot.clientWidth || 400;
  plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
  const usable = (v) => v !== null && (!state.log || v > 0);
  const all = lines.flatMap((l) => l.y.filter(usable)), xs = lines.flatMap((l) => l.x);
  if (!all.length) { now.textContent = "no values"; return; }
  const f = state.log ? Math.log10 : (v) => v;
  let low = f(all.reduce((a, b) => Math.min(a, b))), high = f(all.reduce((a, b) => Math.max(a, b)));
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  let first = xs.reduce((a, b) => Math.min(a, b)), last = xs.reduce((a, b) => Math.max(a, b));
  if (first === last) { first -= 0.5; last += 0.5; }
  const X = (x) => L + (x - first) / (last - first) * (W - L - R), Y = (v) => H - B - (f(v) - low) / (high - low) * (H - T - B);
  const inverse = (t) => state.log ? 10 ** t : t;
  for (const t of ticks(low, high, 4)) {
    const y = Y(inverse(t));
    plot.append(svg("line", {class: "axis", x1: L, x2: W - R, y1: y, y2: y}));
    const label = svg("text", {x: L - 6, y: y + 4, "text-anchor": "end"});
    label.textContent = short(inverse(t));
    plot.append(label);
  }
  for (const t of ticks(first, last, 5)) {
    const label = svg("text", {x: X(t), y: H - 5, "text-anchor": "middle"});
    label.textContent = short(t);
    plot.append(label);
  }
  const path = (x, y) => {
    let out = "", pen = "M";
    y.forEach((v, i) => {
      if (!usable(v)) { pen = "M"; return; }
      out += `${pen}${X(x[i]).toFixed(1)} ${Y(Math.min(Math.max(v, inverse(low)), inverse(high))).toFixed(1)}`;
      pen = "L";
    });
    return out;
  };
  for (const l of lines) {
    if (state.smooth) plot.append(svg("path", {class: "line raw", d: path(l.x, l.raw), style: `--c:${l.run.color}`}));
    plot.append(svg("path", {class: "line", d: path(l.x, l.y), style: `--c:${l.run.color}`}));
    const only = l.y.filter(usable).length === 1;
    if (only) l.y.forEach((v, i) => usable(v) && plot.append(svg("circle", {class: "dot", r: 3, cx: X(l.x[i]), cy: Y(v), style: `--c:${l.run.color}`})));
  }
  const cursor = svg("line", {class: "cursor", y1: T, y2: H - B, visibility: "hidden"});
  plot.append(cursor);
  const width = W;
  const read = (at) => {
    now.replaceChildren();
    for (const l of lines) {
      let best = -1;
      l.x.forEach((x, i) => { if (l.raw[i] !== null && (best < 0 || Math.abs(x - at) < Math.abs(l.x[best] - at))) best = i; });
      if (best < 0) continue;
      const key = make("span", {className: "key"});
      key.style.cssText = `--c:${l.run.color};display:inline-block;vertical-align:middle;margin:0 5px 0 0`;
      now.append(key, make("b", {}, short(l.raw[best])), ` at ${short(l.x[best])}  `);
    }
  };
  const show = (at) => {
    const x = L + (at - first) / (last - first) * (width - L - R);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    read(at);
  };
  const rest = () => { cursor.setAttribute("visibility", "hidden"); read(last); };
  let place = last;
  plot.onpointermove = (event) => {
    const box = plot.getBoundingClientRect();
    place = Math.min(last, Math.max(first, first + ((event.clientX - box.left) / box.width * width - L) / (width - L - R) * (last - first)));
    show(place);
  };
  plot.onpointerleave = rest;
  plot.onblur = rest;
  plot.onkeydown = (event) => {
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!move) return;
    event.preventDefault();
    const known = [...new Set(xs)].sort((a, b) => a - b), nearest = known.reduce((best, x, i) => Math.abs(x - place) < Math.abs(known[best] - place) ? i : best, 0);
    place = known[Math.min(known.length - 1, Math.max(0, nearest + move))];
    show(place);
  };
  read(last);
}

const cards = new Map();
function build() {
  const place = $("charts");
  for (const key of order) {
    const mine = names.filter((name) => sectionOf(name) === key);
    if (!mine.length) continue;
    const title = (sections.find(([one]) => one === key) || [key, key])[1];
    const grid = make("div", {className: "grid"});
    const section = make("section", {id: `section-${key}`}, make("h2", {}, title), grid);
    for (const name of mine) {
      const plot = svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", tabindex: "0", "aria-label": name});
      const card = make("div", {className: "card"}, make("h3", {}, name), plot, make("div", {className: "now"}));
      card.dataset.name = name;
      cards.set(name, card);
      grid.append(card);
    }
    place.append(section);
  }
}
function update() {
  for (const [name, card] of cards) {
    card.hidden = !name.toLowerCase().includes(state.filter);
    if (!card.hidden) draw(card, name);
  }
  for (const section of document.querySelectorAll("#charts section")) section.hidden = ![...section.querySelectorAll(".card")].some((card) => !card.hidden);
}
function legend() {
  const list = $("legend");
  for (const run of runs) {
    const box = make("input", {type: "checkbox", checked: true});
    box.onchange = () => { run.on = box.checked; update(); };
    const key = make("span", {className: "key"});
    key.style.setProperty("--c", run.color);
    list.append(make("li", {}, make("label", {}, box, key, run.name)));
  }
}
function table() {
  const last = (run, name) => { const s = run.series[name]; return s ? s.value.filter((v) => v !== null).at(-1) : undefined; };
  const wanted = names.filter((name) => /^(eval\/(pass|avg|faster|loss)|reward\/mean|turns\/(first|best)_accuracy|train\/(loss|grad_norm|masked_share)|rollout\/(entropy|length)$|ratio\/abs_p99)/.test(name));
  const head = make("tr", {}, make("th", {}, "last value"), ...runs.map((run) => make("th", {}, run.name)));
  const rows = wanted.map((name) => make("tr", {}, make("td", {}, name), ...runs.map((run) => make("td", {className: "num"}, short(last(run, name))))));
  rows.unshift(make("tr", {}, make("td", {}, "steps"), ...runs.map((run) => make("td", {className: "num"}, String(run.steps)))));
  $("last").append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}
function config() {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.config)))].sort();
  if (!keys.length) { $("config").hidden = true; return; }
  const text = (run, key) => key in run.config ? JSON.stringify(run.config[key]) : "–";
  const differs = (key) => new Set(runs.map((run) => text(run, key))).size > 1;
  const rows = (some) => {
    const head = make("tr", {}, make("th", {}, "key"), ...runs.map((run) => make("th", {}, run.name)));
    const body = some.map((key) => make("tr", {className: differs(key) ? "differs" : ""}, make("td", {}, key), ...runs.map((run) => make("td", {}, text(run, key)))));
    return make("div", {className: "scroll"}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  };
  const apart = keys.filter(differs), same = keys.filter((key) => !differs(key));
  if (apart.length) $("config").append(make("div", {className: "card"}, rows(apart)));
  $("config").append(make("details", {}, make("summary", {}, apart.length ? "What is the same" : "All keys"), rows(same)));
}
function answers() {
  const place = $("answers");
  if (!runs.some((run) => run.answers.length)) { place.hidden = true; return; }
  for (const run of runs)
    for (const one of run.answers) {
      const turns = one.turns || [];
      const box = make("details", {}, make("summary", {}, `${runs.length > 1 ? run.name + ", " : ""}step ${one.step}, ${one.task}: ${turns.map((t) => t.status).join(" → ")}`));
      turns.forEach((turn, i) => {
        box.append(make("h3", {}, `Turn ${i + 1}: ${turn.status}, reward ${turn.reward === null ? "null" : short(turn.reward)}, ${turn.tokens} tokens`), make("pre", {}, turn.text));
        if (turn.feedback) box.append(make("pre", {}, turn.feedback));
      });
      place.append(box);
    }
}
legend(); table(); build(); config(); answers();
$("smooth").oninput = (event) => { state.smooth = event.target.value / 100; update(); };
$("axis").onchange = (event) => { state.x = event.target.value; update(); };
$("log").onchange = (event) => { state.log = event.target.checked; update(); };
$("filter").oninput = (event) => { state.filter = event.target.value.trim().toLowerCase(); update(); };
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; update(); } });
update();
})();
)js";

}  // namespace musacoder::train
