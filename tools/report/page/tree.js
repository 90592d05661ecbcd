/* SPDX-License-Identifier: Apache-2.0 */
/* What is alive at a moment, by the parts of names: of modules "encoder.0.mlp", or of calls, the outermost
   first; then the operator. */

const TREE_CHILD_COUNT = 40, TREE_OPEN_SHARE = 0.25, TREE_OPEN_DEPTH = 6;

function partsOf(name) {
  if (name === "") return [];
  return name.startsWith(";") ? name.slice(1).split(";") : name.split(/[./]/).filter((part) => part !== "");
}

function treeAt(file, moment) {
  const modules = file.groupings.find((grouping) => grouping.by === "module");
  const operators = file.groupings.find((grouping) => grouping.by === "operator");
  const root = { name: "", bytes: 0, children: new Map() };
  const add = (node, part, bytes) => {
    let child = node.children.get(part);
    if (child === undefined) node.children.set(part, child = { name: part, bytes: 0, children: new Map() });
    child.bytes += bytes;
    return child;
  };
  for (let i = 0; i < file.first.length && file.first[i] <= moment; i++) {
    if (file.last[i] <= moment) continue;
    let node = root;
    root.bytes += file.size[i];
    if (modules) for (const part of partsOf(modules.names[modules.of[i]])) node = add(node, part, file.size[i]);
    const operator = operators ? operators.names[operators.of[i]] : "";
    if (operator !== "" && operator !== node.name) add(node, operator, file.size[i]);
    else if (node === root) add(node, "(not told)", file.size[i]);
  }
  return root;
}

/* A chain of nodes with one child each is one line. */
function shorten(node) {
  let end = node;
  const names = [node.name];
  while (end.children.size === 1) {
    const [only] = end.children.values();
    if (only.bytes !== end.bytes) break;
    end = only;
    names.push(only.name);
  }
  return { name: names.join(" › "), bytes: node.bytes, children: end.children };
}

function treeRow(node, whole) {
  const share = element("span", { class: "share", style: `width:${(100 * node.bytes / (whole || 1)).toFixed(2)}%` });
  return [
    element("span", { class: "text", title: node.name }, node.name),
    element("span", {}, share),
    element("span", { class: "number" }, sizeText(node.bytes)),
  ];
}

function treeList(parent, whole, depth) {
  const list = element("ul");
  const nodes = [...parent.children.values()].sort((a, b) => b.bytes - a.bytes).map(shorten);
  for (const node of nodes.slice(0, TREE_CHILD_COUNT)) {
    const item = element("li");
    if (node.children.size === 0) {
      item.append(element("div", { class: "leaf" }, ...treeRow(node, whole)));
    } else {
      const details = element("details", {}, element("summary", {}, ...treeRow(node, whole)));
      const fill = () => { if (details.childElementCount === 1) details.append(treeList(node, whole, depth + 1)); };
      details.addEventListener("toggle", fill);
      if (node.bytes >= TREE_OPEN_SHARE * whole && depth < TREE_OPEN_DEPTH) {
        fill();
        details.open = true;
      }
      item.append(details);
    }
    list.append(item);
  }
  if (nodes.length > TREE_CHILD_COUNT) {
    const bytes = nodes.slice(TREE_CHILD_COUNT).reduce((sum, node) => sum + node.bytes, 0);
    const rest = { name: `${nodes.length - TREE_CHILD_COUNT} more`, bytes };
    list.append(element("li", {}, element("div", { class: "leaf" }, ...treeRow(rest, whole))));
  }
  return list;
}

function showTree(box, file, moment) {
  const root = treeAt(file, moment);
  box.replaceChildren(treeList(root, root.bytes, 0));
}
