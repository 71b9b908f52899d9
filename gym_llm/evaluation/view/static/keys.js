// The keyboard: a letter does nothing while a text is typed.
import { h } from "./dom.js";

const KEYS = [
  ["j  k", "next, previous episode"], ["Enter", "open the selected episode"], ["Esc", "back to the list"], ["/", "search all texts"],
  ["c  t  d  r", "conversation, tokens, compare, record"], ["s", "texts as written, or rendered"], ["m", "dark or light"], ["?", "these keys"],
];

/** The help, as a dialog. */
export function helpDialog() {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("dl", {}, KEYS.map(([keys, what]) => h("div", {}, h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)))),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}

/** Calls what stands under a key's name, unless someone types. */
export function listenToKeys(actions) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.matches?.("input:not([type=checkbox]), select, textarea");
    if (typing && event.key === "Escape") return event.target.blur();
    if (typing || document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && event.target.matches?.("a, button, summary, canvas, [role=button]")) return;
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
}

