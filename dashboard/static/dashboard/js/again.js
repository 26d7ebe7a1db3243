// Parts that no event tells of, asked for again every few seconds: <div hidden data-again="3" data-parts="tasks failures">.
const marker = document.querySelector('[data-again]');
let paused = false;

function ask() {
  if (!paused && !document.hidden && !document.querySelector('dialog[open]')) {
    document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: { parts: marker.dataset.parts.split(' ') } }));
  }
}

if (marker) {
  document.addEventListener('pdcp:paused', event => { paused = event.detail; });
  setInterval(ask, Number(marker.dataset.again) * 1000);
}
