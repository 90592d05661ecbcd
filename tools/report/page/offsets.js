/* SPDX-License-Identifier: Apache-2.0 */
/* Each buffer where the plan puts it: time to the right, offsets upwards. No two share a place, so that all of
   them together take as many pixels as the picture has, and one each for those that are smaller. */

/* A colour of the style as a pixel: alpha, blue, green, red. */
function pixelOf(name) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colourOf(name).slice(at, at + 2), 16));
  return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}

/* Paints each buffer that is inside: `names` gets the boxes with room for one. */
function paintBoxes(view, pixels, columns, rows, colours, names) {
  const { at, from, to, low, high } = view, { first, last, size, offset } = view.file;
  const { colour, of } = view.grouping;
  const wide = columns / (to - from || 1), tall = rows / (high - low);
  for (let i = 0; i < size.length; i++) {
    const x = (at[first[i]] - from) * wide, end = (at[last[i]] - from) * wide;
    const y = (offset[i] - low) * tall, above = y + size[i] * tall;
    if (end < 0 || x >= columns || above < 0 || y >= rows) continue;
    const left = Math.max(Math.floor(x), 0), bottom = Math.max(Math.floor(y), 0);
    const right = Math.min(Math.max(Math.floor(end), left + 1), columns);
    const top = Math.min(Math.max(Math.floor(above), bottom + 1), rows);
    const line = right - left > 3 && top - bottom > 3 ? 1 : 0; /* of the ground, between neighbours */
    const pixel = colours[colour[of[i]]];
    for (let row = bottom; row < top - line; row++) {
      const begin = (rows - 1 - row) * columns;
      for (let column = left; column < right - line; column++) pixels[begin + column] = pixel;
    }
    if (names !== null && right - left > 50 * names.scale && top - bottom > 14 * names.scale) {
      names.boxes.push([i, left, right, bottom, top]);
    }
  }
}

function drawNames(view, context, names, rows) {
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colourOf("ground");
  for (const [i, left, right, bottom, top] of names.boxes) {
    const letters = Math.floor((right - left) / names.scale / 7.5);
    const text = nameOf(view.file, i);
    context.fillText(text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}…` : text,
      LEFT + left / names.scale + 4, TOP + (rows - (bottom + top) / 2) / names.scale);
  }
}

function drawOffsets(view, context, width, height) {
  const scale = window.devicePixelRatio || 1;
  const columns = Math.max(Math.round((width - LEFT - RIGHT) * scale), 1);
  const rows = Math.max(Math.round((height - TOP - BOTTOM) * scale), 1);
  const colours = [];
  for (let i = 0; i <= COLOUR_COUNT; i++) colours.push(pixelOf(`g${i}`));
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer).fill(pixelOf("free"));
  const names = { boxes: [], scale };
  paintBoxes(view, pixels, columns, rows, colours, names);
  context.putImageData(image, Math.round(LEFT * scale), Math.round(TOP * scale));
  drawNames(view, context, names, rows);
  drawBytes(context, width, height, view.low, view.high, false);
  drawPlaces(context, view, width, height);
  drawMark(view, context, width, height, view.cursor, "");
}

/* The buffer at a place of the picture; -1: none. */
function bufferAt(view, x, y, width, height) {
  const { file, at } = view;
  const position = view.from + (x - LEFT) / (width - LEFT - RIGHT) * (view.to - view.from);
  const bytes = view.low + (height - BOTTOM - y) / (height - TOP - BOTTOM) * (view.high - view.low);
  for (let i = 0; i < file.size.length; i++) {
    if (at[file.first[i]] <= position && position < at[file.last[i]] && file.offset[i] <= bytes &&
        bytes < file.offset[i] + file.size[i]) return i;
  }
  return -1;
}

function nameOf(file, i) {
  const name = file.names[i];
  return typeof name === "number" ? `#${name}` : name;
}
