"""Attacks: hostile programs, each with a function f that returns the data it found.

Marks in the programs: SECRET (file of the parent process), TARGET (file to create), PARENT and
GROUP (process and group of the parent), PORT, UDP, DATAGRAMS and ABSTRACT (its sockets), HOST (name
of the machine), PROJECT and SITE (folders of this package and of installed ones), TOKEN (part of
the name of everything that an attack creates), MARKER (result of a successful attack).
"""

from tests.srl_envs.sandbox.inward_attacks import FORGING, RESOURCES
from tests.srl_envs.sandbox.outward_attacks import NETWORK, PROCESSES, READING, WRITING

KINDS = {
    "reading": READING,
    "writing": WRITING,
    "network": NETWORK,
    "processes": PROCESSES,
    "resources": RESOURCES,
    "forging": FORGING,
}
ATTACKS = [(kind, name) for kind, attacks in KINDS.items() for name in attacks]
