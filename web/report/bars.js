/* Pictures without a time axis: percentiles with their bounds, use beside what was allowed, energy by zone. */

const LATENCIES = {
  latency_ttft_s: 'Time to first token', latency_e2e_s: 'End to end', latency_queue_s: 'Waiting in the queue', latency_inference_s: 'Inference',
  latency_prefill_s: 'Prefill', latency_decode_s: 'Decode', latency_inter_token_s: 'Between tokens', latency_tpot_s: 'Time per output token', latency_step_s: 'A step',
};
const unitOfDistribution = (name) => /_(s|ms)$/.exec(name)?.[1] ?? (/token/.test(name) ? 'tokens' : '');
const titleOf = (name) => LATENCIES[name.replace(/_ms$/, '_s')] ?? name.replaceAll('_', ' ');

/* A distribution as rows: the interval in which the percentile lies, the estimate a dot in it. */
function percentileCard(name, found) {
  const unit = unitOfDistribution(name);
  const rows = (found.quantiles || []).map((q) => ({ name: `p${Number((q.quantile * 100).toFixed(2))}`, low: q.low ?? null, estimate: q.estimate ?? null, high: q.high ?? null }));
  const top = Math.max(...rows.flatMap((row) => [row.high ?? (row.low ?? 0) * 1.15, row.estimate ?? 0]), found.mean ?? 0, 1e-12);
  const axis = valueAxis(0, top, unit, 4);
  const note = [`${number(found.n)} observations`, typeof found.mean === 'number' ? `mean ${show(found.mean, unit)}` : null,
    found.side ? `measured at the ${found.side}` : null].filter(Boolean).join(' · ');
  return h('figure', { class: 'card' }, h('figcaption', {}, h('h4', {}, titleOf(name)), h('span', { class: 'unit' }, axis.scale.name)),
    h('p', { class: 'note', title: found.series || null }, note),
    h('div', { class: 'percentiles', role: 'list' }, rows.map((row) => percentileRow(row, axis, unit)),
      h('div', { class: 'percentile-axis', 'aria-hidden': 'true' }, h('span', {}), h('div', { class: 'ticks' }, axis.ticks.map((v, i) =>
        h('span', { css: { left: `${(v / axis.high) * 100}%` } }, axis.texts[i]))), h('span', {}))));
}

function percentileRow(row, axis, unit) {
  const at = (v) => `${Math.min(100, Math.max(0, (v / axis.high) * 100))}%`;
  const has = row.low !== null || row.high !== null;
  const is_open = row.low !== null && row.high === null;
  const width = has ? ((row.high ?? axis.high) - (row.low ?? 0)) / axis.high : 0;
  const bounds = !has ? 'not known' : is_open ? `above ${show(row.low, unit)}` : row.low === row.high ? 'exact' : showRange(row.low ?? 0, row.high, unit);
  return h('div', { class: 'percentile', role: 'listitem' }, h('b', {}, row.name),
    h('div', { class: 'track' }, has ? h('div', { class: `interval${is_open ? ' open' : ''}`, css: { left: at(row.low ?? 0), width: `${width * 100}%` } }) : null,
      row.estimate !== null ? h('div', { class: 'estimate', css: { left: at(row.estimate) } }) : null),
    h('span', { class: 'reading' }, row.estimate !== null ? `≈ ${show(row.estimate, unit)} ` : '– ', h('small', {}, bounds)));
}

function engineCards(engine) {
  const words = [engine.version, engine.model, engine.url].filter(Boolean).join(' · ');
  const scrapes = (n) => `${number(n)} ${n === 1 ? 'scrape' : 'scrapes'} failed`;
  // Before the first success the server starts, after the last one it ends.
  const early = engine.scrapes_failed_before_first || 0, late = engine.scrapes_failed_after_last || 0, failed = engine.scrapes_failed - early - late;
  const misses = failed > 0 ? `${scrapes(failed)} between others that succeeded${engine.last_failure_between ? `: ${engine.last_failure_between}` : ''}` : null;
  const distributions = Object.entries(engine.distributions || {}).filter(([, found]) => found.n > 0);
  return [wideCard(engine.make_name || engine.make || 'Engine',
    smallPrint(words, early ? `${scrapes(early)} before the first success (server still starting)` : null, late ? `${scrapes(late)} after the last success (server ended)` : null), misses ? h('p', { class: 'notice' }, misses) : null,
    h('dl', { class: 'facts' }, Object.entries(engine).flatMap(([key, value]) => engineFact(key, value)))),
  distributions.length ? h('div', { class: 'wide' }, h('h3', {}, 'Latencies, server-side'),
    smallPrint('The percentile lies within the bar (a bucket of the engine’s histogram); the dot is the estimate.')) : null,
  ...distributions.map(([name, found]) => percentileCard(name, found))];
}

const ENGINE_WORDS = {
  requests_finished_total: 'Requests finished', requests_aborted_total: 'Requests aborted', requests_errored_total: 'Requests failed',
  tokens_prompt_total: 'Prompt tokens', tokens_generation_total: 'Tokens generated', tokens_generation_live_total: 'Tokens generated, step by step',
  system_preemptions_total: 'Preemptions', cache_prefix_hits: 'Prefix cache hits', cache_prefix_queries: 'Prefix cache queries',
  spec_draft_tokens_total: 'Tokens drafted', spec_accepted_tokens_total: 'Drafted tokens accepted',
  system_requests_running: 'Requests running', system_requests_waiting: 'Requests waiting', cache_kv_usage_percent: 'KV cache in use',
};
/* A name of a column as words: "vMemoryTotalBytes", "cache_hit_ratio". */
const wordsOf = (name) => {
  const text = name.replace(/^v(?=[A-Z])/, '').replace(/Bytes$/, '').replaceAll('_', ' ').replace(/([a-z0-9])(?=[A-Z][a-z])|([a-z])(?=[A-Z])/g, '$1$2 ');
  const words = text.replace(/^Num /, '').replace(/ [A-Z](?=[a-z])/g, (letter) => letter.toLowerCase()).replace(/\b(cpu|os|numa|uuid|id|smt|kv)(?=s?\b)/gi, (word) => word.toUpperCase());
  return words[0].toUpperCase() + words.slice(1);
};

/* Counters and gauges of an engine: { total, per_s } or { mean, max }. */
function engineFact(key, value) {
  const row = (text) => h('div', { title: key }, h('dt', {}, ENGINE_WORDS[key] ?? wordsOf(key)), h('dd', {}, text));
  if (key === 'distributions' || value === null || typeof value !== 'object') {
    if (key === 'restarts' && value > 0) return [row(number(value))];
    if (key.endsWith('ratio') && typeof value === 'number') return [row(show(value, 'ratio'))];
    return [];
  }
  if (typeof value.total === 'number') return [row(`${number(value.total)} (${number(value.per_s)}/s)`)];
  const text = (v) => (key.endsWith('_percent') ? show(v, 'ratio') : number(v));
  if (typeof value.mean === 'number') return [row(`mean ${text(value.mean)}, peak ${text(value.max)}`)];
  return [];
}

/* A bar of use against the limit. */
function useBar(name, used, allowed, unit, words) {
  const share = used !== null && allowed ? used / allowed : null;
  const state = share >= 0.9 ? 'bad' : share >= 0.7 ? 'near' : 'fine';
  const text = used === null || used === undefined ? 'not measured' : unit === 'ratio' ? show(used, unit) : allowed ? `${show(used, unit)} of ${show(allowed, unit)} (${number(share * 100, share < 0.1 ? 1 : 0)} %)` : `${show(used, unit)}, no limit known`;
  return h('div', { class: 'use' }, h('div', { class: 'use-head' }, h('span', {}, name), h('span', { class: 'use-text' }, text)),
    share !== null ? h('div', { class: `use-track ${state}`, 'aria-hidden': 'true' }, h('div', { class: 'use-fill', css: { width: `${Math.min(100, share * 100)}%` } })) : null,
    smallPrint(words));
}

function containerCard(container) {
  const pressure = container.pressure || {};
  const waits = [['CPU', 'cpu_some_ratio'], ['memory', 'memory_some_ratio'], ['I/O', 'io_some_ratio']].filter(([, key]) => typeof pressure[key] === 'number');
  const counts = [['out-of-memory kills', container.oom_kills], ['memory limit hits', container.memory_limit_hits]].filter(([, n]) => n > 0);
  return h('div', { class: 'card' }, h('h3', {}, container.cName || container.cId), h('p', { class: 'note' },
    [container.is_target ? 'holds the target' : null, container.cRuntime, container.cName ? container.cId : null].filter(Boolean).join(' · ')),
  useBar('CPUs, mean', container.cpus, container.cpus_allowed, ''), useBar('Memory, peak', container.memory_peak_bytes, container.memory_allowed_bytes, 'bytes',
    container.memory_limit_bytes === null && container.memory_allowed_bytes ? 'No limit of its own: relative to the machine’s memory.' : null),
  typeof container.throttled_ratio === 'number' ? useBar('Periods throttled by the CPU quota', container.throttled_ratio, 1, 'ratio') : null,
  waits.map(([name, key]) => useBar(`Time in which a task waited for ${name}`, pressure[key], 1, 'ratio')),
  counts.length ? h('p', { class: 'notice' }, counts.map(([name, n]) => `${number(n)} ${name}`).join(', ')) : null);
}

function energyCard(energy) {
  if (energy.joules === null && !energy.domains?.length) return null;
  const most = Math.max(...energy.domains.map((d) => d.joules ?? 0), 1e-9);
  const tokens = energy.tokens;
  const facts = [['Total', show(energy.joules, 'J')], ['Mean power', show(energy.mean_watts, 'W')], ['Quality', energy.quality],
    tokens ? ['Per generated token', show(tokens.joules_per_generated_token, 'J')] : null, tokens ? ['A request', show(tokens.joules_per_request, 'J')] : null,
    energy.split ? [`Target, by ${energy.split.by} (${energy.split.quality})`, show(energy.split.target_joules, 'J')] : null,
    energy.split ? ['All other processes', show(energy.split.others_joules, 'J')] : null].filter((row) => row && row[1] && row[1] !== '–');
  return h('div', { class: 'card' }, h('h3', {}, 'Energy by zone'), h('dl', { class: 'facts' }, facts.map(([name, text]) => h('div', {}, h('dt', {}, name), h('dd', {}, text)))),
    energy.domains.map((d) => h('div', { class: 'use' }, h('div', { class: 'use-head' }, h('span', {}, d.domain), h('span', { class: 'use-text' }, `${show(d.joules, 'J')}, ${show(d.mean_watts, 'W')}`)),
      h('div', { class: `use-track zone${d.quality === 'estimated' ? ' estimated' : ''}`, 'aria-hidden': 'true' }, d.joules !== null ? h('div', { class: 'use-fill', css: { width: `${(d.joules / most) * 100}%` } }) : null),
      smallPrint([d.quality, d.source, d.part_of ? `part of ${d.part_of}` : null, d.same_as ? `the same as ${d.same_as}` : null, d.in_total ? null : 'not in the total']))));
}

/* A row a GPU; beneath, who used it. */
function gpuCards(gpus) {
  if (!gpus.length) return [];
  const of = (key, unit) => (gpu) => (gpu[key] === null || gpu[key] === undefined ? '–' : show(gpu[key], unit));
  const pair = (a, b, unit, word) => (gpu) => `${of(a, unit)(gpu)}${typeof gpu[b] === 'number' ? `${word} ${of(b, unit)(gpu)}` : ''}`;
  const held = (gpu) => Object.entries(gpu.held_back_ratio || {}).filter(([, v]) => v > 0).map(([key, v]) => `${key.replaceAll('_', ' ')} ${show(v, 'ratio')}`).join(', ');
  const column = (name, f) => ({ name, is_text: true, of: f });
  const table = tableOf('GPUs', [column('GPU', (gpu) => [gpu.gpu, gpu.name].filter(Boolean).join(' ')), column('in use', pair('utilization_percent', 'utilization_max_percent', '%', ', peak')),
    column('memory, peak', pair('memory_peak_bytes', 'memory_total_bytes', 'bytes', ' of')), column('power', pair('power_watts', 'power_limit_watts', 'W', ', limit')),
    column('peak temperature', of('temperature_max_celsius', '°C')), column('energy', (gpu) => `${of('energy_joules', 'J')(gpu)}${gpu.energy_quality === 'estimated' ? ' (estimated)' : ''}`),
    column('held back by', (gpu) => held(gpu) || '–')], gpus);
  const processes = gpus.flatMap((gpu) => (gpu.processes || []).map((process) => ({ gpu, ...process })));
  return [wideCard('GPUs in the run', table), processes.length ? wideCard('Processes on GPUs',
    tableOf('Processes on GPUs', [column('process', (p) => `${p.name ?? '(no name)'} ${p.pid}${p.pid_is_of_host ? ' (pid of the host)' : ''}${p.is_target ? ', target' : ''}`), column('GPU', (p) => p.gpu.gpu),
      column('kind', (p) => p.type), { name: 'memory, peak', unit: 'bytes', of: (p) => p.memory_peak_bytes }, { name: 'SM in use', unit: '%', of: (p) => p.sm_percent ?? p.compute_percent }], processes)) : null];
}
