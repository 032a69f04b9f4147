"""The look of all pages: one palette, light and dark, which the live page has too, and one style
sheet for a desk and a phone. No network."""

from __future__ import annotations

PALETTE = """\
:root{color-scheme:light dark;--bg:#f7f8f9;--card:#fff;--text:#1c2128;--dim:#57606a;--line:#d9dee3;
--link:#0957b0;--good:#186a33;--good-bg:#e2f3e6;--bad:#a3261b;--bad-bg:#fbe6e3;--warn:#7a4d00;
--warn-bg:#fbf0d9;--code:#f1f3f5;--agent:#4a76c4;--repair:#d08327;--test:#3a9069;--review:#8660c2;
--publish:#6a7683;--other:#9aa4b0}
@media(prefers-color-scheme:dark){:root{--bg:#0f1317;--card:#171c22;--text:#e4e8ed;--dim:#9ba6b2;
--line:#2c343d;--link:#79b6ff;--good:#6fd08a;--good-bg:#15311f;--bad:#ff9b8f;--bad-bg:#3b1c1a;
--warn:#e6bb62;--warn-bg:#33280f;--code:#1f262e;--agent:#6f9be6;--repair:#dd9a48;--test:#57b288;
--review:#a886df;--publish:#8a96a3;--other:#66717d}}
"""
_RULES = """\
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;overflow-wrap:anywhere;background:var(--bg);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main,header,footer{max-width:76rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:1.75rem}
h1{font-size:1.55rem;line-height:1.25;margin:0 0 .2rem}
h2{font-size:1.08rem;margin:2rem 0 .6rem}
h3{font-size:.95rem;margin:1.1rem 0 .4rem}
p{margin:.3rem 0}
a{color:var(--link)}
a:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:2px}
code,pre,.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
font-size:.86em}
code,.name{overflow-wrap:anywhere}
.dim{color:var(--dim)}
.vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.facts{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0 0;padding:0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:.45rem .8rem;min-width:7rem}
.facts dt{color:var(--dim);font-size:.8rem}
.facts dd{margin:0;font-size:1.1rem;font-variant-numeric:tabular-nums}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem 1rem}
.card+.card{margin-top:.6rem}
ol.first,ul.plain{margin:0;padding-left:1.3rem}
ol.first li,ul.plain li{margin:.25rem 0}
.pill{display:inline-block;border-radius:1rem;padding:.05rem .6rem;font-size:.84rem;
white-space:nowrap;background:var(--warn-bg);color:var(--warn)}
.pill.good{background:var(--good-bg);color:var(--good)}
.pill.bad{background:var(--bad-bg);color:var(--bad)}
ul.open,ul.counts{list-style:none;margin:0;padding:0}
ul.open li{display:grid;grid-template-columns:6.5rem 1fr;gap:.2rem .9rem;padding:.45rem 0}
ul.open li+li{border-top:1px solid var(--line)}
ul.open li>.pill{justify-self:start;align-self:start}
ul.counts{display:flex;flex-wrap:wrap;gap:.3rem 1rem;margin-top:.6rem}
.why{border-left:3px solid var(--bad);padding-left:.7rem;margin:.5rem 0}
pre{background:var(--code);border-radius:6px;padding:.6rem .8rem;margin:.4rem 0;overflow:auto;
max-height:34rem;line-height:1.4;tab-size:4}
pre ins,pre del,pre b{display:block;text-decoration:none;font-weight:inherit}
pre ins{background:var(--good-bg);color:var(--good)}
pre del{background:var(--bad-bg);color:var(--bad)}
pre b{color:var(--dim)}
.time{display:grid;grid-template-columns:minmax(6rem,15rem) 1fr;gap:.12rem .7rem;align-items:center}
.time .name{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.time svg{display:block;width:100%;height:.8rem;background:var(--code);border-radius:2px}
.axis{display:flex;justify-content:space-between;color:var(--dim);font-size:.8rem}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.5rem 0 0;padding:0;list-style:none;
color:var(--dim);font-size:.84rem}
.key svg{width:.75rem;height:.75rem;margin-right:.35rem;vertical-align:-.05rem}
.s-agent{fill:var(--agent)}.s-repair{fill:var(--repair)}.s-test{fill:var(--test)}
.s-review{fill:var(--review)}.s-publish{fill:var(--publish)}.s-other{fill:var(--other)}
.pale{opacity:.45}
.items{border:1px solid var(--line);border-radius:8px;background:var(--card);overflow:hidden}
.row{display:grid;gap:.1rem .9rem;align-items:baseline;padding:.45rem 1rem;
grid-template-columns:minmax(10rem,1fr) 6.5rem 12rem 6.5rem 4rem 5rem 5rem 5rem}
.row .n{text-align:right;font-variant-numeric:tabular-nums}
.head{color:var(--dim);font-size:.8rem;border-bottom:1px solid var(--line)}
.items details+details{border-top:1px solid var(--line)}
.items>details{content-visibility:auto;contain-intrinsic-size:auto 3.3rem}
.items>details>summary{list-style:none;cursor:pointer}
.items>details>summary::-webkit-details-marker{display:none}
.items>details>summary .name::before{content:"\\25b8";color:var(--dim);display:inline-block;
width:1.1em}
.items>details[open]>summary .name::before{content:"\\25be"}
.items>details>summary:hover,.items>details[open]>summary{background:var(--code)}
.items summary small{display:block;color:var(--dim);padding-left:1.25em;font-size:.84rem}
.body{padding:.3rem 1rem 1rem;border-top:1px solid var(--line);scroll-margin-top:3.5rem}
.body summary{cursor:pointer;color:var(--link);padding:.2rem 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.88rem}
th{text-align:left;color:var(--dim);font-weight:500}
th[scope=row]{width:1%;white-space:nowrap}
th,td{padding:.22rem .8rem .22rem 0;border-bottom:1px solid var(--line);vertical-align:top}
table.flat td,table.flat th{white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
svg.plot{display:block;width:100%;height:auto;max-width:46rem}
svg.plot text{fill:var(--dim);font-size:12px}
footer{color:var(--dim);font-size:.84rem;padding-top:2rem;padding-bottom:2rem}
@media(max-width:62rem){
.row{display:flex;flex-wrap:wrap;padding:.55rem .9rem}
.row>span:first-child{flex:1 1 60%}
.row>.t,.row>.n{color:var(--dim);font-size:.86rem}
.row>.t{flex-basis:100%}
.row.head{display:none}
.row .vh{position:static;clip-path:none;width:auto;height:auto;overflow:visible}}
@media(max-width:40rem){main,header,footer{padding-left:.8rem;padding-right:.8rem}
.facts div{flex:1 1 40%;min-width:0}
ul.open li{grid-template-columns:1fr}svg.plot text{font-size:22px}
.time{grid-template-columns:7.5rem 1fr}}
@media print{body{background:#fff}.items details>.body{break-inside:avoid}}
"""
STYLE = f"\n{PALETTE}{_RULES}"
