/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them, on one line with their units; canvases, and the picture of memory over time. */

const SIZE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function sizeText(bytes) {
  let unit = 0, value = bytes;
  while (Math.abs(value) >= 1024 && unit + 1 < SIZE_UNITS.length) { value /= 1024; unit++; }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)}\u00a0${SIZE_UNITS[unit]}`;
}

function timeText(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
  const [weight, unit] = units.find(([least]) => Math.abs(ns) >= least) || [1, "ns"];
  return `${Number((ns / weight).toPrecision(4))}\u00a0${unit}`;
}

function percentText(part, whole) {
  const percent = 100 * part / (whole || 1);
  return whole <= 0 ? "" : percent > 0 && percent < 0.05 ? "<\u00a00.1\u00a0%" : `${percent.toFixed(1)}\u00a0%`;
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/* A canvas of a height that is sharp on every screen; `draw` gets its context, width and height. */
function picture(height, label, draw) {
  const canvas = element("canvas", { role: "img", tabindex: "0", "aria-label": label, style: `height:${height}px` });
  canvas.redraw = () => {
    const scale = window.devicePixelRatio || 1;
    const width = Math.max(canvas.clientWidth, 50);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colourOf("ground");
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    draw(context, width, height);
  };
  return canvas;
}

/* Steps of an axis that people count in, from `least` to `most`: powers of two of bytes, 1, 2 and 5 of all
   else. */
function ticks(least, most, count, isBytes) {
  const span = most - least;
  let step = isBytes ? 1 : Math.pow(10, Math.floor(Math.log10(span / count || 1)));
  const factors = isBytes ? [2] : [2, 2.5, 2];
  for (let i = 0; span / step > count; i++) step *= factors[i % factors.length];
  const values = [];
  for (let value = Math.ceil(least / step) * step; value <= most; value += step) values.push(value);
  return values;
}

/* Room around a plot. */
const LEFT = 74, RIGHT = 10, TOP = 8, BOTTOM = 24;

/* The axis of bytes: `hasLines`, across the plot, or what is painted there hides them. */
function drawBytes(context, width, height, low, high, hasLines) {
  context.strokeStyle = colourOf("line");
  context.fillStyle = colourOf("faint");
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const bytes of ticks(low, high, 6, true)) {
    const y = height - BOTTOM - (height - TOP - BOTTOM) * (bytes - low) / (high - low);
    context.beginPath();
    context.moveTo(hasLines ? LEFT : LEFT - 4, y);
    context.lineTo(hasLines ? width - RIGHT : LEFT, y);
    context.stroke();
    context.fillText(sizeText(bytes), LEFT - 6, y);
  }
}

/* Texts below a plot, each a pair of what and where: one that would reach into the one before is left out. */
function drawTexts(context, width, height, texts) {
  let end = -Infinity;
  context.fillStyle = colourOf("faint");
  context.textAlign = "left";
  context.textBaseline = "bottom";
  for (const [text, x] of texts) {
    const wide = context.measureText(text).width;
    const left = Math.max(Math.min(x - wide / 2, width - RIGHT - wide), LEFT);
    if (left < end + 10) continue;
    context.fillText(text, left, height - 4);
    end = left + wide;
  }
}

/* What stands below a plot at a place of the axis. */
function placeText(view, position) {
  if (view.axis === "time" && view.file.head.has_times) return timeText(position);
  if (view.axis === "time") return String(Math.round(position));
  const moment = Math.min(Math.max(Math.round(position), 0), view.file.times.length - 1);
  const operator = operatorAt(view.file, moment);
  return view.file.operatorTime.length > 0 ? `operator ${Math.max(operator, 0)}` : `event ${view.file.times[moment]}`;
}

function drawPlaces(context, view, width, height) {
  const count = Math.max(2, Math.floor((width - LEFT) / 160)), texts = [];
  for (let i = 0; i <= count; i++) {
    texts.push([placeText(view, view.from + (view.to - view.from) * i / count), LEFT + (width - LEFT - RIGHT) * i / count]);
  }
  drawTexts(context, width, height, texts);
}

/* Sums of colours in each column of the plot, at the moment in it when most is alive. */
function columnSums(view, columns) {
  const { at, from, to } = view, { first, last, size, byEnd, live, times } = view.file;
  const { colour, of } = view.grouping;
  const parts = COLOUR_COUNT + 1, scale = columns / (to - from), count = times.length;
  const now = new Float64Array(parts), sums = new Float64Array(columns * parts);
  const best = new Float64Array(columns).fill(-1);
  for (let moment = 0, begun = 0, ended = 0; moment < count; moment++) {
    for (; ended < byEnd.length && last[byEnd[ended]] === moment; ended++) now[colour[of[byEnd[ended]]]] -= size[byEnd[ended]];
    for (; begun < first.length && first[begun] === moment; begun++) now[colour[of[begun]]] += size[begun];
    const here = at[moment], next = moment + 1 < count ? at[moment + 1] : here, alive = live[moment];
    if (next < from || here > to) continue;
    const left = Math.max(Math.floor((here - from) * scale), 0);
    const right = Math.min(Math.max(Math.ceil((next - from) * scale), left + 1), columns);
    for (let column = left; column < right; column++) {
      if (alive <= best[column]) continue;
      best[column] = alive;
      for (let part = 0; part < parts; part++) sums[column * parts + part] = now[part];
    }
  }
  return sums;
}

function drawMemory(view, context, width, height) {
  const columns = Math.max(Math.floor(width - LEFT - RIGHT), 1), parts = COLOUR_COUNT + 1;
  const most = view.mostBytes * 1.04, scale = (height - TOP - BOTTOM) / most;
  const sums = columnSums(view, columns);
  drawBytes(context, width, height, 0, most, true);
  for (let part = 0; part < parts; part++) {
    context.fillStyle = colourOf(`g${part}`);
    for (let column = 0; column < columns; column++) {
      let below = 0;
      for (let i = 0; i < part; i++) below += sums[column * parts + i];
      const bytes = sums[column * parts + part];
      if (bytes > 0) context.fillRect(LEFT + column, height - BOTTOM - (below + bytes) * scale, 1, bytes * scale);
    }
  }
  drawPlaces(context, view, width, height);
  drawMark(view, context, width, height, view.file.peak, "peak");
  if (view.cursor !== view.file.peak) drawMark(view, context, width, height, view.cursor, "");
}

/* A line at a moment. */
function drawMark(view, context, width, height, moment, text) {
  const position = view.at[moment];
  if (position < view.from || position > view.to) return;
  const x = LEFT + (width - LEFT - RIGHT) * (position - view.from) / (view.to - view.from || 1);
  context.strokeStyle = colourOf(text === "" ? "ink" : "mark");
  context.setLineDash(text === "" ? [] : [5, 3]);
  context.beginPath();
  context.moveTo(x, TOP);
  context.lineTo(x, height - BOTTOM);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = colourOf("mark");
  context.textBaseline = "top";
  context.textAlign = x > width / 2 ? "right" : "left";
  context.fillText(text, x + (x > width / 2 ? -5 : 5), TOP);
}
