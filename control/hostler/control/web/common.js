// What both pages share. Every text of others becomes a text node: nothing here or there parses markup.
export const $ = (id) => document.getElementById(id);
export const who = { token: "" }; // kept in this page's memory alone

export async function api(path) {
  const answer = await fetch(path, { headers: { authorization: `Bearer ${who.token}` } }).catch((error) => {
    throw new Error(`The control plane does not answer (${error.message}). What is shown may be old.`);
  });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(`${body.detail} (${body.error_code}). ${body.hint}`), { code: body.error_code });
  return body;
}

// An element of ours; `text` and string children are data of anybody's.
export function el(tag, { text, className, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text ?? "";
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function cell(text, className) {
  return el("td", { text: text ?? "", className });
}

export function headings(...names) {
  return el("tr", {}, ...names.map((text) => el("th", { text, scope: "col" })));
}

// Writes only what is new, so that focus, selection and scrolling stay where they are.
export function say(element, text, className) {
  if (element.textContent !== text) element.textContent = text;
  if (className !== undefined && element.className !== className) element.className = className;
}

// Puts `wanted` into `parent` in that order; what is there already is not touched.
export function arrange(parent, wanted) {
  const kept = new Set(wanted);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((child, index) => parent.children[index] !== child && parent.insertBefore(child, parent.children[index] ?? null));
}

export function moment(ms) {
  return ms ? new Date(ms).toLocaleString() : "never";
}

export function ago(ms, now = Date.now()) {
  if (!ms) return "never";
  const s = Math.round(Math.abs(now - ms) / 1000);
  const long = s < 90 ? `${s} s` : s < 5400 ? `${Math.round(s / 60)} min` : s < 129600 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
  return ms > now ? `in ${long}` : `${long} ago`;
}

const WAITS = {
  node_busy: "the node to be idle",
  node_away: "the node to come back",
  draining: "the drain to end",
  node_unhealthy: "the node to be healthy",
  run_in_progress: "its other run to end",
  server_busy: "the control plane to have time",
};

export function waits(word) {
  return word ? `waits for ${WAITS[word] ?? word}` : "";
}

// Pages of a list by cursor: forward by what the list answered, back by what was visited.
export class Pager {
  constructor(previous, next, label, changed) {
    Object.assign(this, { previous, next, label, visited: [""], following: "" });
    previous.addEventListener("click", () => { this.visited.pop(); changed(); });
    next.addEventListener("click", () => { this.visited.push(this.following); changed(); });
  }

  get cursor() { return this.visited[this.visited.length - 1]; }

  first() { this.visited = [""]; }

  shown(page) {
    this.following = page.next_cursor;
    this.previous.disabled = this.visited.length < 2;
    this.next.disabled = !page.next_cursor;
    say(this.label, `Page ${this.visited.length}, ${page.items.length} on it`);
  }
}
