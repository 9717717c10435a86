"""Loading of Hugging Face models: sources, quantization to 4 bits, and progress bars."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from srl_agents.errors import BackendError
from srl_agents.llm.model_folders import VARIABLE, folder_for, is_gguf
from srl_envs.loading import needed_by

with needed_by("a Hugging Face model"):
    import torch
    from huggingface_hub import (
        constants,
        get_session,
        snapshot_download,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import HFValidationError
    from transformers import BitsAndBytesConfig
    from transformers.utils import logging as transformers_logging


def source_of(name: str | os.PathLike[str]) -> tuple[str, dict[str, str]]:
    """Return (folder or hub name, keyword arguments) of a model for `from_pretrained`.

    `name` is a folder, a GGUF file (argument gguf_file), a hub name, or NAME@REVISION (argument
    revision). An entry NAME=FOLDER of the environment variable CORE_SRL_MODELS replaces a hub name,
    with any revision. Raises BackendError if this variable is not valid.
    """
    source = os.fspath(name)
    if is_gguf(source):
        file = Path(source).absolute()
        return str(file.parent), {"gguf_file": file.name}
    if not os.path.exists(source) and (folder := folder_for(source)) is not None:
        return folder, {}
    head, at, revision = source.rpartition("@")
    return (head, {"revision": revision}) if at and not os.path.exists(source) else (source, {})


def reachable_source_of(name: str | os.PathLike[str]) -> tuple[str, dict[str, str]]:
    """Return `source_of(name)` of a model that is on this machine or may be on the hub.

    Raises BackendError for an invalid name, or if the model is not local and no hub answers.
    """
    source, revised = source_of(name)
    try:
        if os.path.exists(source) or any(
            isinstance(try_to_load_from_cache(source, file, **revised), str)
            for file in ("config.json", "adapter_config.json")
        ):
            return source, revised
    except HFValidationError as error:
        raise BackendError(
            f"cannot load the model {os.fspath(name)!r}: this is neither a folder nor a valid name "
            "of the hub"
        ) from error
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception as error:  # The exceptions depend on the HTTP client.
        raise BackendError(
            f"cannot load the model {os.fspath(name)!r}: it is not on this machine, and "
            f"{constants.ENDPOINT} cannot be reached ({error}): give a folder, set "
            f"{VARIABLE}={source}=FOLDER, or use the embedded model, tiny"
        ) from error
    return source, revised


def not_loaded(name: str | os.PathLike[str], error: Exception) -> BackendError:
    """Return the BackendError of a model that transformers could not load because of `error`."""
    cause = str(error)
    if "trust_remote_code=True" in cause:  # transformers' advice, which is not an option here
        cause = "it needs the Python code in its folder (auto_map), which is never run"
    return BackendError(f"cannot load the model {os.fspath(name)!r}: {cause}")


def folder_of(name: str | os.PathLike[str]) -> Path:
    """Return the local folder of a model, after a download from the hub if needed.

    Raises BackendError for a GGUF file, an invalid name, and a failed download.
    """
    if is_gguf(name):
        raise BackendError(
            f"model servers cannot load the GGUF file {os.fspath(name)} at full precision: write "
            f"it to a folder first, srl export {os.fspath(name)} FOLDER"
        )
    source, revised = reachable_source_of(name)
    if os.path.isdir(source):
        return Path(source)
    try:
        return Path(snapshot_download(source, revision=revised.get("revision")))
    except (OSError, ValueError) as error:
        raise BackendError(f"cannot download {os.fspath(name)!r}: {error}") from error


# This logger warns about a missing kernel that is not used here.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def quantization_arguments(device: str) -> dict[str, Any]:
    """Return `quantization_config` and `device_map` for `from_pretrained`, for NF4 on `device`.

    NF4 is QLoRA's type with 4 bits (Dettmers et al. 2023), here with double quantization.
    Raises ImportError without the package bitsandbytes.
    """
    with needed_by("a quantized model"):
        import bitsandbytes  # noqa: F401
    place: Any = torch.cuda.current_device() if device == "cuda" else device
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
    )
    return {"quantization_config": config, "device_map": {"": place}}


def make_batch_invariant(model: Any) -> None:
    """Fix the compute type and the weight format of 4-bit layers in place, for all inputs."""
    from bitsandbytes.nn import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.compute_dtype, module.compute_type_is_set = model.dtype, True
            # On CPUs with AVX512-BF16, the first evaluation would repack the weights, round their
            # scales, and make the layer impossible to differentiate.
            module.support_avx512bf16_for_cpu = False


def shared_states(model: Any) -> Iterator[Any]:
    """Yield the quantization state (scales) of each quantized layer, which is no buffer."""
    for module in model.modules():
        if (state := getattr(module, "quant_state", None)) is not None:
            yield state


@contextmanager
def no_bars() -> Iterator[None]:
    """Hide the progress bars of transformers in the block, but not those of downloads."""
    before = transformers_logging.set_tqdm_hook(
        lambda bar, args, settings: bar(*args, **{**settings, "disable": True})
    )
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)
