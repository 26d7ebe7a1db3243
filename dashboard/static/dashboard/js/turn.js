// Links inside [data-turn="list one"] change the address and these parts of the page, and leave the rest of it alone.
// Without scripts, or with a key held down, they are links.
const PLAIN = event => event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

function turn(names) {
  document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: { parts: names.split(' '), open: true } }));
}

document.addEventListener('click', event => {
  const link = event.target.closest('[data-turn] a[href]');
  if (!link || !PLAIN(event) || event.defaultPrevented || link.target || link.hasAttribute('download')) return;
  const url = new URL(link.href);
  const here = document.querySelector('[data-turn-path]')?.dataset.turnPath;
  if (url.origin !== location.origin || !here || url.pathname !== here) return;
  event.preventDefault();
  history.pushState({ turned: true }, '', url);
  turn(link.closest('[data-turn]').dataset.turn);
});

window.addEventListener('popstate', () => {
  const turned = document.querySelector('[data-turn]');
  if (turned) turn(turned.dataset.turn);
});

// What was asked for may arrive out of sight, above a long list on a narrow page.
let arrived = document.querySelector('[data-arrives]')?.dataset.arrives;
document.addEventListener('pdcp:painted', event => {
  const came = event.target.querySelector?.('[data-arrives]');
  if (!came || came.dataset.arrives === arrived) return;
  arrived = came.dataset.arrives;
  const { top } = came.getBoundingClientRect();
  if (top < 0 || top > innerHeight - 80) came.scrollIntoView({ block: 'start' });
});

// A list to choose from in such a form needs no button to be pressed after it.
document.addEventListener('change', event => {
  const form = event.target.closest('form[data-send-on-change]');
  if (form && event.target.matches('select')) form.requestSubmit();
});
