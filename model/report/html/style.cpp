#include "model/report/html/style.hpp"

namespace plumbline::html {

// Plots have no viewBox: x is in percent of the page's width, y in pixels, so that letters keep their size on a phone.
// Labels of axes lie outside of the svg's box, in the margins that .plot leaves. Print keeps fills of svg but drops
// backgrounds, hence print-color-adjust where a background carries meaning.
const std::string_view kStyle = R"css(
:root{color-scheme:light dark;--page:#fff;--ink:#1b2128;--soft:#5c6773;--line:#d8dde3;--card:#f4f6f8;--tint:#dbe7f3;
--good:#12693c;--goodbg:#def2e6;--bad:#a51d24;--badbg:#fbe3e4;--roof:#a51d24}
@media (prefers-color-scheme:dark){:root{--page:#14181d;--ink:#e4e8ec;--soft:#9aa5b1;--line:#343c46;--card:#1d232a;
--tint:#263a4f;--good:#7fdca6;--goodbg:#143323;--bad:#ff9b9f;--badbg:#431a1d;--roof:#ff9b9f}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--page);
max-width:1120px;margin:0 auto;padding:1.5em 1.25em 3em;overflow-wrap:break-word}
h1{font-size:1.55em;line-height:1.2;margin:0 0 .2em}h2{font-size:1.15em;margin:2em 0 .5em}h3{font-size:1em;
margin:1.2em 0 .3em;font-weight:600}p{margin:.4em 0}.soft,.note{color:var(--soft)}.note{font-size:.87em}
.verdict{margin:1em 0;padding:.55em .8em;border-radius:8px;font-size:1.05em;-webkit-print-color-adjust:exact;
print-color-adjust:exact}
.verdict b{font-size:1.5em;margin-right:.5em}.good{color:var(--good);background:var(--goodbg)}
.bad{color:var(--bad);background:var(--badbg);border:2px solid var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:.7em;margin:1em 0}
.tile{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6em .8em}
.tile dt{color:var(--soft);font-size:.85em}.tile dd{margin:0}.tile .value{font-size:1.4em;font-weight:650;
line-height:1.2}.tile .note{line-height:1.35}
svg{display:block}svg text{font-size:12px;fill:var(--ink)}svg text.soft{fill:var(--soft)}
.plot{overflow:visible;width:calc(100% - 68px);margin:28px 12px 52px 56px}
.plot.outside{width:calc(100% - 100px);margin-right:44px}.inner{overflow:visible}
.bar{width:100%;height:36px;border-radius:6px;overflow:hidden;margin:.4em 0}.bar text,svg text.in{fill:#14181c}
.bar.open{overflow:visible;margin-bottom:26px}.bar.open text.out{fill:var(--bad);font-weight:600}
.legend{list-style:none;margin:.5em 0;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(270px,1fr));
gap:.15em 1.2em}.legend li{display:flex;gap:.5em;align-items:baseline}.legend svg{width:11px;height:11px;flex:none}
.legend span{flex:1;min-width:0}.legend b{font-weight:600}.legend em{font-style:normal;color:var(--soft);
min-width:5em;text-align:right}
.c0{fill:#7fa8d1}.c1{fill:#f5ae6b}.c2{fill:#8cc684}.c3{fill:#ee8f8f}.c4{fill:#95d0cb}.c5{fill:#f2d974}.c6{fill:#cba3c4}
.c7{fill:#c9a48c}.other{fill:#aab1b9}.gap{fill:#d5d9de}.free{fill:var(--card);stroke:var(--line)}
.free+text{fill:var(--soft)}
circle{stroke:var(--ink);stroke-width:1;fill-opacity:.85}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.roof{stroke:var(--roof);stroke-width:2}
.datasheet{stroke:var(--roof);stroke-width:1.3;stroke-dasharray:6 4}.mean{stroke:var(--ink);stroke-dasharray:3 3}
.series{stroke:var(--soft);stroke-width:1.2}.limit{stroke:var(--bad);stroke-dasharray:8 4}.split{stroke:var(--soft);stroke-dasharray:2 3}
.trace{fill:#7fa8d1}.trace.odd{fill:#a9c6e2}.hit{fill:transparent}
.halo{paint-order:stroke;stroke:var(--page);stroke-width:3px;stroke-linejoin:round}
.heatbase{fill:#fff}.heat{fill:#6f9dcb}
.scroll{overflow-x:auto}table.sorts th{cursor:pointer}th[aria-sort=ascending]::after{content:" \2191"}
th[aria-sort=descending]::after{content:" \2193"}tr[hidden]{display:none}
.filter{font:inherit;width:min(22em,100%);margin:.3em 0 .6em;padding:.3em .6em;color:var(--ink);background:var(--card);
border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;font-size:.9em;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:.28em .7em .28em 0;text-align:left;white-space:nowrap;border-bottom:1px solid var(--line)}
.words td:last-child{white-space:normal;overflow-wrap:anywhere;min-width:16em}
th{color:var(--soft);font-weight:600}.right{text-align:right}tr.head td{font-weight:600;padding-top:.9em}
tr.total td{font-weight:650;border-top:2px solid var(--soft)}
td.share{background:linear-gradient(var(--tint),var(--tint)) left/var(--share) 100% no-repeat;
-webkit-print-color-adjust:exact;print-color-adjust:exact}
dl.facts{display:grid;grid-template-columns:minmax(7em,max-content) 1fr;gap:.2em 1.2em;margin:.4em 0}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0;min-width:0;overflow-wrap:anywhere}ul.notes{margin:.4em 0;padding-left:1.2em}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8em;font-size:.85em;
white-space:pre-wrap;overflow-wrap:anywhere}
footer{margin-top:3em;color:var(--soft);font-size:.85em}
@media screen and (min-width:1160px){.scroll{width:max-content;min-width:100%;max-width:calc(50vw + 500px)}}
@media (max-width:640px){body{padding:1em .8em 2em}.wide{display:none}.tiles{grid-template-columns:1fr 1fr}
.tile .value{font-size:1.15em}
th:first-child,td:first-child{position:sticky;left:0;background:var(--page)}dl.facts{grid-template-columns:1fr;gap:0}dl.facts dd{margin-bottom:.4em}}
@media print{.filter{display:none}:root{color-scheme:light;--page:#fff;--ink:#000;--soft:#444;--line:#bbb;--card:#fff;--tint:#dbe7f3;
--good:#12693c;--goodbg:#fff;--bad:#a51d24;--badbg:#fff;--roof:#a51d24}
body{max-width:none;padding:0;font-size:11px}.scroll{overflow:visible}section,.tile,figure{break-inside:avoid}
section.long{break-inside:auto}tr{break-inside:avoid}table{font-size:8.5px}
th,td{white-space:normal;padding-right:.4em}td:last-child{overflow-wrap:anywhere}.right{white-space:nowrap}h2,h3{break-after:avoid}
svg text{font-size:10px}}
@page{margin:14mm}
)css";

}  // namespace plumbline::html
