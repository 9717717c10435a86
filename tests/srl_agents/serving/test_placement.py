"""Placement: every server has its port and its memory, or the error says what would help."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.errors import PlacementError
from srl_agents.serving.gpus import Gpu
from srl_agents.serving.model_size import needs_of
from srl_agents.serving.placement import CPU_OVERHEAD_GIB, GPU_OVERHEAD_GIB, ModelNeeds, place

PORTS = range(8001, 8009)
SEVEN_B = ModelNeeds("7B", 15.0, 32_768, 131_072, heads=32, key_value_heads=8)  # 4 GiB of cache
SEVENTY_B = ModelNeeds("70B", 140.0, 8_192, 327_680, heads=64, key_value_heads=8)  # 2.5 GiB


def a100s(count, memory=80.0):
    return [Gpu(index, memory, memory) for index in range(count)]


def placed(bases, gpus, *, fraction=0.9, cpu_memory_gib=0.0):
    return place(bases, gpus, PORTS, cpu_memory_gib=cpu_memory_gib, fraction=fraction)


def test_servers_spread_over_gpus_and_share_what_is_left_of_them():
    bases = [replace(SEVEN_B, adapter_slots=4, adapter_gib=0.5), replace(SEVEN_B, name="b")]
    plans = placed([*bases, replace(SEVEN_B, name="c")], a100s(2))
    assert [(plan.base, plan.gpus, plan.port) for plan in plans] == [
        ("7B", (0,), 8001), ("b", (1,), 8002), ("c", (1,), 8003),
    ]  # fmt: skip
    # 72 GiB may be used: the first has a GPU alone; the two need 22 each and share 28 more.
    assert [plan.memory_fraction for plan in plans] == [0.9, 0.45, 0.45]
    assert [plan.adapter_slots for plan in plans] == [4, 0, 0]


def test_a_base_too_large_for_one_gpu_takes_as_many_as_it_needs():
    [plan] = placed([SEVENTY_B], a100s(8))
    assert plan.gpus == (0, 1, 2, 3)  # 70 + 2.5 / 2 + 3 GiB on each of two are more than 72
    [plan] = placed([SEVENTY_B], a100s(8), fraction=0.95)
    assert plan.gpus == (0, 1)


def test_gpus_of_one_server_are_alike():
    # The fraction is the same on each: of 80 GiB it would be too much for 48.
    gpus = [Gpu(0, 48.0, 48.0), Gpu(1, 80.0, 80.0), Gpu(2, 48.0, 48.0)]
    [plan] = placed([replace(SEVENTY_B, weights_gib=70.0)], gpus)
    assert plan.gpus == (0, 2)


def test_memory_that_others_take_is_left_to_them():
    [plan] = placed([SEVEN_B], [Gpu(0, 80.0, 30.0), Gpu(1, 80.0, 60.0)])
    assert (plan.gpus, plan.memory_fraction) == ((1,), 0.75)


def test_what_fits_only_when_packed_is_packed():
    sizes = {"a": 12.0, "b": 8.0, "c": 6.0, "d": 5.9}
    bases = [ModelNeeds(name, gib - GPU_OVERHEAD_GIB, 1, 1) for name, gib in sizes.items()]
    # Spread out, a would go to the larger GPU and b to the other, and d nowhere.
    plans = placed(bases, [Gpu(0, 24.0, 20.0), Gpu(1, 24.0, 12.01)])
    assert [plan.gpus for plan in plans] == [(1,), (0,), (0,), (0,)]


@pytest.mark.parametrize(
    "heads, key_value_heads, fitting", [(64, 8, [1, 2, 4, 8, 16]), (12, 6, [1, 2]), (6, 1, [1, 2])]
)
def test_gpus_share_heads_evenly(heads, key_value_heads, fitting):
    base = ModelNeeds("base", 32.0, 2**20, 2**10, heads=heads, key_value_heads=key_value_heads)
    assert [count for count in range(1, 17) if base.shares(count)] == fitting
    # One GiB of cache in all: of key-value heads that are too few for the GPUs, each has a copy.
    cache = 1 / min(fitting[-1], key_value_heads)
    assert base.needs_gib(fitting[-1]) == 32 / fitting[-1] + cache + GPU_OVERHEAD_GIB


@pytest.mark.parametrize(
    "bases, gpus, words",
    [
        ([replace(SEVEN_B, context=10**6)], a100s(1), r"a context of at most 442368 tokens"),
        ([replace(SEVEN_B, adapter_slots=90, adapter_gib=1.0)], a100s(1), "at most 50 slots"),
        ([replace(SEVENTY_B, heads=1)], a100s(8), r"145.5 GiB on each of 1 GPU\(s\) .*larger GPUs"),
        ([replace(SEVEN_B, replicas=4)], a100s(1), "left are GPU 0 6.0; .*fewer replicas"),
        ([replace(SEVEN_B, replicas=9)], a100s(8), "9 servers need as many different ports, got 8"),
        ([SEVEN_B, SEVEN_B], a100s(8), "bases need different names, got 7B, 7B"),
        ([SEVEN_B], [], "21.0 GiB of memory are needed .* and 20.0 are free"),
    ],
)
def test_the_error_says_what_does_not_fit_and_what_would_help(bases, gpus, words):
    with pytest.raises(PlacementError, match=words):
        placed(bases, gpus, cpu_memory_gib=20.0)


def test_no_two_servers_get_one_port():
    with pytest.raises(PlacementError, match="2 servers need as many different ports, got 1"):
        place([replace(SEVEN_B, replicas=2)], a100s(2), [8001, 8001], cpu_memory_gib=0)


def test_the_advice_helps():
    for advised in (
        replace(SEVEN_B, context=442_368),
        replace(SEVEN_B, adapter_slots=50, adapter_gib=1.0),
    ):
        assert len(placed([advised], a100s(1))) == 1


bases = st.lists(
    st.builds(
        ModelNeeds,
        name=st.uuids().map(str),
        weights_gib=st.floats(0.1, 100),
        context=st.integers(1, 100_000),
        token_bytes=st.integers(1, 300_000),
        heads=st.sampled_from([1, 6, 8, 32]),
        key_value_heads=st.sampled_from([1, 2, 8]),
        adapter_slots=st.integers(0, 8),
        adapter_gib=st.floats(0, 1),
        replicas=st.integers(1, 3),
    ),
    min_size=1,
    max_size=5,
)
memory = st.sampled_from([24.0, 48.0, 80.0])
gpus = st.lists(st.tuples(memory, st.floats(0, 1)), max_size=8).map(
    lambda all: [Gpu(index, size, free * size) for index, (size, free) in enumerate(all)]
)


@given(bases, gpus, st.floats(0.1, 1), st.integers(1, 20), st.floats(1, 500))
def test_all_is_placed_within_memory_or_nothing(bases, gpus, fraction, ports, cpu_memory):
    ports = range(8001, 8001 + ports)
    try:
        plans = place(bases, gpus, ports, cpu_memory_gib=cpu_memory, fraction=fraction)
    except PlacementError:
        return
    assert [plan.base for plan in plans] == [one.name for one in bases for _ in range(one.replicas)]
    assert len({plan.port for plan in plans}) == len(plans) <= len(ports)
    by_name = {base.name: base for base in bases}
    taken = dict.fromkeys([gpu.index for gpu in gpus], 0.0)
    on_cpu = 0.0
    for plan in plans:
        base = by_name[plan.base]
        assert plan.adapter_slots == base.adapter_slots
        if not gpus:
            assert plan.cache_gib >= base.cache_gib
            weights = base.weights_gib + base.adapter_slots * base.adapter_gib
            on_cpu += weights + plan.cache_gib + CPU_OVERHEAD_GIB
        assert len(set(plan.gpus)) == len(plan.gpus) >= bool(gpus)
        for index in plan.gpus:
            part = plan.memory_fraction * gpus[index].memory_gib
            assert part >= base.needs_gib(len(plan.gpus)) - 1e-4 * gpus[index].memory_gib
            taken[index] += part
    assert all(
        taken[gpu.index] <= min(fraction * gpu.memory_gib, gpu.free_gib) + 1e-9 for gpu in gpus
    )
    assert on_cpu <= cpu_memory + 1e-9


def test_a_models_needs_are_those_of_its_folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(2**20))
    config = {
        "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "dtype": "bfloat16",
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    base = needs_of(tmp_path, name="base", adapter_slots=3, rank=8)
    assert (base.weights_gib, base.context) == (2**-10, 512)
    assert base.token_bytes == 2 * 2 * (2 * 16) * 2  # keys and values, layers, width, bytes
    # Per layer: q and o 64 -> 64, k and v 64 -> 32, three of the block 64 <-> 128.
    assert base.adapter_gib * 2**30 == 2 * 8 * (2 * 128 + 2 * 96 + 3 * 192) * 2
    wide = needs_of(tmp_path, name="base", dtype="float32", context=100)
    assert (wide.weights_gib, wide.token_bytes, wide.context) == (2**-9, 2 * base.token_bytes, 100)


@pytest.mark.parametrize("config", ["", "[1]", '{"num_hidden_layers": -3}', '{"dtype": "int7"}'])
def test_a_folder_that_tells_no_sizes_is_an_error(tmp_path, config):
    with pytest.raises(PlacementError, match="holds no weights"):
        needs_of(tmp_path, name="base")
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(PlacementError, match="does not tell the model's sizes"):
        needs_of(tmp_path, name="base")
