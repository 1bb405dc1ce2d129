"""Looks of the report's page: colours that colour-blind people tell apart, and that can be read as text in light and dark."""

from __future__ import annotations

from typing import Final

# Blue, vermilion, green, purple, ochre and grey after Okabe and Ito, darker on white and lighter on black than theirs:
# names are written in them, so each has a contrast of at least 4.5 to its card.
STYLE: Final = """
:root { --c1: #0b61a4; --c2: #b3480a; --c3: #00705a; --c4: #8a3b8f; --c5: #7a5c00; --c6: #5f5f5a; }
@media (prefers-color-scheme: dark) { :root { --c1: #6fb5f5; --c2: #ff9a57; --c3: #3fcfa6; --c4: #dd9be0; --c5: #e0c04f;
  --c6: #b0b0a8; } }
header { margin: 1rem 0; } h1 { margin: 0 0 .3rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; } li { margin: .2rem 0; }
.cards { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .8rem; margin: .8rem 0; }
td:not(.number) { min-width: 9.5rem; } td.number, th.number { white-space: nowrap; padding-left: .6rem; padding-right: 0; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; background: var(--page);
  line-height: 1.35; }
.card .big { font-size: 1.8rem; font-weight: 700; line-height: 1.2; color: var(--c1); font-variant-numeric: tabular-nums; }
.card .detail { color: var(--dim); font-size: .85rem; margin-top: .2rem; }
.goals { list-style: none; padding: 0; } .goals li { display: flex; gap: .8rem; padding: .4rem 0; margin: 0;
  border-top: 1px solid var(--line); } .goals .verdict { flex: 0 0 5.6rem; white-space: nowrap; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.4rem 2.2rem;
  margin: 1rem 0; align-items: start; }
figure { margin: 0; min-width: 0; max-width: 31rem; } figure p { font-size: .85rem; margin: 0 0 .4rem; line-height: 1.4; }
figcaption { font-weight: 600; } figure svg { margin-top: .5rem; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--dim); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem .9rem; padding: 0; margin: .3rem 0;
  font-size: .85rem; }
.swatch { display: inline-block; width: .75em; height: .75em; border-radius: .2em; margin-right: .35em; }
.b1 { background: var(--c1); } .b2 { background: var(--c2); } .b3 { background: var(--c3); }
.b4 { background: var(--c4); } .b5 { background: var(--c5); } .b6 { background: var(--c6); }
.plot { display: block; width: 100%; height: auto; font-size: 11.5px; }
.plot text { fill: var(--ink); } .plot .value { fill: var(--dim); font-variant-numeric: tabular-nums; }
.plot .tick { fill: var(--dim); font-size: 10.5px; } .plot .name { fill: var(--k, var(--ink)); font-weight: 600; }
.plot .name.dim { fill: var(--dim); font-weight: 400; }
.k1 { --k: var(--c1); } .k2 { --k: var(--c2); } .k3 { --k: var(--c3); } .k4 { --k: var(--c4); } .k5 { --k: var(--c5); }
.k6 { --k: var(--c6); }
.s1 { fill: var(--c1); } .s2 { fill: var(--c2); } .s3 { fill: var(--c3); } .s4 { fill: var(--c4); } .s5 { fill: var(--c5); }
.s6 { fill: var(--c6); } .plot rect[class^="s"]:not(.span) { stroke: var(--card); stroke-width: .8; }
.track { fill: var(--track); } .grid { stroke: var(--line); stroke-width: 1; }
.baseline { stroke: var(--ink); stroke-width: 1.2; }
.curve { fill: none; stroke: var(--k); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.dashed { stroke-dasharray: 6 4; } .model { stroke: var(--ink); stroke-width: 1.3; stroke-dasharray: 1.5 3.5; }
.band { fill: var(--ink); opacity: .08; } .leader { fill: none; stroke: var(--dim); stroke-width: .7; }
.mark { fill: var(--k); stroke: var(--card); stroke-width: 1; }
.hollow { fill: var(--card); stroke: var(--k); stroke-width: 1.7; }
.whisker { stroke: var(--k); stroke-width: 1.2; opacity: .5; } .spot { fill: var(--k); opacity: .5; }
.span { fill: var(--k); opacity: .25; } .median { stroke: var(--k); stroke-width: 3; stroke-linecap: round; }
.thin { stroke-width: 1.2; opacity: .7; }
@media (max-width: 30rem) { body { padding: .5rem; } section { padding: .8rem .6rem; } h1 { font-size: 1.3rem; }
  .cards { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; } .card { padding: .5rem .6rem; }
  .card .big { font-size: 1.5rem; }
  .goals .verdict { flex-basis: 5.2rem; } }
"""
