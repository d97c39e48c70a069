// The live page: asks this node, and by way of it the others, for their state every two seconds,
// and follows the events of this node.
'use strict';

const every = 2000;
const byId = (id) => document.getElementById(id);
const sheet = 'http://www.w3.org/2000/svg';
let token = '';
let self = '';  // this node's name; '' without a cluster
let nodes = [];  // {name, address}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = '') {
  const made = document.createElementNS(sheet, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// The path of a node's request: its own for this node, else forwarded.
function pathOf(node, path) {
  return node === self ? `v1/${path}` : `v1/nodes/${encodeURIComponent(node)}/${path}`;
}

async function ask(path, options = {}) {
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const response = await fetch(path, {...options, headers, signal: AbortSignal.timeout(8000)});
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || `status ${response.status}`);
  return answer;
}

// ---- Numbers ----

function short(value) {
  if (value === undefined || value === null) return '–';
  if (typeof value !== 'number') return String(value);
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7)) return value.toExponential(2);
  return value.toLocaleString('en', Number.isInteger(value) ? {} : {maximumSignificantDigits: 4});
}
const percent = (share) => share === undefined ? '–' : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const rate = (bytes) => bytes === undefined ? '–' : `${short(bytes / 1e6)} MB/s`;
const milliseconds = (seconds) => seconds === undefined ? '–' : `${seconds < 0.1 ? short(Math.round(seconds * 1e4) / 10) : Math.round(seconds * 1e3)} ms`;

function duration(seconds) {
  if (seconds === undefined) return '–';
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, '0');
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  if (s < 86400) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
}

// ---- Charts ----

// About `count` round values from `low` to `high`.
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw);
  const values = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) values.push(v);
  return values;
}

// Draws series {name, points: [[x, y], ...]} over iterations.
function draw(place, title, series) {
  const kinds = ['one', 'two', 'three'];
  const shown = series.map((s) => ({...s, points: s.points.filter((p) => Number.isFinite(p[1]))}))
    .filter((s) => s.points.length > 0).slice(0, kinds.length);
  const all = shown.flatMap((s) => s.points);
  if (all.length === 0) {
    place.replaceChildren(element('p', {}, 'No values yet.'));
    return;
  }
  const width = 480, height = 260, left = 56, right = 12, top = 24, bottom = 30;
  const range = (values) => {
    let low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    if (low === high) { low -= Math.abs(low) / 10 || 1; high += Math.abs(high) / 10 || 1; }
    return [low, high];
  };
  const [x0, x1] = range(all.map((p) => p[0]));
  let [y0, y1] = range(all.map((p) => p[1]));
  if (y0 > 0 && y0 < y1 / 2) y0 = 0;
  const x = (v) => left + (v - x0) / (x1 - x0) * (width - left - right);
  const y = (v) => height - bottom - (v - y0) / (y1 - y0) * (height - top - bottom);
  const last = shown.map((s) => `${s.name} ${short(s.points.at(-1)[1])}`).join(', ');
  const svg = shape('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img'});
  svg.append(shape('title', {}, `${title} up to iteration ${short(all.at(-1)[0])}: ${last}`));
  for (const v of ticks(y0, y1, 5)) {
    svg.append(shape('line', {class: 'grid', x1: left, x2: width - right, y1: y(v), y2: y(v)}),
               shape('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, short(v)));
  }
  for (const v of ticks(x0, x1, 4)) {
    svg.append(shape('text', {x: x(v), y: height - 10, 'text-anchor': 'middle'}, short(v)));
  }
  shown.forEach((s, i) => {
    const points = s.points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ');
    if (s.points.length === 1) {
      svg.append(shape('circle', {class: `series ${kinds[i]}`, cx: x(s.points[0][0]), cy: y(s.points[0][1]), r: 3}));
    }
    svg.append(shape('polyline', {class: `series ${kinds[i]}`, points}),
               shape('text', {class: `${kinds[i]}-text`, x: left + i * 145, y: 14}, `${s.name}: ${short(s.points.at(-1)[1])}`));
  });
  place.replaceChildren(svg);
}

function drawHistory(history) {
  const iterations = history.iteration || [];
  draw(byId('loss'), 'Loss', [{name: 'loss', points: iterations.map((n, i) => [n, history.loss[i]])}]);
  const tests = new Map();
  for (const test of history.test || []) {
    for (const [name, value] of Object.entries(test.output || {})) {
      const key = (test.net || 0) === 0 ? name : `${name} (net ${test.net})`;
      if (!tests.has(key)) tests.set(key, []);
      tests.get(key).push([test.iteration || 0, value]);
    }
  }
  // A loss would flatten the other curves.
  const names = [...tests.keys()].sort();
  const others = names.filter((name) => !name.includes('loss'));
  draw(byId('tests'), 'Tests', (others.length > 0 ? others : names).map((name) => ({name, points: tests.get(name)})));
}

// ---- Nodes and links ----

const linkProblem = (link) => link.problem || '';

function remarksOf(node, slowest) {
  const remarks = [];
  if (node.error) remarks.push(`does not answer: ${node.error}`);
  if (node.health && node.health.waits_for) remarks.push(`waits for ${node.health.waits_for === 'data' ? 'its data' : node.health.waits_for === 'processor' ? 'a processor' : 'the network'}`);
  if (node.name === slowest) remarks.push('slowest');
  return remarks;
}

// The slowest node, if it is clearly slower than the middle one.
function slowestOf(states) {
  const rates = states.filter((n) => n.health && n.health.iterations_per_second !== undefined && n.status.state === 'training')
    .map((n) => [n.health.iterations_per_second, n.name]).sort((a, b) => a[0] - b[0]);
  if (rates.length < 2) return '';
  const middle = rates[Math.floor(rates.length / 2)][0];
  return rates[0][0] < 0.75 * middle ? rates[0][1] : '';
}

function showNodes(states) {
  const slowest = slowestOf(states);
  byId('nodes').replaceChildren(...states.map((node) => {
    const health = node.health || {}, remarks = remarksOf(node, slowest);
    const row = element('tr', {}, element('th', {scope: 'row'}, node.name || 'this one'));
    for (const text of [node.status ? node.status.state : 'unknown', short(health.iterations_per_second),
                        percent(health.data_share), percent(health.processor_share), percent(health.delayed_share)]) {
      row.append(element('td', {}, text));
    }
    row.append(element('td', remarks.length > 0 ? {class: 'bad'} : {}, remarks.join('; ')));
    return row;
  }));
}

function showLinks(states) {
  const links = states.flatMap((node) => ((node.health || {}).link || []).map((link) => ({from: node.name, ...link})));
  byId('links-section').hidden = links.length === 0;
  if (links.length === 0) return;
  byId('links').replaceChildren(...links.map((link) => {
    const row = element('tr', {}, element('th', {scope: 'row'}, link.from));
    for (const text of [link.peer, link.segment, rate(link.sent_bytes_per_second), percent(link.resent_share),
                        milliseconds(link.round_trip_seconds), milliseconds(link.age_seconds)]) {
      row.append(element('td', {}, text));
    }
    row.append(element('td', linkProblem(link) ? {class: 'bad'} : {}, linkProblem(link)));
    return row;
  }));
  drawMap(states, links);
}

// Nodes on a circle, and what each sends to each.
function drawMap(states, links) {
  const names = [...new Set([...states.map((n) => n.name), ...links.map((l) => l.peer)])];
  if (names.length > 16) {  // the table has it
    byId('map').replaceChildren();
    return;
  }
  const width = 480, height = 300, radius = 105;
  const place = new Map(names.map((name, i) => {
    const angle = 2 * Math.PI * i / names.length + Math.PI;
    return [name, [width / 2 + 1.6 * radius * Math.cos(angle), height / 2 + radius * Math.sin(angle)]];
  }));
  const svg = shape('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img'});
  const bad = links.filter(linkProblem);
  svg.append(shape('title', {}, `${names.length} nodes, ${links.length} links, ${bad.length === 0 ? 'none' : bad.map((l) => `${l.from} to ${l.peer}`).join(', ')} with a problem`));
  const pairs = new Map();
  for (const link of links) {
    const key = [link.from, link.peer].sort().join('\n') + '\n' + link.segment;
    pairs.set(key, [...(pairs.get(key) || []), link]);
  }
  for (const both of pairs.values()) {
    const [ax, ay] = place.get(both[0].from), [bx, by] = place.get(both[0].peer);
    const broken = both.some(linkProblem);
    const sent = both.reduce((sum, l) => sum + (l.sent_bytes_per_second || 0), 0);
    const worst = (field) => Math.max(...both.map((l) => l[field] || 0));
    svg.append(shape('line', {class: broken ? 'link bad' : 'link', x1: ax, y1: ay, x2: bx, y2: by}));
    if (names.length <= 6) {
      svg.append(shape('text', {x: (ax + bx) / 2, y: (ay + by) / 2 - 5, 'text-anchor': 'middle'}, `${rate(sent)}, ${milliseconds(worst('round_trip_seconds'))}`),
                 shape('text', {x: (ax + bx) / 2, y: (ay + by) / 2 + 10, 'text-anchor': 'middle'}, `resent ${percent(worst('resent_share'))}, age ${milliseconds(worst('age_seconds'))}`));
    }
  }
  const slowest = slowestOf(states);
  for (const name of names) {
    const [x, y] = place.get(name), node = states.find((n) => n.name === name) || {name};
    svg.append(shape('circle', {class: remarksOf(node, slowest).length > 0 ? 'node bad' : 'node', cx: x, cy: y, r: 22}),
               shape('text', {class: 'name', x, y: y + 4, 'text-anchor': 'middle'}, name.length > 6 ? `${name.slice(0, 5)}…` : name));
  }
  byId('map').replaceChildren(svg);
}

// ---- Status ----

function showStatus(status) {
  byId('name').textContent = status.node ? `${status.node} of ${status.cluster}` : status.solver || '';
  const badge = byId('state');
  if (badge.textContent !== status.state) badge.textContent = status.state;
  badge.className = `badge ${status.state}`;
  document.title = `${status.state} ${status.max_iteration > 0 ? percent(status.iteration / status.max_iteration) : ''} – Millrace`;
  byId('bar').value = status.max_iteration > 0 ? status.iteration / status.max_iteration : 0;
  const facts = [
    ['iteration', status.max_iteration > 0 ? `${short(status.iteration)} of ${short(status.max_iteration)}` : short(status.iteration)],
    ['rate', status.iterations_per_second === undefined ? '–' : `${short(status.iterations_per_second)} iterations/s, ${short(status.images_per_second)} images/s`],
    ['time', `${duration(status.seconds)}, ${duration(status.remaining_seconds)} left`],
    ['loss', short(status.loss)],
    ['learning rate', short(status.learning_rate) + (status.set_learning_rate ? ' (set by hand)' : '')],
    ...(status.test || []).map((test) => [`test${test.net ? ` of net ${test.net}` : ''}`, `${Object.entries(test.output || {}).sort().map(([name, value]) => `${name} ${short(value)}`).join(', ')} at ${short(test.iteration || 0)}`]),
    ['last snapshot', status.snapshot ? `${status.snapshot} at ${short(status.snapshot_iteration)}` : 'none'],
    ['solver', status.solver || '–'],
  ];
  byId('facts').replaceChildren(...facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
}

function showProblem(text) {
  byId('problem').hidden = text === '';
  if (byId('problem').textContent !== text) byId('problem').textContent = text;
}

async function stateOf(name) {
  try {
    const [status, health] = await Promise.all([ask(pathOf(name, 'status')), ask(pathOf(name, 'health'))]);
    return {name, status, health};
  } catch (error) {
    return {name, error: error.message};
  }
}

async function refresh() {
  try {
    const [status, history] = await Promise.all([ask('v1/status'), ask('v1/history')]);
    byId('live').hidden = false;
    showProblem('');
    showStatus(status);
    drawHistory(history);
    const names = nodes.filter((node) => node.self || node.address).map((node) => node.name);
    const states = await Promise.all((names.length > 0 ? names : [self]).map(stateOf));
    showNodes(states);
    showLinks(states);
  } catch (error) {
    const lost = error instanceof TypeError || error.name === 'TimeoutError';
    if (lost) { byId('state').textContent = 'no connection'; byId('state').className = 'badge lost'; }
    showProblem(lost ? 'The node does not answer; the run may have ended.' : error.message);
    byId('live').hidden = false;
  }
  setTimeout(refresh, every);
}

// ---- Events ----

function textOf(kind, status) {
  const tests = (status.test || []).map((test) => Object.entries(test.output || {}).sort().map(([name, value]) => `${name} ${short(value)}`).join(', ')).join('; ');
  const what = {
    state: status.state,
    test: `test: ${tests}`,
    snapshot: `snapshot ${status.snapshot}`,
    learning_rate: status.set_learning_rate ? `learning rate set to ${short(status.set_learning_rate)}` : "learning rate of the solver file again",
  }[kind];
  return `${what || kind}, at iteration ${short(status.iteration)}`;
}

function onEvent(kind, status) {
  if (kind === 'progress') return;
  const list = byId('events');
  list.prepend(element('li', {}, `${new Date().toLocaleTimeString()} ${textOf(kind, status)}`));
  while (list.childElementCount > 200) list.lastElementChild.remove();
}

async function follow() {
  let last = '';
  for (;;) {
    try {
      const headers = {...(token ? {Authorization: `Bearer ${token}`} : {}), ...(last ? {'Last-Event-ID': last} : {})};
      const response = await fetch('v1/events', {headers});
      if (!response.ok) throw new Error(`status ${response.status}`);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (let part; !(part = await reader.read()).done;) {
        text += part.value;
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
          const fields = Object.fromEntries(text.slice(0, end).split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]));
          if (fields.id) last = fields.id;
          onEvent(fields.event, JSON.parse(fields.data));
        }
      }
    } catch (error) {  // tries again
    }
    await new Promise((resolve) => setTimeout(resolve, every));
  }
}

// ---- Control ----

function useToken(given) {
  token = given;
  if (given) sessionStorage.setItem('token', given); else sessionStorage.removeItem('token');
  byId('controls').disabled = !given;
}

async function act(action, body) {
  const node = byId('node').value;
  try {
    await ask(pathOf(node, action), {method: 'POST', body});
    byId('answer').textContent = `${action.replace('_', ' ')}: done`;
  } catch (error) {
    byId('answer').textContent = `${action.replace('_', ' ')}: ${error.message}`;
  }
}

function listen() {
  byId('token-form').addEventListener('submit', (event) => {
    event.preventDefault();
    useToken(byId('token').value.trim());
    byId('token').value = '';
    byId('answer').textContent = token ? 'The token is used from now on, in this tab only.' : 'No token is used.';
  });
  const ask_first = (shown) => {
    byId('confirm').hidden = !shown;
    if (shown) byId('confirm-no').focus();
  };
  for (const button of document.querySelectorAll('[data-action]')) {
    button.addEventListener('click', () => {
      if (button.dataset.action === 'stop') ask_first(true); else act(button.dataset.action);
    });
  }
  byId('confirm-yes').addEventListener('click', () => { ask_first(false); act('stop'); });
  byId('confirm-no').addEventListener('click', () => ask_first(false));
  byId('rate-form').addEventListener('submit', (event) => {
    event.preventDefault();
    act('learning_rate', JSON.stringify({rate: Number(byId('rate').value)}));
  });
}

async function start() {
  // A link may bring the token behind '#', which browsers do not send.
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given) history.replaceState(null, '', location.pathname);
  useToken(given || sessionStorage.getItem('token') || '');
  listen();
  try {
    nodes = (await ask('v1/nodes')).node || [];
  } catch (error) {  // refresh shows why
  }
  self = (nodes.find((node) => node.self) || {name: ''}).name;
  const names = nodes.filter((node) => node.self || node.address).map((node) => node.name);
  byId('node').replaceChildren(...(names.length > 0 ? names : ['']).map((name) => element('option', {value: name}, name || 'this one')));
  byId('node').value = self;
  refresh();
  follow();
}

start();
