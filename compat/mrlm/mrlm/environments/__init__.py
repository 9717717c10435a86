"""Environments: code, mathematics, debate and tools, here or on a server."""

from mrlm.environments.catalogue import ENVIRONMENTS, make, registered_name
from mrlm.environments.remote import RemoteEnvironment

__all__ = ["ENVIRONMENTS", "RemoteEnvironment", "make", "registered_name"]
