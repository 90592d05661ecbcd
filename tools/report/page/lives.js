/* SPDX-License-Identifier: Apache-2.0 */
/* What is alive when. Times become moments: numbers from 0 of the different times, in their order. At a moment
   what ends is gone, and what begins is there. */

/* The place of a time among sorted ones. */
function momentOf(times, time) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1; else high = middle;
  }
  return low;
}

/* Sorted, each once. */
function distinct(values) {
  values.sort();
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    if (i === 0 || values[i] !== values[i - 1]) values[count++] = values[i];
  }
  return values.slice(0, count);
}

/* The buffers by the moments of their ends. */
function orderByEnd(file) {
  const starts = new Uint32Array(file.times.length + 1);
  for (const moment of file.last) starts[moment + 1]++;
  for (let i = 1; i < starts.length; i++) starts[i] += starts[i - 1];
  const order = new Uint32Array(file.last.length);
  for (let i = 0; i < order.length; i++) order[starts[file.last[i]]++] = i;
  return order;
}

/* Adds to a file: times; first and last, the moments of each buffer; live, the bytes at each moment; peak. */
function findLives(file) {
  const count = file.begin.length;
  const all = new Float64Array(2 * count);
  all.set(file.begin);
  all.set(file.end, count);
  file.times = distinct(all);
  file.first = new Uint32Array(count);
  file.last = new Uint32Array(count);
  const change = new Float64Array(file.times.length);
  for (let i = 0, at = 0; i < count; i++) {
    while (file.times[at] < file.begin[i]) at++;
    file.first[i] = at;
    file.last[i] = momentOf(file.times, file.end[i]);
    change[at] += file.size[i];
    change[file.last[i]] -= file.size[i];
  }
  file.byEnd = orderByEnd(file);
  file.live = change;
  file.peak = 0;
  for (let i = 0; i < change.length; i++) {
    change[i] += i > 0 ? change[i - 1] : 0;
    if (change[i] > change[file.peak]) file.peak = i;
  }
}

/* The buffers at a moment, the largest first. */
function holdersAt(file, moment) {
  const holders = [];
  for (let i = 0; i < file.first.length && file.first[i] <= moment; i++) {
    if (file.last[i] > moment) holders.push(i);
  }
  return holders.sort((a, b) => file.size[b] - file.size[a] || a - b);
}

/* The bytes of each group at a moment. */
function groupsAt(file, grouping, moment) {
  const bytes = new Float64Array(grouping.names.length);
  for (let i = 0; i < file.first.length && file.first[i] <= moment; i++) {
    if (file.last[i] > moment) bytes[grouping.of[i]] += file.size[i];
  }
  return bytes;
}

/* The most that each group ever holds. */
function mostOfGroups(file, grouping) {
  const now = new Float64Array(grouping.names.length), most = new Float64Array(now.length);
  for (let i = 0, ended = 0; i < file.first.length; i++) {
    for (; ended < file.byEnd.length && file.last[file.byEnd[ended]] <= file.first[i]; ended++) {
      now[grouping.of[file.byEnd[ended]]] -= file.size[file.byEnd[ended]];
    }
    const group = grouping.of[i];
    now[group] += file.size[i];
    if (now[group] > most[group]) most[group] = now[group];
  }
  return most;
}

/* The groups that have a colour of their own are those that ever hold most in one of the files; all others
   share the last. A name has the same colour in each file. */
const COLOUR_COUNT = 8;
function colourGroups(files, by) {
  const groupings = files.map((file) => file.groupings.find((grouping) => grouping.by === by));
  const most = new Map();
  files.forEach((file, i) => {
    if (!groupings[i]) return;
    mostOfGroups(file, groupings[i]).forEach((bytes, group) => {
      const name = groupings[i].names[group];
      most.set(name, Math.max(most.get(name) || 0, bytes));
    });
  });
  const order = [...most].sort((a, b) => b[1] - a[1]).slice(0, COLOUR_COUNT).map(([name]) => name);
  const places = new Map(order.map((name, place) => [name, place]));
  for (const grouping of groupings) {
    if (grouping) grouping.colour = Uint8Array.from(grouping.names, (name) => places.get(name) ?? COLOUR_COUNT);
  }
}

/* The operator that runs at a moment; -1: none. */
function operatorAt(file, moment) {
  const time = file.times[moment];
  let low = -1, high = file.operatorTime.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (file.operatorTime[middle] <= time) low = middle; else high = middle - 1;
  }
  return low;
}

/* "operator 320 div": some forms put the number before the name. */
function operatorText(file, index) {
  const name = file.head.operators[index].replace(/^\d+th:/, "");
  return name === String(index) ? `operator ${index}` : `operator ${index} ${name}`;
}

/* Where each moment lies on the axis: one after the other, or by the time that it has. */
function positions(file, axis) {
  const count = file.times.length;
  const at = new Float64Array(count);
  if (axis === "order") {
    for (let i = 0; i < count; i++) at[i] = i;
  } else if (file.head.has_times) {
    const ends = file.operatorTime.length;
    for (let i = 0; i < count; i++) {
      const index = operatorAt(file, i);
      if (index < 0) continue;
      const begin = file.operatorTime[index];
      const length = (index + 1 < ends ? file.operatorTime[index + 1] : file.times[count - 1] + 1) - begin;
      at[i] = file.operatorBegin[index] + file.operatorCost[index] * (file.times[i] - begin) / (length > 0 ? length : 1);
      if (i > 0) at[i] = Math.max(at[i], at[i - 1]);
    }
  } else {
    at.set(file.times);
  }
  return at;
}
