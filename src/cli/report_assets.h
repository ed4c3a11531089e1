// Style and script of the HTML report (cli/report_html.h), kept as text so that the page needs no other file.
#pragma once

namespace musacoder::cli {

inline constexpr const char* kReportCss = R"css(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#5b6470;--line:#dfe3e8;--accent:#2457c5;--code:#f1f3f6;
--ok:#1a8754;--compile_error:#c2660c;--runtime_error:#c02b3c;--correctness_error:#a8830a;--cheating:#7a3fb0;--unsupported:#4b7f9e;
--inconclusive:#6f8aa0;--invalid_task:#8a7968;--infra:#8b929b;--mark:#fff3bf}
@media (prefers-color-scheme:dark){:root{--bg:#111418;--card:#1a1f25;--ink:#e7eaee;--soft:#9aa5b1;--line:#2c333c;--accent:#82aaff;--code:#12161b;
--ok:#3fb97f;--compile_error:#e8954a;--runtime_error:#f0606f;--correctness_error:#d9b544;--cheating:#b98be8;--unsupported:#74add0;
--inconclusive:#8ea9c0;--invalid_task:#b3a08c;--infra:#8b929b;--mark:#4a4010}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 20px 80px}
h1{font-size:24px;line-height:1.25;margin:0 0 2px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:16px;margin:0 0 12px}
h3{font-size:12px;margin:20px 0 6px;color:var(--soft);font-weight:600;text-transform:uppercase;letter-spacing:.05em}
p.sub{margin:0 0 22px;color:var(--soft);overflow-wrap:anywhere}
.num{font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin-bottom:16px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:12px 14px}
.tile b{display:block;font-size:24px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
.tile small{display:block;color:var(--soft);font-size:12px}
.card{padding:16px 18px;margin-bottom:16px}
.two{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:16px}
@media (max-width:860px){.two{grid-template-columns:minmax(0,1fr);gap:0}}
table{border-collapse:collapse;width:100%}
th,td{padding:6px 10px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-size:12.5px;color:var(--soft);font-weight:600;white-space:nowrap}
tbody tr:last-child>td{border-bottom:0}
tr.total td{font-weight:650}
.scroll{overflow-x:auto}
.mix{display:flex;height:20px;border-radius:6px;overflow:hidden;margin-bottom:14px;gap:2px}
.mix i{display:block;min-width:3px}
.bars{display:grid;grid-template-columns:max-content minmax(40px,1fr) max-content;gap:5px 12px;align-items:center;font-size:13.5px}
.bars .track{background:var(--code);border-radius:4px;height:12px;position:relative;overflow:hidden}
.bars .track i{display:block;height:100%;border-radius:4px}
.bars .track i.tail{position:absolute;left:0;top:0;opacity:.28}
.bars .val{color:var(--soft);font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
.bars .name{overflow-wrap:anywhere;max-width:260px}
.note{color:var(--soft);font-size:13px;margin:12px 0 0}
.controls{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin-bottom:10px}
input[type=search]{flex:1 1 260px;min-width:180px}
input[type=search],select,button{font:inherit;max-width:100%;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:7px;padding:6px 10px}
button{cursor:pointer}
button:disabled{opacity:.45;cursor:default}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.chips{display:flex;flex-wrap:wrap;gap:6px;margin-bottom:12px}
.chip{padding:2px 10px;border-radius:99px;font-size:13px;display:inline-flex;gap:6px;align-items:center}
.chip::before,.dot::before{content:"";width:9px;height:9px;border-radius:50%;background:var(--c);flex:none}
.chip[aria-pressed=true]{border-color:var(--c);box-shadow:inset 0 0 0 1px var(--c)}
.chip span{color:var(--soft)}
.dot{display:inline-flex;gap:7px;align-items:baseline}
th button{all:unset;cursor:pointer;font-weight:600}
th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort=ascending] button::after{content:" ↑"}
th[aria-sort=descending] button::after{content:" ↓"}
#list td{font-size:14px}
#list tr.row:hover>td{background:color-mix(in srgb,var(--accent) 6%,transparent)}
#list tr.row{cursor:pointer}
#list td.cause{color:var(--soft);max-width:0;width:42%;min-width:120px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
#list td.task{overflow-wrap:anywhere;min-width:170px;max-width:260px}
#list td.task small{display:block;padding-left:16px;color:var(--soft)}
#list.flat th[data-key=level],#list.flat tr.row>td:nth-child(2){display:none}
#list .status{white-space:nowrap;display:inline-block;max-width:250px;overflow:hidden;text-overflow:ellipsis}
.open{all:unset;cursor:pointer;color:var(--accent);text-align:left;padding-left:16px;text-indent:-16px}
.open:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.open::before{content:"▸";display:inline-block;width:16px;text-indent:0;color:var(--soft)}
.open[aria-expanded=true]::before{content:"▾"}
.status{color:var(--c);font-weight:600;overflow-wrap:anywhere}
.lv{letter-spacing:2px;white-space:nowrap}
.y{color:var(--ok)}.n{color:var(--runtime_error)}.o{color:var(--soft)}
tr.detail>td{max-width:0;background:color-mix(in srgb,var(--bg) 60%,var(--card));padding:6px 20px 22px}
.detail .grid{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:0 28px}
@media (max-width:900px){.detail .grid{grid-template-columns:minmax(0,1fr)}}
.what{font-size:15.5px;margin:12px 0 0;overflow-wrap:anywhere}
ul.plain{margin:0;padding-left:18px;overflow-wrap:anywhere}
ul.plain li{margin:2px 0}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:3px 14px;margin:0;font-size:13.5px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
pre,code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--code);border:1px solid var(--line);border-radius:8px;padding:10px 12px;overflow:auto;max-height:440px;margin:6px 0 0;white-space:pre;tab-size:4}
pre.wrap{white-space:pre-wrap;overflow-wrap:anywhere}
pre ol{margin:0;padding-left:46px}pre li::marker{color:var(--soft)}pre li.hit{background:var(--mark)}
details>summary{cursor:pointer;margin-top:16px;color:var(--accent);font-size:14px}
.detail table{font-size:13px}
.detail table td,.detail table th{padding:3px 8px}
.pager{display:flex;gap:8px;align-items:center;justify-content:space-between;margin-top:12px;flex-wrap:wrap}
.pager div{display:flex;gap:8px;align-items:center}
.muted{color:var(--soft)}
@media print{body{background:#fff;font-size:11px}main{max-width:none;padding:0}.controls,.chips,.pager,.copy{display:none}.card,.tile{break-inside:avoid;border-color:#bbb}
.card.long{break-inside:auto}pre{max-height:none;white-space:pre-wrap}#list td.cause{white-space:normal}}
)css";

inline constexpr const char* kReportJs = R"js(
"use strict";
(() => {
const rows = JSON.parse(document.getElementById("rows").textContent);
const PAGE = 100;
const CLASSES = ["ok","compile_error","runtime_error","correctness_error","cheating","unsupported","inconclusive","invalid_task","infra"];
const state = {text:"", classes:new Set(), status:"", level:"", sort:"", down:false, page:0};
const byId = id => document.getElementById(id);
const classOf = s => s.split(":")[0];
const colour = s => `var(--${CLASSES.includes(classOf(s)) ? classOf(s) : "infra"})`;
function el(tag, attrs, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k === "c") e.style.setProperty("--c", v);
    else if (k === "on") for (const [n, f] of Object.entries(v)) e.addEventListener(n, f);
    else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  for (const kid of kids.flat()) if (kid !== null && kid !== undefined) e.append(kid);
  return e;
}
const num = (v, d) => typeof v === "number" ? v.toFixed(d) : v === null || v === undefined ? "–" : String(v);
const short = v => typeof v === "number" ? String(Number(v.toPrecision(7))) : String(v);
const bytes = b => b < 1024 ? b + " B" : b < 1048576 ? (b / 1024).toFixed(1) + " KiB" : (b / 1048576).toFixed(1) + " MiB";
const seconds = s => s < 0.001 ? (s * 1e6).toFixed(0) + " µs" : s < 1 ? (s * 1000).toFixed(0) + " ms" : s.toFixed(2) + " s";
rows.forEach((r, i) => { r.i = i; r.find = (r.task + " " + r.status + " " + r.cause + " " + (r.more || "")).toLowerCase(); });

function visible() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  let list = rows.filter(r => (!state.classes.size || state.classes.has(classOf(r.status))) && (!state.status || r.status === state.status) &&
    (!state.level || r.level === state.level) && words.every(w => r.find.includes(w)));
  if (state.sort) {
    const key = state.sort, sign = state.down ? -1 : 1;
    const compare = new Intl.Collator("en", {numeric: true}).compare;
    list = list.slice().sort((a, b) => {
      const x = a[key], y = b[key];
      if (x === y) return a.i - b.i;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : compare(String(x), String(y))) || a.i - b.i;
    });
  }
  return list;
}

function levels(text) {
  const words = {y: ["✓", "passed"], n: ["✗", "failed"], o: ["·", "not run"]};
  return el("span", {class: "lv", role: "img", "aria-label": [...text].map((c, i) => `L${i} ${words[c][1]}`).join(", ")},
    [...text].map(c => el("span", {class: c, "aria-hidden": "true"}, words[c][0])));
}

function draw() {
  const list = visible(), pages = Math.max(1, Math.ceil(list.length / PAGE));
  state.page = Math.min(state.page, pages - 1);
  const body = byId("body");
  body.textContent = "";
  for (const r of list.slice(state.page * PAGE, (state.page + 1) * PAGE)) {
    const button = el("button", {class: "open", "aria-expanded": "false", type: "button", id: "v" + r.i}, r.task || "(no task)");
    const row = el("tr", {class: "row"}, el("td", {class: "task"}, button, r.label ? el("small", {}, r.label) : null), el("td", {}, r.level || "–"),
      el("td", {}, el("span", {class: "status", c: colour(r.status), title: r.status}, r.status)), el("td", {}, levels(r.levels)),
      el("td", {class: "num"}, r.trials ? num(r.q, 2) : "–"), el("td", {class: "num"}, num(r.reward, 2)),
      el("td", {class: "num"}, num(r.speedup, 2)), el("td", {class: "num"}, num(r.seconds, 1)),
      el("td", {class: "cause", title: r.cause}, r.cause));
    row.addEventListener("click", () => { if (!String(getSelection())) toggle(r, row, button); });
    body.append(row);
  }
  if (!list.length) body.append(el("tr", {}, el("td", {colspan: 9, class: "muted"}, "No verdict matches. Clear the search or the filters.")));
  byId("count").textContent = list.length === rows.length ? `${rows.length} verdicts` : `${list.length} of ${rows.length} verdicts`;
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("prev").disabled = state.page === 0;
  byId("next").disabled = state.page >= pages - 1;
}

function toggle(r, row, button) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) { row.nextSibling.remove(); return; }
  row.after(el("tr", {class: "detail"}, el("td", {colspan: 9}, detail(r))));
  try { history.replaceState(null, "", "#v" + r.i); } catch (e) { /* a page without an address */ }
}

const LABELS = {L0: "L0 build", L1: "L1 run", L2: "L2 correctness", L3: "L3 legality", L4: "L4 time"};
const plain = items => el("ul", {class: "plain"}, items.map(t => el("li", {}, t)));
const traced = items => {
  const out = [];
  let lines = [];
  const flush = () => { if (lines.length) out.push(el("pre", {class: "wrap"}, lines.join("\n"))); lines = []; };
  for (const t of items) if (t.startsWith("    ")) lines.push(t.slice(4)); else { flush(); out.push(plain([t])); }
  flush();
  return out;
};
const part = (title, ...kids) => kids.flat().some(k => k) ? [el("h3", {}, title), ...kids.flat()] : [];
const table = (head, body) => el("div", {class: "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, head.map(h => el("th", {scope: "col"}, h)))),
  el("tbody", {}, body.map(cells => el("tr", {}, cells.map(c => el("td", {}, c)))))));
const pairs = list => list.length ? el("dl", {}, list.flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])) : null;
const fold = (title, ...kids) => el("details", {}, el("summary", {}, title), ...kids);

function source(text, hits) {
  return el("pre", {tabindex: "0"}, el("ol", {}, text.split("\n").map((line, i) => el("li", {class: hits.includes(i + 1) ? "hit" : null}, line || " "))));
}

function detail(r) {
  const d = JSON.parse(byId("d" + r.i).textContent), v = d.verdict, f = d.feedback;
  const left = [el("p", {class: "what"}, f.what)], right = [];
  left.push(...part("Where", f.where.length ? plain(f.where) : null));
  left.push(...part("Evidence", f.evidence.length ? traced(f.evidence) : null));
  left.push(...part(f.verified ? "Where time may be lost" : "What to look at", f.look_at.length ? plain(f.look_at) : null));
  right.push(...part("Levels", v.levels.length ? pairs(v.levels.map(l => [Object.hasOwn(LABELS, l.name) ? LABELS[l.name] : l.name, el("span", {},
    el("span", {class: {passed: "y", failed: "n", not_run: "o"}[l.state]}, {passed: "✓ ", failed: "✗ ", not_run: "· "}[l.state]), l.detail || (l.state === "not_run" ? "not run" : l.state))])) : null));
  right.push(...part("Verdict", pairs([["reward", v.reward === null ? "none" : short(v.reward)], ["device", `${v.backend}, ${v.gpu}, ${v.policy}`],
    ...(v.speedup_eager !== null ? [["× eager", short(v.speedup_eager)]] : []), ...(v.speedup_compile !== null ? [["× compile", short(v.speedup_compile)]] : []),
    ...v.scaling.filter(s => s.from !== s.to).map(s => [s.name, `${s.from} → ${s.to} (${s.how})`]), ...v.notes.map(n => ["note", n]),
    ...Object.entries(d.extra).map(([k, x]) => [k, x])])));
  right.push(...part("Stages", pairs(Object.entries(v.seconds).map(([k, s]) => [k, typeof s === "number" ? seconds(s) : String(s)]))));
  const out = [el("div", {class: "grid"}, el("div", {}, left), el("div", {}, right))];
  if (v.trials.length) out.push(fold(`Trials (${v.trials.length})`, table(["", "inputs", "seed", "worst element", "expected", "got", "× budget", "wrong", "allclose", ""],
    v.trials.map(t => [t.skipped ? "skipped" : t.pass ? el("span", {class: "y"}, "✓") : el("span", {class: "n"}, "✗"), t.distribution + (t.reverse_blocks ? ", reverse blocks" : ""), String(t.seed),
      t.worst ? `output ${t.worst.output} [${t.worst.index.join(", ")}]` : "–", t.worst ? short(t.worst.expected) : "–", t.worst ? short(t.worst.got) : "–",
      t.worst ? short(typeof t.worst.ratio === "number" ? Number(t.worst.ratio.toPrecision(3)) : t.worst.ratio) : "–", t.total ? `${t.mismatched} / ${t.total}` : "–", t.skipped ? "–" : t.allclose ? "yes" : "no", t.skipped || t.message]))));
  const fault = v.fault || v.ledger.fault;
  if (fault) out.push(fold("Fault", pairs(Object.entries(fault).filter(([, x]) => x !== "" && x !== 0).map(([k, x]) => [k.replaceAll("_", " "), Array.isArray(x) ? `(${x.join(", ")})` : String(x)]))));
  const l = v.ledger;
  if (l.launches.length || l.vendor_calls.length || v.refused_ops.length || v.cpu_ops.length || l.h2d_bytes || l.d2h_bytes) out.push(fold(`Ledger (${l.launches.length} ${l.launches.length === 1 ? "kernel" : "kernels"})`,
    l.launches.length ? table(["kernel", "grid", "block", "launches", "warp instructions", "FLOPs", "loaded", "stored"], l.launches.map(k => [el("code", {}, k.kernel), k.grid.join(" × "), k.block.join(" × "), String(k.count),
      k.warp_instructions.toLocaleString("en"), k.counters.flops.toLocaleString("en"), bytes(k.counters.global_load_bytes), bytes(k.counters.global_store_bytes)])) : null,
    pairs([["host → device", bytes(l.h2d_bytes)], ["device → host", bytes(l.d2h_bytes)], ["device → device", bytes(l.d2d_bytes)], ["memset", bytes(l.memset_bytes)],
      ...(v.refused_ops.length ? [["torch operators", v.refused_ops.join(", ")]] : []), ...(v.cpu_ops.length ? [["CPU operators", v.cpu_ops.join(", ")]] : []),
      ...l.vendor_calls.map(c => ["library call", `${c.library}: ${c.function} ×${c.count}`]), ...(l.unread_launch_error ? [["launch error nobody read", l.unread_launch_error]] : [])]),
    l.printf_output ? el("pre", {class: "wrap"}, l.printf_output) : null));
  v.builds.forEach((b, i) => out.push(fold(`Build ${i + 1}: ${b.status}${b.cached ? ", from the cache" : ""}${b.headers ? ", " + b.headers + " headers" : ""}, ${seconds(b.seconds)}`,
    b.diagnostics.length ? table(["", "place", "kind", "message"], b.diagnostics.map(x => [x.severity, x.file + (x.line ? ":" + x.line : ""), x.kind, x.message])) : null,
    b.log ? el("pre", {class: "wrap", tabindex: "0"}, b.log) : el("p", {class: "muted"}, b.message || "The compiler said nothing."))));
  if (v.exception) out.push(fold("Exception", el("pre", {class: "wrap", tabindex: "0"}, v.exception.traceback || `${v.exception.type}: ${v.exception.message}`)));
  const copy = el("button", {class: "copy", type: "button", on: {click: async () => {
    try { await navigator.clipboard.writeText(d.feedback_text); copy.textContent = "Copied"; } catch (e) { copy.textContent = "Select the text above and copy it"; }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  }}}, "Copy");
  out.push(fold("Feedback for the model", el("pre", {class: "wrap", tabindex: "0"}, d.feedback_text), el("p", {}, copy)));
  if (d.source) out.push(fold("Candidate", source(d.source, v.exception && v.exception.line ? [v.exception.line] : [])));
  else if (d.source_left_out) out.push(el("p", {class: "note"}, "The candidate's source is left out of this page: too large."));
  const environment = Object.entries(v.environment).map(([k, x]) => [k, x]);
  if (v.sandbox.length) environment.push(["sandbox", v.sandbox.join(", ")]);
  if (v.candidate_hash) environment.push(["candidate hash", el("code", {}, v.candidate_hash)], ["task hash", el("code", {}, v.task_hash)]);
  if (environment.length) out.push(fold("Environment", pairs(environment)));
  return out;
}

const counts = {}, statuses = {};
for (const r of rows) { counts[classOf(r.status)] = (counts[classOf(r.status)] || 0) + 1; statuses[r.status] = (statuses[r.status] || 0) + 1; }
for (const name of [...CLASSES.filter(c => counts[c]), ...Object.keys(counts).filter(c => !CLASSES.includes(c))]) {
  const chip = el("button", {class: "chip", type: "button", "aria-pressed": "false", c: colour(name), on: {click: () => {
    state.classes.has(name) ? state.classes.delete(name) : state.classes.add(name);
    chip.setAttribute("aria-pressed", String(state.classes.has(name)));
    state.page = 0; draw();
  }}}, name, el("span", {}, String(counts[name])));
  byId("chips").append(chip);
}
for (const s of Object.keys(statuses).sort()) byId("status").append(el("option", {value: s}, `${s} (${statuses[s]})`));
const levelNames = [...new Set(rows.map(r => r.level).filter(Boolean))].sort(new Intl.Collator("en", {numeric: true}).compare);
for (const l of levelNames) byId("level").append(el("option", {value: l}, "level " + l));
byId("level").hidden = levelNames.length < 2;
if (!levelNames.length) byId("list").classList.add("flat");
let wait = 0;
byId("search").addEventListener("input", e => { clearTimeout(wait); wait = setTimeout(() => { state.text = e.target.value; state.page = 0; draw(); }, 120); });
for (const id of ["status", "level"]) byId(id).addEventListener("change", e => { state[id] = e.target.value; state.page = 0; draw(); });
for (const th of document.querySelectorAll("#list th[data-key]")) th.querySelector("button").addEventListener("click", () => {
  const key = th.dataset.key;
  state.down = state.sort === key ? !state.down : ["q", "reward", "seconds", "speedup"].includes(key);
  state.sort = key; state.page = 0;
  for (const other of document.querySelectorAll("#list th[data-key]")) other.setAttribute("aria-sort", other === th ? (state.down ? "descending" : "ascending") : "none");
  draw();
});
byId("prev").addEventListener("click", () => { state.page--; draw(); byId("list").scrollIntoView(); });
byId("next").addEventListener("click", () => { state.page++; draw(); byId("list").scrollIntoView(); });
document.addEventListener("keydown", e => {
  if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { e.preventDefault(); byId("search").focus(); }
});
draw();
const wanted = /^#v(\d+)$/.exec(location.hash);
if (wanted && rows[Number(wanted[1])]) {
  state.page = Math.floor(Number(wanted[1]) / PAGE); draw();
  const button = byId("v" + wanted[1]);
  button.click(); button.scrollIntoView();
}
})();
)js";

}  // namespace musacoder::cli
