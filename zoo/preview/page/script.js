// The page asks for everything by the REST protocol of TF Serving, whoever answers it.

import { base64, drawPicture } from "./picture.js";
import { mergeWords, rows } from "./words.js";

const part = (id) => document.getElementById(id);
const PLACE_LEFT_EMPTY = -1e9; // the score of a place among the n best that could not be filled
let asked = 0; // the newest question; answers to older ones are not shown
let picture = null; // what was asked, where the model takes images

function model() {
  return part("model").hidden ? part("model-name").value.trim() : part("model").value;
}

async function rest(path, body) {
  const options = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`v1/models/${encodeURIComponent(model())}${path}`, options);
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(`The server answered ${response.status}, and no JSON`);
  }
  if (!response.ok) {
    const hint = response.status === 429 || response.status === 503 ? ". Try again" : "";
    throw new Error((answer.error || `The server answered ${response.status}`) + hint);
  }
  return answer;
}

function predict(signature, inputs) {
  return rest(":predict", { signature_name: signature, inputs });
}

function takesImages() {
  return !part("file").hidden;
}

// What the model takes: a text, or the file of an image.
async function showInput(name) {
  let inputs = {};
  try {
    const { metadata } = await rest("/metadata");
    inputs = metadata.signature_def.signature_def.serving_default.inputs;
  } catch {
    // A server that does not tell has a model of texts.
  }
  if (name !== model()) return;
  for (const [id, isWanted] of [["file", "image_bytes" in inputs], ["text", !("image_bytes" in inputs)]]) {
    part(id).hidden = document.querySelector(`label[for=${id}]`).hidden = !isWanted;
  }
  part("keys").hidden = takesImages();
}

function tell(message, isError = false) {
  part("message").textContent = message;
  part("message").classList.toggle("error", isError);
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

async function showModel() {
  const name = model();
  part("version").textContent = "";
  part("answer").hidden = true;
  tell("");
  if (!name) return;
  document.title = `${name} · zoo`;
  const input = showInput(name);
  try {
    const { model_version_status: versions } = await rest("");
    const ready = versions.filter((v) => v.state === "AVAILABLE").map((v) => v.version);
    if (name !== model()) return;
    if (ready.length) part("version").textContent = `version ${ready.sort((a, b) => b - a)[0]}`;
    else tell(`${name} is not ready: ${versions.map((v) => v.state).join(", ")}`, true);
  } catch (error) {
    if (name === model()) tell(error.message, true);
  }
  await input;
}

async function ask() {
  const text = part("text").value.trim();
  const file = part("file").files[0];
  if (!model()) return tell("Name a model.", true);
  if (takesImages() && !file) return tell("Choose a picture.", true);
  if (!takesImages() && !text) return tell("Type a text.", true);
  const question = ++asked;
  tell("Answering…");
  part("answer").setAttribute("aria-busy", "true");
  try {
    const inputs = takesImages() ? { image_bytes: [{ b64: await base64(file) }] } : { text: [text] };
    // A model without the signature `align` still has answers.
    const aligned = predict("align", inputs).catch(() => null);
    const { outputs } = await predict("serving_default", inputs);
    const alignment = await aligned;
    // As it lies in the file, which is how the model reads it; null where it is no picture.
    const shown = takesImages()
      ? await createImageBitmap(file, { imageOrientation: "none" }).catch(() => null)
      : null;
    if (question !== asked) return;
    picture = shown;
    part("answer").hidden = false;
    showBest(outputs.texts[0], outputs.scores[0]);
    showWords(outputs.text[0], alignment && alignment.outputs);
    tell(outputs.text[0] ? "" : "The model answers nothing.");
  } catch (error) {
    if (question !== asked) return;
    part("answer").hidden = true;
    tell(error.message, true);
  } finally {
    if (question === asked) part("answer").removeAttribute("aria-busy");
  }
}

function showBest(texts, scores) {
  const lines = texts
    .map((text, i) => [scores[i], text])
    .filter(([score]) => score > PLACE_LEFT_EMPTY)
    .map(([score, text]) => {
      const row = document.createElement("tr");
      row.append(element("td", score.toFixed(3).replace("-", "−")), element("td", text));
      return row;
    });
  part("best").tBodies[0].replaceChildren(...lines);
  part("best-part").hidden = lines.length < 2;
}

function showWords(text, alignment) {
  const tokens = (name) => (alignment ? alignment[name][0].filter((token) => token) : []);
  const [from, to] = [tokens("source_tokens"), tokens("target_tokens")];
  const weights = alignment ? rows(alignment.alignments[0], to.length, from.length) : [];
  const hasWeights = weights.length > 0 && weights[0].length > 0;
  const merged = mergeWords(from, to, weights);
  part("looked").hidden = !hasWeights;
  part("picture").hidden = !picture;
  part("source").hidden = part("map-part").hidden = !hasWeights || takesImages();
  if (picture) drawPicture(part("picture"), picture);
  part("weights").textContent = "Point at a word of the answer, or go through them by ← and →.";
  const areLetters = to.join("") === text;
  const isSource = from.every((token) => [...token].length === 1);
  const written = hasWeights ? merged.target : [text];
  fill(part("target"), written, areLetters, (word) =>
    hasWeights ? element("button", word, { type: "button", class: "word" }) : element("span", word));
  fill(part("source"), merged.source, isSource, (word) => element("span", word, { class: "word" }));
  if (!hasWeights) return;
  if (!takesImages()) showMap(merged);
  listen([...part("target").children], merged);
}

function fill(place, words, areLetters, make) {
  place.classList.toggle("letters", areLetters);
  const parts = words.flatMap((word, i) => (i && !areLetters ? [" ", make(word)] : [make(word)]));
  place.replaceChildren(...parts);
}

function listen(buttons, merged) {
  buttons.forEach((button, i) => {
    button.tabIndex = i ? -1 : 0; // one stop for Tab; the arrows go on from there
    button.addEventListener("pointerenter", () => light(i, merged));
    button.addEventListener("click", () => button.focus());
    button.addEventListener("focus", () => {
      buttons.forEach((other) => (other.tabIndex = other === button ? 0 : -1));
      light(i, merged);
    });
    button.addEventListener("keydown", (event) => {
      const last = buttons.length - 1;
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      buttons[Math.min(Math.max(next, 0), last)].focus();
    });
  });
}

function light(i, { source, target, weights }) {
  [...part("target").children].forEach((word, j) => word.classList.toggle("on", i === j));
  if (picture) drawPicture(part("picture"), picture, weights[i]);
  [...part("map").rows].slice(1).forEach((row, j) => row.classList.toggle("on", i === j));
  [...part("source").children].forEach((word, j) => {
    word.style.setProperty("--weight", weights[i][j]);
    word.classList.toggle("strong", weights[i][j] > 0.75);
  });
  const most = source
    .map((word, j) => [weights[i][j], word])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 3)
    .filter(([weight]) => weight >= 0.05)
    .map(([weight, word]) => `${placeOf(word)} ${percent(weight)}`);
  part("weights").textContent = `${target[i]} looked at ${most.join(", ") || "nothing much"}`;
}

function placeOf(word) {
  const [row, column] = word.split(",").map(Number);
  return takesImages() ? `row ${row + 1}, column ${column + 1}:` : word.trim() || "space";
}

function showMap({ source, target, weights }) {
  const caption = element("caption", "How much each word of the answer looked at each of the text");
  const labels = source.map((word) => {
    const label = element("th", "", { scope: "col" });
    label.append(element("span", word.trim() || "␣"));
    return label;
  });
  const head = document.createElement("thead");
  head.append(document.createElement("tr"));
  head.rows[0].append(document.createElement("td"), ...labels);
  head.rows[0].cells[0].setAttribute("aria-hidden", "true");
  const body = document.createElement("tbody");
  target.forEach((word, i) => {
    const row = document.createElement("tr");
    row.append(element("th", word.trim() || "␣", { scope: "row" }));
    source.forEach((other, j) => {
      const cell = element("td", "", { title: `${word} – ${other}: ${percent(weights[i][j])}` });
      cell.style.setProperty("--weight", weights[i][j]);
      cell.append(element("span", percent(weights[i][j])));
      row.append(cell);
    });
    row.addEventListener("pointerenter", () => light(i, { source, target, weights }));
    body.append(row);
  });
  part("map").replaceChildren(caption, head, body);
  part("map").classList.toggle("long", source.some((word) => [...word].length > 2));
}

function percent(weight) {
  return `${Math.round(100 * weight)} %`;
}

function begin() {
  const names = JSON.parse(document.body.dataset.models);
  part("model").append(...names.map((name) => new Option(name)));
  part("model").hidden = !names.length;
  part("model-name").hidden = names.length > 0;
  if (!names.length) document.querySelector("#model-row label").htmlFor = "model-name";
  for (const id of ["model", "model-name"]) part(id).addEventListener("change", showModel);
  part("form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  part("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask();
  });
  showModel();
}

begin();
