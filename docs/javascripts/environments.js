// Filters above the cards of environments.md: words, domain, judge, sandbox, tools, NeMo Gym. The address keeps the choice.
const groups = [...document.querySelectorAll(".md-content .cards")].map((cards) => ({
  cards: [...cards.querySelectorAll(":scope > .card")],
  block: cards,
  heading: cards.previousElementSibling,
  domain: cards.previousElementSibling.id,
}));

const conditions = {
  judge: ["a judge", (card) => card.dataset.needs.includes("judge")],
  "no-judge": ["no judge", (card) => !card.dataset.needs.includes("judge")],
  sandbox: ["a sandbox", (card) => card.dataset.needs.includes("sandbox")],
  tools: ["tools", (card) => card.dataset.tools !== "0"],
  "no-tools": ["no tools", (card) => card.dataset.tools === "0"],
  nemo: ["NeMo Gym's rows", (card) => card.dataset.nemo === "1"],
};
const opposites = { judge: "no-judge", "no-judge": "judge", tools: "no-tools", "no-tools": "tools" };

const state = { words: "", domain: "", with: new Set() };

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function chip(text, isOn, choose) {
  const button = element("button", { type: "button", class: "chip" }, text);
  button.addEventListener("click", () => {
    choose();
    show();
  });
  button.update = () => button.setAttribute("aria-pressed", String(isOn()));
  return button;
}

function show() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const group of groups) {
    let any = false;
    for (const card of group.cards) {
      const fits =
        (!state.domain || state.domain === group.domain) &&
        words.every((word) => card.dataset.words.includes(word)) &&
        [...state.with].every((name) => conditions[name][1](card));
      card.hidden = !fits;
      any ||= fits;
      shown += fits;
    }
    group.block.hidden = group.heading.hidden = !any;
  }
  for (const button of chips) button.update();
  const total = groups.reduce((sum, group) => sum + group.cards.length, 0);
  count.textContent = shown ? `${shown} of ${total} environments` : "No environment has all of that.";
  const query = new URLSearchParams();
  if (state.words) query.set("words", state.words);
  if (state.domain) query.set("domain", state.domain);
  if (state.with.size) query.set("with", [...state.with].join(" "));
  const text = String(query);
  history.replaceState(null, "", `${location.pathname}${text && `?${text}`}${location.hash}`);
}

const chips = [];
const count = element("p", { class: "filter-count", "aria-live": "polite" });

if (groups.length) {
  const query = new URLSearchParams(location.search);
  state.words = query.get("words") ?? "";
  state.domain = query.get("domain") ?? "";
  for (const name of (query.get("with") ?? "").split(" ")) if (name in conditions) state.with.add(name);

  const input = element("input", { type: "search", placeholder: "Filter by name, task or tool", "aria-label": "Filter" });
  input.value = state.words;
  input.addEventListener("input", () => {
    state.words = input.value;
    show();
  });
  const domains = element("div", { class: "chips", role: "group", "aria-label": "Domain" });
  for (const { domain, heading } of [{ domain: "", heading: null }, ...groups]) {
    const text = heading ? heading.firstChild.textContent : "All domains";
    chips.push(chip(text, () => state.domain === domain, () => (state.domain = domain)));
    domains.append(chips.at(-1));
  }
  const facts = element("div", { class: "chips", role: "group", "aria-label": "With" });
  for (const [name, [text]] of Object.entries(conditions)) {
    const toggle = () => {
      if (!state.with.delete(name)) state.with.add(name);
      state.with.delete(opposites[name]);
    };
    chips.push(chip(text, () => state.with.has(name), toggle));
    facts.append(chips.at(-1));
  }
  groups[0].heading.before(element("div", { class: "filters" }, input, domains, facts, count));
  show();
}
