"use strict";
const filter = document.getElementById("filter");
const bags = [...document.querySelectorAll(".bag")];
const sections = [...document.querySelectorAll("section")].filter((section) => section.querySelector(".bag"));

function matches(bag, chosen, correct) {
  const { label, predicted } = bag.dataset;
  return (!chosen || chosen === label || chosen === predicted) && (!correct || correct === bag.dataset.correct);
}

function apply() {
  const chosen = filter.elements["class"].value;
  const correct = filter.elements["correct"]?.value; // undefined if bags have no labels
  for (const more of document.querySelectorAll(".more")) more.open = Boolean(chosen || correct);
  for (const bag of bags) bag.hidden = !matches(bag, chosen, correct);
  for (const row of document.querySelectorAll("[data-class]")) row.hidden = Boolean(chosen) && chosen !== row.dataset["class"];
  for (const section of sections) {
    const all = section.querySelectorAll(".bag").length;
    const left = section.querySelectorAll(".bag:not([hidden])").length;
    const shown = all === 1 ? "bag shown" : "bags shown";
    const text = left === all ? `${all} ${shown}` : `${left} of ${all} ${shown}`;
    section.querySelector(".tally").textContent = text;
    section.querySelector(".nothing").hidden = left > 0;
    if (section.id === "bags") filter.querySelector("output").textContent = text;
  }
}

window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
if (filter) {
  filter.hidden = false;
  filter.addEventListener("change", apply);
  filter.addEventListener("submit", (event) => event.preventDefault());
  apply();
}
