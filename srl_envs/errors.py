"""Exceptions of the environments."""


class EnvError(Exception):
    """Invalid use of an environment, such as a step before `reset`. Base class of most errors."""


class EnvConfigError(EnvError, ValueError):
    """Invalid argument or setting of an environment, or invalid file that a setting names."""


class UntrustedError(EnvError, ValueError):
    """Untrusted record that names code, a path, or an environment that is too large."""


class ConformanceError(EnvError, AssertionError):
    """Violation of the contract of environments, as found by check_environment."""


class DocumentError(ValueError):
    """Document that is malformed, too large or nested too deep; not an EnvError."""
