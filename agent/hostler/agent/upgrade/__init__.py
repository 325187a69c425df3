"""Versions of the agent beside each other, and the trial of a new one (LC-13, LC-16).

/usr/lib/hostler-agent                 slot zero, of the installed package; always there
/var/lib/hostler-agent/slots/NAME      others, each whole
/var/lib/hostler-agent/current         symbolic link to the one that runs; absent for slot zero
/var/lib/hostler-agent/before          symbolic link to the one before, during a trial
/var/lib/hostler-agent/trial.json      a version on trial; absent when there is none

The launcher (`launch`) is what systemd starts: it picks the slot. A trial is judged by the version before it
(`judge` decides, `hostler.agent.trial_watch` acts). An idle agent loads nothing of this package.
"""
