"""Sources of models: folders of this machine, and repositories of the hub."""

from __future__ import annotations

import os
from pathlib import Path

from srl_agents.errors import BackendError
from srl_agents.llm.hub_names import GGUF, VARIABLE, folder_for, is_gguf
from srl_envs.loading import needed_by

with needed_by("a Hugging Face model"):
    from huggingface_hub import (
        constants,
        get_session,
        snapshot_download,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import HFValidationError


def source_of(name: str | os.PathLike[str]) -> tuple[str, dict[str, str]]:
    """What transformers is asked to load, and how: NAME@REVISION is a revision on the hub, unless
    a folder stands for it (srl_agents.llm.hub_names), and a GGUF file is one of its folder.

    Raises BackendError for a GGUF file that transformers would not know for one.
    """
    source = os.fspath(name)
    if is_gguf(source):
        file = Path(source).absolute()
        if file.suffix != GGUF:
            raise BackendError(
                f"{source} is a GGUF file, and transformers knows those by small letters: name it "
                f"{file.with_suffix(GGUF).name}"
            )
        return str(file.parent), {"gguf_file": file.name}
    if not os.path.exists(source) and (folder := folder_for(source)) is not None:
        return folder, {}
    head, at, revision = source.rpartition("@")
    return (head, {"revision": revision}) if at and not os.path.exists(source) else (source, {})


def reachable_source_of(name: str | os.PathLike[str]) -> tuple[str, dict[str, str]]:
    """What `source_of` says, once it can be loaded from there.

    Raises BackendError at once for a model that is not on this machine where the hub cannot be
    reached: the hub's own client tries every file of it six times.
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
            f"cannot load the model {os.fspath(name)!r}: there is no such folder, and no model of "
            "the hub has such a name"
        ) from error
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception as error:  # whatever its client raises: it is passed on
        raise BackendError(
            f"cannot load the model {os.fspath(name)!r}: it is not on this machine, and "
            f"{constants.ENDPOINT} cannot be reached ({error}): give a folder, say which stands "
            f"for it by {VARIABLE}={source}=FOLDER, or take the embedded model, tiny, which needs "
            "no download"
        ) from error
    return source, revised


def not_loaded(name: str | os.PathLike[str], error: Exception) -> BackendError:
    """Return the error about a model or tokenizer that transformers could not load."""
    if isinstance(error, BackendError):
        return error
    cause = str(error)
    if "trust_remote_code=True" in cause:  # advice that no setting of this project follows
        cause = "it needs the Python code in its folder (auto_map), which is never run"
    return BackendError(f"cannot load the model {os.fspath(name)!r}: {cause}")


def folder_of(name: str | os.PathLike[str]) -> Path:
    """Where a model lies on this machine; one of the hub is downloaded first.

    Raises BackendError where it cannot be, and for a GGUF file.
    """
    if is_gguf(name):
        raise BackendError(
            f"{os.fspath(name)} is a GGUF file, whose weights servers would hold as they are in "
            f"the file: write it to a folder first, srl export {os.fspath(name)} FOLDER"
        )
    source, revised = reachable_source_of(name)
    if os.path.isdir(source):
        return Path(source)
    try:
        return Path(snapshot_download(source, revision=revised.get("revision")))
    except (OSError, ValueError) as error:
        raise BackendError(f"cannot download {os.fspath(name)!r}: {error}") from error
