"use strict";
// Everything that depends on the gradebook is decided by the server. This script only sends what a grader types.
const { base, xsrf, notebook, question, most } = document.body.dataset;
const cards = [...document.querySelectorAll(".card")];
const bank = document.getElementById("bank");
const keep = document.getElementById("keep");
let current = null; // the card that a dialog is about

async function send(path, content) {
  const response = await fetch(`${base}/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-XSRFToken": xsrf },
    body: JSON.stringify({ notebook, question, ...content }),
  });
  const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
  const reply = isJson ? await response.json() : { message: await response.text() };
  return { status: response.status, reply };
}

function fields(card) {
  const form = card.querySelector("form");
  return {
    form,
    points: form.elements.points,
    comment: form.elements.comment,
    criteria: [...form.querySelectorAll("input[type=checkbox]")],
    said: form.querySelector(".said"),
    conflict: form.querySelector(".conflict"),
  };
}

function known(card) {
  return JSON.parse(card.dataset.mark);
}

function show(card, answers) {
  card.dataset.mark = JSON.stringify(answers);
  card.querySelector(".state").textContent = answers[0].state;
  card.classList.toggle("marked", !answers[0].waiting);
  card.classList.remove("changed");
}

function edited(card) {
  card.classList.add("changed");
  fields(card).said.textContent = "";
}

async function save(card) {
  const { points, comment, said, conflict } = fields(card);
  const given = points.value.trim() === "" ? null : Number(points.value);
  if (given === null && points.validity.badInput) {
    said.textContent = `Points: type a number from 0 to ${most}.`;
    points.focus();
    return false;
  }
  const versions = Object.fromEntries(known(card).map((answer) => [answer.id, answer.version]));
  said.textContent = "Saving…";
  let status, reply;
  try {
    ({ status, reply } = await send("marks", { versions, points: given, comment: comment.value }));
  } catch {
    status = 0;
    reply = { message: "Nothing was saved: `course mark` does not answer. Start it again, and open its new address." };
  }
  said.textContent = "";
  if (status === 200) {
    show(card, reply.answers);
    conflict.replaceChildren();
    said.textContent = given === null ? "Saved without points." : "Saved.";
    return true;
  }
  if (status === 409) changedMeanwhile(card, reply.answers);
  else said.textContent = reply.message;
  return false;
}

function changedMeanwhile(card, theirs) {
  const { points, comment, conflict } = fields(card);
  const mine = known(card);
  const now = new Map(theirs.map((answer) => [answer.id, answer]));
  const written = (version) => version.split(".")[0];
  const rewritten = mine.some(({ id, version }) => now.has(id) && written(now.get(id).version) !== written(version));
  const text = document.createElement("p");
  const buttons = [];
  const button = (label, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.addEventListener("click", action);
    buttons.push(made);
  };
  const which = mine.length === 1 ? "this answer" : `${theirs.length} of these ${mine.length} answers`;
  if (rewritten) {
    text.textContent = "Nothing was saved: the student has handed in another answer since you loaded the page.";
  } else {
    const { state, comment: remark } = theirs[0];
    text.textContent =
      `Nothing was saved: somebody else has marked ${which} since you loaded the page. ` +
      `It now has: ${state}${remark ? `, and the comment “${remark}”` : ", and no comment"}.`;
    const update = () => {
      card.dataset.mark = JSON.stringify(mine.map((answer) => now.get(answer.id) || answer));
      conflict.replaceChildren();
    };
    if (mine.length === 1)
      button("Keep their mark", () => {
        show(card, theirs);
        points.value = theirs[0].points ?? "";
        comment.value = theirs[0].comment;
        conflict.replaceChildren();
        card.focus();
      });
    button("Save mine instead", () => {
      update();
      saveAndGo(card);
    });
  }
  if (rewritten || mine.length > 1) button("Load the page again", () => location.reload());
  conflict.replaceChildren(text, ...buttons);
  buttons[0].focus();
}

async function saveAndGo(card) {
  if (await save(card)) go(card, 1);
}

function go(card, step) {
  const target = cards[cards.indexOf(card) + step] || (step > 0 ? document.getElementById("next") : card);
  target.focus();
  target.scrollIntoView({ block: "nearest" });
}

function setPoints(card, value) {
  fields(card).points.value = value;
  edited(card);
}

function sumOfCriteria(card) {
  const met = fields(card).criteria.filter((box) => box.checked);
  setPoints(card, Math.min(met.reduce((sum, box) => sum + Number(box.value), 0), Number(most)));
}

function likeTheFirst(card) {
  const first = card.closest(".group").querySelector(".card[data-first]");
  if (!first || first === card) return;
  const from = fields(first);
  const to = fields(card);
  to.points.value = from.points.value;
  to.comment.value = from.comment.value;
  to.criteria.forEach((box, number) => (box.checked = from.criteria[number].checked));
  edited(card);
  to.said.textContent = "Copied, not saved yet.";
}

// --- The bank of comments ---

function choices() {
  return [...bank.querySelectorAll("#comments button")].filter((button) => !button.parentElement.hidden);
}

function search() {
  const words = document.getElementById("search").value.toLowerCase().split(/\s+/);
  for (const item of bank.querySelectorAll("#comments li")) {
    const text = item.textContent.toLowerCase();
    item.hidden = !words.every((word) => text.includes(word));
  }
  document.getElementById("none").hidden = choices().length > 0;
}

function openBank(card) {
  current = card;
  document.getElementById("search").value = "";
  search();
  bank.showModal();
  document.getElementById("search").focus();
}

function insert(text) {
  const { comment } = fields(current);
  const before = comment.value.trimEnd();
  comment.value = before ? `${before}\n\n${text}` : text;
  edited(current);
  bank.close();
  comment.focus();
}

function openKeep(card) {
  const { comment, said } = fields(card);
  if (!comment.value.trim()) {
    said.textContent = "There is no comment yet. Write it first.";
    comment.focus();
    return;
  }
  current = card;
  document.getElementById("keep-text").textContent = comment.value.trim();
  document.getElementById("keep-key").value = "";
  keep.querySelector(".said").textContent = "";
  keep.showModal();
  document.getElementById("keep-key").focus();
}

async function addToBank() {
  const key = document.getElementById("keep-key").value.trim();
  const text = fields(current).comment.value.trim();
  let status, reply;
  try {
    ({ status, reply } = await send("comments", { key, text }));
  } catch {
    reply = { message: "Nothing was saved: `course mark` does not answer." };
  }
  if (status !== 200) {
    keep.querySelector(".said").textContent = reply.message;
    return;
  }
  const item = document.createElement("li");
  const button = document.createElement("button");
  const name = document.createElement("b");
  const origin = document.createElement("span");
  button.type = "button";
  button.dataset.text = text;
  name.textContent = key;
  origin.className = "quiet";
  origin.textContent = "saved";
  button.append(name, " ", origin, document.createElement("br"), text);
  item.append(button);
  document.getElementById("comments").prepend(item);
  keep.close();
  fields(current).said.textContent = "The comment is in the bank.";
  current.focus();
}

document.getElementById("search").addEventListener("input", search);
bank.addEventListener("click", (event) => {
  const button = event.target.closest("#comments button");
  if (button) insert(button.dataset.text);
});
bank.addEventListener("keydown", (event) => {
  const all = choices();
  const place = all.indexOf(document.activeElement);
  const inSearch = document.activeElement.id === "search";
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = place + (event.key === "ArrowDown" ? 1 : -1);
    (next < 0 ? document.getElementById("search") : all[Math.min(next, all.length - 1)])?.focus();
  } else if (event.key === "Enter" && inSearch && all.length) {
    event.preventDefault();
    insert(all[0].dataset.text);
  }
});
keep.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  addToBank();
});
for (const dialog of [bank, keep]) {
  dialog.querySelector("[data-do=close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    if (document.activeElement === document.body || dialog.contains(document.activeElement)) current?.focus();
  });
}

// --- Keys and buttons of the cards ---

const KEYS = {
  j: (card) => go(card, 1),
  k: (card) => go(card, -1),
  f: (card) => setPoints(card, most),
  0: (card) => setPoints(card, 0),
  p: (card) => fields(card).points.select(),
  c: (card) => fields(card).comment.focus(),
  b: openBank,
  a: openKeep,
  g: likeTheFirst,
  Enter: saveAndGo,
  "?": () => {
    const help = document.getElementById("keys");
    help.open = !help.open;
    help.querySelector("summary").focus();
  },
};

for (const card of cards) {
  const { form, criteria } = fields(card);
  show(card, known(card));
  const answer = card.querySelector(".answer");
  if (answer.scrollHeight > answer.clientHeight) answer.tabIndex = 0; // so that arrow keys can scroll it
  card.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target !== card) {
      card.focus();
      return;
    }
    if (event.key === "Enter" && event.ctrlKey) {
      event.preventDefault();
      saveAndGo(card);
      return;
    }
    // Single keys work only while the card itself has the focus, so they never interfere with typing.
    if (event.target !== card || event.ctrlKey || event.altKey || event.metaKey) return;
    const box = /^[1-9]$/.test(event.key) ? criteria[Number(event.key) - 1] : undefined;
    const action = KEYS[event.key];
    if (!box && !action) return;
    event.preventDefault();
    if (box) {
      box.checked = !box.checked;
      sumOfCriteria(card);
    } else action(card);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    saveAndGo(card);
  });
  form.addEventListener("input", (event) => {
    if (event.target.type === "checkbox") sumOfCriteria(card);
    else edited(card);
  });
  const actions = { insert: openBank, keep: openKeep, like: likeTheFirst };
  for (const [name, action] of Object.entries(actions))
    form.querySelector(`[data-do=${name}]`)?.addEventListener("click", () => action(card));
}

addEventListener("beforeunload", (event) => {
  if (document.querySelector(".card.changed")) event.preventDefault();
});
cards[0]?.focus({ preventScroll: true });
