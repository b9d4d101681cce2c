/* The packed tree (README.md) back into columns. */

const CUT_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/g; /* control characters, and those that turn text around */

async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }

  number() {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new Error('the data ends too early');
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  column(n, array = new Float64Array(n), from = 0, factor = 1) {
    for (let i = from; i < n; i++) array[i] = this.number() * factor;
    return array;
  }
}

/* Place 0 is no text. */
function readStrings(reader) {
  const n = reader.number();
  const shared = reader.column(n, new Uint32Array(n)), more = reader.column(n, new Uint32Array(n));
  const texts = [''];
  const decoder = new TextDecoder();
  let before = new Uint8Array(0);
  for (let i = 0; i < n; i++) {
    const bytes = new Uint8Array(shared[i] + more[i]);
    bytes.set(before.subarray(0, shared[i]));
    bytes.set(reader.bytes.subarray(reader.at, reader.at + more[i]), shared[i]);
    reader.at += more[i];
    texts.push(decoder.decode(bytes).replace(CUT_CHARACTERS, '\ufffd'));
    before = bytes;
  }
  return texts;
}

/* Functions by column: name, object, file, line, flags, and what colours go by. */
function readFunctions(reader, facts) {
  const { constants } = facts;
  const texts = readStrings(reader), n = facts.functions;
  const [name, object, file] = [0, 1, 2].map(() => reader.column(n, new Uint32Array(n)));
  const line = reader.column(n, new Uint32Array(n)), flags = reader.column(n, new Uint8Array(n));
  const guessed = reader.column(n, new Float64Array(n)), shade = reader.column(n, new Uint8Array(n));
  const functions = { n, name: [], object: [], file: [], line: [...line], guessed: [], isInlined: [], isUnnamed: [], isGroup: [], isKernel: [], kind: [], shade: [...shade] };
  for (let i = 0; i < n; i++) {
    functions.name.push(`${texts[name[i]] || '(no name)'}${facts.has_lines && line[i] ? `:${line[i]}` : ''}`);
    functions.object.push(texts[object[i]]);
    functions.file.push(texts[file[i]]);
    functions.guessed.push(guessed[i]);
    functions.isInlined.push((flags[i] & constants.inlined) !== 0);
    functions.isUnnamed.push((flags[i] & constants.unnamed) !== 0);
    functions.isGroup.push((flags[i] & constants.group) !== 0);
    functions.isKernel.push((flags[i] & constants.kind) === constants.kernel);
    functions.kind.push(functions.isGroup[i] ? constants.unknown_class : flags[i] & constants.guessed ? constants.guessed_class
      : Math.min(flags[i] & constants.kind, constants.unknown_class));
  }
  return functions;
}

function readMoments(reader, facts) {
  const { buckets, moments: n } = facts;
  const counts = reader.column(buckets, new Uint32Array(buckets));
  const start = new Uint32Array(buckets + 1);
  for (let b = 0; b < buckets; b++) start[b + 1] = start[b] + counts[b];
  const node = new Uint32Array(n);
  for (let b = 0; b < buckets; b++)
    for (let i = start[b], before = 0; i < start[b + 1]; i++) node[i] = before += reader.number();
  const samples = reader.column(n);
  return { start, node, samples, weight: facts.has_weights ? reader.column(n, undefined, 0, facts.step) : null };
}

/* { functions, tree, moments }: the tree's columns are those of tree.js. */
async function unpack(base64, facts) {
  const reader = new Reader(await inflate(base64));
  const functions = readFunctions(reader, facts);
  const n = facts.nodes;
  const ups = reader.column(n, new Uint32Array(n), 1);
  const fn = reader.column(n, new Int32Array(n), 1);
  fn[0] = -1;
  const tree = newTree(n, facts.has_base, facts.has_weights);
  for (let i = 1; i < n; i++) {
    let parent = i - 1;
    for (let up = ups[i]; up > 0; up--) parent = tree.parent[parent];
    tree.parent[i] = parent;
  }
  tree.fn = fn;
  reader.column(n, tree.self);
  if (facts.has_weights) reader.column(n, tree.selfWeight, 0, facts.step);
  if (facts.has_waits) tree.isWait = reader.column(n, new Uint8Array(n));
  if (facts.has_base) {
    reader.column(n, tree.before);
    if (facts.has_weights) reader.column(n, tree.beforeWeight, 0, facts.step);
  }
  const moments = facts.buckets && facts.moments ? readMoments(reader, facts) : null;
  if (reader.at !== reader.bytes.length) throw new Error('the data does not end where it should');
  finishTree(tree);
  return { functions, tree, moments };
}
