// What every page runs. Each module looks for its own elements and does nothing where there are none.
import './time.js';
import './copy.js';
import './shell.js';
import './live.js';
import './acts.js';
import './turn.js';
import './palette.js';
import './keys.js';
import './within.js';
import './grid.js';
import './filter.js';
import './select.js';
