/* SPDX-License-Identifier: Apache-2.0 */
/* The data of the page, as tools/report/page.c writes it. */

/* Opens base64 of zlib. */
async function unpack(text) {
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Reads numbers of up to 53 bits: single ones, seven bits a byte, the lowest first, and columns. */
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  next() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, weight = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 127) * weight;
      weight *= 128;
    } while (byte >= 128);
    return value;
  }
  signed() {
    const value = this.next();
    return value % 2 === 1 ? -(value - 1) / 2 : value / 2;
  }
  /* The lowest byte of all of them comes first. */
  column(count, make = Float64Array) {
    const column = new make(count), bytes = this.bytes;
    for (let left = bytes[this.at++], weight = 1; left > 0; left--, weight *= 256) {
      for (let i = 0; i < count; i++) column[i] += bytes[this.at++] * weight;
    }
    return column;
  }
}

/* Offsets: told, or the end of another buffer, which may lie on another one in turn. */
function readOffsets(file, numbers) {
  const count = file.head.count, unit = file.head.unit, size = file.size;
  const on = numbers.column(count, Uint32Array), offset = new Float64Array(count);
  const told = numbers.column(on.reduce((sum, code) => sum + (code === 0), 0));
  for (let i = 0, next = 0; i < count; i++) {
    if (on[i] === 0) offset[i] = told[next++] * unit;
  }
  const above = [];
  for (let i = 0; i < count; i++) {
    let at = i;
    for (; on[at] !== 0; at += on[at] % 2 === 1 ? -(on[at] + 1) / 2 : on[at] / 2) above.push(at);
    while (above.length > 0) {
      const end = offset[at] + size[at];
      at = above.pop();
      offset[at] = Math.ceil(end / unit) * unit;
      on[at] = 0;
    }
  }
  return offset;
}

function readBuffers(file, numbers) {
  const count = file.head.count;
  file.begin = numbers.column(count);
  for (let i = 1; i < count; i++) file.begin[i] += file.begin[i - 1];
  file.end = numbers.column(count);
  for (let i = 0; i < count; i++) file.end[i] += file.begin[i];
  file.size = numbers.column(count);
  file.offset = readOffsets(file, numbers);
  file.names = new Array(count);
  for (let i = 0, number = 0, named = 0; i < count; i++) {
    number += numbers.signed();
    file.names[i] = numbers.next() === 1 ? file.head.names[named++] : number;
  }
  file.groupings = file.head.groupings.map((grouping) => ({
    ...grouping, of: numbers.column(count, Uint32Array),
  }));
}

function readOperators(file, numbers) {
  const count = file.head.operator_count;
  file.operatorTime = new Float64Array(count);
  file.operatorBegin = new Float64Array(count);
  file.operatorCost = new Float64Array(count);
  let time = 0, begin = 0;
  for (let i = 0; i < count; i++) {
    time += numbers.next();
    begin += numbers.next();
    file.operatorTime[i] = time;
    file.operatorBegin[i] = begin;
    file.operatorCost[i] = numbers.next();
  }
}

function readCopies(numbers) {
  const copies = [];
  let begin = 0;
  for (let left = numbers.next(); left > 0; left--) {
    begin += numbers.signed();
    copies.push({ begin, end: begin + numbers.next(), bytes: numbers.next() });
  }
  return copies;
}

/* One step of the simulator, from its begin. */
function readRun(file, numbers) {
  const kernels = [];
  let now = 0;
  for (let i = 0; i < file.head.kernel_count; i++) {
    const stall = numbers.next(), inward = numbers.next(), outward = numbers.next(), onFile = numbers.next();
    const begin = now + stall;
    now = begin + numbers.next();
    kernels.push({ index: i, begin, end: now, stall, inward, outward, onFile });
  }
  file.run = { kernels, end: now, inward: readCopies(numbers), outward: readCopies(numbers), file: readCopies(numbers) };
}

async function decode(headText, columnsText) {
  const [head, columns] = await Promise.all([unpack(headText), unpack(columnsText)]);
  const file = { head: JSON.parse(new TextDecoder().decode(head)), run: null };
  const numbers = new Numbers(columns);
  file.figures = file.head.figures;
  readBuffers(file, numbers);
  readOperators(file, numbers);
  if (file.head.kernel_count > 0) readRun(file, numbers);
  return file;
}
