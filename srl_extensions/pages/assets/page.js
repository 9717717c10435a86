"use strict";
// Draws one document (srl_extensions/pages/document.py). Names, answers and everything else that
// others wrote is put in as text nodes or onto a canvas, never as HTML.

const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5539",
  "#4D4D4D"];  // Okabe and Ito (2008): apart for colour-blind readers too
const DASHES = [[], [8, 3], [2, 3]];  // the palette's second and third time round
const QUIET = "#6b7280", GRID = "#e5e7eb", MISSING = "\u2013";
const FEW = 40;  // values of a line up to which each is drawn as a dot
const OPEN_TURNS = 4;  // shown at once; the following ones unfold on a click
const ELEMENT = new WeakMap();  // block -> where it was drawn
const REFRESH = new WeakMap();  // block -> what draws it anew in its place
const STEPS = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((e) => n * 10 ** e))
  .sort((a, b) => a - b);

/** An element with properties and children; a child that is a string becomes a text node. */
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const child of children.flat(Infinity)) if (child !== null) element.append(child);
  return element;
}
const text = (tag, className, words) => make(tag, { className }, words);
/** Words of others: in a box of their own, so that right-to-left text turns nothing around it. */
const said = (words) => text("bdi", "said", words);

const isNumber = (cell) => cell === MISSING || cell === "" || /^-?[\d.]+(e[+-]?\d+)?( %)?$/.test(cell);
const finite = (values) => values.filter((value) => value !== null && value !== undefined);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function table(block) {
  const right = block.headers.map((_, place) => block.rows.length > 0
    && block.rows.every((row) => isNumber(row[place])));
  const cells = (tag, row) => make("tr", {},
    row.map((cell, place) => text(tag, right[place] ? "number" : "", cell)));
  const drawn = text("div", "wide", make("table", {}, make("thead", {}, cells("th", block.headers)),
    make("tbody", {}, block.rows.map((row) => cells("td", row)))));
  return block.title === "" ? drawn : make("div", {}, text("h3", "", block.title), drawn);
}

const cards = (block) => make("div", { className: "cards" }, block.cards.map(([name, value, more]) =>
  make("div", { className: "card" }, text("div", "name", name), text("div", "value", value),
    text("div", "more", more))));

const notes = (block) => make("div", { className: "notes" }, block.title,
  make("ul", {}, block.lines.map((line) => text("li", "", line))));

const TEXT_TAGS = { heading: "h3", listing: "pre" };
const paragraph = (block) => text(TEXT_TAGS[block.style] ?? "p", block.style, block.text);

// Figures

const color = (place) => PALETTE[place % PALETTE.length];
/** A number in few characters: 0.8445, 24, 2.7e-7. */
function short(value, digits) {
  const rounded = Number(value.toPrecision(digits));
  return rounded !== 0 && Math.abs(rounded) < 1e-4
    ? rounded.toExponential(Math.min(2, digits - 1)).replace(/\.?0+e/, "e") : String(rounded);
}
const written = (panel, value) => value === null || value === undefined ? MISSING
  : panel.percent ? `${(100 * value).toFixed(1)} %` : short(value, 4);

/** Number of values in a running mean: a tenth of the line, at least three if there are six. */
function windowOf(block) {
  const count = Math.max(0, ...block.lines.map((line) => line.y.length));
  return Math.max(1, Math.min(3, Math.floor(count / 2)), Math.floor(count / 10));
}

/** The line as it is drawn: its running mean, and one standard deviation around it. */
function smoothed(line, window) {
  const dots = line.y.length <= FEW ? line.y : null;
  if (window === 1) return { ...line, low: null, high: null, dots };
  const [y, low, high] = [[], [], []];
  line.y.forEach((_, end) => {
    const known = finite(line.y.slice(Math.max(0, end + 1 - window), end + 1));
    const middle = known.length ? mean(known) : null;
    const spread = middle === null ? null : Math.sqrt(mean(known.map((v) => (v - middle) ** 2)));
    y.push(middle);
    low.push(middle === null ? null : middle - spread);
    high.push(middle === null ? null : middle + spread);
  });
  return { ...line, y, low, high, dots };
}

/** Content of a panel: a sentence if all values are constant, else uPlot's data and line styles.
 * Two charts with the same shape differ in their data only. */
function chart(block) {
  const values = block.lines.map((line) => new Set(finite(line.y)));
  if (values.every((known) => known.size < 2)) {
    const told = block.lines.map((line, place) => [line.label, written(block, [...values[place]][0])])
      .filter(([, value]) => value !== MISSING);
    const same = new Set(told.map(([, value]) => value)).size === 1;
    return { words: "constant: " + (same ? told[0][1] : told.map((pair) => pair.join(" ")).join(", ")) };
  }
  const window = windowOf(block);
  const lines = block.lines.map((line) => smoothed(line, window));
  const xs = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, index) => [x, index]));
  // uPlot joins over undefined (no such round of this line) and breaks at null (not measured).
  const along = (line, given) => {
    const column = new Array(xs.length).fill(undefined);
    line.x.forEach((x, index) => { column[place.get(x)] = given[index]; });
    return column;
  };
  const data = [xs], series = [{}], bands = [], legend = [];
  const add = (column, options) => { data.push(column); return series.push(options) - 1; };
  lines.forEach((line, index) => {
    if (values[index].size === 0) return;
    const stroke = color(index), dash = DASHES[Math.floor(index / PALETTE.length) % DASHES.length];
    if (line.low !== null) {
      const edge = { stroke: "transparent", width: 0, points: { show: false } };
      bands.push({ series: [add(along(line, line.high), edge), add(along(line, line.low), edge)],
        fill: stroke + "20" });
    }
    if (line.dots !== null) {
      const fill = stroke + (window === 1 ? "" : "60");
      add(along(line, line.dots), { paths: () => null, stroke,
        points: { show: true, size: 4, width: 0, fill } });
    }
    const drawn = along(line, line.y);
    add(drawn, { stroke, dash, width: 1.8, points: { show: false } });
    legend.push({ label: line.label, stroke, column: drawn, last: finite(line.y).at(-1) });
  });
  block.guides.forEach(([label, height], index) => {
    const [dash, guide] = [[[8, 4], [2, 3]], ["dashed", "dotted"]].map((kinds) => kinds[index % 2]);
    add(xs.map(() => height), { stroke: QUIET, width: 1.2, dash, points: { show: false } });
    legend.push({ label, stroke: QUIET, column: [], last: height, guide });
  });
  const shape = JSON.stringify([series, bands, legend.map(({ label, stroke }) => [label, stroke])]);
  return { data, series, bands, legend, shape };
}

function panel(block) {
  const holder = text("div", "panel", "");
  let shape = null, update = null;
  const refresh = () => {
    const drawn = chart(block);
    if (update !== null && drawn.shape === shape) { update(drawn); return; }
    shape = drawn.shape;
    const [body, tell] = drawn.words === undefined ? axes(block, drawn)
      : [text("p", "quiet", drawn.words), null];
    update = tell;
    holder.replaceChildren(text("h4", "", block.title), body);
  };
  refresh();
  REFRESH.set(block, refresh);
  return holder;
}

/** The axes, and below them the lines' names with their last value, or the one under the cursor; and
 * what draws another chart of the same shape in them. */
function axes(block, drawn) {
  const names = drawn.legend.map(({ label, stroke, last, guide }) => {
    const swatch = text("span", "swatch", "");
    swatch.style.borderTop = `3px ${guide ?? "solid"} ${stroke}`;
    const value = text("b", "", written(block, last));
    return { value, item: make("li", {}, swatch, text("bdi", "", label), " ", value) };
  });
  const tell = (plot) => drawn.legend.forEach(({ column, last }, index) => {
    const under = plot.cursor.idx === null ? last : column[plot.cursor.idx] ?? last;
    names[index].value.textContent = written(block, under);
  });
  const beside = (low, high) => Math.max(0.05, 0.1 * (high - low));
  const grid = { stroke: GRID, width: 1 };
  const options = {
    width: 400, height: 220, series: drawn.series, bands: drawn.bands,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: block.percent ? { range: (_, low, high) =>
      [Math.max(-0.02, low - beside(low, high)), Math.min(1.02, high + beside(low, high))] } : {} },
    axes: [
      { stroke: QUIET, incrs: STEPS, grid: { show: false }, ticks: grid, label: block.across,
        labelSize: 18, labelFont: "12px system-ui", size: 34 },
      { stroke: QUIET, grid, ticks: grid, size: 62, values: (_, ticks) => ticks.map((value) =>
        !block.percent ? short(value, 6)
          : value < 0 || value > 1 ? "" : `${Number((100 * value).toFixed(1))} %`) },
    ],
    hooks: { setCursor: [tell] },
  };
  const canvas = make("div", { className: "canvas" });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", block.title);
  const plot = new uPlot(options, drawn.data, canvas);
  new ResizeObserver(() => {
    if (canvas.clientWidth > 0) plot.setSize({ width: canvas.clientWidth, height: 220 });
  }).observe(canvas);
  const body = make("div", {}, canvas, make("ul", { className: "legend" }, names.map(({ item }) => item)));
  return [body, (other) => { drawn = other; plot.setData(other.data); tell(plot); }];
}

const figure = (block) => make("figure", {},
  make("div", { className: "panels" }, block.drawings.map(draw)),
  block.caption === "" ? null : text("figcaption", "", block.caption));

// Episodes

function step(one) {
  const answer = !one.asked ? text("span", "quiet", "(no action in this turn)")
    : one.answer === null ? text("span", "quiet", "(no text)")
      : one.answer === "" ? text("span", "quiet", "(empty answer)") : said(one.answer);
  const failed = one.failure !== null;
  return make("tr", { className: failed ? "failure" : "" },
    make("td", {}, text("bdi", "", one.agent), text("div", "quiet", one.player)),
    make("td", {}, said(one.saw), one.heard.map(([speaker, words]) =>
      make("div", { className: "heard" }, "message from ", text("bdi", "", speaker), ": ", text("bdi", "", words)))),
    make("td", {}, answer, failed ? make("div", { className: "bad" }, "parse failure: ",
      text("bdi", "", one.failure)) : null),
    make("td", {}, text("bdi", "", one.action), failed ? text("div", "bad", "default action") : null),
    text("td", "number", one.reward));
}

function steps(turns) {
  const widths = { agent: "agent", observation: "", answer: "answer", action: "act", reward: "reward number" };
  const head = Object.entries(widths).map(([name, className]) => text("th", className, name));
  const rows = turns.flatMap((turn) => [
    make("tr", { className: "turn" }, make("td", { colSpan: 5 }, `Turn ${turn.number}`)),
    ...turn.steps.map(step)]);
  return text("div", "wide", make("table", { className: "transcript" },
    make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)));
}

function transcript(block) {
  const rules = block.rules.map(([agents, words]) => [text("p", "", text("b", "", agents)), said(words)]);
  const parts = [
    text("p", "quiet", block.summary),
    block.failure === null ? null : make("p", { className: "bad" },
      "This episode failed and was excluded from training: ", text("bdi", "", block.failure)),
    rules.length ? make("details", {}, text("summary", "", "Rules that the agents read"), rules) : null,
  ];
  if (block.seconds !== null) return make("div", {}, parts, player(block));
  const [open, folded] = [block.turns.slice(0, OPEN_TURNS), block.turns.slice(OPEN_TURNS)];
  return make("div", {}, parts, steps(open),
    folded.length ? make("details", {}, text("summary", "",
      `Turns ${folded[0].number} to ${folded.at(-1).number}`), steps(folded)) : null,
    block.left_out ? text("p", "quiet", `${block.left_out} more turns are in the file of the episode.`) : null);
}

/** The frames as a film: played, stepped through and chosen by a slider or the arrow keys. */
function player(block) {
  const last = block.turns.length - 1, count = block.turns.length;
  const picture = make("img", { alt: "" }), title = text("p", "quiet", ""), words = make("div", {});
  const slider = make("input", { type: "range", min: 0, max: last, value: 0 });
  slider.setAttribute("aria-label", "turn");
  const play = make("button", {}, "play");
  let now = 0, timer = null;
  const show = (turn) => {
    now = Math.max(0, Math.min(last, turn));
    const one = block.turns[now];
    slider.value = now;
    title.textContent = one.number ? `Turn ${one.number}` : "The start";
    picture.src = `data:image/png;base64,${one.frame}`;
    picture.alt = title.textContent;
    words.replaceChildren(one.steps.length ? steps([one]) : "");
  };
  const pause = () => { clearInterval(timer); timer = null; play.textContent = "play"; };
  const go = (turn) => { pause(); show(turn); };
  play.addEventListener("click", () => {
    if (timer !== null) { pause(); return; }
    if (now === last) show(0);
    play.textContent = "pause";
    timer = setInterval(() => { if (now === last) pause(); else show(now + 1); }, 1000 * block.seconds);
  });
  slider.addEventListener("input", () => go(Number(slider.value)));
  const button = (name, by) => {
    const made = make("button", {}, name);
    made.addEventListener("click", () => go(now + by));
    return made;
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === slider) return;
    if (event.key === "ArrowLeft") go(now - 1);
    if (event.key === "ArrowRight") go(now + 1);
  });
  show(0);
  return make("div", { className: "player" },
    make("div", { className: "controls" }, play, button("back", -1), button("next", 1), slider,
      text("span", "quiet", `${count} frames`)),
    title, make("div", { className: "picture" }, picture), words);
}

// The page

function progress(block) {
  const bar = text("span", "", "");
  bar.style.width = `${100 * (block.share ?? 0)}%`;
  return make("div", { className: "progress" }, make("div", { className: "track" }, bar),
    text("div", "words", block.words.join(" \u00b7 ")));
}

// Drawing function of each kind of block. The kind is the class name in document.py in lower case.
const DRAW = { roundprogress: progress, table, cards, notes, text: paragraph, figure, panel,
  transcript };
const draw = (block) => {
  const element = DRAW[block.kind](block);
  ELEMENT.set(block, element);
  return element;
};
const blocks = (several) => several.map(draw);

function show(doc) {
  const main = document.querySelector("main");
  const anchor = (place) => `section-${place}`;
  const links = doc.sections.map((one, place) =>
    make("a", { href: `#${anchor(place)}` }, one.title));
  main.replaceChildren(
    make("header", {}, text("h1", "", doc.title), text("div", "quiet", doc.subtitle),
      make("nav", {}, links)),
    ...blocks(doc.blocks),
    ...doc.sections.map((one, place) => make("section", { id: anchor(place) },
      text("h2", "", one.title), blocks(one.blocks))));
}

const inside = document.getElementById("document");  // a page that is served gets its document later
if (inside !== null) show(JSON.parse(inside.textContent));
