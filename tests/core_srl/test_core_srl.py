"""The package core_srl: documented names, unknown names, and lazy imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import core_srl

ROOT = Path(__file__).parents[2]


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'MultiModelTrianer'"):
        core_srl.MultiModelTrianer  # noqa: B018
    assert not hasattr(core_srl, "anything")


def test_settings_need_no_torch_and_the_trainer_names_the_missing_package():
    script = (
        "import sys\n"
        "from core_srl import MultiModelConfig, OurMethodPolicy, SimplePG, TrainingMode\n"
        "from core_srl import create_multi_model_coop_compete_env, get_version_info\n"
        "from core_srl import LLMConfig, SharedLLMManager, UpdateStrategy\n"
        "MultiModelConfig(training_mode=TrainingMode.COOPERATIVE).to_run_config()\n"
        "SharedLLMManager(LLMConfig(backend='openai_api', model_name='m', api_key='a key'))\n"
        "create_multi_model_coop_compete_env(num_models=2).reset(seed=0)\n"
        "get_version_info()\n"
        "assert not {'torch', 'transformers', 'trl'} & set(sys.modules)\n"
        "sys.modules['torch'] = sys.modules['safetensors'] = None\n"
        "try:\n    from core_srl import MultiModelTrainer\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert 'pip install "core-srl[train]"' in done.stdout
