/* SPDX-License-Identifier: Apache-2.0 */
/* What less memory costs: the time of a step over the capacity, and one step with its copies and stalls. */

function drawSweep(view, context, width, height) {
  const { sweep, compute_s: compute } = view.file.figures;
  const points = sweep.filter((point) => point.step_s !== undefined);
  const most = Math.max(...sweep.map((point) => point.capacity_bytes));
  const slowest = Math.max(1.05 * compute, ...points.map((point) => point.step_s), ...sweep.map((point) => point.bound_s)) / compute;
  const x = (bytes) => LEFT + (width - LEFT - RIGHT) * bytes / most;
  const y = (seconds) => height - BOTTOM - (height - TOP - BOTTOM) * (seconds / compute - 1) / (slowest - 1) * 0.94;
  context.strokeStyle = colourOf("line");
  context.fillStyle = colourOf("faint");
  context.textBaseline = "middle";
  for (const factor of new Set([1, ...ticks(1, slowest, 5, false)])) {
    context.textAlign = "right";
    const at = y(factor * compute);
    context.beginPath();
    context.moveTo(LEFT, at);
    context.lineTo(width - RIGHT, at);
    context.stroke();
    context.fillText(`${Number(factor.toPrecision(3))} ×`, LEFT - 6, at);
  }
  drawTexts(context, width, height, ticks(0, most, 6, true).map((bytes) => [sizeText(bytes), x(bytes)]));
  const line = (list, key, colour, dash) => {
    context.strokeStyle = colourOf(colour);
    context.lineWidth = 2;
    context.setLineDash(dash);
    context.beginPath();
    list.forEach((point, i) => context[i === 0 ? "moveTo" : "lineTo"](x(point.capacity_bytes), y(point[key])));
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  };
  line(sweep, "bound_s", "faint", [5, 4]);
  line(points, "step_s", "g0", []);
  context.fillStyle = colourOf("g0");
  for (const point of points) context.fillRect(x(point.capacity_bytes) - 3, y(point.step_s) - 3, 6, 6);
}

function sweepTable(figures) {
  const rows = figures.sweep.map((point) => element("tr", { "data-bytes": point.capacity_bytes, "data-step": point.step_s ?? "" },
    element("td", { class: "number" }, sizeText(point.capacity_bytes)),
    element("td", { class: "number" }, percentText(point.capacity_bytes, figures.peak_bytes)),
    element("td", { class: "number" }, point.step_s === undefined ? "no plan" : `${(point.step_s / figures.compute_s).toFixed(3)} ×`),
    element("td", { class: "number" }, `${(point.bound_s / figures.compute_s).toFixed(3)} ×`)));
  const names = ["capacity", "of the peak", "step / kernels", "at least"];
  return element("table", { class: "sweep" },
    element("caption", {}, "time of a step over that of its kernels, planned, and the bound of all schemes"),
    element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { class: "number" }, name)))),
    element("tbody", {}, ...rows));
}

const LANES = [["compute", "kernels", "g0"], ["in", "inward", "g4"], ["out", "outward", "g1"], ["file", "file", "g6"]];
const LANE_HEIGHT = 40;

/* Those that something is in. */
function lanesOf(run) {
  return LANES.filter(([, key]) => run[key].length > 0);
}

/* Columns of a lane are as dark as they are busy, so that short copies are seen. */
function drawLanes(view, context, width, height) {
  const { run } = view.file;
  const columns = Math.max(Math.floor(width - LEFT - RIGHT), 1), span = (view.runTo - view.runFrom) / columns;
  const lanes = lanesOf(run);
  const high = (height - TOP - BOTTOM) / lanes.length;
  lanes.forEach(([name, key, colour], lane) => {
    const busy = new Float64Array(columns);
    for (const { begin, end } of run[key]) {
      const first = Math.max(Math.floor((begin - view.runFrom) / span), 0);
      const last = Math.min(Math.floor((end - view.runFrom) / span), columns - 1);
      for (let column = first; column <= last; column++) {
        const left = view.runFrom + column * span;
        busy[column] += Math.max(Math.min(end, left + span) - Math.max(begin, left), 0) / span;
      }
    }
    context.fillStyle = colourOf("free");
    context.fillRect(LEFT, TOP + lane * high + 2, columns, high - 4);
    context.fillStyle = colourOf(colour);
    for (let column = 0; column < columns; column++) {
      context.globalAlpha = Math.min(busy[column], 1);
      context.fillRect(LEFT + column, TOP + lane * high + 2, 1, high - 4);
    }
    context.globalAlpha = 1;
    context.fillStyle = colourOf("ink");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(name, LEFT - 6, TOP + (lane + 0.5) * high);
  });
  drawTexts(context, width, height, [0, 1, 2, 3, 4].map((i) =>
    [timeText(view.runFrom + (view.runTo - view.runFrom) * i / 4), LEFT + columns * i / 4]));
}

/* What a lane does at a place of the picture: within two pixels, since most copies are short. */
function tipOfLanes(view, x, y, width, height) {
  const { run } = view.file, lanes = lanesOf(run);
  const lane = lanes[Math.floor((y - TOP) / (height - TOP - BOTTOM) * lanes.length)];
  if (!lane || x < LEFT || x > width - RIGHT) return "";
  const pixel = (view.runTo - view.runFrom) / (width - LEFT - RIGHT), at = view.runFrom + (x - LEFT) * pixel;
  const found = run[lane[1]].find(({ begin, end }) => begin - 2 * pixel <= at && at <= end + 2 * pixel);
  if (!found) return `${lane[0]}: nothing at ${timeText(at)}`;
  const when = `${timeText(found.end - found.begin)} from ${timeText(found.begin)}`;
  if (lane[1] !== "kernels") return `${lane[0]}: ${sizeText(found.bytes)}, ${when}`;
  return `${operatorText(view.file, found.index)}: ${when}` +
    (found.stall > 0 ? `, after a wait of ${timeText(found.stall)}` : "");
}

/* Why a kernel began late, in words. */
function causeOf(stall) {
  const causes = [[stall.stall_in_s, "its data were still being copied in"],
    [stall.stall_out_s, "room was still being made by copies out"], [stall.stall_file_s, "the file was busy"]];
  const rest = stall.stall_s - causes.reduce((sum, [seconds]) => sum + seconds, 0);
  causes.push([rest, "kernels and links waited for each other in turn"]);
  return causes.sort((a, b) => b[0] - a[0]).filter(([seconds]) => seconds > 0.1 * stall.stall_s)
    .map(([seconds, text]) => `${text} (${percentText(seconds, stall.stall_s)})`).join("; ");
}

function stallTable(view) {
  const { figures } = view.file;
  if (!figures.stalls) return element("p", { class: "about" }, "No kernel waits.");
  const rows = figures.stalls.map((stall) => element("tr", { "data-kernel": stall.kernel_index, "data-stall": stall.stall_s },
    element("td", { class: "number" }, timeText(stall.stall_s * 1e9)),
    element("td", { class: "name" }, `${operatorText(view.file, stall.kernel_index)}${stall.module ? ` in ${stall.module}` : ""}`),
    element("td", {}, causeOf(stall))));
  return element("table", { class: "stalls" },
    element("caption", {}, "the longest waits of a kernel"),
    element("thead", {}, element("tr", {}, element("th", { class: "number" }, "wait"), element("th", {}, "before kernel"),
      element("th", {}, "because"))),
    element("tbody", {}, ...rows));
}

function swapSentence(figures) {
  const slower = 100 * (figures.step_s / figures.compute_s - 1), least = 100 * (figures.bound_s / figures.compute_s - 1);
  const cost = slower < 0.05 ? "as long as its kernels" :
    `${slower.toFixed(1)} % more than its kernels, where at least ${least.toFixed(1)} % are needed`;
  return `In ${sizeText(figures.capacity_bytes)} (${percentText(figures.capacity_bytes, figures.peak_bytes)} of the peak) ` +
    `a step takes ${timeText(figures.step_s * 1e9)}: ${cost}. ${sizeText(figures.bytes_in)} come in, ` +
    `${sizeText(figures.bytes_out)} go out.` +
    (figures.stall_s > 0 ? ` No kernel runs for ${timeText(figures.stall_s * 1e9)} of it.` : "");
}
