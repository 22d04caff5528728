"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const key = "majority-audit-" + data.audit;
const single = data.classes.filter((name) => [...name].length === 1).map((name) => name.toLowerCase());
const letters = new Set(single).size === data.classes.length; // each class is a key itself
const KEYS = letters ? data.classes.map((name) => name.toLowerCase()) : [..."123456789abcdefghijklmnopqrstuvwxyz"];
const [UNSURE, OTHER] = [["0", "?"], ["-", "+"]].map((keys) => keys.find((each) => !KEYS.slice(0, data.classes.length).includes(each)));
const by = (id) => document.getElementById(id);
let answers = {};
for (const item of data.items) if (item.answer) answers[item.id] = item.answer;
try {
  answers = Object.assign(answers, JSON.parse(localStorage.getItem(key) || "{}"));
} catch (error) { /* a browser that keeps nothing: save often */ }
let at = Math.max(0, data.items.findIndex((item) => !answers[item.id]));

function make(name, text, parent, attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  parent.append(element);
  return element;
}

function draw(name, attributes, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  parent.append(element);
  return element;
}

data.classes.forEach((name, number) => {
  const button = make("button", "", by("classes"), { type: "button" });
  if (KEYS[number]) make("kbd", KEYS[number], button);
  button.append(name);
  button.dataset.answer = name;
  button.addEventListener("click", () => answer(name));
});
by("unsure").querySelector("kbd").textContent = UNSURE;
by("other").querySelector("kbd").textContent = OTHER;
by("unsure").dataset.answer = data.cannot_tell;
by("other").dataset.answer = data.other;
by("unsure").addEventListener("click", () => answer(data.cannot_tell));
by("other").addEventListener("click", () => answer(data.other));
by("back").addEventListener("click", () => move(-1));
by("skip").addEventListener("click", () => move(1));
by("save").addEventListener("click", save);

function answer(name) {
  answers[data.items[at].id] = name;
  try { localStorage.setItem(key, JSON.stringify(answers)); } catch (error) { /* as above */ }
  move(1);
}

function move(step) {
  at = Math.min(data.items.length - 1, Math.max(0, at + step));
  show();
}

function show() {
  const item = data.items[at], total = data.items.length;
  const done = data.items.filter((each) => answers[each.id]).length;
  by("title").textContent = `Instance ${at + 1} of ${total}`;
  by("left").textContent = done === total ? "all answered: save the answers" : `${total - done} left`;
  by("progress").max = total;
  by("progress").value = done;
  by("where").textContent = `bag ${item.bag}, instance ${item.instance}` + (item.path ? `, ${item.path}` : "")
    + (item.prediction ? `; predicted: ${item.prediction}` : "");
  for (const button of document.querySelectorAll("[data-answer]"))
    button.setAttribute("aria-pressed", String(answers[item.id] === button.dataset.answer));
  showPictures(item);
  showMap(item.map);
  showValues(item.values);
}

function showPictures(item) {
  by("pictures").replaceChildren();
  if (!item.image) return;
  for (const side of [320, 120, Math.max(...item.size)]) {
    const scale = side / Math.max(...item.size);
    make("img", "", by("pictures"), {
      src: item.image, width: Math.round(item.size[0] * scale), height: Math.round(item.size[1] * scale),
      alt: `instance ${item.instance} of bag ${item.bag}`,
    });
  }
  if (item.surroundings)
    make("img", "", by("pictures"), { src: item.surroundings, width: 320, alt: "its surroundings, the instance in a frame" });
}

function showMap(map) {
  by("map").replaceChildren();
  if (!map) return;
  const svg = draw("svg", { viewBox: `0 0 300 ${map.height}`, width: 300, height: map.height, role: "img" }, by("map"));
  svg.setAttribute("aria-label", `its place in the bag: ${map.extent}`);
  (map.places[0] || []).forEach(([x, y]) => draw("circle", { cx: x, cy: y, r: 2, fill: "#888" }, svg));
  const [x, y] = map.places[1][0];
  draw("circle", { cx: x, cy: y, r: 6, fill: "none", stroke: "#d1345b", "stroke-width": 3 }, svg);
}

function showValues(values) {
  by("values").replaceChildren();
  by("values").hidden = !values;
  if (!values) return;
  const table = make("table", "", by("values"));
  const head = make("tr", "", make("thead", "", table));
  for (const name of ["", "value", ...data.classes]) make("th", name, head, { scope: "col" });
  const body = make("tbody", "", table);
  data.features.forEach((feature, number) => {
    const row = make("tr", "", body), value = values[number];
    make("th", feature.name, row, { scope: "row" });
    make("td", value, row);
    for (const range of feature.ranges) {
      const cell = make("td", range ? `${range[0]} to ${range[1]}` : "–", row);
      if (range && range[0] <= value && value <= range[1]) cell.className = "within";
    }
  });
  make("caption", "typical ranges: the middle 80 % of the instances predicted as each class", table);
}

function save() {
  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = data.items.map((item) => [item.id, item.bag, item.instance, answers[item.id] || ""]);
  const text = [["id", "bag", "instance", "answer"], ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "answers.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const pressed = event.key, number = KEYS.indexOf(pressed.toLowerCase());
  if (pressed === "ArrowLeft" || pressed === "Backspace") move(-1);
  else if (pressed === "ArrowRight") move(1);
  else if (pressed === UNSURE) answer(data.cannot_tell);
  else if (pressed === OTHER) answer(data.other);
  else if (pressed.length === 1 && number >= 0 && number < data.classes.length) answer(data.classes[number]);
  else return;
  event.preventDefault();
});
show();
