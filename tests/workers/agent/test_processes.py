"""The reference pair as processes: what goes well over HTTP, and that whatever dies or hangs, requests end in time."""

import json
import time

import httpx
import psutil
import pytest

from tests.support.machine import slowness
from tests.workers.agent.processes import MINT, Fleet, fleet, sentence
from tests.workers.sdk.waiting import soon_here as until
from workers.agent.model import Config
from workers.agent.running import oracle

PROMPT = [5, 17, 99, 300, 12, 44, 501, 7, 7, 21]


def test_a_pair_of_processes_says_what_the_whole_model_says(directory, tmp_path):
    with fleet(directory, tmp_path, prefill="--tp 2 --dp 2", decode="--tp 4", both="--timeout 20") as pair:
        until(lambda: pair.prefill.get("/health").status_code == 200)
        assert pair.ask(PROMPT).json()["output_ids"] == oracle(Config(), PROMPT, 8)
        streamed(pair)
        a_room_names_one_request(pair)
        a_late_prefill_is_waited_for(pair)
        nonsense_is_refused(pair)
        info = pair.prefill.get("/server_info").json()
        assert (info["disaggregation_mode"], info["dp_size"], info["tp_size"]) == ("prefill", 2, 4)
        assert pair.prefill.open_rooms() == pair.decode.open_rooms() == 0
        assert pair.decode.child.terminate() == pair.prefill.child.terminate() == 0


def streamed(pair: Fleet) -> None:
    body = pair.body(PROMPT, MINT.room(), stream=True)
    leg = pair.leg(pair.prefill, body | {"stream": False})
    with httpx.stream("POST", pair.decode.url + "/generate", json=body, timeout=60) as answer:
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert leg.result(60).status_code == 200
    assert events[-1] == "[DONE]" and len(events) == 9
    assert json.loads(events[-2])["output_ids"] == oracle(Config(), PROMPT, 8)


def a_room_names_one_request(pair: Fleet) -> None:
    body = pair.body(PROMPT, MINT.room())
    leg = pair.leg(pair.prefill, body)
    until(lambda: pair.prefill.open_rooms() == 1)
    second = pair.prefill.post("/generate", body)
    assert second.status_code == 409 and "is in use by another request" in sentence(second)
    # The first is not harmed by that.
    assert pair.decode.post("/generate", body).json()["output_ids"] == oracle(Config(), PROMPT, 8)
    assert leg.result(60).status_code == 200


def a_late_prefill_is_waited_for(pair: Fleet) -> None:
    body = pair.body(PROMPT, MINT.room())
    leg = pair.leg(pair.decode, body)
    until(lambda: pair.decode.open_rooms() == 1)
    time.sleep(0.5)
    assert pair.prefill.post("/generate", body).status_code == 200
    assert leg.result(60).json()["output_ids"] == oracle(Config(), PROMPT, 8)


def nonsense_is_refused(pair: Fleet) -> None:
    for change, said in [
        ({"input_ids": []}, "input_ids must have between"),
        ({"input_ids": [9999]}, "the vocabulary has 512"),
        ({"bootstrap_room": 0}, "0 cannot be told from"),
        ({"bootstrap_host": None}, "bootstrap_host"),
        ({"bootstrap_port": 0}, "bootstrap_port"),
        ({"sampling_params": {"max_new_tokens": 0}}, "max_new_tokens"),
    ]:
        refused = pair.decode.post("/generate", pair.body(PROMPT, MINT.room()) | change)
        assert refused.status_code == 400 and said in sentence(refused), refused.text
    assert httpx.post(pair.decode.url + "/generate", content=b"{", timeout=10).status_code == 400


@pytest.mark.timeout(240)
def test_whoever_dies_or_hangs_requests_end_in_time_and_the_next_ones_succeed(directory, tmp_path):
    with fleet(directory, tmp_path, prefill="--tp 2", both="--timeout 4") as pair:
        assert pair.ask(PROMPT).status_code == 200
        nobody_computes_it(pair)
        a_client_that_leaves_ends_both_legs(pair)
        a_prefill_that_hangs(pair)
        a_decode_that_dies(pair)
        a_prefill_that_dies(pair)
        leaves_nothing(pair)


def within(seconds: float, begun: float) -> None:
    assert time.monotonic() - begun < seconds * slowness()


def nobody_computes_it(pair: Fleet) -> None:
    begun = time.monotonic()
    said = pair.decode.post("/generate", pair.body(PROMPT, MINT.room()))
    assert said.status_code == 504 and "did not come from" in sentence(said)
    within(8, begun)


def a_client_that_leaves_ends_both_legs(pair: Fleet) -> None:
    body = pair.body(PROMPT, MINT.room())
    with pytest.raises(httpx.ReadTimeout):
        pair.decode.post("/generate", body, timeout=1)
    until(lambda: pair.decode.open_rooms() == 0)
    # The decode has withdrawn the room: the prefill's leg does not wait for its time-out.
    begun = time.monotonic()
    said = pair.prefill.post("/generate", body)
    assert said.status_code == 502 and "was not handed over" in sentence(said)
    within(3, begun)


def a_prefill_that_hangs(pair: Fleet) -> None:
    pair.prefill.child.freeze()
    begun = time.monotonic()
    try:
        said = pair.decode.post("/generate", pair.body(PROMPT, MINT.room()))
        assert said.status_code in (503, 504), said.text
        within(10, begun)
    finally:
        pair.prefill.child.thaw()
    until(lambda: pair.ask(PROMPT).status_code == 200)


def a_decode_that_dies(pair: Fleet) -> None:
    body = pair.body(PROMPT, MINT.room())
    leg = pair.leg(pair.decode, body)
    until(lambda: pair.decode.open_rooms() == 1)
    pair.decode.child.kill9()
    with pytest.raises(httpx.TransportError):
        leg.result(10)
    begun = time.monotonic()
    assert pair.prefill.post("/generate", body).status_code in (502, 503, 504)
    within(10, begun)
    pair.decode.start()
    pair.decode.ready()
    until(lambda: pair.ask(PROMPT).json().get("output_ids") == oracle(Config(), PROMPT, 8))


def a_prefill_that_dies(pair: Fleet) -> None:
    body = pair.body(PROMPT, MINT.room())
    leg = pair.leg(pair.decode, body)
    until(lambda: pair.decode.open_rooms() == 1)
    pair.prefill.child.kill9()
    begun = time.monotonic()
    assert leg.result(60).status_code in (502, 503, 504)
    within(10, begun)
    pair.prefill.start()
    pair.prefill.ready()
    until(lambda: pair.ask(PROMPT).json().get("output_ids") == oracle(Config(), PROMPT, 8))


def leaves_nothing(pair: Fleet) -> None:
    started = [one for agent in (pair.prefill, pair.decode) for one in psutil.Process(agent.child.pid).children(True)]
    assert pair.decode.child.terminate() == pair.prefill.child.terminate() == 0
    assert not psutil.wait_procs(started, timeout=10)[1], "a process outlived its agent"
