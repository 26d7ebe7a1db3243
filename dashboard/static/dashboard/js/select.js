// Rows that are selected, and what can be done with all of them at once: the dialog asks for exactly those names.
import { say } from './say.js';

const boxes = () => [...document.querySelectorAll('[data-select]')];
const chosen = () => boxes().filter(box => box.checked);

function paint() {
  const count = document.querySelector('[data-select-count]');
  if (!count) return;
  const names = chosen().map(box => box.value);
  const text = names.length ? `${names.length} selected` : count.dataset.none;
  if (count.textContent !== text) count.textContent = text;
  const query = new URLSearchParams([...names.map(name => ['on', name]), ['back', location.pathname + location.search]]);
  for (const link of document.querySelectorAll('[data-bulk]')) {
    link.hidden = !names.length;
    link.href = `${link.dataset.bulk}?${query}`;
  }
  for (const box of boxes()) box.closest('tr').classList.toggle('sel', box.checked);
  const all = document.querySelector('[data-select-all]');
  if (all) {
    all.checked = names.length > 0 && names.length === boxes().length;
    all.indeterminate = names.length > 0 && !all.checked;
  }
}

document.addEventListener('change', event => {
  if (event.target.matches('[data-select-all]')) for (const box of boxes()) box.checked = event.target.checked;
  else if (!event.target.matches('[data-select]')) return;
  paint();
  say(document.querySelector('[data-select-count]')?.textContent ?? '');
});
document.addEventListener('pdcp:painted', paint);
paint();
