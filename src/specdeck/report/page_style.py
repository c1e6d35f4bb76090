"""The HTML page's style sheet."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1f2328; --quiet: #59626e; --line: #d9dde2; --raised: #f4f6f8;
  --accent: #0b5cad; --warn: #8a5a00; --bad: #b3261e; --notice: #fff3d6; --notice-ink: #5f4300;
  --base: #6b7280; --s0: #0072b2; --s1: #d55e00; --s2: #00875f; --s3: #aa4499; --s4: #8a6d00; --good: #00875f; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --ink: #e6e8eb; --quiet: #a3abb6; --line: #363c45;
  --raised: #1d2229; --accent: #7db8f2; --warn: #e8b45a; --bad: #ff8f85; --notice: #3a2f14; --notice-ink: #f3d692;
  --base: #a3abb6; --s0: #56b4e9; --s1: #f0894a; --s2: #2fc49a; --s3: #dd88bb; --s4: #e6c229; --good: #2fc49a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  -webkit-text-size-adjust: 100%; overflow-wrap: anywhere; }
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
.run { margin: 0; color: var(--quiet); }
h1 { margin: .25rem 0 2rem; font-size: clamp(1.05rem, .9rem + 1vw, 1.4rem); line-height: 1.35; font-weight: 600; }
section { margin: 0 0 2.5rem; }
h2 { margin: 0 0 .75rem; font-size: 1.1rem; line-height: 1.4; }
.notice { display: inline-block; padding: .05rem .5rem; border-radius: .25rem; background: var(--notice);
  color: var(--notice-ink); font-size: .8rem; font-weight: 500; }
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
thead th { vertical-align: bottom; font-weight: 600; white-space: normal; min-width: 3.5rem; overflow-wrap: normal; }
tbody th { font-weight: 600; }
tbody th:first-child, thead th:first-child { position: sticky; left: 0; background: var(--paper); }
th.text, td.text { text-align: left; }
td.wrap { white-space: normal; min-width: 13rem; }
small { display: block; font-size: .75rem; font-weight: 400; color: var(--quiet); }
.range { color: var(--quiet); font-weight: 400; white-space: nowrap; }
.notes { margin-top: .5rem; font-size: .85rem; color: var(--quiet); }
.notes p { margin: .15rem 0; }
figure { margin: 0 0 1.5rem; max-width: 44rem; }
.wide { max-width: none; }
figcaption { font-size: .9rem; font-weight: 600; margin-bottom: .35rem; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 0 0 .5rem; padding: 0; list-style: none;
  font-size: .85rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.note { margin: .25rem 0 0; font-size: .8rem; color: var(--quiet); }
svg { display: block; overflow: visible; }
svg.plot { width: calc(100% - 4rem); margin: .5rem .75rem 0 3.25rem; }
svg text { font-size: 12px; fill: var(--quiet); font-variant-numeric: tabular-nums; }
.base { --c: var(--base); } .s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); }
.s3 { --c: var(--s3); } .s4 { --c: var(--s4); }
.grid { stroke: var(--line); }
.line { stroke: var(--c); stroke-width: 2; stroke-linecap: round; }
.line.dashed { stroke-dasharray: 5 4; stroke-linecap: butt; }
.mark { fill: var(--c); stroke: var(--paper); stroke-width: 1; }
.whisker { stroke: var(--c); stroke-width: 1.5; opacity: .8; }
.block { fill: var(--c); stroke: var(--paper); }
.block.invalid { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-dasharray: 4 3; }
.sample { flex: none; }
.forest { margin: 0; padding: 0; list-style: none; font-size: .85rem; font-variant-numeric: tabular-nums; }
.forest li { display: grid; grid-template-columns: 11.5rem 1fr 18rem; gap: 0 1rem; align-items: center;
  padding: .15rem 0; --c: var(--quiet); }
.forest .worse { --c: var(--bad); } .forest .better { --c: var(--good); }
.forest b { color: var(--c); }
.forest .worse .mark { fill: none; stroke: var(--c); stroke-width: 2.5; }
.strip { width: 100%; }
.floor { fill: var(--line); } .one { stroke: var(--quiet); } .interval { stroke: var(--c); stroke-width: 2; }
.ends { display: flex; justify-content: space-between; color: var(--quiet); font-size: .8rem; }
.findings { margin: 0; padding: 0; list-style: none; font-size: .9rem; }
.findings li { padding: .4rem 0 .4rem .75rem; border-left: 3px solid var(--warn); margin-bottom: .4rem; }
.findings li.invalid { border-color: var(--bad); }
.findings strong { color: var(--warn); }
.findings .invalid strong { color: var(--bad); }
details { border-top: 1px solid var(--line); padding-top: .75rem; }
summary { cursor: pointer; font-weight: 600; font-size: 1.1rem; }
dl { margin: .75rem 0 0; font-size: .9rem; }
dl div { display: grid; grid-template-columns: 10rem 1fr; gap: 0 1rem; padding: .3rem 0; }
dt { font-weight: 600; }
dd { margin: 0; min-width: 0; }
code { font: .85em ui-monospace, monospace; }
@media (max-width: 34rem) { dl div { grid-template-columns: 1fr; } .forest li { grid-template-columns: 1fr; }
  th, td { padding: .4rem .45rem; } td.wrap { min-width: 8rem; }
  table .range { display: block; font-size: .8rem; } }
@media print { details > * { display: block; } .scroll { overflow: visible; } }
"""
