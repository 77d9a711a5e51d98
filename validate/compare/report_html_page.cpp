// The fixed parts of the page.
#include "validate/compare/report_html_parts.hpp"

namespace plumbline {

std::string_view page_style() {
  return R"css(
:root { color-scheme: light dark; --page:#fbfbfa; --panel:#fff; --ink:#1d2127; --soft:#626a75; --line:#dfe2e6;
  --accent:#2457c5; --good:#1a7f4b; --bad:#b4331f; --b10:rgba(36,87,197,.17); --b25:rgba(36,87,197,.08);
  --c0:#2457c5; --c1:#0e93b8; --c2:#c2410c; --c3:#e29a06; --c4:#17833f; --c5:#7fa31a; --c6:#8b5cf6; --c7:#c026a3;
  --c8:#7c4a21; --c9:#6b7280; }
@media (prefers-color-scheme: dark) { :root { --page:#15181c; --panel:#1c2026; --ink:#e6e9ed; --soft:#99a3af;
  --line:#323943; --accent:#7aa5ff; --good:#4cc98a; --bad:#ff8a73; --b10:rgba(122,165,255,.22);
  --b25:rgba(122,165,255,.10); --c0:#6f9bff; --c1:#3fc6e8; --c2:#ff8a4c; --c3:#f5c04a; --c4:#4cc97a; --c5:#b5d74a;
  --c6:#b79bff; --c7:#f07bd8; --c8:#cf9b6c; --c9:#a1a9b4; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--page); color:var(--ink); font:14px/1.5 system-ui,-apple-system,"Segoe UI",
  "DejaVu Sans",sans-serif; }
main { max-width:1400px; margin:0 auto; padding:28px 22px 60px; }
h1 { font-size:24px; margin:0 0 2px; letter-spacing:-.01em; } h2 { font-size:16px; margin:34px 0 10px; }
p.sub { margin:0 0 18px; color:var(--soft); } .note { color:var(--soft); font-size:13px; }
.tiles { display:flex; flex-wrap:wrap; gap:12px; margin:18px 0 4px; }
.tile { background:var(--panel); border:1px solid var(--line); border-radius:8px; padding:10px 16px; min-width:128px; }
.tile b { display:block; font-size:22px; font-weight:600; font-variant-numeric:tabular-nums; }
.tile span { color:var(--soft); font-size:12.5px; }
.panel { background:var(--panel); border:1px solid var(--line); border-radius:8px; padding:14px; overflow-x:auto; }
.plot { display:grid; grid-template-columns:minmax(0,1fr) 220px; gap:18px; align-items:start; }
@media (max-width:820px) { .plot { grid-template-columns:1fr; } }
svg { width:100%; height:auto; display:block; } svg text { fill:var(--soft); font-size:12px; }
.grid { stroke:var(--line); stroke-width:1; } .frame { fill:none; stroke:var(--line); }
.diagonal { stroke:var(--ink); stroke-width:1; stroke-dasharray:4 3; opacity:.7; }
.band10 { fill:var(--b10); } .band25 { fill:var(--b25); }
.dot { fill:currentColor; fill-opacity:.62; stroke:currentColor; stroke-width:.6; } .dot:hover { fill-opacity:1; }
.dot.hollow { fill-opacity:0; stroke-width:1.2; }
.roof { fill:none; stroke:currentColor; stroke-width:.9; opacity:.55; display:none; } .with-roof .roof { display:inline; }
.f0{color:var(--c0)} .f1{color:var(--c1)} .f2{color:var(--c2)} .f3{color:var(--c3)} .f4{color:var(--c4)}
.f5{color:var(--c5)} .f6{color:var(--c6)} .f7{color:var(--c7)} .f8{color:var(--c8)} .f9{color:var(--c9)}
.legend button { display:flex; gap:8px; align-items:center; width:100%; border:0; background:none; color:var(--ink);
  font:inherit; padding:3px 4px; cursor:pointer; text-align:left; border-radius:5px; }
.legend button:hover { background:var(--page); } .legend button.off { opacity:.35; }
.legend i { width:11px; height:11px; border-radius:50%; background:currentColor; flex:none; }
.legend label { display:block; padding:8px 4px 0; }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:13px; }
th, td { padding:4px 9px; text-align:right; white-space:nowrap; border-bottom:1px solid var(--line); }
th { color:var(--soft); font-weight:600; text-align:right; } table.sort th { cursor:pointer; user-select:none; }
table.sort th:hover { color:var(--ink); } th.l, td.l { text-align:left; }
th[aria-sort=ascending]::after { content:" \25B2"; font-size:9px; }
th[aria-sort=descending]::after { content:" \25BC"; font-size:9px; }
tbody tr:hover { background:var(--page); } tr.all td { font-weight:600; } td.w { white-space:normal; min-width:220px; }
.good { color:var(--good); } .bad { color:var(--bad); }
.tools { display:flex; flex-wrap:wrap; gap:10px; margin-bottom:10px; align-items:center; }
input[type=search], select { font:inherit; color:var(--ink); background:var(--page); border:1px solid var(--line);
  border-radius:6px; padding:5px 9px; } input[type=search] { min-width:280px; }
.scroll { max-height:640px; overflow:auto; } .scroll thead th { position:sticky; top:0; background:var(--panel); }
dl { display:grid; grid-template-columns:max-content 1fr; gap:3px 18px; margin:0; } dt { color:var(--soft); }
dd { margin:0; } ul { margin:6px 0; padding-left:20px; }
@media print { .tools, .legend label { display:none; } .scroll { max-height:none; } }
)css";
}

std::string_view page_script() {
  return R"js(
"use strict";
const value = (row, i) => { const c = row.cells[i], v = c.dataset.v; return v === undefined ? c.textContent : v === "" ? NaN : +v; };
const compare = (a, b) => typeof a === "number"
  ? (isNaN(a) ? 1 : 0) - (isNaN(b) ? 1 : 0) || (isNaN(a) ? 0 : a - b) : a.localeCompare(b, "en", {numeric: true});
for (const table of document.querySelectorAll("table.sort")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, i) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") === "descending" || !head.hasAttribute("aria-sort") && head.classList.contains("l");
    heads.forEach(h => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const x = value(a, i), y = value(b, i);
      if (typeof x === "number" && (isNaN(x) || isNaN(y))) return compare(x, y);
      return up ? compare(x, y) : -compare(x, y);
    });
    table.tBodies[0].append(...rows);
  }));
}
const find = document.getElementById("find"), ops = document.getElementById("ops"), cases = document.getElementById("cases");
function filter() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of cases.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !(words.every(w => text.includes(w)) && (!ops.value || row.cells[0].textContent === ops.value));
    shown += row.hidden ? 0 : 1;
  }
  document.getElementById("shown").textContent = shown + (shown === 1 ? " case" : " cases");
}
if (cases) { find.addEventListener("input", filter); ops.addEventListener("change", filter); filter(); }
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const off = button.classList.toggle("off");
    button.setAttribute("aria-pressed", String(!off));
    document.querySelectorAll("svg ." + button.dataset.family).forEach(dot => { dot.style.display = off ? "none" : ""; });
  });
}
const roof = document.getElementById("roof");
if (roof) roof.addEventListener("change", () => document.querySelectorAll("svg").forEach(svg => svg.classList.toggle("with-roof", roof.checked)));
)js";
}

}  // namespace plumbline
