// Puts what the server rendered in the place of what is shown, and leaves alone what the person is doing with it.
import { named } from './parts.js';
import { say } from './say.js';

// Rows that came since the person looked wait in parts that say so, so that nothing jumps; `showNew` lets them in.
export function morphPart(old, fresh, { showNew = false } = {}) {
  const name = old.dataset.part;
  const waiting = 'holdNew' in old.dataset && !showNew ? holdBack(old, fresh) : { count: 0 };
  identify(name, old);
  identify(name, fresh);
  const active = old.contains(document.activeElement) ? document.activeElement : null;
  const forHtmx = new Set();
  window.Idiomorph.morph(old, fresh, {
    morphStyle: 'outerHTML',
    callbacks: {
      beforeNodeMorphed: (before, after) => before.nodeType !== 1 || mayChange(before, after),
      beforeAttributeUpdated(attribute, node) {
        if (attribute === 'open' && node.matches('details, dialog')) return false;
        if (attribute.startsWith('hx-')) forHtmx.add(node);
        return true;
      },
      afterNodeAdded: node => { if (node.nodeType === 1) forHtmx.add(node); },
    },
  });
  for (const node of forHtmx) window.htmx?.process(node);
  const now = named(name);
  chip(now, waiting);
  // Whoever works with the keyboard goes on in this part when what they stood on is gone.
  if (active && !active.isConnected) (now.querySelector('[data-key] :is(a[href], button)') ?? document.getElementById('main')).focus({ preventScroll: true });
  now.dispatchEvent(new CustomEvent('pdcp:painted', { bubbles: true, detail: { waiting: waiting.count } }));
}

// Takes rows that were not there before out of `fresh`.
function holdBack(old, fresh) {
  const shown = new Map([...old.querySelectorAll('[data-key]')].map(row => [row.dataset.key, row]));
  const log = fresh.querySelector('[data-log]');
  const order = new Map([...shown.keys()].map((key, at) => [key, at]));
  const groups = new Map();
  let count = 0, last = -1;
  for (const row of shown.size ? fresh.querySelectorAll('[data-key]') : []) {
    const before = shown.get(row.dataset.key), group = row.parentElement;
    if (before) {
      last = Math.max(last, order.get(row.dataset.key));
      groups.set(before.parentElement, group);
      continue;
    }
    row.remove();
    count += 1;
    if (log && group !== log && !group.querySelector('[data-key]')) group.remove();
  }
  if (count && log) keepEnd([...shown.values()].slice(last + 1), log, groups);
  return { count, all: last < 0 };
}

// In a log (`data-log`, around rows or groups of rows) rows go only because new ones push them out at the end: they stay
// until the new ones are let in.
function keepEnd(rows, log, groups) {
  for (const row of rows) {
    const group = row.parentElement;
    const place = 'log' in group.dataset ? log : groups.get(group);
    if (place) place.append(row.cloneNode(true));
    else {
      log.append(group.cloneNode(true));
      groups.set(group, { append() {} });
    }
  }
}

// A row is itself, wherever it moves to: nobody presses the button of another one that has slipped under their finger.
function identify(name, part) {
  for (const row of part.querySelectorAll('[data-key]:not([id])')) row.id = `row-${name}-${row.dataset.key}`;
}

function mayChange(before, after) {
  const mine = before.dataset, theirs = after.dataset ?? {};
  // A grid is as large as it says; its cells are kept up to date by themselves. So is what is drawn here, as charts.
  if (mine.shape && theirs.shape === mine.shape) {
    for (const { name, value } of after.attributes) if (!name.startsWith('data-') && before.getAttribute(name) !== value) before.setAttribute(name, value);
    return false;
  }
  if ('newChip' in mine && 'newChip' in theirs) return false;
  if (before.tagName === 'TIME' && before.dateTime === after.dateTime) return false;
  if (before.matches('input[type=checkbox], input[type=radio]')) after.toggleAttribute('checked', before.checked);
  else if (before.matches('input, textarea, select') && (before === document.activeElement || isAnswered(before))) return false;
  return true;
}

// Whether a person has chosen or typed something else than what the server put there.
function isAnswered(field) {
  if (field.tagName !== 'SELECT') return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max(0, [...field.options].findIndex(option => option.defaultSelected));
}

function chip(part, { count, all }) {
  const place = part.querySelector('[data-new-chip]');
  if (!place) return;
  if (!count) {
    place.replaceChildren();
    return;
  }
  let button = place.querySelector('button');
  if (!button) {
    button = Object.assign(document.createElement('button'), { type: 'button', className: 'chip' });
    button.addEventListener('click', () => {
      document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: { parts: [part.dataset.part], open: true } }));
    });
    place.append(button);
    say('There are new rows');
  }
  const text = `${count}${all ? ' or more' : ''} new`;
  if (button.textContent !== text) button.textContent = text;
}
