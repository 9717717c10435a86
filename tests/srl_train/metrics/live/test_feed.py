"""Readers get a whole document once and then what changes, also when they come back."""

import json

from srl_train.metrics.live import feed
from srl_train.metrics.live.feed import Feed


def names(events):
    return [event.name for event in events]


def test_a_new_reader_gets_the_document_and_then_changes():
    own = Feed()
    assert own.since("") == []
    own.publish({"a": [1]})
    [whole] = own.since("")
    assert whole.name == "document" and json.loads(whole.data) == {"a": [1]}
    assert own.since(whole.id) == []
    own.publish({"a": [1, 2]})
    own.publish({"a": [1, 2, 3]})
    missed = own.since(whole.id)
    assert [json.loads(event.data) for event in missed] == [[[["a"], 1, [2]]], [[["a"], 2, [3]]]]
    assert own.since(missed[0].id) == missed[1:]


def test_the_same_document_is_no_news():
    own = Feed()
    own.publish({"a": 1})
    [whole] = own.since("")
    own.publish({"a": 1})
    assert own.since(whole.id) == []


def test_whoever_comes_from_another_server_or_too_late_gets_the_whole(monkeypatch):
    monkeypatch.setattr(feed, "REMEMBERED", 60)
    own, other = Feed(), Feed()
    for value in range(20):
        own.publish({"a": value})
        other.publish({"a": value})
    ids = [event.id for event in own.since("")]
    epoch = ids[0].partition("-")[0]
    odd = ("", "nonsense", "1-2-3", f"{epoch}-999", f"{epoch}-x")
    for last in (*odd, f"{epoch}-1", other.since("")[0].id.replace("-20", "-19")):
        assert names(own.since(last)) == ["document"]
    assert names(own.since(f"{epoch}-19")) == ["changes"]


def test_a_document_that_was_forgotten_is_published_whole():
    own = Feed()
    own.publish({"a": 1})
    [whole] = own.since("")
    own.forget()
    assert own.empty and own.since("") == []
    own.publish({"a": 2})
    assert names(own.since(whole.id)) == ["document"]
