"""Runs in Trackio, Weights & Biases and MLflow, read from the files of these libraries."""

import json
import math
import time

import pytest

from srl_extensions.trackers.libraries import LIBRARIES
from srl_extensions.trackers.sink import TrackerSink
from srl_train.errors import TrackerError
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_extensions.trackers.recorded import cut_off, opening, round_row

pytestmark = [
    pytest.mark.trackers,
    pytest.mark.filterwarnings("default"),  # of the libraries' own making
]
OFFLINE = {"mode": "offline"}
CUT = {"evaluation_episodes": 2, "episodes_every": 2}


@pytest.fixture(autouse=True)
def on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)


def cut_off_with(tracker, short_run, tmp_path, **logging):
    """Return the rows of a run that was interrupted and resumed."""
    logging = CUT | {"trackers": [tracker]} | logging
    config = short_run(rounds=4, checkpoints__every=2, logging=logging)
    # W&B calls the folders of an offline run's sittings by the second.
    cut_off(config, tmp_path / "demo", seconds=1.0 if tracker == "wandb" else 0.0)
    return read_metrics(tmp_path / "demo" / "metrics.jsonl")


@pytest.mark.parametrize("store", ["sqlite", "folder"])
def test_mlflow(store, short_run, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    where = {"sqlite": f"sqlite:///{tmp_path}/runs.db", "folder": f"file://{tmp_path}/mlruns"}[
        store
    ]
    rows = cut_off_with(
        "mlflow",
        short_run,
        tmp_path,
        project="games",
        tracker_options={"mlflow": {"tracking_uri": where}},
    )
    client = MlflowClient(where)
    [run] = client.search_runs([client.get_experiment_by_name("games").experiment_id])
    assert (run.info.run_name, run.info.status) == ("demo", "FINISHED")
    assert run.data.params["rounds"] == "4" and run.data.params["algorithm.name"] == "grpo"

    def history(name):
        found = client.get_metric_history(run.info.run_id, name)
        return [(one.step, one.value) for one in found]

    rewards = [(row["round"], row["environment"]["raw_reward"]) for row in rows]
    assert history("train/reward") == rewards
    assert [step for step, _ in history("train/model_1/loss")] == [0, 1, 2, 3]
    assert [step for step, _ in history("eval/reward")] == [0, 4]


def trackio_logs(name, project="core-srl"):
    from trackio.sqlite_storage import SQLiteStorage

    return SQLiteStorage.get_logs(project, name)


@pytest.fixture
def trackio_here(tmp_path, monkeypatch):
    """Set the folder of Trackio's database, which Trackio determines when imported."""
    import trackio
    from trackio import sqlite_storage, utils

    for module in (trackio, utils, sqlite_storage):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")
    return trackio


def test_trackio(short_run, tmp_path, trackio_here):
    rows = cut_off_with("trackio", short_run, tmp_path)
    [run] = trackio_here.Api().runs("core-srl")
    assert run.name == "demo" and run.config["rounds"] == 4
    logs = trackio_logs("demo")
    found = [(log["step"], log["train/reward"]) for log in logs if "train/reward" in log]
    assert found == [(row["round"], row["environment"]["raw_reward"]) for row in rows]
    assert [log["step"] for log in logs if "eval/reward" in log] == [0, 4]


def test_trackio_runs_of_the_same_name_are_separate(tmp_path, trackio_here):
    for number in range(2):
        trackers = TrackerSink(opening(tmp_path / str(number), trackers=["trackio"]), {}, 5)
        trackers.write(round_row(number))
        trackers.close()
    assert [run.name for run in trackio_here.Api().runs("core-srl")] == ["demo", "demo-2"]
    assert [log["train/round"] for log in trackio_logs("demo-2")] == [1]


def wandb_records(folder):
    """Yield the records in W&B's offline files, which are LevelDB logs with another header."""
    from wandb.proto.wandb_internal_pb2 import Record

    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        data, at, parts = path.read_bytes(), 7, b""
        while at + 7 <= len(data):
            left = 2**15 - at % 2**15
            if left < 7:
                at += left
                continue
            length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
            parts += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):
                yield Record.FromString(parts)
                parts = b""


def wait_for_exits(folder, count, seconds=30.0):
    """Wait until W&B's process has written the end of `count` runs."""
    until = time.monotonic() + seconds
    kinds = []
    while kinds.count("exit") < count and time.monotonic() < until:
        time.sleep(0.05)
        kinds = [one.WhichOneof("record_type") for one in wandb_records(folder)]


def wandb_history(folder):
    found = []
    for record in wandb_records(folder):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            found.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
    return found


def test_wandb(short_run, tmp_path):
    rows = cut_off_with(
        "wandb",
        short_run,
        tmp_path,
        tracker_options={"wandb": OFFLINE | {"group": "seeds", "tags": ["a"]}},
    )
    folder = tmp_path / "demo"
    wait_for_exits(folder, 2)
    runs = [one.run for one in wandb_records(folder) if one.WhichOneof("record_type") == "run"]
    assert len({run.run_id for run in runs}) == 1 and len(runs) >= 2
    for run in runs:
        assert (run.display_name, run.project, run.run_group) == ("demo", "core-srl", "seeds")
        assert list(run.tags) == ["a"]
    config = {one.key: json.loads(one.value_json) for one in runs[0].config.update}
    assert config["rounds"] == 4 and config["algorithm.name"] == "grpo"
    history = wandb_history(folder)
    found = [(line["step"], line["train/reward"]) for line in history if "train/reward" in line]
    assert found == [(row["round"], row["environment"]["raw_reward"]) for row in rows]
    assert [line["step"] for line in history if "eval/reward" in line] == [0, 4]


def test_wandb_without_a_key_is_refused_before_training(short_run, tmp_path, monkeypatch):
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    trainer = Trainer(
        short_run(
            logging={"trackers": ["wandb"], "tracker_options": {"wandb": {"mode": "online"}}}
        ),
        tmp_path / "demo",
    )
    with pytest.raises(TrackerError, match=r"wandb cannot be opened: .*wandb login"):
        trainer.fit()
    assert not (tmp_path / "demo" / "metrics.jsonl").exists()


@pytest.mark.parametrize("tracker", ["mlflow", "trackio", "wandb"])
def test_numbers_of_any_kind(tracker, tmp_path, trackio_here, caplog):
    logging = {"trackers": [tracker]}
    if tracker == "mlflow":
        logging["tracker_options"] = {"mlflow": {"tracking_uri": f"sqlite:///{tmp_path}/runs.db"}}
    if tracker == "wandb":
        logging["tracker_options"] = {"wandb": OFFLINE}
    run = LIBRARIES[tracker](opening(tmp_path / "demo", **logging))
    run.log({"train/nan": math.nan, "train/inf": -math.inf, "train/agents/grün_0/x": 1.0}, 0)
    run.tracker.finish()
    assert [one for one in caplog.records if one.name.startswith("srl")] == []
    if tracker == "mlflow":
        from mlflow import MlflowClient

        numbers = MlflowClient(f"sqlite:///{tmp_path}/runs.db").get_run(run.run_id).data.metrics
    elif tracker == "trackio":
        [numbers] = trackio_logs("demo")
    else:
        wait_for_exits(tmp_path / "demo", 1)
        [numbers] = wandb_history(tmp_path / "demo")
    assert numbers["train/agents/grün_0/x"] == 1 and math.isnan(float(numbers["train/nan"]))
    assert float(numbers["train/inf"]) < -1e300
