-- Whose baseline a node is compared with by a probe: that of its last allocation, or "enrolled" for its own; "" while
-- there is none. A node of the pool without one has never been verified. Stands at the end, as in kernel/rows.py.
ALTER TABLE nodes ADD COLUMN baseline_of TEXT NOT NULL DEFAULT '';
UPDATE nodes SET baseline_of = coalesce(
  (SELECT max(held.allocation_id) FROM allocation_nodes AS held WHERE held.node_id = nodes.node_id AND held.state = 'clean'),
  ''
);
