// Rollouts with their waves, and why one stands still.
import { $, Pager, api, arrange, cell, el, headings, moment, say, waits } from "/common.js";

const PATH = "/api/v1/admin/agent-rollouts", PAGE = 20, MOST_NODES = 1000;
const boxes = new Map(); // rollout → what shows it

export function rolloutPager(changed) {
  return new Pager($("newer"), $("older"), $("which"), changed);
}

export async function refreshRollouts(pager, wanted) {
  const cursor = pager.cursor ? `&cursor=${encodeURIComponent(pager.cursor)}` : "";
  const page = await api(`${PATH}?page_size=${PAGE}${cursor}`);
  if (!wanted()) return;
  const shown = page.items.map((rollout) => boxes.get(rollout.rollout_id) ?? newBox(rollout));
  boxes.clear();
  page.items.forEach((rollout, index) => {
    boxes.set(rollout.rollout_id, shown[index]);
    summary(shown[index], rollout);
  });
  arrange($("rollouts"), shown.map((box) => box.root));
  pager.shown(page);
  await Promise.all(shown.filter((box) => box.root.open).map(waves));
}

function newBox(rollout) {
  const box = { head: el("summary"), why: el("p"), waves: el("div"), key: "", rollout };
  box.root = el("details", {}, box.head, box.why, box.waves);
  box.root.open = !rollout.finished_at_ms;
  box.root.addEventListener("toggle", () => box.root.open && waves(box).catch((error) => say(box.why, error.message)));
  return box;
}

function summary(box, rollout) {
  box.rollout = rollout;
  const place = rollout.finished_at_ms ? moment(rollout.finished_at_ms) : `at wave ${rollout.wave}, ${rollout.waves} in all`;
  say(box.head, `${rollout.target_version}: ${rollout.state}, ${place}, ${counted(rollout.states)} (${rollout.rollout_id})`);
}

async function waves(box) {
  const { rollout } = box;
  const found = await api(`${PATH}/${encodeURIComponent(rollout.rollout_id)}?page_size=${MOST_NODES}&wave=${rollout.wave}`);
  say(box.why, why(found, found.members.items));
  const key = JSON.stringify([found.wave, found.wave_list]);
  if (key === box.key) return;
  box.key = key;
  const rows = found.wave_list.map((wave) => {
    const row = el("tr", {}, cell(String(wave.index)), cell(wave.boundary), cell(String(wave.nodes)), cell(counted(wave.states)));
    if (wave.index === found.wave && !found.finished_at_ms) row.setAttribute("aria-current", "step");
    return row;
  });
  box.waves.replaceChildren(el("table", {}, headings("Wave", "Boundary", "Nodes", "Their states"), ...rows));
}

function counted(states) {
  return Object.entries(states).map(([state, count]) => `${count} ${state}`).join(", ");
}

function why(rollout, nodes) {
  const back = rollout.turning_back ? " Nodes that took the version are brought back." : "";
  if (rollout.finished_at_ms) return rollout.reason;
  switch (rollout.state) {
    case "awaiting_approval": return `Stands still: wave ${rollout.wave} waits for approval.`;
    case "paused": return `Stands still: ${paused(rollout)}.${back} ${people(rollout)}`.trimEnd();
    case "aborted": return "Ends as soon as its last run has ended.";
    case "rolling_back": return `Brings nodes back: ${rollout.reason}.`;
  }
  if (rollout.soaking_until_ms) return `Watches wave ${rollout.wave} until ${moment(rollout.soaking_until_ms)}.`;
  return [people(rollout), waiting(nodes)].filter(Boolean).join(" ");
}

function people({ waiting_for_people: nodes }) {
  return nodes.map((node) => `${node.node_name} waits for a person (run of ${node.blocking_requested_by}): ${node.next_command}.`).join(" ");
}

function paused({ error_code, failed_node, reason }) {
  if (!error_code) return `paused by a person${reason ? `: ${reason}` : ""}`;
  return `paused by itself, ${reason} (${error_code}${failed_node ? ` on ${failed_node}` : ""})`;
}

function waiting(nodes) {
  const reasons = new Map();
  for (const node of nodes) {
    const word = node.state === "pending" ? node.waiting_for : node.run_waiting_for;
    if (word && word !== "waiting_for_operator") reasons.set(word, [...(reasons.get(word) ?? []), node.node_name]);
  }
  const said = [...reasons].map(([word, names]) => `${names.slice(0, 5).join(", ")}${names.length > 5 ? ` and ${names.length - 5} more` : ""} ${waits(word)}`);
  return said.length ? `Waits: ${said.join("; ")}.` : "";
}
