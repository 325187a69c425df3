"""The operator's `hostler`: speaks only the HTTP API, and works on files (keys, profiles, bundles) locally.

main ─▶ {operations nodes profiles principals audit pki demo} ─▶ {client output watch} ─▶ settings
"""
