"""A prefill instance without a model: ranks that listen, greet and register as SGLang's do."""
