"use strict";
// The live page: the blocks of the report (page.js), drawn from a document that is requested again and
// again (srl_extensions/pages/live_server.py). The server answers 304 if the document did not change.
(() => {

const PERIOD = 700, AGAIN = 2000;  // milliseconds until the next request, and after a failed one
const search = new URLSearchParams(location.search);
let doc = null, etag = null, changed = null;

const light = text("span", "light", ""), told = text("span", "", "connecting");
document.body.prepend(make("div", { className: "bar" },
  search.has("run") ? make("a", { href: "/" }, "\u2190 all runs") : text("b", "", "Core SRL"),
  make("span", { className: "state" }, light, told)));

function tell(state, words) {
  light.className = `light ${state}`;
  told.textContent = words;
}

/** Seconds as people say them. */
function ago(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s ago`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

// Blocks that only a served page has

/** The element, drawn again when it is on the screen; at once where it is. */
const seen = new WeakMap();
const watching = new IntersectionObserver((entries) => entries.forEach((entry) => {
  const waiting = seen.get(entry.target);
  seen.set(entry.target, { shown: entry.isIntersecting, refresh: null });
  if (entry.isIntersecting && waiting?.refresh) waiting.refresh();
}), { rootMargin: "200px" });

function refreshed(block) {
  const element = ELEMENT.get(block), refresh = REFRESH.get(block);
  if (!refresh) { replaced(block, element); return; }
  const known = seen.get(element);
  if (known === undefined) watching.observe(element);
  if (known === undefined || known.shown) refresh();
  else known.refresh = refresh;
}

/** Draw the block anew, unfolded where it was. */
function replaced(block, element) {
  const open = [...element.querySelectorAll("details")].map((one) => one.open);
  const next = draw(block);
  [...next.querySelectorAll("details")].forEach((one, place) => { one.open = open[place] ?? false; });
  element.replaceWith(next);
}

DRAW.runs = (block) => make("div", { className: "runs" }, block.runs.map((run) =>
  make("a", { className: "run", href: `/?${new URLSearchParams({ run: run.name })}` },
    text("div", "value", run.name), progress(run.progress), text("div", "more", run.about))));

// Documents

function shownWhole() {
  const open = [...document.querySelectorAll("main details")].map((one) => one.open);
  const height = scrollY;
  show(doc);
  [...document.querySelectorAll("main details")].forEach((one, place) => { one.open = open[place] ?? false; });
  scrollTo(0, height);
}

/** What determines the elements of the page apart from the content of the blocks. */
const outline = (one) => JSON.stringify([one.title, one.subtitle, one.blocks.map((block) => block.kind),
  one.sections.map((section) => [section.title, section.blocks.map((block) => block.kind)])]);

/** Give the block that is drawn the content of the fresh one, and draw what is different. */
function updated(block, fresh) {
  if (block.kind === "figure" && block.caption === fresh.caption && block.drawings.length === fresh.drawings.length
      && block.drawings.every((one, place) => one.kind === fresh.drawings[place].kind)) {
    block.drawings.forEach((one, place) => updated(one, fresh.drawings[place]));
    return;
  }
  if (JSON.stringify(block) === JSON.stringify(fresh)) return;
  Object.assign(block, fresh);
  refreshed(block);
}

async function received(fresh) {
  if (doc === null || outline(doc) !== outline(fresh)) {
    doc = fresh;
    shownWhole();
  } else {
    const all = (one) => [...one.blocks, ...one.sections.flatMap((section) => section.blocks)];
    const blocks = all(fresh);
    let began = performance.now();
    for (const [place, block] of all(doc).entries()) {
      updated(block, blocks[place]);
      if (performance.now() - began < 20) continue;
      await new Promise((resolve) => setTimeout(resolve));  // lets the browser scroll in between
      began = performance.now();
    }
  }
  document.title = `Core SRL: ${doc.title}`;
}

const REFUSED = {
  404: "the server has no such run",
  503: "the server has too many connections",
};

async function poll() {
  let pause = PERIOD;
  try {
    const headers = etag === null ? {} : { "If-None-Match": etag };
    const answer = await fetch(`/document${location.search}`, { headers });
    if (answer.status === 200) {
      await received(await answer.json());
      etag = answer.headers.get("ETag");
      changed = Date.now();
    }
    if (answer.status === 200 || answer.status === 304) {
      changed ??= Date.now();
      alive();
    } else {
      [changed, pause] = [null, AGAIN];
      tell("away", REFUSED[answer.status] ?? `the server returned an error (${answer.status})`);
    }
  } catch (error) {
    [changed, pause] = [null, AGAIN];
    tell("away", "the server does not answer; trying again");
    console.debug(error.message);
  }
  setTimeout(poll, pause);
}

function alive() {
  if (changed !== null) tell("live", `live \u00b7 received ${ago((Date.now() - changed) / 1000)}`);
}

setInterval(alive, 1000);
poll();

})();
