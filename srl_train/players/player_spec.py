"""Player specs: the names of players in configurations, scenarios and on the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from srl_agents.llm.backends.registry import is_api_name
from srl_agents.llm.hub_names import is_gguf
from srl_agents.scripted.registry import POLICIES, is_scripted
from srl_envs import loading
from srl_envs.errors import UntrustedError
from srl_train.checkpoints.manifest import is_checkpoint
from srl_train.errors import ConfigError

TINY = "tiny"  # the embedded model, warm-started for the environment
PLAYERS = (
    "a scripted policy, MODULE:CLASS (a policy of your own), 'tiny' (the embedded model), a "
    "model's folder or hub name, a run's folder or a checkpoint's, RUN:model_0, RUN:POOL (of past "
    "versions), or openai:MODEL and the like"
)
"""What a player may be called, for help texts."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
_MODEL = re.compile(r"model_(\d+)")


@dataclass(frozen=True)
class PlayerSpec:
    """Who plays: what one name stands for."""

    name: str
    """As it was written."""
    kind: Literal["scripted", "tiny", "folder", "hub", "run", "pool", "api"]
    sources: Mapping[str, str] = field(default_factory=dict)
    """Model -> 'tiny', a folder, a hub name, 'CHECKPOINT:model_0' or a name behind an API, in
    order; several only where the name stands for all models of a run. Of an opponent pool, its name
    -> 'CHECKPOINT:POOL'."""
    run: Path | None = None
    """The folder of the run, or of its checkpoint, for models of one."""

    @property
    def is_local_model(self) -> bool:
        """Whether models play that run in this process."""
        return bool(self.sources) and self.kind != "api"


def parse_player(name: str) -> PlayerSpec:
    """Return the player that `name` means. Nothing is loaded or imported.

    Args:
        name: One of these, of which a run's folder wins over a module of the same name:

            - a scripted policy
            - 'module:Class', a policy of the user's own (docs/agents/own_opponent.md)
            - 'tiny'
            - a folder with a model (a Hugging Face folder or a PEFT adapter), a GGUF file, or a hub
              name (NAME or NAME@REVISION)
            - a run's folder or the folder of one of its checkpoints, 'RUN:model_2' for one model of
              either
            - 'RUN:past' for the opponent pool `past` of a checkpoint, or of a run's newest one
            - a model behind an API, such as 'openai:gpt-5-mini'

    Raises:
        ConfigError: The name means no player.
        UntrustedError: A record names a player that is not part of this library
            (`loading.closed`).
    """
    if name in POLICIES:
        return PlayerSpec(name, "scripted")
    if name == TINY:
        return PlayerSpec(name, "tiny", {TINY: TINY})
    if loading.is_closed():
        raise UntrustedError(
            f"{name!r:.200} is a player that a record names, and is neither loaded nor asked: "
            f"{loading.WAY_OUT}"
        )
    if is_api_name(name):
        return PlayerSpec(name, "api", {name: name})
    path, wanted = name, None
    if not Path(path).expanduser().exists() and ":" in name:
        path, _, wanted = name.rpartition(":")
    place = Path(path).expanduser()
    if (place / "models").is_dir() or (place / "config.yaml").is_file():
        if wanted is not None and not _MODEL.fullmatch(wanted):
            return PlayerSpec(name, "pool", *_pool(place, wanted))
        there = models_of_run(place)
        if wanted is not None and wanted not in there:
            raise ConfigError(f"{place} has no model {wanted!r}, only {', '.join(there)}")
        chosen = there if wanted is None else {wanted: there[wanted]}
        return PlayerSpec(name, "run", chosen, place)
    if wanted is not None and is_scripted(name):
        return PlayerSpec(name, "scripted")
    if wanted is None and _is_model(place):
        return PlayerSpec(name, "folder", {place.resolve().name: str(place)})
    if wanted is None and is_gguf(place):
        return PlayerSpec(name, "folder", {place.stem: str(place)})
    refuse_missing_folder(path)
    if wanted is None and not place.exists() and _HUB_NAME.fullmatch(name):
        return PlayerSpec(name, "hub", {name.rpartition("/")[2]: name})
    if wanted is None and place.is_dir() and os.sep in name:
        raise ConfigError(
            f"{name} holds neither a model nor a run: give a model's folder, a run's or that of "
            "one of its checkpoints"
        )
    runs = [path for folder in (Path(), Path("runs")) for path in folder.glob("*/config.yaml")]
    known = {one: one for one in POLICIES} | {p.parent.name: str(p.parent) for p in runs}
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    guess = f" (did you mean {known[close[0]]!r}?)" if close else ""
    raise ConfigError(
        f"unknown player {name!r}{guess}: give 'tiny', a model's folder or hub name, a run's "
        f"folder (RUN, RUN:model_0 or RUN:POOL), openai:MODEL or anthropic:MODEL, MODULE:CLASS, or "
        f"one of {', '.join(POLICIES)}"
    )


def base_named(setting: str, base: str) -> str:
    """What to load for a base in a configuration: 'tiny', a folder by its whole path, a hub name
    or a name behind an API.

    Raises ConfigError, which begins with `setting`, for a folder that is not there or holds no
    model, and for a name that stands for several or for no model.
    """
    if not any(mark in base for mark in "/:") and base != TINY and not Path(base).exists():
        # One of the hub's oldest names.
        here = [path.name for path in Path().iterdir() if path.is_dir()]
        if near := get_close_matches(base, [TINY, *here], n=1, cutoff=0.8):
            raise ConfigError(f"{setting} is {base!r}: did you mean {near[0]!r}?")
        return base
    try:
        named = parse_player(base)
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from error
    if not named.sources:
        raise ConfigError(f"{setting}: {base} is no model: give a model's folder or hub name")
    first = next(iter(named.sources))
    if named.kind == "pool":
        raise ConfigError(
            f"{setting}: {base} is a pool of past versions, which plays and is no model: give one, "
            "such as RUN:model_0"
        )
    if len(named.sources) > 1:
        raise ConfigError(
            f"{setting}: {base} holds {len(named.sources)} models: give one, such as {base}:{first}"
        )
    if named.run is not None and is_checkpoint(named.run):
        raise ConfigError(
            f"{setting}: {base} is in a checkpoint: write it to a folder first, "
            f"srl export {named.run}:{first} FOLDER"
        )
    source = named.sources[first]
    return os.path.abspath(source) if named.kind in ("folder", "run") else source


def refuse_missing_folder(name: str) -> None:
    """Raise ConfigError where the name is a path, for all one can see, that nothing is at; what
    may stand for a model on the hub (NAME/NAME) is none unless a folder of its first name is here.

    Nobody should wait for a download because of a slip in a folder's name.
    """
    name = name.partition("@")[0]
    place = Path(name).expanduser()
    if place.exists() or not (os.sep in name or name.startswith("~")):
        return
    surely = name.startswith(("/", ".", "~", "runs/")) or name.count(os.sep) > 1
    if not (surely or place.parent.is_dir()):
        return
    known = next(parent for parent in place.parents if parent.is_dir())
    there = sorted(path.name for path in known.iterdir() if path.is_dir())
    near = get_close_matches(place.relative_to(known).parts[0], there, n=3, cutoff=0.5)
    offered = ", ".join(str(known / one) for one in near)
    raise ConfigError(
        f"there is no folder {name}" + (f": there is {offered}" if offered else "")
        + ("; a model of that name on the hub has to be downloaded first, or the command run "
           f"where there is no folder {known}" if not surely else "")
    )  # fmt: skip


def models_of_run(folder: Path) -> dict[str, str]:
    """Model -> what to load for it, for the trained models of a run, or of its checkpoint where
    the folder is one; model_10 comes after model_9.

    Raises ConfigError where there are none.
    """
    if is_checkpoint(folder):
        paths = sorted((folder / "models").glob("*.safetensors"), key=_number)
        return {path.stem: f"{folder}:{path.stem}" for path in paths}
    paths = sorted((folder / "models").glob("*"), key=_number)
    there = {path.name: str(path) for path in paths if _is_model(path)}
    if not there:
        saved = sorted(path for path in (folder / "checkpoints").glob("*") if is_checkpoint(path))
        beside = f", or give a checkpoint, {saved[-1]}" if saved else ""
        raise ConfigError(
            f"{folder}/models holds no model: has the run ended? "
            f"srl train --resume --out {folder}{beside}"
        )
    return there


def _pool(place: Path, wanted: str) -> tuple[dict[str, str], Path]:
    """(the pool -> what to load for it, the checkpoint that holds it), of a run's folder, whose
    newest checkpoint it is, or of a checkpoint's.

    Raises ConfigError where there is no such pool, or no checkpoint yet.
    """
    from srl_train.players.trained_models import config_tree

    tree = config_tree(place)
    pools = tree.get("opponent_pools") if isinstance(tree, dict) else None
    known = list(map(str, pools)) if isinstance(pools, dict) else []
    if wanted not in known:
        told = f"its opponent pools are {', '.join(known)}" if known else "it has no opponent pools"
        there = models_of_run(place)
        close = get_close_matches(wanted, [*known, *there], n=1, cutoff=0.5)
        guess = f": did you mean {close[0]!r}?" if close else ""
        raise ConfigError(
            f"{place} has no model {wanted!r}, only {', '.join(there)}, and {told}{guess}"
        )
    if is_checkpoint(place):
        return {wanted: f"{place}:{wanted}"}, place
    from srl_train.checkpoints.checkpoint import list_checkpoints  # it takes torch

    saved = list_checkpoints(place / "checkpoints")
    if not saved:
        raise ConfigError(
            f"{place}/checkpoints holds no whole checkpoint, in which the snapshots of {wanted} "
            "are: give the folder of one, as CHECKPOINT:" + wanted
        )
    newest = place / "checkpoints" / saved[0]
    return {wanted: f"{newest}:{wanted}"}, newest


def _is_model(folder: Path) -> bool:
    return any((folder / file).is_file() for file in ("config.json", "adapter_config.json"))


def _number(path: Path) -> tuple[int, str]:
    found = _MODEL.fullmatch(path.stem)
    return (int(found[1]) if found else 0, path.name)
