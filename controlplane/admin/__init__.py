"""The Django admin: every record to look at, what operators may do to instances and ranks, and accounts.

Empty, for Django imports it in every process; the web process takes the site from `registry`.
"""
