"""What hostile programs try. Each defines f, and gives away what it found as what f returns.

Marks in the programs: SECRET (a file of the parent's), TARGET (a file to be made), PARENT and GROUP
(its process and group), PORT, UDP, DATAGRAMS and ABSTRACT (where it listens), HOST (the machine's
name), PROJECT and SITE (where this package and installed ones lie), TOKEN (in the name of whatever
is left behind), MARKER (returned where an attack has found that it succeeds).
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
