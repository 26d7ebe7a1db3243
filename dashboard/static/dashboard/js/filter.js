// Search fields above lists: what is typed narrows the list as it is typed, and stands in the address.
const WAIT = 250;
let timer;

function narrow(form, { step = false } = {}) {
  clearTimeout(timer);
  const url = new URL(form.action || location.href, location.href);
  const words = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) words.append(name, value);
  url.search = words;
  if (url.href === location.href) return;
  if (step) history.pushState({ turned: true }, '', url);
  else history.replaceState(history.state, '', url);
  document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: { parts: form.dataset.filterForm.split(' '), open: true } }));
}

document.addEventListener('input', event => {
  const form = event.target.closest('[data-filter-form]');
  if (!form) return;
  clearTimeout(timer);
  timer = setTimeout(() => narrow(form), WAIT);
});

document.addEventListener('submit', event => {
  const form = event.target.closest('[data-filter-form]');
  if (!form) return;
  event.preventDefault();
  narrow(form, { step: true });
});

// A link has changed what is sought: the field says so, unless somebody types in it.
document.addEventListener('pdcp:painted', event => {
  for (const field of event.target.querySelectorAll('[data-filter-form] [data-filter]')) {
    if (field !== document.activeElement) field.value = field.defaultValue = new URLSearchParams(location.search).get(field.name) ?? '';
  }
});
