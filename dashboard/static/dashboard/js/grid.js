// Grids of ranks: one tab stop, arrows to walk, Enter to look closer; and cells that change one by one as events say.
import { say } from './say.js';
import { go } from './within.js';

const REST = 250;
const MOST_REST = 5000;
const MOST_SLOTS = 256;
const ALL_EVERY = 10000;
const JUMP = 8;
const CELL = '[role=gridcell]';
const OF_ALL = ['intent.', 'drain.', 'breaker.', 'gateway.', 'router.', 'health.', 'launch.', 'instance.'];

const grids = () => [...document.querySelectorAll('[data-shape]')];
const part = () => document.getElementById('part-ranks');

// ---- walking

const rowsOf = grid => [...grid.querySelectorAll('[role=row]')].map(row => [...row.querySelectorAll(CELL)]).filter(row => row.length);

function walk(grid, cell, event) {
  const rows = rowsOf(grid);
  const y = rows.findIndex(row => row.includes(cell));
  const x = rows[y].indexOf(cell);
  const wide = rows[y].length - 1;
  const low = rows.length - 1;
  const whole = event.ctrlKey || event.metaKey;
  const to = {
    ArrowRight: [y, x + 1], ArrowLeft: [y, x - 1], ArrowDown: [y + 1, x], ArrowUp: [y - 1, x],
    Home: [whole ? 0 : y, 0], End: [whole ? low : y, wide],
    PageDown: [Math.min(low, y + JUMP), x], PageUp: [Math.max(0, y - JUMP), x],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  const next = rows[to[0]]?.[to[1]];
  if (next) stop(grid, next, true);
}

function stop(grid, cell, focus) {
  for (const before of grid.querySelectorAll(`${CELL}[tabindex="0"]`)) before.tabIndex = -1;
  cell.tabIndex = 0;
  if (focus) cell.focus();
}

document.addEventListener('keydown', event => {
  const cell = event.target.closest?.(CELL);
  const grid = cell?.closest('[data-shape]');
  if (event.key === 'Escape' && (cell || event.target.closest?.('[data-pane]'))) {
    const close = document.querySelector('[data-close]');
    if (close) {
      event.preventDefault();
      close.click();
      chosen()?.focus();
    }
    return;
  }
  if (grid && !event.altKey) walk(grid, cell, event);
});

// ---- choosing

const name = cell => cell.dataset.s.split('.').map((number, axis) => `${['dp', 'cp', 'tp', 'pp'][axis]}${number}`).join('.');
const chosen = () => document.querySelector(`${CELL}[aria-selected=true]`);

function mark() {
  const asked = new URLSearchParams(location.search);
  const slot = (asked.get('rank') ?? '').replace(/[a-z]+/g, '');
  const all = grids();
  const grid = all.find(one => one.dataset.launch === asked.get('launch')) ?? all[0];
  const wanted = slot && grid ? grid.querySelector(`[data-s="${CSS.escape(slot)}"]`) : null;
  const before = chosen();
  if (before !== wanted) before?.removeAttribute('aria-selected');
  if (wanted) {
    wanted.setAttribute('aria-selected', 'true');
    stop(grid, wanted, false);
  }
}

document.addEventListener('click', async event => {
  const cell = event.target.closest(CELL);
  const grid = cell?.closest('[data-shape]');
  if (!grid) return;
  stop(grid, cell, false);
  const url = new URL(location.href);
  url.searchParams.set('rank', name(cell));
  url.searchParams.set('launch', grid.dataset.launch);
  if (!await go(url.href, ['pane'])) return;
  const pane = document.querySelector('[data-pane]');
  say(`${cell.getAttribute('aria-label')}. ${pane?.querySelector('.say b')?.textContent ?? ''}`);
  if (pane && pane.getBoundingClientRect().top > innerHeight) pane.scrollIntoView({ block: 'nearest' });
});
document.addEventListener('pdcp:went', mark);

// What a cell says is its name; as a tooltip only where somebody looks.
document.addEventListener('pointerover', event => {
  const cell = event.target.closest?.(CELL);
  if (cell) cell.title = cell.getAttribute('aria-label');
});

// ---- staying up to date

const dirty = new Set();
let all = false;
let asking = false;
let failures = 0;
let timer = null;
let known = Number(document.body.dataset.cursor?.split(':')[1] ?? 0);
let allAt = performance.now();

function soon(rest = REST) {
  if (timer || asking || !grids().length) return;
  timer = setTimeout(() => { timer = null; ask(); }, rest);
}

function wantAll() {
  all = true;
  soon();
}

async function ask() {
  if (document.hidden || (!all && !dirty.size)) return;
  const url = new URL(part().querySelector('[data-cells]')?.dataset.cells ?? '', location.href);
  const whole = all || dirty.size > MOST_SLOTS;
  const slots = [...dirty];
  if (!whole) url.searchParams.set('slots', slots.join(','));
  asking = true;
  all = false;
  dirty.clear();
  const began = performance.now();
  try {
    const answer = await fetch(url, { headers: { 'HX-Request': 'true' }, credentials: 'same-origin', signal: AbortSignal.timeout(20000) });
    if (answer.ok) {
      const told = await answer.json();
      patch(told);
      known = Math.max(known, told.revision);
      if (whole) allAt = performance.now();
      failures = 0;
    } else if (answer.status >= 500) {
      throw new Error(`status ${answer.status}`);
    }
  } catch {
    failures += 1;
    if (whole) all = true;
    for (const slot of slots) dirty.add(slot);
  }
  asking = false;
  // Never more than a quarter of the time, and less and less often while nobody answers.
  const rest = failures ? 500 * 2 ** failures : Math.max(REST, 3 * (performance.now() - began));
  if (all || dirty.size) soon(Math.min(MOST_REST, rest));
}

function patch({ looks, cells }) {
  const focused = document.activeElement;
  for (const grid of grids()) {
    const own = cells[grid.dataset.launch];
    if (!own) continue;
    const places = Object.keys(own).length > 64 ? new Map([...grid.querySelectorAll(CELL)].map(cell => [cell.dataset.s, cell])) : null;
    for (const [slot, place] of Object.entries(own)) {
      const cell = places ? places.get(slot) : grid.querySelector(`[data-s="${slot}"]`);
      if (cell) repaint(cell, looks[place], cell === focused);
    }
  }
}

function repaint(cell, [classes, icon, ticks, text], focused) {
  const before = cell.getAttribute('aria-label');
  const label = `${before.slice(0, before.indexOf(': '))}: ${text}`;
  if (cell.className === classes && before === label) return;
  cell.className = classes;
  cell.setAttribute('aria-label', label);
  const [drawn, bars] = cell.querySelectorAll('use');
  drawn?.setAttribute('href', `#i-${icon}`);
  bars?.setAttribute('href', `#t-${ticks}`);
  if (focused) say(label);
}

document.addEventListener('pdcp:events', event => {
  if (event.detail.paused || !grids().length) return;
  for (const { kind, data } of event.detail.events) {
    if (kind.startsWith('rank.') && data.slot) dirty.add(data.slot.join('.'));
    else if (OF_ALL.some(of => kind.startsWith(of))) all = true;
  }
  if (all || dirty.size) soon();
});
// Another history, perhaps, whose revisions mean something else.
document.addEventListener('pdcp:anew', () => { known = 0; wantAll(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden && (all || dirty.size)) soon(0); });

// The part around the grids came anew, without their cells: what events did not tell has to be asked for.
document.addEventListener('pdcp:painted', event => {
  if (event.target.id !== 'part-ranks') return;
  const empty = grids().filter(grid => 'undrawn' in grid.dataset && !grid.querySelector(CELL));
  if (empty.length) {
    for (const grid of empty) delete grid.dataset.shape;
    go(location.href, ['ranks', 'cells'], { push: false });
    return;
  }
  const revision = Number(event.target.querySelector('[data-revision]')?.dataset.revision ?? 0);
  setTimeout(() => {
    if (asking || all || dirty.size) return;
    if (revision > known || performance.now() - allAt > ALL_EVERY) wantAll();
  }, 600);
});
