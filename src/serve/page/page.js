// page.js - the page of accel serve: chat, embed, transcribe, status.  It calls the routes that every client calls.
"use strict";
const $ = (id) => document.getElementById(id);
let models = [], messages = [], abort = null;

function say(text) {
  $("problem").hidden = !text;
  $("problem").textContent = text || "";
}

async function call(path, options = {}) {
  const headers = { ...options.headers };
  const key = sessionStorage.getItem("key");
  if (key) headers.Authorization = "Bearer " + key;
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) $("key-form").hidden = false;
  if (!answer.ok) {
    const text = await answer.text();
    let message = text;
    try { message = JSON.parse(text).error.message; } catch { /* it is no JSON */ }
    throw new Error(message || answer.statusText);
  }
  return answer;
}

const post = (path, body, signal) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

// Runs what a form asks for; failures are shown.
function on(id, event, work) {
  $(id).addEventListener(event, async (e) => {
    e.preventDefault();
    say("");
    try { await work(); } catch (error) { if (error.name !== "AbortError") say(error.message); }
  });
}

// ---- models ----

async function listModels() {
  models = (await (await call("/v1/models")).json()).data;
  const before = $("model").value;
  $("model").replaceChildren(...models.map((m) => new Option(m.task ? `${m.id} (${m.task})` : `${m.id} (loading)`, m.id)));
  if (before) $("model").value = before;
  else choose("chat");
}

// ---- chat ----

function show(role, text) {
  const box = document.createElement("div");
  box.className = "message " + role;
  box.textContent = text;
  $("messages").append(box);
  box.scrollIntoView({ block: "end" });
  return box;
}

// The data of each event of a stream.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.startsWith("data: ") ? part.slice(6) : "";
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
  }
}

async function chat() {
  const text = $("say").value;
  $("say").value = "";
  messages.push({ role: "user", content: text });
  show("user", text);
  const box = show("assistant", "");
  let said = "";
  abort = new AbortController();
  $("stop").hidden = false;
  $("send").disabled = true;
  try {
    const answer = await post("/v1/chat/completions", { model: $("model").value, messages, stream: true }, abort.signal);
    for await (const event of events(answer)) {
      if (event.error) throw new Error(event.error.message);
      said += event.choices?.[0]?.delta?.content ?? "";
      box.textContent = said;
    }
  } finally {
    if (said) messages.push({ role: "assistant", content: said });
    else { messages.pop(); box.remove(); }
    $("stop").hidden = true;
    $("send").disabled = false;
  }
}

// ---- embed ----

async function embed() {
  const input = $("texts").value.split("\n").filter((line) => line.trim());
  const answer = await (await post("/v1/embeddings", { model: $("model").value, input, encoding_format: "float" })).json();
  const vectors = answer.data.map((d) => d.embedding);
  const length = (v) => Math.hypot(...v);
  const cosine = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0) / (length(a) * length(b));
  const table = document.createElement("table");
  const cell = (row, kind, text) => { const c = document.createElement(kind); c.textContent = text; row.append(c); };
  const top = table.insertRow();
  cell(top, "th", `${vectors[0].length} numbers each`);
  input.forEach((_, i) => cell(top, "th", i + 1));
  vectors.forEach((a, i) => {
    const row = table.insertRow();
    cell(row, "th", `${i + 1}: ${input[i].slice(0, 40)}`);
    vectors.forEach((b) => cell(row, "td", cosine(a, b).toFixed(4)));
  });
  const box = document.createElement("div");
  box.className = "wide";
  box.append(table);
  $("cosines").replaceChildren(box);
}

// ---- transcribe ----

async function transcribe() {
  const form = new FormData();
  form.append("file", $("sound").files[0]);
  form.append("model", $("model").value);
  $("transcript").textContent = "...";
  try {
    $("transcript").textContent = (await (await call("/v1/audio/transcriptions", { method: "POST", body: form })).json()).text;
  } catch (error) {
    $("transcript").textContent = "";
    throw error;
  }
}

// ---- status ----

async function status() {
  const text = await (await call("/metrics")).text();
  const lines = text.split("\n").filter((l) => l && !l.startsWith("#") && !l.includes("_bucket{"));
  $("figures").replaceChildren(...lines.flatMap((line) => {
    const at = line.lastIndexOf(" ");
    const name = document.createElement("dt"), value = document.createElement("dd");
    name.textContent = line.slice(0, at);
    value.textContent = line.slice(at + 1);
    return [name, value];
  }));
}

// ---- the page ----

// What a tab takes a model for; the first that fits is chosen.
const tasks = {
  chat: ["text-generation", "image-text-to-text"],
  embed: ["feature-extraction", "sentence-similarity"],
  transcribe: ["automatic-speech-recognition"],
};

function choose(tab) {
  const fits = (m) => !tasks[tab] || tasks[tab].includes(m.task);
  const chosen = models.find((m) => m.id === $("model").value);
  const model = chosen && fits(chosen) ? chosen : models.find(fits);
  if (model) $("model").value = model.id;
}

function open(tab) {
  for (const button of document.querySelectorAll("[data-tab]")) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute("aria-selected", chosen);
    $(button.dataset.tab).hidden = !chosen;
  }
  say("");
  choose(tab);
  if (tab === "status") status().catch((error) => say(error.message));
}

for (const button of document.querySelectorAll("[data-tab]")) button.addEventListener("click", () => open(button.dataset.tab));
on("chat-form", "submit", chat);
on("embed-form", "submit", embed);
on("transcribe-form", "submit", transcribe);
on("stop", "click", async () => abort?.abort());
on("clear", "click", async () => { messages = []; $("messages").replaceChildren(); });
on("key-form", "submit", async () => { sessionStorage.setItem("key", $("key").value); await listModels(); });
$("say").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("chat-form").requestSubmit(); }
});
setInterval(() => { if (!$("status").hidden) status().catch(() => {}); }, 2000);
listModels().catch((error) => say(error.message));
