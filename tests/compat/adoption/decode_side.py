"""Makes `import sglang.srt.disaggregation.decode` work without what its API server needs. Import it before that module."""

import sys

from tests.compat import sgl_cpu

# Of the parsers of answers nothing is used here; importing them takes the client library of OpenAI.
PARSERS = "sglang.srt.parser.reasoning_parser"
sys.modules.setdefault(PARSERS, sgl_cpu._finder.tools._MockModule(PARSERS))
sgl_cpu._finder.packages.add("einops")
