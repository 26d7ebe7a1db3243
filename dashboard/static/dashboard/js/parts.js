// The regions of this page that are asked for anew: which there are, and which of them an event concerns.
const parts = () => [...document.querySelectorAll('[data-part]')];

export const names = () => parts().map(part => part.dataset.part);
export const named = name => document.getElementById(`part-${name}`);

export function touched(events) {
  const kinds = new Set(events.map(event => event.kind));
  const touches = on => on.split(' ').some(wanted => wanted === '*' || (wanted && [...kinds].some(kind => kind.startsWith(wanted))));
  return parts().filter(part => touches(part.dataset.on)).map(part => part.dataset.part);
}

export function read(cursor) {
  const [ledger, revision] = cursor.split(':');
  return [ledger, Number(revision)];
}

// A page of the past says so: `data-as-of="18240" data-as-of-more="03:11:02" data-as-of-back="/events/"`. It stays as it is.
export function asOf() {
  const said = document.querySelector('[data-as-of]')?.dataset;
  return said ? { revision: said.asOf, more: said.asOfMore ?? '', back: said.asOfBack ?? location.pathname } : null;
}
