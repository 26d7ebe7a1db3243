// Draws the charts of the activity page from the numbers in its legends, and asks for newer ones by the clock.
import { clockText, isLocal, now } from './time.js';

const HEIGHT = 150;
const EVERY = 10_000;
// A sample is stored a moment after its ten seconds are over.
const AFTER = 800;
const DASHES = [[], [5, 3], [2, 2]];
const drawn = new Map();
let paused = false;

const frame = () => document.querySelector('[data-charts]');
const numbers = text => text.split(',').map(part => (part === '' ? null : Number(part)));
const short = number => (number === null || number === undefined ? '–' : number >= 99.95 ? Math.round(number).toLocaleString('en-US') : String(Number(number.toFixed(number >= 9.995 ? 1 : 2))));
const hours = seconds => clockText(new Date(seconds * 1000));

function columns(figure) {
  const { since, step } = frame().dataset;
  const lines = [...figure.querySelectorAll('[data-values]')].map(key => numbers(key.dataset.values));
  return [lines[0].map((_, at) => Number(since) + at * Number(step)), ...lines];
}

// What the pointer is on stands in the legend, and the newest number when it is nowhere.
function read(plot, figure) {
  const at = plot.cursor.idx;
  for (const [n, key] of [...figure.querySelectorAll('[data-values]')].entries()) {
    const value = key.querySelector('[data-at]');
    key.dataset.now ??= value.textContent;
    value.textContent = at === null || at === undefined ? key.dataset.now : short(plot.data[n + 1][at]);
  }
  figure.querySelector('[data-under]').textContent = at === null || at === undefined ? '' : hours(plot.data[0][at]);
}

function options(figure, place) {
  const look = getComputedStyle(place);
  const [ink, line] = [look.color, look.borderTopColor];
  const axis = { stroke: ink, font: `11px ${look.fontFamily}`, grid: { stroke: line, width: 1 }, ticks: { show: false }, gap: 4 };
  return {
    width: place.clientWidth,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    tzDate: at => (isLocal() ? new Date(at * 1000) : window.uPlot.tzDate(new Date(at * 1000), 'Etc/UTC')),
    cursor: { sync: { key: 'activity', setSeries: false }, y: false, drag: { x: true, y: false, setScale: false } },
    select: { show: true },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [
      { ...axis, size: 24, space: 64, values: (_, splits, __, ___, step) => splits.map(at => (step < 60 ? hours(at) : hours(at).slice(0, 5))) },
      { ...axis, size: 48, values: (_, splits) => splits.map(short) },
    ],
    series: [
      {},
      ...[...figure.querySelectorAll('.key')].map((key, n) => ({
        stroke: getComputedStyle(key).color, width: 1.4, dash: DASHES[n], spanGaps: false, points: { size: 4 },
      })),
    ],
    hooks: {
      setCursor: [plot => read(plot, figure)],
      setSelect: [plot => closer(plot)],
    },
  };
}

// A part of the time that was dragged across becomes the time of the page.
function closer(plot) {
  const { left, width } = plot.select;
  if (width < 8) return;
  const step = Number(frame().dataset.step);
  const from = plot.posToVal(left, 'x');
  const until = Math.min(Math.max(plot.posToVal(left + width, 'x'), from + Math.max(60, 2 * step)), now() / 1000);
  const moment = seconds => `${new Date(Math.floor(seconds) * 1000).toISOString().slice(0, 19)}Z`;
  location.assign(`?since=${moment(Math.min(from, until - 60))}&until=${moment(until)}`);
}

function draw(figure, anew = false) {
  const place = figure.querySelector('[data-plot]');
  const known = drawn.get(figure.id);
  if (known && !anew) {
    // The server knows of no picture: with what it sends, the one that was here is put back.
    if (known.root.parentNode !== place) place.append(known.root);
    known.setData(columns(figure));
    read(known, figure);
    return;
  }
  known?.destroy();
  drawn.set(figure.id, new window.uPlot(options(figure, place), columns(figure), place));
}

function drawAll(anew) {
  for (const figure of document.querySelectorAll('[data-chart]')) draw(figure, anew);
}

function ask() {
  if (!paused && !document.hidden && frame() && 'live' in frame().dataset) {
    document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: { parts: ['charts'] } }));
  }
  setTimeout(ask, EVERY - ((now() - AFTER) % EVERY));
}

if (frame()) {
  drawAll(true);
  document.addEventListener('pdcp:paused', event => { paused = event.detail; });
  document.addEventListener('pdcp:painted', event => {
    if (!event.target.querySelector('[data-charts]')) return;
    for (const key of event.target.querySelectorAll('[data-now]')) delete key.dataset.now;
    drawAll(false);
  });
  new ResizeObserver(() => {
    for (const plot of drawn.values()) {
      const width = plot.root.parentNode?.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  }).observe(frame());
  // Colours and clocks are drawn, not styled.
  new MutationObserver(() => drawAll(true)).observe(document.documentElement, { attributeFilter: ['data-bs-theme', 'data-zone'] });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawAll(true));
  setTimeout(ask, EVERY - ((now() - AFTER) % EVERY));
}
