"use strict";
// The server decides everything that depends on the gradebook. This script only sends the grader's input.
const { base, xsrf, notebook, question, maxPoints } = document.body.dataset;
const cards = [...document.querySelectorAll(".card")];
const bank = document.getElementById("bank");
const keep = document.getElementById("keep");
const busy = new Set(); // cards and dialogs whose request has no reply yet
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
}

function edited(card) {
  card.classList.add("changed");
  fields(card).said.textContent = "";
}

// Sending the same versions twice would look like a change by somebody else.
async function once(element, request) {
  if (busy.has(element)) return;
  busy.add(element);
  await request(element).finally(() => busy.delete(element));
}

async function save(card) {
  const { points, comment, said, conflict } = fields(card);
  const focused = document.activeElement;
  const given = points.value.trim() === "" ? null : Number(points.value);
  if (given === null && points.validity.badInput) {
    said.textContent = `Points: type a number from 0 to ${maxPoints}.`;
    points.focus();
    return;
  }
  const sent = { points: points.value, comment: comment.value };
  const versions = Object.fromEntries(known(card).map((answer) => [answer.id, answer.version]));
  said.textContent = "Saving…";
  let status, reply;
  try {
    ({ status, reply } = await send("marks", { versions, points: given, comment: sent.comment }));
  } catch {
    status = 0;
    reply = { message: "Nothing was saved: `course mark` is not responding. Start it again, and open its new address." };
  }
  said.textContent = "";
  const stayed = document.activeElement === focused;
  if (status === 200) {
    show(card, reply.answers);
    conflict.replaceChildren();
    if (points.value !== sent.points || comment.value !== sent.comment) {
      said.textContent = "Saved, without your latest changes.";
      return;
    }
    card.classList.remove("changed");
    said.textContent = given === null ? "Saved without points." : "Saved.";
    if (stayed) go(card, 1);
  } else if (status === 409) {
    changedMeanwhile(card, reply.answers);
    if (stayed) conflict.querySelector("button").focus();
  } else said.textContent = reply.message;
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
    text.textContent = "Nothing was saved: the student has handed in a new answer since you loaded the page.";
  } else {
    const { state, comment: remark } = theirs[0];
    text.textContent =
      `Nothing was saved: somebody else has marked ${which} since you loaded the page. ` +
      `It now has: ${state}${remark ? `, and the comment “${remark}”` : ", and no comment"}.`;
    if (mine.length === 1)
      button("Keep their mark", () => {
        show(card, theirs);
        card.classList.remove("changed");
        points.value = theirs[0].points ?? "";
        comment.value = theirs[0].comment;
        conflict.replaceChildren();
        card.focus();
      });
    button("Save mine instead", () => {
      card.dataset.mark = JSON.stringify(mine.map((answer) => now.get(answer.id) || answer));
      conflict.replaceChildren();
      saveAndGo(card);
    });
  }
  if (rewritten || mine.length > 1) button("Load the page again", () => location.reload());
  conflict.replaceChildren(text, ...buttons);
}

function saveAndGo(card) {
  once(card, save);
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
  setPoints(card, Math.min(met.reduce((sum, box) => sum + Number(box.value), 0), Number(maxPoints)));
}

function likeTheFirst(card) {
  const first = card.closest(".group").querySelector("[data-first]");
  if (first === card) return;
  const to = fields(card);
  if (first.matches(".card")) {
    const from = fields(first);
    to.points.value = from.points.value;
    to.comment.value = from.comment.value;
    to.criteria.forEach((box, number) => (box.checked = from.criteria[number].checked));
  } else {
    const from = JSON.parse(first.dataset.first);
    to.points.value = from.points ?? "";
    to.comment.value = from.comment;
    for (const box of to.criteria) box.checked = false;
  }
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
    reply = { message: "Nothing was saved: `course mark` is not responding. Start it again, and open its new address." };
  }
  if (status !== 200) {
    keep.querySelector(".said").textContent = reply.message;
    return;
  }
  const item = document.getElementById("saved-comment").content.cloneNode(true);
  const button = item.querySelector("button");
  button.dataset.text = text;
  button.querySelector("b").textContent = key;
  button.append(text);
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
  const index = all.indexOf(document.activeElement);
  const inSearch = document.activeElement.id === "search";
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = index + (event.key === "ArrowDown" ? 1 : -1);
    (next < 0 ? document.getElementById("search") : all[Math.min(next, all.length - 1)])?.focus();
  } else if (event.key === "Enter" && inSearch && all.length) {
    event.preventDefault();
    insert(all[0].dataset.text);
  }
});
keep.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  once(keep, addToBank);
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
  f: (card) => setPoints(card, maxPoints),
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
  const scrolls = answer.scrollHeight > answer.clientHeight || answer.scrollWidth > answer.clientWidth;
  if (scrolls) answer.tabIndex = 0; // so that arrow keys can scroll it
  card.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target !== card) {
      card.focus();
      return;
    }
    const isSaving = event.key === "Enter" && (event.ctrlKey || event.target.tagName !== "TEXTAREA");
    if (isSaving && event.repeat) {
      event.preventDefault(); // a key that is held down must not save the next answer too
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
