// Links and forms that change only parts of their page: `data-within="ranks pane"` names the parts, the URL says the rest.
import { morphPart } from './morph.js';
import { named, names } from './parts.js';

let last = 0;

// Shows these parts as they are at `url`, which becomes the page's own. Only the last of several wishes counts.
export async function go(url, parts, { push = true } = {}) {
  const mine = ++last;
  let answer;
  try {
    answer = await fetch(url, { headers: { 'X-PDCP-Parts': parts.join(',') }, credentials: 'same-origin' });
  } catch {
    answer = null;
  }
  if (mine !== last) return false;
  if (!answer?.ok) {
    // Whatever is wrong, the page itself says it better.
    location.assign(url);
    return false;
  }
  const html = await answer.text();
  if (mine !== last) return false;
  if (push) history.pushState({ within: true }, '', url);
  const box = document.createElement('template');
  box.innerHTML = html;
  for (const fresh of box.content.querySelectorAll('[data-part]')) {
    const chosen = [...fresh.querySelectorAll('form[data-within] select')].map(select => [select.name, select.value]);
    if (named(fresh.dataset.part)) morphPart(named(fresh.dataset.part), fresh, { showNew: true });
    for (const [name, value] of chosen) choose(named(fresh.dataset.part)?.querySelector(`form[data-within] select[name="${name}"]`), value);
  }
  document.dispatchEvent(new CustomEvent('pdcp:went', { detail: { parts } }));
  return true;
}

// What the URL says is what is chosen now, and no answer that somebody is still giving.
function choose(select, value) {
  for (const option of select?.options ?? []) option.selected = option.defaultSelected = option.value === value;
}

document.addEventListener('click', event => {
  const link = event.target.closest('a[data-within]');
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.href, link.dataset.within.split(' '));
});

function sent(form) {
  const url = new URL(form.action || location.href);
  url.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== '')).toString();
  go(url.href, form.dataset.within.split(' '));
}
document.addEventListener('change', event => { if (event.target.form?.matches('form[data-within]')) sent(event.target.form); });
document.addEventListener('submit', event => {
  if (!event.target.matches('form[data-within]')) return;
  event.preventDefault();
  sent(event.target);
});

// Back and forward between what was chosen within one page.
const here = location.pathname;
window.addEventListener('popstate', () => {
  if (location.pathname !== here || !document.querySelector('[data-within]')) return;
  go(location.href, [...names(), ...(document.querySelector('[data-shape]') ? ['cells'] : [])], { push: false });
});
