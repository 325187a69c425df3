// All nodes with their agents, live, for administrators of the platform. Uses the public API and nothing else.
import { $, Pager, ago, api, arrange, cell, el, headings, moment, say, waits, who } from "/common.js";
import { close, open, opened, refreshDetail } from "/detail.js";
import { refreshRollouts, rolloutPager } from "/rollouts.js";

const EVERY_MS = 5000, PAGE = 100;
const COLUMNS = ["Name", "Pool / tenant", "Connection", "State", "Health", "Reported", "Desired", "Channel", "Badge", "Run", "Last seen", "Probe"];
const LOOKS = { Current: "good", Outdated: "busy", "Config drift": "warn", "Cert repair": "warn", "Unknown build": "bad" };
const OPEN_RUN = new Set(["waiting", "delivering", "trial", "awaiting_operator", "verifying"]);
const lines = new Map(); // node → its row, kept from one answer to the next
let turn = 0, timer = 0;

const pager = new Pager($("previous"), $("next"), $("where"), () => refresh());
const rollouts = rolloutPager(() => refresh());
$("heads").append(headings(...COLUMNS));

async function refresh() {
  const mine = ++turn;
  clearTimeout(timer);
  try {
    const badge = $("badge").value;
    const query = new URLSearchParams({ page_size: PAGE, ...(pager.cursor && { cursor: pager.cursor }), ...(badge && { badge }) });
    const page = await api(`/api/v1/admin/nodes?${query}`);
    if (mine !== turn) return; // somebody asked for something else meanwhile
    show(page);
    await Promise.all([refreshDetail(), refreshRollouts(rollouts, () => mine === turn)]);
    if (mine === turn) say($("message"), "");
  } catch (error) {
    if (mine !== turn) return;
    if (error.code === "invalid_cursor") { pager.first(); rollouts.first(); }
    say($("message"), error.message);
  }
  if (mine === turn) timer = setTimeout(again, EVERY_MS);
}

function again() {
  if (document.hidden) timer = setTimeout(again, EVERY_MS); // nobody looks
  else refresh();
}

function show(page) {
  document.querySelector("main").hidden = false;
  for (const [id, count] of Object.entries(page.summary)) if ($(id)) say($(id), String(count));
  const now = Date.now();
  const shown = page.items.map((node) => {
    const line = lines.get(node.node_id) ?? newLine();
    fill(line, node, now);
    return line;
  });
  lines.clear();
  for (const line of shown) lines.set(line.node.node_id, line);
  arrange($("nodes"), shown.map((line) => line.row));
  pager.shown(page);
  say($("fresh"), `as of ${new Date(now).toLocaleTimeString()}`);
}

function newLine() {
  const button = el("button", { type: "button", className: "name", "aria-controls": "detail" });
  const cells = COLUMNS.slice(1).map(() => cell(""));
  const line = { button, cells, row: el("tr", {}, el("th", { scope: "row" }, button), ...cells), node: null };
  const badge = el("span");
  cells[7].append(badge);
  line.badge = badge;
  button.addEventListener("click", () => open(line.node, button));
  return line;
}

function fill(line, node, now) {
  const agent = node.agent;
  line.node = node;
  say(line.button, node.name);
  const expanded = String(opened() === node.node_id);
  if (line.button.getAttribute("aria-expanded") !== expanded) line.button.setAttribute("aria-expanded", expanded);
  const [owner, connection, state, health, reported, desired, channel, , run, seen, probe] = line.cells;
  say(owner, ownerOf(node));
  say(connection, node.connection, LOOK_OF_CONNECTION[node.connection] ?? "");
  say(state, stateOf(node));
  say(health, node.health + (node.health_reason ? `: ${node.health_reason}` : ""));
  say(reported, agent.reported_agent_version || "none");
  say(desired, agent.desired_agent_version || "none");
  say(channel, agent.agent_channel);
  say(line.badge, agent.badge, `badge ${LOOKS[agent.badge] ?? ""}`);
  say(run, OPEN_RUN.has(agent.run_state) ? runOf(agent) : "");
  say(seen, ago(node.last_seen_ms, now));
  seen.title = moment(node.last_seen_ms);
  say(probe, agent.last_probe_at_ms ? `${ago(agent.last_probe_at_ms, now)}, next ${ago(agent.next_probe_at_ms, now)}` : "never");
  probe.title = `${moment(agent.last_probe_at_ms)}, next ${moment(agent.next_probe_at_ms)}`;
}

const LOOK_OF_CONNECTION = { connected: "connected", lost: "lost", retired: "retired", enrolling: "enrolling" };

function ownerOf(node) {
  if (!node.pool) return `${node.org_id} / ${node.project_id}`;
  return node.allocation_id ? `pool, lent to ${node.org_id} / ${node.project_id}` : "pool";
}

function stateOf(node) {
  const more = [node.scheduling !== "schedulable" && node.scheduling, node.reclaim !== "clean" && node.reclaim, node.hold && `held: ${node.hold}`];
  return [node.state, ...more].filter(Boolean).join(", ");
}

function runOf(agent) {
  const why = agent.run_state === "awaiting_operator" ? "waits for a person" : waits(agent.waiting_for);
  return [agent.run_state, why].filter(Boolean).join(", ");
}

$("badge").addEventListener("change", () => { pager.first(); refresh(); });
$("close").addEventListener("click", () => { close(); marks(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && opened()) { close(); marks(); } });
$("nodes").addEventListener("click", () => marks());

function marks() {
  for (const line of lines.values()) line.button.setAttribute("aria-expanded", String(opened() === line.node.node_id));
}

$("who").addEventListener("submit", (event) => {
  event.preventDefault();
  who.token = $("token").value.trim();
  refresh();
});
