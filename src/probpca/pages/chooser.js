"use strict";
// An input with suggestions, and what a person may type into it.

function fillChooser(names) {
  const options = names.map((name) => element("option", "", { value: name }));
  document.getElementById("row-names").replaceChildren(...options);
}

/** The place of a row by its name, or by its number in the table, 1200 or 1,200; -1 if there is none. */
function findRow(names, rows, text) {
  const place = names.indexOf(text);
  if (place >= 0) return place;
  const number = /^(?:row )?(-?(?:\d{1,3}(?:,\d{3})+|\d+))$/i.exec(text.trim());
  return number ? rows.indexOf(Number(number[1].replaceAll(",", ""))) : -1;
}

/** Write the name of the chosen row; a tooltip shows all of it. */
function sayChosen(name) {
  const input = document.getElementById("row");
  input.value = name;
  input.title = name;
  input.setCustomValidity("");
}

function listenToChooser(names, rows, current, choose) {
  const input = document.getElementById("row");
  const look = () => {
    const place = findRow(names, rows, input.value);
    input.setCustomValidity(place < 0 ? "No row on this page has that name or number." : "");
    if (place < 0) return;
    if (place === current()) sayChosen(names[place]);
    else choose(place);
  };
  input.addEventListener("change", () => {
    look();
    input.reportValidity();
  });
  input.addEventListener("input", () => {
    if (names.includes(input.value)) look();
  });
  input.addEventListener("focus", () => input.select());
  const step = (by) => () => choose((current() + by + names.length) % names.length);
  document.getElementById("previous").addEventListener("click", step(-1));
  document.getElementById("next").addEventListener("click", step(1));
  document.getElementById("chooser").addEventListener("submit", (event) => event.preventDefault());
}
