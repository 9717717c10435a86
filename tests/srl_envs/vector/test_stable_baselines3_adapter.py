"""Without Stable-Baselines3; with it: tests/interop/test_stable_baselines3_vector.py."""

import sys

import pytest

from srl_envs import vector
from srl_envs.errors import EnvConfigError


def test_a_missing_stable_baselines3_is_told_with_the_install_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "srl_envs.vector.stable_baselines3_adapter", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(EnvConfigError, match="pip install stable-baselines3"):
        vector.stable_baselines3_vector(vector.make("coop_compete_v0", 2, "SameStep"))
