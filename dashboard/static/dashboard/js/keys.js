// Single keys, for whoever is not typing: / ? p i j k Esc, and g with the letter of a page. They can be switched off.
import { openPalette } from './palette.js';

const WAIT = 1500;
const STORE = 'pdcp-single-keys';
const NEVER = -Infinity;
let going = NEVER;

const on = () => { try { return localStorage.getItem(STORE) !== 'off'; } catch { return true; } };
const typing = target => target.closest('input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select, [contenteditable]');
const rows = () => [...document.querySelectorAll('main tbody > tr, main .att > li')]
  .filter(row => row.checkVisibility() && row.querySelector('a[href], button'));
const handle = row => row.querySelector('a[href], button');

function step(by) {
  const all = rows();
  const at = all.findIndex(row => row.contains(document.activeElement));
  const row = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  if (!row) return;
  handle(row).focus();
  row.scrollIntoView({ block: 'nearest' });
}

function filter() {
  const field = [...document.querySelectorAll('[data-filter], main input[type=search]')].find(one => one.checkVisibility());
  if (!field) return false;
  field.focus();
  field.select();
  return true;
}

async function help() {
  let dialog = document.getElementById('keys');
  if (!dialog) {
    const answer = await fetch('/palette/keys/', { headers: { 'X-PDCP-Parts': '' }, credentials: 'same-origin' }).catch(() => null);
    if (!answer?.ok) return;
    const box = document.createElement('template');
    box.innerHTML = await answer.text();
    dialog = box.content.firstElementChild;
    document.body.append(dialog);
    const single = dialog.querySelector('[data-single-keys]');
    single.checked = on();
    single.addEventListener('change', () => { try { localStorage.setItem(STORE, single.checked ? 'on' : 'off'); } catch { /* for this page only */ } });
    dialog.addEventListener('click', event => { if (event.target === dialog || event.target.closest('[data-dismiss]')) dialog.close(); });
  }
  if (!dialog.open) dialog.showModal();
}

const DOES = {
  pause: () => document.dispatchEvent(new CustomEvent('pdcp:pause')),
  theme: () => document.querySelector('[data-theme-next]')?.click(),
  zone: () => document.querySelector('[data-zone-next]')?.click(),
  keys: help,
};

const KEYS = {
  '/': filter,
  '?': help,
  p: DOES.pause,
  i: () => openPalette(),
  j: () => step(1),
  k: () => step(-1),
  g: () => { going = performance.now(); },
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.isComposing) return;
  if (document.querySelector('dialog[open], :popover-open')) return;
  if (event.key === 'Escape') {
    if (typing(event.target)) event.target.blur();
    else document.querySelector('main a[data-close]')?.click();
    return;
  }
  if (typing(event.target) || !on()) return;
  const waited = performance.now() - going < WAIT;
  going = NEVER;
  const place = waited && document.querySelector(`.nav-l a[data-go="${CSS.escape(event.key)}"]`);
  if (place) {
    event.preventDefault();
    place.click();
  } else if (Object.hasOwn(KEYS, event.key) && KEYS[event.key](event) !== false) event.preventDefault();
}

document.addEventListener('keydown', pressed);
document.addEventListener('pdcp:do', event => DOES[event.detail]?.());
