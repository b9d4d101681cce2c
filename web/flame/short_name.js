/* Without what stands in ( ) and < >, when that leaves a name: as infp_flame_short_name of src/view/flame/look.c. The picture has it,
 * too. Both are tested with tests/fixtures/flame/short_names.tsv. */
const shorts = new Map();
function shortName(name) {
  if (name.length > 2000) return name;
  if (!shorts.has(name)) {
    let text = name.replace(/^\(anonymous namespace\)::/, ''), before;
    do { before = text; text = text.replace(/(?<! )\([^()]*\)/g, '').replace(/(?<!^|\.)<[^<>]*>/g, ''); } while (text !== before && text.length);
    text = text.replace(/ const$/, '').replace(/ +$/, '');
    shorts.set(name, /\w/.test(text) && !name.startsWith('operator') ? text : name);
  }
  return shorts.get(name);
}
