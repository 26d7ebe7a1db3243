// The regions of this page that are asked for anew: which there are, and which of them an event concerns.
const parts = () => [...document.querySelectorAll('[data-part]')];

export const names = () => parts().map(part => part.dataset.part);
export const named = name => document.getElementById(`part-${name}`);

export function touched(events) {
  const kinds = new Set(events.map(event => event.kind));
  const touches = on => on.split(' ').some(wanted => wanted === '*' || (wanted && [...kinds].some(kind => kind.startsWith(wanted))));
  return parts().filter(part => touches(part.dataset.on)).map(part => part.dataset.part);
}

// What no event tells of: `data-again="2"` in a part asks for it anew every two seconds, for as long as its answers say so.
export const again = () => parts().flatMap(part => {
  const every = Number(part.querySelector('[data-again]')?.dataset.again ?? 0);
  return every > 0 ? [[part.dataset.part, every * 1000]] : [];
});

export function read(cursor) {
  const [ledger, revision] = cursor.split(':');
  return [ledger, Number(revision)];
}

// A page of the past says so: `data-as-of="18240" data-as-of-more="03:11:02" data-as-of-back="/events/"`. It stays as it is.
export function asOf() {
  const said = document.querySelector('[data-as-of]')?.dataset;
  return said ? { revision: said.asOf, more: said.asOfMore ?? '', back: said.asOfBack ?? location.pathname } : null;
}
