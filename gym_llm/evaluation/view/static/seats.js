// An episode of several players: a strip of its seats, and the record as one seat saw, sampled and was paid.
import { button, h } from "./dom.js";
import { number } from "./format.js";
import { fieldsOf } from "./items.js";
import { plain } from "./text.js";

const OWN = ["responses_create_params", "response", "trajectory", "turn_rewards"];

/** The names of an episode's seats; empty for an episode of one player. */
export function seatNames(record) {
  return Object.keys(fieldsOf(record.seats));
}

/** The seat whose request and response are those of the record itself. */
export function ownSeat(record) {
  return seatNames(record).find((name) => !Object.hasOwn(fieldsOf(record.seats[name]), "response"));
}

/** The record of one seat (as `seat_records` in Python makes it); the record itself if there is no such seat. */
export function atSeat(record, name) {
  if (name === undefined || name === ownSeat(record) || !seatNames(record).includes(name)) return record;
  const seat = fieldsOf(record.seats[name]);
  const others = Object.fromEntries(Object.entries(record).filter(([field]) => !OWN.includes(field) && field !== "seats"));
  const own = Object.fromEntries(Object.entries(seat).filter(([field]) => OWN.includes(field)));
  const info = { task_index: fieldsOf(record.info).task_index, turn: seat.turns, tool_errors: seat.tool_errors ?? 0, ...fieldsOf(seat.info) };
  return { ...others, ...own, info, reward: record.reward === null ? null : seat.reward };
}

/** Buttons with the seats' names, players and rewards; `choose` is called with a seat's name. */
export function seatStrip(record, chosen, choose) {
  const names = seatNames(record);
  if (!names.length) return null;
  const current = names.includes(chosen) ? chosen : ownSeat(record);
  return h("nav", { class: "seats", "aria-label": "Seats" }, h("span", { class: "note" }, "seats"), names.map((name) => {
    const seat = fieldsOf(record.seats[name]);
    const paid = record.reward === null || typeof seat.reward !== "number" ? "masked" : number(seat.reward);
    return button([h("b", {}, plain(name)), h("span", {}, plain(String(seat.player ?? "")), seat.trained && " (trained)"), h("span", { class: "paid" }, paid)],
      () => choose(name), { class: "seat", "aria-current": name === current ? "true" : null });
  }));
}
