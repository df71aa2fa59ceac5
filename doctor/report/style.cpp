#include "binade/doctor/report/page.h"

namespace binade::doctor::report {

const char* const kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b2330; --soft: #5d6878; --rule: #dfe3e9; --faint: #eef1f4;
  --c1: #2f6fde; --c2: #d9730d; --c3: #14866d; --c4: #8a4fd0;
  --incident: #cf2f3c; --drill: #8a4fd0; --good: #14866d;
  --h0: #7a0019; --h1: #c4242f; --h2: #e4633c; --h3: #f5a35a; --h4: #fbd796; --h5: #cfe3ef; --h6: #e3edf3; --h7: #f0f1f3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1a2029; --ink: #e4e9f0; --soft: #98a4b4; --rule: #2e3743; --faint: #232b36;
    --c1: #6ea3ff; --c2: #f2a24b; --c3: #4fc3a1; --c4: #b98cf0;
    --incident: #ff6b74; --drill: #b98cf0; --good: #4fc3a1;
    --h0: #ffd9de; --h1: #ff5a62; --h2: #e8703f; --h3: #b9762f; --h4: #7d6334; --h5: #2f4f63; --h6: #263b49; --h7: #222831;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 28px 20px 40px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0 0 10px; }
p { margin: 0 0 12px; max-width: 78ch; }
a { color: var(--c1); }
code, pre { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", "Liberation Mono", monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
table, .tile b, output, text { font-variant-numeric: tabular-nums; }
.empty, .remark, footer { color: var(--soft); }
.status { display: inline-block; vertical-align: 4px; margin-left: 12px; padding: 1px 10px; border-radius: 99px;
  font-size: 13px; font-weight: 600; border: 1px solid; white-space: nowrap; }
.status.good { color: var(--good); } .status.bad { color: var(--incident); } .status.live { color: var(--c1); }
.facts { color: var(--soft); margin: 6px 0 18px; max-width: none; }
.facts span + span::before { content: "·"; margin: 0 8px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 10px; }
.tile, figure, .card, .findings, .settings { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; }
.tile { padding: 10px 14px 12px; display: flex; flex-direction: column; }
.tile .name { font-size: 13px; color: var(--soft); }
.tile b { font-size: 21px; line-height: 1.35; font-weight: 650; }
.tile .remark { font-size: 12.5px; line-height: 1.35; overflow-wrap: anywhere; }
.findings { margin: 0; padding: 14px 18px 14px 36px; }
.findings li + li { margin-top: 8px; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px; }
figure { margin: 0; padding: 12px 14px 8px; min-width: 0; }
figure.wide { grid-column: 1 / -1; }
figcaption { position: relative; display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 14px; margin-bottom: 4px; }
figcaption .remark, .legend, output { font-size: 13px; }
output { position: absolute; right: 0; top: 0; padding-left: 14px; background: var(--card); color: var(--soft); }
.key { margin-right: 12px; color: var(--soft); }
.key::before { content: ""; display: inline-block; width: 14px; height: 3px; margin-right: 6px; vertical-align: 4px;
  border-radius: 2px; background: currentColor; }
.key.incident::before, .key.drill::before { width: 8px; height: 8px; border-radius: 0; transform: rotate(45deg); vertical-align: 1px; }
.key.aborted::before { width: 2px; height: 9px; vertical-align: -1px; }
.key.c1::before { background: var(--c1); } .key.c2::before { background: var(--c2); }
.key.c3::before { background: var(--c3); } .key.c4::before { background: var(--c4); }
.key.incident::before { background: var(--incident); } .key.drill::before { background: var(--drill); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 12px; fill: var(--soft); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .head { font-size: 12.5px; font-weight: 600; fill: var(--ink); }
svg .row { font-size: 11px; fill: var(--ink); }
.grid { stroke: var(--faint); } .axis { stroke: var(--rule); } .cursor { stroke: var(--soft); stroke-dasharray: 2 3; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.line.pale { stroke-width: 1; opacity: .32; }
.c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); }
span.key { stroke: none; }
.dot { stroke-width: 1.6; fill: var(--card); }
.mark line { stroke-width: 1; stroke-dasharray: 3 3; opacity: .75; }
.mark.incident line { stroke: var(--incident); } .mark.drill line { stroke: var(--drill); }
.mark.incident path { fill: var(--incident); } .mark.drill path { fill: var(--drill); }
.aborted { stroke: var(--soft); stroke-width: 1.2; opacity: .8; }
.heat figcaption { gap: 6px 0; margin-bottom: 10px; } .heat figcaption .remark { margin: 0 14px; }
.heat rect { shape-rendering: crispEdges; } .heat rect:hover { stroke: var(--ink); stroke-width: 1.2; }
.shade { font-size: 12px; padding: 0 8px; line-height: 20px; color: #1b2330; }
.h0 { fill: var(--h0); background: var(--h0); } .h1 { fill: var(--h1); background: var(--h1); }
.h2 { fill: var(--h2); background: var(--h2); } .h3 { fill: var(--h3); background: var(--h3); }
.h4 { fill: var(--h4); background: var(--h4); } .h5 { fill: var(--h5); background: var(--h5); }
.h6 { fill: var(--h6); background: var(--h6); } .h7 { fill: var(--h7); background: var(--h7); }
.shade.h0, .shade.h1 { color: #fff; }
@media screen and (prefers-color-scheme: dark) {
  .shade.h1, .shade.h2, .shade.h3 { color: #1b2330; } .shade.h0 { color: #7a0019; }
  .shade.h4, .shade.h5, .shade.h6, .shade.h7 { color: var(--ink); }
}
.card { padding: 14px 18px; margin-bottom: 12px; border-left: 4px solid var(--incident); }
.card.drill { border-left-color: var(--drill); }
.card:target { outline: 2px solid var(--c1); outline-offset: 2px; }
.card .step { color: var(--soft); font-weight: 500; margin-right: 10px; }
.chip { display: inline-block; margin-left: 8px; padding: 0 8px; border: 1px solid; border-radius: 99px; font-size: 12px;
  font-weight: 600; line-height: 18px; vertical-align: 1px; color: var(--soft); }
.chip.proven { color: var(--good); } .chip.likely { color: var(--c2); } .chip.drill { color: var(--drill); }
.card dl { display: grid; grid-template-columns: 128px minmax(0, 1fr); gap: 5px 16px; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: 13px; }
th, td { padding: 4px 20px 4px 0; vertical-align: top; }
tr + tr td { border-top: 1px solid var(--rule); }
table.list { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; border-spacing: 0;
  border-collapse: separate; margin-bottom: 12px; width: 100%; }
table.list th, table.list td { padding: 5px 16px; overflow-wrap: anywhere; }
table.story td:not(:last-child), table.story th { white-space: nowrap; overflow-wrap: normal; }
.proof { margin-top: 4px; } .proof td, .proof th { padding: 2px 20px 2px 0; }
.yes { color: var(--good); font-weight: 600; } .no { color: var(--incident); font-weight: 600; }
details > summary { cursor: pointer; margin-bottom: 10px; color: var(--c1); }
.samples { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 12px; }
.sample figcaption { color: var(--soft); font-size: 13px; }
.sample pre { max-height: 26em; overflow: auto; }
.sample img { display: block; width: 100%; height: auto; max-width: 640px; image-rendering: pixelated; border-radius: 4px; margin-bottom: 6px; }
.settings { columns: 3 280px; column-gap: 32px; column-rule: 1px solid var(--rule); padding: 12px 18px; margin: 0 0 14px; }
.settings div { display: flex; gap: 12px; justify-content: space-between; break-inside: avoid; padding: 2px 0; font-size: 13.5px; }
.settings dd { text-align: right; }
footer { margin-top: 40px; font-size: 13px; }
@media (max-width: 760px) {
  .charts { grid-template-columns: minmax(0, 1fr); }
  .card dl { grid-template-columns: minmax(0, 1fr); gap: 0; } .card dd { margin-bottom: 8px; }
  figure.wide { overflow-x: auto; } figure.wide svg { min-width: 640px; } figure.heat svg { min-width: 860px; }
  table.list { display: block; overflow-x: auto; } table.list td { white-space: nowrap; }
}
@media print {
  :root { --page: #fff; --card: #fff; --ink: #000; --soft: #444; --rule: #ccc; --faint: #eee;
    --c1: #2f6fde; --c2: #d9730d; --c3: #14866d; --c4: #8a4fd0; --incident: #cf2f3c; --drill: #8a4fd0; --good: #14866d;
    --h0: #7a0019; --h1: #c4242f; --h2: #e4633c; --h3: #f5a35a; --h4: #fbd796; --h5: #cfe3ef; --h6: #e3edf3; --h7: #f0f1f3; }
  body { font-size: 11px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  .tile, figure, .card, tr, li { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .sample pre { max-height: none; } a { color: inherit; text-decoration: none; } output { display: none; }
}
)css";

// Shows the values under the pointer; the page also works without it.
const char* const kScript = R"js(
for (const svg of document.querySelectorAll('svg[data-x]')) {
  const [s0, s1, x0, x1] = svg.dataset.x.split(' ').map(Number), [v0, v1, y0, y1] = svg.dataset.y.split(' ').map(Number);
  const lines = [...svg.querySelectorAll('polyline[data-name]')].filter(l => l.points.numberOfItems > 0);
  const cursor = svg.querySelector('.cursor'), output = svg.parentNode.querySelector('output');
  const value = y => {
    const t = (y - y0) / (y1 - y0);
    return svg.dataset.scale !== 'linear' ? v0 * Math.pow(v1 / v0, t) : v0 + (v1 - v0) * t;
  };
  const words = value => {
    const exponent = Math.log2(value), whole = Math.round(exponent);
    return svg.dataset.scale === 'log2' && Math.abs(exponent - whole) < 0.05 ? '2^' + whole : Number(value.toPrecision(4));
  };
  const nearest = (points, x) => {
    let low = 0, high = points.numberOfItems - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      points.getItem(middle).x < x ? low = middle + 1 : high = middle;
    }
    return low > 0 && x - points.getItem(low - 1).x < points.getItem(low).x - x ? points.getItem(low - 1) : points.getItem(low);
  };
  svg.addEventListener('pointermove', event => {
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    const inside = x >= x0 && x <= x1 && lines.length > 0;
    cursor.setAttribute('visibility', inside ? 'visible' : 'hidden');
    if (!inside) return output.textContent = '';
    cursor.setAttribute('x1', x); cursor.setAttribute('x2', x);
    const step = Math.round(s0 + (x - x0) / (x1 - x0) * (s1 - s0));
    output.textContent = 'step ' + step.toLocaleString('en') + lines.map(l =>
      ' · ' + l.dataset.name + ' ' + words(value(nearest(l.points, x).y))).join('');
  });
  svg.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); output.textContent = ''; });
}
)js";

}  // namespace binade::doctor::report
