// Nodes and operations of one project, live. Uses the public API and nothing else.
import { $, api, cell, headings, say, who } from "/common.js";

const state = { project: "", watching: null, cut: "" }; // cut: an operation whose events ended before it did
const CUT = "The events of this operation were cut off. What is shown of it may be old.";

function table(id, names, rows) {
  $(id).replaceChildren(headings(...names), ...rows);
}

async function refresh() {
  const base = `/api/v1/projects/${encodeURIComponent(state.project)}`;
  const [nodes, operations] = await Promise.all([api(`${base}/nodes`), api(`${base}/operations?page_size=50`)]);
  table("nodes", ["Name", "State", "Agent", "Id"], nodes.items.map((node) => {
    const row = document.createElement("tr");
    row.append(cell(node.name), cell(node.connection, node.connection), cell(node.agent_version), cell(node.node_id));
    return row;
  }));
  table("operations", ["Operation", "Definition", "Status", "Error"], operations.items.map((operation) => {
    const row = document.createElement("tr");
    row.className = "link";
    row.tabIndex = 0;
    row.append(cell(operation.operation_id), cell(`${operation.operation_type}@${operation.version}`),
      cell(operation.status, operation.status), cell(operation.error_code));
    const open = () => told(watch(`${base}/operations/${operation.operation_id}`));
    row.addEventListener("click", open);
    row.addEventListener("keydown", (event) => event.key === "Enter" && open());
    return row;
  }));
}

// What went wrong stands above the tables until something goes well again; what they show stays.
async function told(work) {
  try {
    await work;
    say($("message"), "");
    return true;
  } catch (error) {
    if (error.name !== "AbortError") say($("message"), error.message); // another operation was opened meanwhile
    return false;
  }
}

function show(operation, progress) {
  $("one").hidden = false;
  $("title").textContent = `${operation.operation_type}@${operation.version}: ${operation.status}`;
  $("steps").replaceChildren(...operation.tasks.map((task) => {
    const box = document.createElement("div");
    box.className = "task";
    const name = document.createElement("strong");
    const why = task.error_code ? `${task.error_code}: ${task.error_message}` : task.waiting_for;
    name.textContent = `${task.node_name} ${task.status} ${why}`;
    name.className = task.status;
    box.append(name, ...task.steps.map((step) => stepLine(task, step, progress)));
    return box;
  }));
}

function stepLine(task, step, progress) {
  const line = document.createElement("div");
  line.className = "step";
  const bar = document.createElement("progress");
  const known = progress.get(`${task.task_id}/${step.step_id}`);
  if (step.status === "succeeded" || step.status === "reused") { bar.max = 1; bar.value = 1; }
  else if (known && known.total_units) { bar.max = known.total_units; bar.value = known.done_units; }
  else if (step.status !== "running") { bar.max = 1; bar.value = 0; }
  const took = step.finished_at_ms && step.started_at_ms ? `${((step.finished_at_ms - step.started_at_ms) / 1000).toFixed(3)} s` : "";
  const parts = [step.step_id, bar, step.status, took].map((part) => {
    if (part instanceof Node) return part;
    return Object.assign(document.createElement("span"), { textContent: part, className: part });
  });
  line.append(...parts);
  return line;
}

async function watch(path) {
  state.watching?.abort();
  const abort = (state.watching = new AbortController());
  state.cut = "";
  try {
    await follow(path, abort.signal);
  } catch (error) {
    if (state.watching === abort) state.cut = path;
    throw error instanceof TypeError ? new Error(CUT) : error; // as fetch and its streams say that a connection broke
  }
  await refresh();
}

// Until the operation has ended.
async function follow(path, signal) {
  const progress = new Map();
  let operation = await api(path);
  let over = false;
  show(operation, progress);
  const answer = await fetch(`${path}/events`, { headers: { authorization: `Bearer ${who.token}` }, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      over ||= block.startsWith("event: end\n");
      const event = JSON.parse(data.slice(6));
      if (event.done_units !== undefined) progress.set(`${event.task_id}/${event.step_id}`, event);
      else operation = await api(path);
      show(operation, progress);
    }
  }
  if (!over) throw new Error(CUT);
}

$("who").addEventListener("submit", async (event) => {
  event.preventDefault();
  who.token = $("token").value.trim();
  state.project = $("project").value.trim();
  state.cut = "";
  if (await told(refresh())) document.querySelector("main").hidden = false;
});
setInterval(async () => {
  if (document.querySelector("main").hidden || !(await told(refresh()))) return;
  if (state.cut) told(watch(state.cut));
}, 5000);
