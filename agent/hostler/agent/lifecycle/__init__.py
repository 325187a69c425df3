"""The agent's own life: identity, enrolment, renewal, trust.

Reads and writes `state_dir`; dials only to enrol and to renew.
"""
