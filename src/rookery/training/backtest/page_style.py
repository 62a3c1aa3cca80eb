"""The style sheet of the HTML report, for dark and light screens."""

STYLE = """
:root { color-scheme: light dark; --ink: #24292f; --pale: #6e7781; --line: #d8dee4; --paper: #ffffff;
  --agent: #1b6ca8; --hold: #d1603d; --equal: #8b949e; --up: 45, 145, 95; --down: 205, 75, 60;
  --w0: #1b6ca8; --w1: #d1603d; --w2: #4c956c; --w3: #9067a7;
  --w4: #b8862b; --w5: #2a9d9d; --w6: #b35c8f; --w7: #6e7781; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --pale: #9198a1; --line: #30363d; --paper: #0d1117;
    --agent: #58a6ff; --hold: #f0883e; --equal: #7d8590; --up: 63, 185, 110; --down: 240, 95, 85;
    --w0: #58a6ff; --w1: #f0883e; --w2: #56b97c; --w3: #b392e0;
    --w4: #d9a93f; --w5: #44c0c0; --w6: #de7fb4; --w7: #9198a1; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 980px;
  margin: 2rem auto; padding: 0 1rem; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.4rem; margin: 0 0 .6rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
p { margin: .2rem 0; } .verdict { font-weight: 600; font-size: 1.1rem; } .note { color: var(--hold); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .8rem 0; }
dt { color: var(--pale); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; } th { color: var(--pale); font-weight: 500; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } tr + tr td { border-top: 1px solid var(--line); }
.heat td { text-align: center; padding: .2rem .45rem; border: 1px solid var(--paper);
  font-size: .85rem; min-width: 2.4rem; }
.heat th { font-size: .85rem; }
svg { width: 100%; height: auto; display: block; } .grid { stroke: var(--line); stroke-width: 1; }
.tick { fill: var(--pale); font-size: 11px; }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
polyline.agent { stroke: var(--agent); stroke-width: 2; } polyline.hold { stroke: var(--hold); }
polyline.equal_weight { stroke: var(--equal); } polyline.sum { stroke: var(--pale); }
.area { fill-opacity: .3; stroke-width: 1; } .area.agent { fill: var(--agent); stroke: var(--agent); }
polyline.w0 { stroke: var(--w0); } polyline.w1 { stroke: var(--w1); } polyline.w2 { stroke: var(--w2); }
polyline.w3 { stroke: var(--w3); } polyline.w4 { stroke: var(--w4); } polyline.w5 { stroke: var(--w5); }
polyline.w6 { stroke: var(--w6); } polyline.w7 { stroke: var(--w7); } .area.w0 { fill: var(--w0); stroke: var(--w0); }
.legend { color: var(--pale); font-size: .9rem; } .legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: 1.1em; height: .2em; margin-right: .4em; vertical-align: middle; }
i.agent { background: var(--agent); } i.hold { background: var(--hold); } i.equal_weight { background: var(--equal); }
i.sum { background: var(--pale); }
i.w0 { background: var(--w0); } i.w1 { background: var(--w1); } i.w2 { background: var(--w2); }
i.w3 { background: var(--w3); } i.w4 { background: var(--w4); } i.w5 { background: var(--w5); }
i.w6 { background: var(--w6); } i.w7 { background: var(--w7); }
@media print { body { margin: 0; } }
"""
