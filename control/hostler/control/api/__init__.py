"""The admin HTTP API: who asks, what they may, one command or query, one answer.

request ─▶ authn (bearer → principal) ─▶ authz (route → permission, default deny) ─▶ route ─▶ engine | reader
"""
