"""Base class of the configuration's sections: strict, and frank about what stands elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from srl_train.config.section import Section, shown
from srl_train.errors import ConfigError


class Documented(Section):
    """A section; raises ConfigError for unknown settings and for values that are not allowed."""

    ELSEWHERE: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Documented setting that is not read here -> (its documented default, which may stand in a
    file, what to do for another value)."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_stands_elsewhere(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        for name, (usual, way) in cls.ELSEWHERE.items():
            if name in tree and tree[name] != usual:
                raise ConfigError(f"{name}: got {shown(tree[name])}: {way}, and leave it out")
        return {name: value for name, value in tree.items() if name not in cls.ELSEWHERE}
