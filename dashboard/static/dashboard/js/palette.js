// Ctrl+K: one field that finds instances, rooms, addresses, drains and events, and begins actions.
import { say } from './say.js';

const REST = 90;
let dialog = null, timer = null, asking = null, opener = null;
// Whoever has moved to a line stays on it when the answer comes; whoever pressed Enter before it came meant what comes.
let moved = false, entered = false, shown = null;

const lines = () => [...dialog.querySelectorAll('[role=option]:not([aria-disabled])')];
const chosen = () => dialog.querySelector('[role=option][aria-selected=true]:not([aria-disabled])');
const field = () => dialog.querySelector('[role=combobox]');

export async function openPalette(text = '') {
  if (document.querySelector('dialog[open]')) return;
  opener = document.activeElement;
  if (!dialog) {
    const html = await fetched('/palette/');
    if (html === null || dialog) return;
    const box = document.createElement('template');
    box.innerHTML = html;
    dialog = box.content.firstElementChild;
    document.body.append(dialog);
    dialog.addEventListener('input', () => { moved = entered = false; clearTimeout(timer); timer = setTimeout(look, REST); });
    dialog.addEventListener('keydown', pressed);
    dialog.addEventListener('click', clicked);
    dialog.addEventListener('close', () => { asking?.abort(); opener?.focus?.(); });
  }
  dialog.showModal();
  moved = entered = false;
  shown = null;
  field().value = text;
  field().select();
  mark(chosen());
  look();
}

async function look() {
  asking?.abort();
  asking = new AbortController();
  const text = field().value;
  const html = await fetched(`/palette/?q=${encodeURIComponent(text)}`, asking.signal);
  if (html === null || field().value !== text) return;
  const before = moved && chosen()?.href;
  dialog.querySelector('[role=listbox]').innerHTML = html;
  mark(lines().find(line => line.href === before) ?? lines()[0]);
  shown = text;
  if (entered) chosen()?.click();
  entered = false;
  say(`${lines().length} found`);
}

async function fetched(url, signal) {
  try {
    const answer = await fetch(url, { headers: { 'X-PDCP-Parts': '' }, credentials: 'same-origin', signal });
    if (answer.ok) return await answer.text();
    say(answer.status === 401 ? 'You are signed out' : 'The control plane does not answer');
  } catch (problem) {
    if (problem.name !== 'AbortError') say('The control plane does not answer');
  }
  return null;
}

function mark(line) {
  for (const one of lines()) one.setAttribute('aria-selected', String(one === line));
  if (line) {
    field().setAttribute('aria-activedescendant', line.id);
    line.scrollIntoView({ block: 'nearest' });
  } else field().removeAttribute('aria-activedescendant');
}

function pressed(event) {
  const all = lines(), at = all.indexOf(chosen());
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 5, PageUp: at - 5 }[event.key];
  if (to !== undefined) {
    moved = true;
    mark(all[event.key.startsWith('Page') ? Math.min(Math.max(to, 0), all.length - 1) : (to + all.length) % all.length]);
  } else if (event.key !== 'Enter') return;
  else if (shown === field().value || moved) chosen()?.click();
  else entered = true;
  event.preventDefault();
}

function clicked(event) {
  if (event.target === dialog) dialog.close();
  const line = event.target.closest('a[role=option]');
  if (!line) return;
  const aside = event.ctrlKey || event.metaKey || event.shiftKey;
  if (!aside) dialog.close();
  if (line.dataset.does) {
    event.preventDefault();
    document.dispatchEvent(new CustomEvent('pdcp:do', { detail: line.dataset.does }));
  }
}

document.addEventListener('click', event => { if (event.target.closest('[data-palette]')) openPalette(); });
document.addEventListener('keydown', event => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    if (dialog?.open) dialog.close();
    else openPalette();
  }
});
