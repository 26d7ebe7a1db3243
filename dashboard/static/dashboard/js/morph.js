// Puts what the server rendered in the place of what is shown, and leaves alone what the person is doing with it.

// Rows that came since the person looked wait in parts that say so, so that nothing jumps; `waiting` tells how many.
export function morphPart(old, html, { showNew = false } = {}) {
  const box = document.createElement('template');
  box.innerHTML = html;
  const fresh = box.content.firstElementChild;
  const holds = 'holdNew' in old.dataset && !showNew && old.querySelector('[data-key]');
  const known = holds ? new Set([...old.querySelectorAll('[data-key]')].map(row => row.dataset.key)) : null;
  let waiting = 0;
  if (known) {
    for (const row of fresh.querySelectorAll('[data-key]')) {
      if (!known.has(row.dataset.key)) {
        row.remove();
        waiting += 1;
      }
    }
  }
  window.Idiomorph.morph(old, fresh, {
    morphStyle: 'outerHTML',
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed(before, after) {
        if (before.nodeType !== 1) return true;
        // A grid is as large as it says; its cells are kept up to date by themselves.
        if (before.dataset.shape && after.dataset?.shape === before.dataset.shape) return false;
        if (before.tagName === 'TIME' && before.dateTime === after.dateTime) return false;
        if (before.matches('input[type=checkbox], input[type=radio]')) after.toggleAttribute('checked', before.checked);
        return true;
      },
      beforeAttributeUpdated(name, node) {
        if (name === 'open' && node.matches('details, dialog')) return false;
        return !(name === 'tabindex' && node.matches('[role=gridcell]'));
      },
    },
  });
  const now = document.getElementById(fresh.id) ?? old;
  now.dataset.waiting = String(waiting);
  now.dispatchEvent(new CustomEvent('pdcp:painted', { bubbles: true, detail: { waiting } }));
  return waiting;
}
