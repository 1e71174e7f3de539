"""Claims of the papers are tried as the command tries them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

import fairlink
from fairlink import Refused

Command = Callable[..., str]

IDS = [
    "htb",
    "hls.alpha hls.alpha.flat hls.superadditive hls.table2 hls.gap hls.theorem2 hls.strict hls.colours",
    "hfsc.fig1 hfsc.fig2 hfsc.fig4 hfsc.fig12 hfsc.linear hfsc.map hfsc.region hfsc.theorem1 hfsc.levels",
    "drrpp.table35 drrpp.table51 drrpp.threads drrpp.mpeg.sigma drrpp.curves drrpp.wrr drrpp.udp",
    "sds.pgps",
    "beyond.pool",
]
"""Claims that take less than some seconds, and measure no time."""


@pytest.mark.parametrize("ids", IDS)
def test_a_reproduction_is_the_commands(ids: str, lab_command: Command) -> None:
    printed = lab_command("reproduce", *ids.split(), "--quick", "--json")
    found = fairlink.reproduce(ids.split(), quick=True)
    assert json.loads(printed) == found.document and printed.rstrip() == found.json.rstrip()
    assert [claim.id for claim in found] == fairlink.claims(ids.split()).ids


def test_a_claim_has_its_verdict_its_sentence_and_its_numbers() -> None:
    found = fairlink.reproduce("hls.alpha")
    claim = found["hls.alpha"]
    assert (claim.verdict, claim.agrees, claim.place) == ("agrees", True, "Theorem 3, Figure 1")
    assert (claim.expected, claim.measured, claim.unit) == (103.5, 103.5, "B")
    assert "103.5 bytes" in claim.sentence and len(found) == 1 and found.disagreeing == [] and not found.view.quick
    assert "hls.alpha" in found and "hls.gap" not in found
    with pytest.raises(KeyError):
        found["hls.gap"]
    [row] = found.table()
    assert row["id"] == "hls.alpha" and "checks" not in row
    checks = found.table("checks")
    assert len(checks) == len(claim.checks) and checks[0]["id"] == "hls.alpha" and checks[0]["measured"] == 103.5
    assert "agrees" in found._repr_html_() and "claims: 1 rows" in repr(found)
    assert found == fairlink.reproduce(["hls.alpha"], workers=1)


def test_claims_are_listed_with_their_texts_and_not_tried() -> None:
    listed = fairlink.claims()
    assert len(listed) > 100 and len(set(listed.ids)) == len(listed) and listed.ids[0].startswith("hls.")
    assert list(listed.papers) == ["hls", "hfsc", "htb", "drrpp", "sds", "beyond"]
    assert {claim.paper for claim in listed} == set(listed.papers)
    for claim in listed:
        assert claim.id.split(".")[0] == claim.paper and claim.place and claim.about and claim.says
        assert claim.sentence or claim.paper == "beyond"
    assert listed["hls.exp4"].timed and not listed["hls.alpha"].timed and "hls.alpha" in listed
    some = fairlink.claims(["hls.gap", "hls.alpha"])
    assert some.ids == ["hls.alpha", "hls.gap"] and [row["id"] for row in some.table()] == some.ids
    assert "hls.gap" in some._repr_html_() and repr(some) == "<Claims: 2 of hls>"


@pytest.mark.parametrize("call", [fairlink.claims, fairlink.reproduce])
@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ("hls.alfa", "no claim or paper hls.alfa; did you mean hls.alpha?"),
        (["hls.alpha", "hlss"], "no claim or paper hlss; did you mean hls"),
        ("everything", "papers are hls, hfsc, htb, drrpp, sds, beyond"),
        ([], 'write "all" for all claims'),
    ],
)
def test_a_wrong_id_is_refused_with_the_nearest_names(call: Callable[..., object], ids: object, says: str) -> None:
    with pytest.raises(Refused) as refused:
        call(ids)
    assert says in str(refused.value) and refused.value.problems[0].code == "argument"


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(Refused, match="workers: 0 threads"):
        fairlink.reproduce("hls.alpha", workers=0)
    with pytest.raises(TypeError):
        fairlink.reproduce(3)  # type: ignore[arg-type]


def test_progress_counts_claims() -> None:
    seen: list[tuple[float, float]] = []
    fairlink.reproduce("htb", quick=True, progress=lambda done, all: seen.append((done, all)))
    count = len(fairlink.claims("htb"))
    assert seen[-1] == (count, count) and seen == sorted(seen)


def test_other_threads_run_and_ctrl_c_ends_it() -> None:
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.wait(0.001):
            counted[0] += 1

    sent = [0.0]

    def interrupt() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    # Many minutes of work.
    threads = [threading.Thread(target=count), threading.Timer(1.0, interrupt)]
    for thread in threads:
        thread.start()
    with pytest.raises(KeyboardInterrupt):
        fairlink.reproduce("sds.fig3")
    took = time.monotonic() - sent[0]
    stop.set()
    for thread in threads:
        thread.join()
    # 100 ms on a machine without other work.
    assert took < 2.0 and counted[0] > 20
    assert fairlink.reproduce("hls.alpha").disagreeing == []
