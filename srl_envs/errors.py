"""Exceptions of the environments."""


class EnvError(Exception):
    """An environment was used in a way its rules do not allow."""


class EnvConfigError(EnvError, ValueError):
    """A constructor argument is outside what the environment allows."""


class UntrustedError(EnvError, ValueError):
    """A record of others names code, a place on this machine, or more than a record may ask for."""


class ConformanceError(EnvError, AssertionError):
    """An environment breaks the contract; the message says at which point and how."""


class DocumentError(ValueError):
    """A document that somebody else wrote is malformed, too large or nested too deep."""
