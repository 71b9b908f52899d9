"use strict";

const asked = document.getElementById("asked");
const state = document.getElementById("state");
const shown = new Map();

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function card(request) {
  const made = document.createElement("form");
  made.append(element("h2", `Request ${request.number}`));
  for (const { role, text } of request.said) {
    made.append(element("strong", role), element("pre", text));
  }
  if (request.tools.length) {
    made.append(element("p", "Tools (/call NAME {…}):"), element("pre", request.tools.join("\n")));
  }
  const box = document.createElement("textarea");
  box.rows = 4;
  box.cols = 80;
  box.setAttribute("aria-label", `Your answer to request ${request.number}`);
  made.append(box, element("button", "Answer"));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = JSON.stringify({ number: request.number, text: box.value });
    await fetch("/answer", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    await refresh();
  });
  return made;
}

async function refresh() {
  const waiting = await (await fetch("/waiting")).json();
  const numbers = new Set(waiting.map((request) => request.number));
  for (const [number, made] of shown) {
    if (!numbers.has(number)) {
      made.remove();
      shown.delete(number);
    }
  }
  for (const request of waiting) {
    if (!shown.has(request.number)) {
      shown.set(request.number, card(request));
      asked.append(shown.get(request.number));
    }
  }
  state.textContent = waiting.length ? `${waiting.length} waiting` : "Nothing is asked.";
}

setInterval(() => refresh().catch(() => (state.textContent = "The run has ended.")), 1000);
refresh();
