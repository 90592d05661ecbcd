/* SPDX-License-Identifier: Apache-2.0 */
/* One file: its answer, its pictures and tables, and what moves them. */

const HOLDER_COUNT = 20, GROUP_COUNT = 12;

function baseName(path) {
  return path.replace(/\/+$/, "").split("/").pop();
}

/* "3.85 GB alive at the peak, most of it ..." */
function answerOf(view) {
  const { file } = view, { figures } = file;
  const bytes = groupsAt(file, view.grouping, file.peak);
  const most = Array.from(bytes.keys()).sort((a, b) => bytes[b] - bytes[a] || a - b).filter((group) => bytes[group] > 0);
  const parts = most.slice(0, 3).map((group) => `${shortName(view.grouping.names[group])} ${percentText(bytes[group], file.live[file.peak])}`);
  const operator = operatorAt(file, file.peak);
  const where = operator >= 0 ? ` at ${operatorText(file, operator)}` +
    (file.head.modules[operator] ? ` of ${file.head.modules[operator]}` : "") : "";
  return element("p", { class: "answer" }, element("b", { class: "peak", "data-bytes": file.live[file.peak] },
    sizeText(file.live[file.peak])), ` are alive at the peak${where}: ${parts.join(", ")}. `,
  `${(figures.peak_buffers).toLocaleString("en")} of ${figures.buffers.toLocaleString("en")} buffers are there then.`);
}

function cardsOf(view) {
  const { figures } = view.file;
  const cards = [["peak of what is alive", figures.peak_bytes], ["with planned offsets", figures.planned_bytes],
    ["no plan needs less than", figures.bound_bytes]];
  if (figures.reserved_bytes > 0) cards.push(["its allocator had reserved", figures.reserved_bytes]);
  return element("ul", { class: "cards" }, ...cards.map(([name, bytes]) =>
    element("li", {}, element("b", { title: `${bytes} bytes` }, sizeText(bytes)), element("span", {}, name))));
}

function groupTable(view) {
  const bytes = groupsAt(view.file, view.grouping, view.cursor);
  const order = Array.from(bytes.keys()).sort((a, b) => bytes[b] - bytes[a] || a - b);
  const alive = view.file.live[view.cursor];
  const held = order.filter((group) => bytes[group] > 0);
  const rows = held.slice(0, GROUP_COUNT).map((group) => element("tr",
    { "data-name": view.grouping.names[group], "data-bytes": bytes[group] },
    element("td", { class: "name marked" }, element("span", { class: "swatch", style: `background:var(--g${view.grouping.colour[group]})` }),
      shortName(view.grouping.names[group])),
    element("td", { class: "number" }, sizeText(bytes[group])),
    element("td", { class: "number" }, percentText(bytes[group], alive))));
  const rest = held.slice(GROUP_COUNT).reduce((sum, group) => sum + bytes[group], 0);
  if (rest > 0) {
    rows.push(element("tr", { class: "rest" }, element("td", {}, `${held.length - GROUP_COUNT} more`),
      element("td", { class: "number" }, sizeText(rest)), element("td", { class: "number" }, percentText(rest, alive))));
  }
  view.groupBox.replaceChildren(element("table", { class: "groups", "data-by": view.grouping.by },
    element("caption", {}, view.grouping.about), element("tbody", {}, ...rows)));
}

/* A call stack by its innermost call. */
function shortName(name) {
  return name === "" ? "not told" : name.startsWith(";") ? name.split(";").pop() : name;
}

/* What is told of a buffer, each thing once: the maker tells the innermost call already. */
function labelOf(file, i) {
  return file.groupings.map((grouping) => grouping.names[grouping.of[i]])
    .filter((name) => name !== "" && !name.startsWith(";")).join(" · ");
}

function holderTable(view) {
  const { file } = view;
  const holders = holdersAt(file, view.cursor);
  const rows = holders.slice(0, HOLDER_COUNT).map((i) => element("tr", { "data-name": file.names[i], "data-bytes": file.size[i] },
    element("td", { class: "number" }, sizeText(file.size[i])),
    element("td", { class: "name marked" }, element("span", { class: "swatch", style: `background:var(--g${view.grouping.colour[view.grouping.of[i]]})` }),
      nameOf(file, i)),
    element("td", { class: "name" }, labelOf(file, i))));
  view.holderBox.replaceChildren(element("table", { class: "holders" },
    element("caption", {}, `the largest of ${holders.length.toLocaleString("en")} buffers that are alive then`),
    element("thead", {}, element("tr", {}, element("th", { class: "number" }, "size"), element("th", {}, "buffer"), element("th", {}, "what it is"))),
    element("tbody", {}, ...rows)));
}

/* All that follows the cursor. */
function showCursor(view) {
  const { file } = view;
  const operator = operatorAt(file, view.cursor);
  const name = view.cursor === file.peak ? "At the peak" : "At the cursor";
  view.cursorText.textContent = `${name}: ${sizeText(file.live[view.cursor])}, ` +
    (operator >= 0 ? operatorText(file, operator) : placeText(view, view.at[view.cursor]));
  groupTable(view);
  holderTable(view);
  if (view.treeBox) showTree(view.treeBox, file, view.cursor);
  view.memory.redraw();
  view.offsets.redraw();
}

/* Redraws once, however many events there were. */
function later(view, work) {
  view.work = work;
  if (view.isWaiting) return;
  view.isWaiting = true;
  requestAnimationFrame(() => { view.isWaiting = false; view.work(); });
}

function momentAt(view, x, width) {
  const position = view.from + (x - LEFT) / (width - LEFT - RIGHT) * (view.to - view.from);
  const moment = momentOf(view.at, position);
  return view.at[moment] > position && moment > 0 ? moment - 1 : moment;
}

function clampRange(view) {
  const first = view.at[0], last = view.at[view.at.length - 1];
  const span = Math.min(view.to - view.from, last - first);
  view.from = Math.min(Math.max(view.from, first), last - span);
  view.to = view.from + span;
  const bytes = Math.min(view.high - view.low, view.topBytes);
  view.low = Math.min(Math.max(view.low, 0), view.topBytes - bytes);
  view.high = view.low + bytes;
}

function zoomTime(view, factor, share) {
  const span = (view.to - view.from) * factor;
  const position = view.from + share * (view.to - view.from);
  view.from = position - share * span;
  view.to = view.from + span;
  clampRange(view);
}

function zoomBytes(view, factor, share) {
  const span = (view.high - view.low) * factor;
  const bytes = view.low + share * (view.high - view.low);
  view.low = bytes - share * span;
  view.high = view.low + span;
  clampRange(view);
}

function showAll(view) {
  view.from = view.at[0];
  view.to = view.at[view.at.length - 1];
  view.low = 0;
  view.high = view.topBytes;
}

/* `hasOffsets`: up and down are bytes. */
function onKey(view, event, hasOffsets) {
  const keys = {
    ArrowLeft: () => { view.cursor = Math.max(view.cursor - stride(view, event), 0); },
    ArrowRight: () => { view.cursor = Math.min(view.cursor + stride(view, event), view.at.length - 1); },
    "+": () => { zoomTime(view, 0.7, cursorShare(view)); if (hasOffsets) zoomBytes(view, 0.7, 0.5); },
    "-": () => { zoomTime(view, 1 / 0.7, cursorShare(view)); if (hasOffsets) zoomBytes(view, 1 / 0.7, 0.5); },
    "0": () => showAll(view),
    p: () => { view.cursor = view.file.peak; },
  };
  if (hasOffsets) {
    const step = (view.high - view.low) / 8;
    keys.ArrowUp = () => { view.low += step; view.high += step; clampRange(view); };
    keys.ArrowDown = () => { view.low -= step; view.high -= step; clampRange(view); };
  }
  const act = keys[event.key] || keys[event.key.toLowerCase()];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
  if (view.at[view.cursor] < view.from || view.at[view.cursor] > view.to) {
    const half = (view.to - view.from) / 2;
    view.from = view.at[view.cursor] - half;
    view.to = view.from + 2 * half;
    clampRange(view);
  }
  later(view, () => showCursor(view));
}

/* Moments that an arrow key goes: a pixel, with shift ten. */
function stride(view, event) {
  const moments = momentOf(view.at, view.to) - momentOf(view.at, view.from);
  return Math.max(Math.round(moments / 800), 1) * (event.shiftKey ? 10 : 1);
}

function cursorShare(view) {
  const share = (view.at[view.cursor] - view.from) / (view.to - view.from || 1);
  return share >= 0 && share <= 1 ? share : 0.5;
}

/* Beside the pointer, and inside of the window. */
function showTip(view, event, text) {
  const { tip } = view;
  tip.hidden = text === "";
  tip.textContent = text;
  tip.style.left = tip.style.top = "0"; /* as wide as it wants to be */
  const right = window.innerWidth - tip.offsetWidth - 4, below = event.clientY + 16;
  const hasRoom = below + tip.offsetHeight + 4 <= window.innerHeight;
  tip.style.left = `${Math.max(Math.min(event.clientX + 14, right), 4)}px`;
  tip.style.top = `${hasRoom ? below : Math.max(event.clientY - tip.offsetHeight - 10, 4)}px`;
}

function tipOf(file, i) {
  return `${nameOf(file, i)}: ${sizeText(file.size[i])} at ${file.offset[i]}, from ${file.begin[i]} to ${file.end[i]}. ${labelOf(file, i)}`;
}

function onPointer(view, canvas, hasOffsets) {
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, low: view.low, high: view.high, isMoved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { width, height } = canvas.getBoundingClientRect();
    if (drag !== null && Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 3) drag.isMoved = true;
    if (drag !== null && drag.isMoved) {
      const shift = (event.clientX - drag.x) / (width - LEFT - RIGHT) * (drag.to - drag.from);
      const rise = hasOffsets ? (event.clientY - drag.y) / (height - TOP - BOTTOM) * (drag.high - drag.low) : 0;
      Object.assign(view, { from: drag.from - shift, to: drag.to - shift, low: drag.low + rise, high: drag.high + rise });
      clampRange(view);
    } else if (!view.isHeld) {
      view.cursor = momentAt(view, event.offsetX, width);
    }
    if (hasOffsets) {
      const i = bufferAt(view, event.offsetX, event.offsetY, width, height);
      showTip(view, event, i >= 0 ? tipOf(view.file, i) : "");
    }
    later(view, () => showCursor(view));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag !== null && !drag.isMoved) { /* a click holds the cursor where it is, or lets it go */
      view.isHeld = !view.isHeld;
      view.cursor = momentAt(view, event.offsetX, canvas.getBoundingClientRect().width);
      later(view, () => showCursor(view));
    }
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => {
    view.tip.hidden = true;
    if (!view.isHeld && drag === null) {
      view.cursor = view.file.peak;
      later(view, () => showCursor(view));
    }
  });
  canvas.addEventListener("wheel", (event) => {
    const { width, height } = canvas.getBoundingClientRect();
    const factor = event.deltaY < 0 ? 0.8 : 1.25;
    event.preventDefault();
    zoomTime(view, factor, Math.min(Math.max((event.offsetX - LEFT) / (width - LEFT - RIGHT), 0), 1));
    if (hasOffsets && !event.shiftKey) {
      zoomBytes(view, factor, Math.min(Math.max((height - BOTTOM - event.offsetY) / (height - TOP - BOTTOM), 0), 1));
    }
    later(view, () => showCursor(view));
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { showAll(view); later(view, () => showCursor(view)); });
  canvas.addEventListener("keydown", (event) => onKey(view, event, hasOffsets));
}

function setGrouping(view, by) {
  view.grouping = view.file.groupings.find((grouping) => grouping.by === by);
  if (!view.grouping.colour) colourGroups(view.files, by);
}

function choice(name, label, options, chosen, onChange) {
  const select = element("select", { "aria-label": label, onchange: () => onChange(select.value) },
    ...options.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
  return element("label", {}, `${name} `, select);
}

function controls(view) {
  const hasTime = view.file.head.has_times || view.file.head.operator_count === 0;
  const bar = element("div", { class: "bar" },
    choice("by", "what to sum up by", view.file.groupings.map(({ by }) => [by, by]), view.grouping.by,
      (by) => { setGrouping(view, by); showCursor(view); }));
  if (hasTime) {
    bar.append(choice("axis", "what the axis shows", [["order", "events in their order"], ["time", "time"]], view.axis, (axis) => {
      view.axis = axis;
      view.at = positions(view.file, axis);
      showAll(view);
      showCursor(view);
    }));
  }
  bar.append(element("button", { type: "button", onclick: () => { view.isHeld = false; view.cursor = view.file.peak; showCursor(view); } }, "to the peak"),
    element("button", { type: "button", onclick: () => { showAll(view); showCursor(view); } }, "show all"));
  return bar;
}

/* The grouping that says most: of several groups at the peak the one whose names the program gave. */
function firstGrouping(file) {
  const isTold = (by) => {
    const grouping = file.groupings.find((each) => each.by === by);
    if (!grouping) return false;
    const bytes = groupsAt(file, grouping, file.peak);
    return bytes.filter((some) => some > 0).length > 1;
  };
  return ["tag", "operator", "kind"].find(isTold) || "kind";
}

function swapSections(view) {
  const { figures } = view.file;
  const sections = [];
  if (figures.sweep) {
    view.sweep = picture(220, "time of a step over the capacity", (...all) => drawSweep(view, ...all));
    sections.push(element("section", {}, element("h2", {}, "What less memory costs"),
      element("div", { class: "side" }, element("div", {}, view.sweep, element("p", { class: "about" },
        "Line: planned with copies to the host. Dashed: no scheme that only moves bytes is faster.")), sweepTable(figures))));
  }
  if (view.file.run) {
    view.runFrom = 0;
    view.runTo = view.file.run.end;
    view.lanes = picture(LANE_HEIGHT * lanesOf(view.file.run).length + TOP + BOTTOM, "kernels and copies of a step", (...all) => drawLanes(view, ...all));
    onLanes(view, view.lanes);
    sections.push(element("section", {}, element("h2", {}, "A step in less memory"), element("p", {}, swapSentence(figures)),
      view.lanes, stallTable(view)));
  }
  return sections;
}

/* Wheel and keys zoom the lanes, dragging moves them. */
function onLanes(view, canvas) {
  const change = (factor, share, shift) => {
    const span = Math.min((view.runTo - view.runFrom) * factor, view.file.run.end);
    const at = view.runFrom + share * (view.runTo - view.runFrom) + shift * span;
    view.runFrom = Math.min(Math.max(at - share * span, 0), view.file.run.end - span);
    view.runTo = view.runFrom + span;
    canvas.redraw();
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    change(event.deltaY < 0 ? 0.8 : 1.25, Math.max((event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT), 0), 0);
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) change(1, 0, -event.movementX / (canvas.clientWidth - LEFT - RIGHT));
    showTip(view, event, tipOfLanes(view, event.offsetX, event.offsetY, canvas.clientWidth, canvas.clientHeight));
  });
  canvas.addEventListener("pointerleave", () => { view.tip.hidden = true; });
  canvas.addEventListener("keydown", (event) => {
    const keys = { "+": [0.7, 0.5, 0], "-": [1 / 0.7, 0.5, 0], ArrowLeft: [1, 0, -0.1], ArrowRight: [1, 0, 0.1], 0: [Infinity, 0, 0] };
    if (!keys[event.key]) return;
    event.preventDefault();
    change(...keys[event.key]);
  });
}

/* `files`: all of the page, whose groups share their colours. */
function makeView(file, files, mostBytes) {
  const view = { file, files, axis: "order", at: positions(file, "order"), cursor: file.peak, isHeld: false, mostBytes,
    topBytes: Math.max(file.figures.planned_bytes, 1), tip: element("div", { class: "tip" }) };
  view.tip.hidden = true;
  showAll(view);
  setGrouping(view, firstGrouping(file));
  view.groupBox = element("div");
  view.holderBox = element("div");
  view.cursorText = element("h3", { "aria-live": "polite" });
  view.memory = picture(300, "memory over time", (...all) => drawMemory(view, ...all));
  view.offsets = picture(340, "buffers at their planned offsets", (...all) => drawOffsets(view, ...all));
  onPointer(view, view.memory, false);
  onPointer(view, view.offsets, true);
  const hasTree = file.groupings.some(({ by }) => by === "module" || by === "operator");
  view.treeBox = hasTree ? element("div", { class: "tree" }) : null;
  view.box = element("article", {}, element("h2", { title: file.figures.file }, baseName(file.figures.file)),
    element("p", { class: "about" }, file.figures.form), answerOf(view), cardsOf(view), controls(view),
    element("div", { class: "side" },
      element("div", {}, element("h3", {}, "Memory over time"), view.memory,
        element("h3", { class: "second" }, "Where a plan puts each buffer"), view.offsets),
      element("div", {}, view.cursorText, view.groupBox, view.holderBox)));
  if (hasTree) view.box.append(element("h2", {}, "By module and operator"), view.treeBox);
  view.box.append(...swapSections(view), view.tip);
  return view;
}
