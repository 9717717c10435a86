"""Backend for Hugging Face causal language models in this process, with batches and caches."""

from __future__ import annotations

import asyncio
import copy
import importlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.event_loop import Batcher
from srl_agents.llm.backends.token_backend import (
    Completion,
    Request,
    TokenTrie,
    check_room,
    check_version,
    known_trie,
)
from srl_agents.llm.chat_format import ChatFormat, fill_in
from srl_envs.loading import install_line, needed_by

with needed_by("a Hugging Face model"):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from srl_agents.llm.backends.huggingface.kv_cache import KeptCache, KeptCaches, masks_for, reusable
from srl_agents.llm.backends.huggingface.loading import (
    make_batch_invariant,
    no_bars,
    not_loaded,
    quantization_arguments,
    reachable_source_of,
)
from srl_agents.llm.backends.huggingface.sampling import TokenDraw, compact_head_input

_LOADING = threading.Lock()
"""Lock of the loading of models, which changes global state of torch."""


class HuggingFaceBackend:
    """Backend of a model in this process, whose weights may change between batches.

    Concurrent requests form one batch, also with different adapters. A batch can reuse key-value
    caches if all its requests continue conversations of one earlier batch with the same weights.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ):
        """Create a backend for a loaded model.

        Args:
            model: PreTrainedModel or PeftModel.
            tokenizer: Tokenizer of the model.
            name: Name in records; by default the last part of the model's folder or hub name.
            chat_template: Template that is set in a tokenizer without one: a name or a file
                (srl_agents.llm.chat_format).
            chat_template_kwargs: Arguments of the template.

        Raises:
            BackendError: The chat template is missing, unreadable, failing or not append-only.
        """
        source = str(getattr(model.config, "_name_or_path", "")) or type(model).__name__
        self.name = name or os.path.basename(source.rstrip("/"))
        self.model = model
        fill_in(tokenizer, chat_template)
        self.tokenizer = tokenizer
        self.weights_version: int | str = 0
        """Version of the weights; caches of other versions are not used."""
        self.adapter_versions: dict[str, int | str] = {}
        """Adapter -> version, if it differs from `weights_version`."""
        self.lock = threading.RLock()
        """Lock of the weights, acquired for each batch."""
        generation = getattr(model, "generation_config", None)
        stops = getattr(generation, "eos_token_id", None)
        self.chat = ChatFormat(
            tokenizer,
            stops if isinstance(stops, list) else () if stops is None else (stops,),
            chat_template_kwargs,
        )
        text = model.config.get_text_config()
        self.positions: int | None = getattr(text, "max_position_embeddings", None)
        """Maximum length of context and answer in tokens, or None."""
        self.vocabulary: int = text.vocab_size
        self._masks = masks_for(model)
        self._batcher: Batcher[Request, Completion] = Batcher(self.sample)
        self.caches = KeptCaches()
        self.batched = True
        """True to batch requests and to keep caches."""

    @classmethod
    def load(
        cls,
        name_or_folder: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantization: Literal["nf4"] | None = None,
        attn_implementation: str | None = None,
        tokenizer: Any = None,
        **chat: Any,
    ) -> HuggingFaceBackend:
        """Load a model and its tokenizer, after a download if needed.

        Args:
            name_or_folder: Local folder, GGUF file (which is dequantized), hub name, or
                NAME@REVISION.
            device: 'auto' (a GPU if there is one) or a torch device.
            dtype: 'auto' (as saved) or the name of a torch dtype.
            quantization: 'nf4' for linear layers in 4 bits; None for no quantization.
            attn_implementation: Option of transformers, such as 'sdpa'.
            tokenizer: Replacement of the model's tokenizer.
            **chat: `name`, `chat_template` and `chat_template_kwargs` of the constructor.

        Raises:
            BackendError: The model cannot be loaded or is incomplete, `device` is a missing GPU,
                `quantization` is unknown, or the constructor raises it.
            ImportError: The package for quantization or GGUF is missing.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if quantization not in (None, "nf4"):
            raise BackendError(f"quantization must be 'nf4' or None, got {quantization!r}")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise BackendError(f"device must be 'cpu' or 'auto' without a GPU, got {device!r}")
        try:
            placed = {} if quantization is None else quantization_arguments(device)
            if attn_implementation is not None:
                placed["attn_implementation"] = attn_implementation
            source, revised = reachable_source_of(name_or_folder)
            if "gguf_file" in revised:
                with needed_by("a GGUF file"):
                    importlib.import_module("gguf")
                placed.setdefault("quantization_config", GgufConfig(dequantize=True))
            tokenizer = tokenizer or AutoTokenizer.from_pretrained(
                source, trust_remote_code=False, **revised
            )
            with _LOADING, no_bars():
                model, found = AutoModelForCausalLM.from_pretrained(
                    source,
                    dtype=dtype,
                    output_loading_info=True,
                    trust_remote_code=False,
                    **placed,
                    **revised,
                )
            # transformers would initialize missing weights at random.
            if missing := sorted(found["missing_keys"]):
                raise BackendError(
                    f"the model {os.fspath(name_or_folder)!r} lacks {len(missing)} of its weights "
                    f"({', '.join(missing[:3])}{', ...' * (len(missing) > 3)}): use a complete copy"
                )
            if quantization is None:
                model = model.to(device)
            else:
                make_batch_invariant(model)
            if "gguf_file" in revised:  # Adapters refer to the file, not to its folder.
                model.config._name_or_path = model.name_or_path = os.path.abspath(name_or_folder)
        except BackendError:
            raise
        except Exception as error:  # Damaged files raise many kinds of exceptions.
            if isinstance(error, ImportError) and (
                attn_implementation is None or install_line(error, "the model")
            ):
                raise
            raise not_loaded(name_or_folder, error) from error
        return cls(model.eval(), tokenizer, **chat)

    def with_model(self, model: Any) -> HuggingFaceBackend:
        """Return a copy with another model object and empty caches.

        The lock and `adapter_versions` are shared.

        Args:
            model: PreTrainedModel or PeftModel with the same tokenizer.
        """
        made = copy.copy(self)
        made.model = model
        made._masks = masks_for(model)
        made._batcher, made.caches = Batcher(made.sample), KeptCaches()
        return made

    def identity(self, adapter: str | None = None) -> ModelVersion:
        """Return the current ModelVersion of the weights.

        Args:
            adapter: Name of an adapter, which is not checked; None for the base. Without an entry
                in `adapter_versions`, an adapter has the version of the base.
        """
        version = self.weights_version
        if adapter is not None:
            version = self.adapter_versions.get(adapter, version)
        return ModelVersion(self.name, version, adapter)

    def release(self, conversation: int) -> None:
        self.caches.release(conversation)

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one completion per request, in order, as one batch unless `batched` is False.

        Args:
            requests: Requests that `complete` would accept.

        Raises:
            BackendError: The model failed.
        """
        with self.lock:
            if self.batched:
                return self._sampled(requests)
            return [self._sampled([request])[0] for request in requests]

    def answer_probabilities(self, request: Request) -> list[float]:
        """Return the probabilities of `request.answers`, in order, under constrained sampling.

        Args:
            request: Request with legal answers and temperature > 0; top_k and top_p are ignored.
        """
        assert request.answers is not None
        end = self.chat.end_of_turn
        adapters = self._adapter_names([request])
        named = {} if adapters is None else {"adapter_names": adapters}
        device = next(self.model.parameters()).device
        found: dict[tuple[int, ...], float] = {}

        def visit(tree: TokenTrie, written: tuple[int, ...], chance: float) -> None:
            shares = [1.0]
            if len(tree.allowed) > 1:
                ids = torch.tensor([[*request.context, *written]], device=device)
                allowed = self.model(ids, **named).logits[0, -1][list(tree.allowed)].double()
                shares = (allowed / request.sampling.temperature).softmax(-1).tolist()
            found[written] = chance
            for token, share in zip(tree.allowed, shares, strict=False):
                visit(tree.children[token], (*written, token), chance * share)

        with self.lock, torch.inference_mode(), evaluating(self.model):
            visit(known_trie(request.answers, end), (), 1.0)
        return [found[(*answer, end)] for answer in request.answers]

    def _sampled(self, requests: Sequence[Request]) -> list[Completion]:
        rows = [_Row(request, self.chat) for request in requests]
        adapters = self._adapter_names(requests)
        models = [self.identity(request.adapter) for request in requests]
        handles = [self.caches.of(request.conversation) for request in requests]
        try:
            with torch.inference_mode(), evaluating(self.model), compact_head_input(self.model):
                kept = reusable([request.context for request in requests], models, handles)
                if kept is None:
                    device = next(self.model.parameters()).device
                    kept = KeptCache(self.model.config, models, device, self._masks)
                self.caches.reused += sum(map(len, kept.read))
                self._sample(rows, kept, adapters)
        except (RuntimeError, ValueError, IndexError) as error:
            raise BackendError(
                f"{self.name} failed on {len(requests)} requests: {error}"
            ) from error
        if kept.keeps and self.batched:
            self.caches.keep([request.conversation for request in requests], kept)
        return [row.completion(model) for row, model in zip(rows, models, strict=True)]

    def _sample(self, rows: list[_Row], kept: KeptCache, adapters: list[str] | None) -> None:
        draw: TokenDraw | None = None
        while active := [index for index, row in enumerate(rows) if row.unfinished]:
            if not kept.keeps and any(row.request.answers for row in rows):
                kept.forget()  # Forced tokens have different numbers per row.
            feeds = [
                row.context[len(read) :] if row.unfinished else ()
                for row, read in zip(rows, kept.read, strict=True)
            ]
            logits = self._read(kept, feeds, adapters)
            if draw is None:
                draw = TokenDraw([row.request.sampling for row in rows], logits.device)
            waiting = [rows[index] for index in active]
            allowed = [row.tree.allowed if row.tree else None for row in waiting]
            tokens, logprobs = draw(logits, [row.uniform for row in waiting], allowed, active)
            for row, token, logprob in zip(waiting, tokens, logprobs, strict=True):
                row.write(token, logprob)

    def _read(
        self, kept: KeptCache, feeds: Sequence[Sequence[int]], adapters: list[str] | None
    ) -> torch.Tensor:
        if not kept.keeps or any(kept.read):
            return self._forward(kept, feeds, adapters)
        # Equal first prompts, as in a group of episodes, are read once and then copied to all rows.
        keys = list(zip(kept.models, map(tuple, feeds), strict=True))
        chosen = sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values())
        kept.select(chosen)
        some = None if adapters is None else [adapters[row] for row in chosen]
        logits = self._forward(kept, [feeds[row] for row in chosen], some)
        places = {keys[row]: place for place, row in enumerate(chosen)}
        spread = [places[key] for key in keys]
        kept.select(spread)
        return logits[spread]

    def _forward(
        self, kept: KeptCache, feeds: Sequence[Sequence[int]], adapters: list[str] | None
    ) -> torch.Tensor:
        extra = {} if adapters is None else {"adapter_names": adapters}
        logits: torch.Tensor = self.model(**kept.inputs(feeds), **extra).logits
        return logits[:, -1]

    def complete(self, request: Request) -> asyncio.Future[Completion]:
        check_room(request, self.positions, self.name)
        adapters = list(getattr(self.model, "peft_config", {}))
        if request.adapter is not None and (
            not adapters or request.adapter not in ("__base__", *adapters)
        ):
            raise BackendError(
                f"the adapter of {self.name} must be among {adapters}, got {request.adapter!r}"
            )
        check_version(request, self.identity(request.adapter))
        return self._batcher.submit(request)

    def _adapter_names(self, requests: Sequence[Request]) -> list[str] | None:
        if all(request.adapter is None for request in requests):
            return None
        active: str = self.model.active_adapter
        names = [request.adapter or active for request in requests]
        return None if set(names) == {active} else names


class _Row:
    def __init__(self, request: Request, chat: ChatFormat):
        self.request = request
        self.tree = (
            None if request.answers is None else known_trie(request.answers, chat.end_of_turn)
        )
        self.context = list(request.context)
        self._stop_ids = chat.stop_ids
        stream = np.random.PCG64(request.seed)
        stream.advance(request.draws_before)
        self._uniforms: list[float] = np.random.Generator(stream).random(request.longest).tolist()
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._allowed: list[tuple[int, ...]] = []
        self._ended = False
        self._write_forced()

    @property
    def unfinished(self) -> bool:
        return not self._ended and len(self._ids) < self.request.longest

    @property
    def uniform(self) -> float:
        return self._uniforms[len(self._ids)]

    def write(self, token: int, logprob: float) -> None:
        self._append(token, logprob)
        self._write_forced()

    def completion(self, model: ModelVersion) -> Completion:
        return Completion(
            ids=tuple(self._ids),
            logprobs=tuple(self._logprobs),
            ended=self._ended,
            model=model,
            allowed=None if self.request.answers is None else tuple(self._allowed),
        )

    def _write_forced(self) -> None:
        while not self._ended and self.tree is not None and len(self.tree.allowed) == 1:
            self._append(self.tree.allowed[0], 0.0)

    def _append(self, token: int, logprob: float) -> None:
        self._ids.append(token)
        self._logprobs.append(logprob)
        self.context.append(token)
        if self.tree is None:
            self._ended = token in self._stop_ids
        else:
            self._allowed.append(self.tree.allowed)
            self.tree = self.tree.children[token]
            self._ended = not self.tree.allowed


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Set all modules to evaluation mode in the block if `model.training`, then restore them."""
    training = [module for module in model.modules() if module.training] if model.training else []
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
