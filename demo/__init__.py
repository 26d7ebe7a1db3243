"""A whole fleet on this machine, to look at: `make demo`, and `make demo-chaos`, which breaks it while the pages say so.

It stands on top of everything and uses what everybody can use: `manage.py up` and its commands, the API, the agents and
the weights as processes of their own. Nothing imports it, and it is no part of the installed package.
"""
