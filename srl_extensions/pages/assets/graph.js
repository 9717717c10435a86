"use strict";
// Draws interaction graphs. Used by page.js, whose make, text, svg and written it uses.

const HELPED = "#0072B2", HURT = "#D55E00";  // apart for colour-blind readers too
const ROOM = { width: 360, height: 300, ring: 98, node: 13, bend: 0.16 };
const SHORT = 10;  // characters of names that stand beside their places; longer ones are numbered
const TOLD = 200;  // arrows in the table

const round3 = (value) => Math.round(1000 * value) / 1000;
const along = (from, to, share) => [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];

/** Where each of `count` players stands: on a circle, the first at the top. */
function places(count) {
  const middle = [ROOM.width / 2, ROOM.height / 2];
  if (count === 1) return [middle];
  return Array.from({ length: count }, (_, number) => {
    const angle = 2 * Math.PI * number / count - Math.PI / 2;
    return [middle[0] + ROOM.ring * Math.cos(angle), middle[1] + ROOM.ring * Math.sin(angle)];
  });
}

/** The line of an arrow and its head; one from a player to itself is a loop beside it. */
function arrowPath(from, to, width) {
  if (from === to) {
    const out = from[0] < ROOM.width / 2 ? -1 : 1, [x, y] = from, far = x + out * 44;
    return { line: `M${x} ${y - 10}C${far} ${y - 34} ${far} ${y + 34} ${x} ${y + 10}`, head: "" };
  }
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  const aside = ROOM.bend * length;  // there and back take different ways
  const normal = [(to[1] - from[1]) / length, (from[0] - to[0]) / length];
  const middle = along(from, to, 0.5).map((value, axis) => value + aside * normal[axis]);
  const reach = Math.hypot(to[0] - middle[0], to[1] - middle[1]);
  const start = along(from, middle, ROOM.node / reach), size = 5 + 1.2 * width;
  const tip = along(to, middle, (ROOM.node + 1) / reach);
  const end = along(to, middle, (ROOM.node + 1 + size) / reach);
  const line = `M${start.map(round3)}Q${middle.map(round3)} ${end.map(round3)}`;
  const side = [(tip[1] - end[1]) / 2, (end[0] - tip[0]) / 2];
  const corners = [tip, [end[0] + side[0], end[1] + side[1]], [end[0] - side[0], end[1] - side[1]]];
  return { line, head: `M${corners.map((corner) => corner.map(round3).join(" ")).join("L")}z` };
}

function arrowShape(block, arrow, at, most) {
  const width = 1 + 5 * Math.abs(arrow.value) / most, colour = arrow.value > 0 ? HELPED : HURT;
  const { line, head } = arrowPath(at[arrow.source], at[arrow.target], width);
  const words = `${block.players[arrow.source]} \u2192 ${block.players[arrow.target]}: ${told(arrow.value)}`;
  return svg("g", { opacity: arrow.sure ? 0.9 : 0.3 }, svg("title", {}, words),
    svg("path", { d: line, fill: "none", stroke: colour, "stroke-width": round3(width),
      "stroke-dasharray": arrow.sure ? "none" : "4 3" }),
    head ? svg("path", { d: head, fill: colour }) : []);
}

const told = (value) => value === null ? MISSING : String(Number(value.toPrecision(3)));

function arrowTable(block, arrows) {
  const rows = arrows.slice(0, TOLD).map((one) => [
    text("bdi", "", block.players[one.source]), text("bdi", "", block.players[one.target]),
    told(one.value), one.low === null ? MISSING : `${told(one.low)} to ${told(one.high)}`,
    String(one.games)]);
  return text("div", "wide", make("table", {},
    make("thead", {}, make("tr", {}, ["from", "to", block.unit, "95 %", "games"].map((name) =>
      text("th", "", name)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell)))))));
}

/** Players on a circle, arrows between them, a slider over the periods, and the arrows in numbers. */
function interactiongraph(block) {
  const at = places(block.players.length), last = block.periods.length - 1;
  const sizes = block.periods.flatMap((one) => one.arrows.map((arrow) => Math.abs(arrow.value)));
  const most = Math.max(...sizes) || 1;  // of all periods: widths can be compared
  const short = block.players.every((name) => name.length <= SHORT);
  const nodes = at.map(([x, y], number) => {
    const beside = Math.abs(x - ROOM.width / 2) > ROOM.ring / 3, right = x > ROOM.width / 2;
    const outside = beside ? { x: x + (right ? 18 : -18), y: y + 4, "text-anchor": right ? "start" : "end" }
      : { x, y: y + (y > ROOM.height / 2 + 1 ? 27 : -19), "text-anchor": "middle" };
    const name = short ? svg("text", outside, block.players[number])
      : svg("text", { x, y: y + 4, "text-anchor": "middle" }, String(number + 1));
    return svg("g", {}, svg("title", {}, block.players[number]),
      svg("circle", { cx: x, cy: y, r: ROOM.node, fill: "#fff", stroke: QUIET, "stroke-width": 1.5 }), name);
  });
  const arrows = svg("g", {}), when = text("p", "quiet", ""), numbers = make("div", {});
  const picture = svg("svg", { viewBox: `0 0 ${ROOM.width} ${ROOM.height}`, role: "img",
    "aria-label": block.title }, arrows, nodes);
  const slider = make("input", { type: "range", min: 0, max: last, value: last });
  slider.setAttribute("aria-label", "period");
  const show = (number) => {
    const period = block.periods[number];
    const known = period.arrows.filter((arrow) => arrow.value !== null)
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const seen = known.filter((arrow) => arrow.value !== 0).reverse();  // the strongest on top
    when.textContent = period.label + (seen.length ? "" : ": nothing");
    arrows.replaceChildren(...seen.map((arrow) => arrowShape(block, arrow, at, most)));
    numbers.replaceChildren(arrowTable(block, known));
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  show(last);
  const names = short ? null : make("ul", { className: "legend" }, block.players.map((name, number) =>
    make("li", {}, `${number + 1} `, text("bdi", "", name))));
  return make("div", { className: "panel graph" }, text("h4", "", block.title),
    text("p", "quiet", block.how), picture,
    last > 0 ? slider : null, when, names,
    make("details", {}, text("summary", "", "In numbers"), numbers));
}
