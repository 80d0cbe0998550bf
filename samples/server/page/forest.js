// The forest of shared blocks, from the server's sessions: who comes after whom, and what each block is.

// Sessions that begin alike come one after another: in each group of sessions with the same beginning first the one that is nothing but it,
// then the larger groups, then by name. The order does not hang on keys, as those of a block that grows change all the time.
export function ordered(sessions) {
  const out = [];
  const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const place = (group, depth) => {
    for (; group.length > 1; ++depth) {
      const children = new Map();
      for (const s of group) {
        const key = s.blocks[depth];
        if (!children.has(key)) children.set(key, []);
        children.get(key).push(s);
      }
      if (children.size === 1 && !children.has(undefined)) continue; // they go on alike
      const ended = children.get(undefined) ?? [];
      children.delete(undefined);
      out.push(...ended.sort(byName));
      const groups = [...children.values()];
      for (const g of groups) g.sort(byName);
      groups.sort((a, b) => b.length - a.length || byName(a[0], b[0]));
      for (const g of groups) place(g, depth + 1);
      return;
    }
    out.push(...group);
  };
  place([...sessions], 0);
  return out;
}

export function common(a, b) {
  let n = 0;
  while (n < a.blocks.length && n < b.blocks.length && a.blocks[n] === b.blocks[n]) ++n;
  return n;
}

const kStates = ["gone", "computing", "disk", "memory"]; // a block has the last of these that any of its sessions gives it

function stateOf(session, index, blockTokens) {
  const begin = index * blockTokens;
  const last = Math.min(begin + blockTokens, session.tokens) - 1; // has no KV yet where it was chosen and not read
  if (session.state === "computing" && index === session.blocks.length - 1) return 1;
  const covered = (tokens) => tokens >= last && tokens > begin;
  return covered(session.computed) ? 3 : covered(session.on_disk) ? 2 : session.state === "computing" ? 1 : 0;
}

// Of each key the sessions that have it, and its state.
export function blocksOf(sessions, blockTokens) {
  const blocks = new Map();
  for (const s of sessions) {
    s.blocks.forEach((key, i) => {
      const block = blocks.get(key);
      const state = stateOf(s, i, blockTokens);
      if (!block) blocks.set(key, { users: 1, state });
      else (block.users += 1), (block.state = Math.max(block.state, state));
    });
  }
  for (const block of blocks.values()) block.state = kStates[block.state];
  return blocks;
}

// Runs of a session's blocks from `first` on that as many sessions have, in the same state: {first, end, users, state}.
export function runsOf(session, first, blocks) {
  const runs = [];
  for (let i = first; i < session.blocks.length; ++i) {
    const { users, state } = blocks.get(session.blocks[i]);
    const run = runs.at(-1);
    if (run && run.users === users && run.state === state) run.end = i + 1;
    else runs.push({ first: i, end: i + 1, users, state });
  }
  return runs;
}

// What a session shares: all of its beginning that others have, and the part that most others have, as {tokens, others}; [] where nothing.
export function sharedOf(session, blocks, blockTokens) {
  const others = session.blocks.map((key) => blocks.get(key).users - 1); // fewer and fewer
  const part = (least) => {
    const n = others.filter((count) => count >= least).length;
    return { tokens: Math.min(n * blockTokens, session.tokens), others: others[n - 1] };
  };
  return others[0] > 0 ? [part(1), part(others[0])] : [];
}
