// Goes through the list and the episodes as a reader would, and says which elements and attributes there are that the page
// never makes, and what was shown as the model's words.
async ({ run, tasks, tabs, lines = 0 }) => {
  const made = new Set(("HTML HEAD META TITLE LINK SCRIPT STYLE BODY NOSCRIPT HEADER A I SPAN BUTTON P MAIN NAV B SMALL svg g " +
    "title rect text line DIV SECTION H1 H2 H3 H4 CANVAS FORM INPUT SELECT OPTION DETAILS SUMMARY LABEL TABLE COLGROUP COL " +
    "THEAD TR TH TBODY TD BDI WBR DL DT DD OL LI ASIDE DIALOG KBD MARK UL BLOCKQUOTE HR BR EM STRONG S CODE PRE TIME path").split(" "));
  const once = { SCRIPT: 4, STYLE: 1, META: 5, LINK: 6, FORM: 2, NOSCRIPT: 1 };
  const strange = new Set();
  const look = () => {
    const counts = {};
    for (const element of document.querySelectorAll("*")) {
      counts[element.tagName] = (counts[element.tagName] ?? 0) + 1;
      if (!made.has(element.tagName)) strange.add(element.tagName);
      for (const { name, value } of element.attributes) {
        if (/^on|^src|^action|^formaction|^xlink|^ping|^popover/i.test(name) && element.tagName !== "SCRIPT") strange.add(name);
        if (name === "href" && element.tagName === "A" && !/^#[\w=&%.+*-]*$/.test(value)) strange.add(value);
      }
    }
    for (const [name, most] of Object.entries(once)) if (counts[name] > most) strange.add(`${counts[name]} ${name}`);
    if ("__pwned" in window) strange.add("__pwned");
  };
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const soon = () => new Promise((done) => setTimeout(done));
  const until = async (holds, what) => {
    for (const end = performance.now() + 20_000; !holds(); await soon()) if (performance.now() > end) throw new Error(what);
  };
  const go = (fragment) => { location.hash = fragment; };
  go(`run=${run}`);
  await until(() => document.querySelector("main.overview:not([hidden]) tbody tr[aria-rowindex] a"), "no list");
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  [...document.querySelectorAll(".menu-list input")].slice(0, 8).forEach((each) => each.checked || each.click());
  for (let top = 0; top <= document.body.scrollHeight; top += 600) {
    scrollTo(0, top);
    await frame();
    await frame();
    look();
  }
  const shown = [];
  for (const task of tasks) {
    for (const tab of tabs) {
      go(`run=${run}&task=${task}&repeat=0&tab=${tab}`);
      const current = `tab-${tab || "conversation"}`;
      await until(() => document.querySelector("main.episode:not([hidden]) h1")?.textContent === `Task ${task} repeat 0` && document.querySelector(`#${current}[aria-selected=true]`), `${task} ${tab}`);
      for (let round = 0; round < (tab === "record" ? 2 : 4); round += 1) {
        const closed = document.querySelectorAll(".episode details:not([open])");
        if (!closed.length) break;
        closed.forEach((each) => { each.open = true; });
        await soon();
      }
      look();
      if (tab === "") {
        document.querySelector(".toggle").click(); // letter for letter
        await until(() => document.querySelector(".toggle[aria-pressed=true]") && !document.querySelector(".message .prose"), "not as written");
        look();
        shown.push(document.querySelector(".message.assistant .said")?.innerText);
      }
    }
  }
  for (let line = 0; line < lines; line += 1) {
    go(`run=${run}&line=${line}`);
    await until(() => document.querySelector("main.episode:not([hidden]) h1")?.textContent === `line ${line + 1}`, `line ${line}`);
    look();
  }
  return { strange: [...strange], shown };
}
