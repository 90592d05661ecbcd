/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the data, shows each file, and two of them beside each other. */

function compareRow(name, a, b, isBytes) {
  const change = b - a;
  const sign = change > 0 ? "+" : change < 0 ? "−" : "";
  const share = a > 0 && change !== 0 ? ` (${sign}${percentText(Math.abs(change), a)})` : "";
  const text = (value) => isBytes ? sizeText(value) : value.toLocaleString("en");
  return element("tr", { "data-name": name, "data-first": a, "data-second": b }, element("td", { class: "name" }, name),
    element("td", { class: "number" }, text(a)), element("td", { class: "number" }, text(b)),
    element("td", { class: "number" }, `${sign}${text(Math.abs(change))}`, element("span", { class: "change" }, share)));
}

/* The groups of both at their peaks, those that differ most first. */
function compareGroups(first, second) {
  const sums = new Map();
  [first, second].forEach((view, side) => {
    const grouping = view.file.groupings.find(({ by }) => by === first.grouping.by) || view.grouping;
    groupsAt(view.file, grouping, view.file.peak).forEach((bytes, group) => {
      const name = shortName(grouping.names[group]);
      if (!sums.has(name)) sums.set(name, [0, 0]);
      sums.get(name)[side] += bytes;
    });
  });
  return [...sums].filter(([, [a, b]]) => a > 0 || b > 0).sort(([, x], [, y]) => Math.abs(y[1] - y[0]) - Math.abs(x[1] - x[0]))
    .slice(0, 12).map(([name, [a, b]]) => compareRow(name, a, b, true));
}

function showComparison(first, second) {
  const [a, b] = [first.file.figures, second.file.figures];
  const box = document.getElementById("compare");
  box.append(element("h2", {}, "Side by side"), element("table", { class: "compare" },
    element("thead", {}, element("tr", {}, element("th", {}, "at the peak"), ...[baseName(a.file), baseName(b.file), "change"]
      .map((name) => element("th", { class: "number" }, name)))),
    element("tbody", {}, compareRow("alive", a.peak_bytes, b.peak_bytes, true),
      compareRow("with planned offsets", a.planned_bytes, b.planned_bytes, true),
      compareRow("buffers", a.peak_buffers, b.peak_buffers, false), ...compareGroups(first, second))));
  box.hidden = false;
}

function redrawAll(views) {
  for (const view of views) {
    for (const canvas of [view.memory, view.offsets, view.sweep, view.lanes]) {
      if (canvas) canvas.redraw();
    }
  }
}

async function start() {
  const heads = [...document.querySelectorAll("script.head")], columns = [...document.querySelectorAll("script.columns")];
  const files = await Promise.all(heads.map((head, i) => decode(head.textContent, columns[i].textContent)));
  files.forEach(findLives);
  const mostBytes = Math.max(...files.map((file) => file.live[file.peak]), 1);
  const views = files.map((file) => makeView(file, files, mostBytes));
  const main = document.getElementById("views");
  main.classList.toggle("two", views.length > 1);
  main.append(...views.map((view) => view.box));
  document.title = `Memory: ${files.map((file) => baseName(file.figures.file)).join(", ")}`;
  if (views.length > 1) showComparison(views[0], views[1]);
  views.forEach(showCursor);
  redrawAll(views);
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => redrawAll(views));
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawAll(views));
  performance.mark("shown");
  document.body.dataset.state = "shown";
}

start().catch((error) => {
  document.body.dataset.state = "failed";
  document.getElementById("views").append(element("p", { class: "error" }, `The page could not be shown: ${error.message}`));
  throw error;
});
