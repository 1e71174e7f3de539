"""Links: read, built, imported, refused."""

from __future__ import annotations

import inspect
import json
import math
import os
import pickle
import re
from array import array
from pathlib import Path

import pytest
from conftest import LINK, SCENARIO, SCENARIOS

import fairlink
from fairlink import Link, Refused, Tree, _engine


def test_rates_are_those_of_fluid_for_every_form_of_a_demand() -> None:
    link = Link.from_toml(LINK)
    assert link.leaves == ("a", "b", "c") and link.names == ("top", "a", "b", "c")
    by_name = {"a": math.inf, "b": 1e6, "c": "3mbit"}
    wanted = [row.ideal.allocation_bps for row in link.fluid(by_name) if row.ideal]
    read = link.demand(by_name)
    forms: list[object] = ["a=inf,b=1mbit,c=3mbit", by_name, read, [math.inf, 1e6, 3e6], array("d", [math.inf, 1e6, 3e6])]
    for form in forms:
        rates = link.rates(form)  # type: ignore[arg-type]
        assert isinstance(rates, array) and rates.typecode == "d"
        assert list(rates) == pytest.approx(wanted)
    assert list(link.rates()) == pytest.approx([6e6, 2e6, 4e6, 4e6])
    assert list(link.rates({})) == [0, 0, 0, 0]


def test_a_demand_of_another_link_is_refused() -> None:
    link, other = Link.from_toml(LINK), Link.from_toml(LINK)
    with pytest.raises(Refused, match="read for another link"):
        link.rates(other.demand("a=inf"))


@pytest.mark.parametrize(
    ("demand", "says"),
    [
        ("d=inf", 'demand: there is no class "d"'),
        ("a", "is not of the form NAME=RATE"),
        ({"top": 1e6}, "only leaves have demands"),
        ({"a": -1.0}, "write 0 or more"),
        ({"a": math.nan}, "write 0 or more"),
        ({"a": "3mbut"}, '"mbut" is no unit of a rate'),
        ([1.0], "1 rates, and the link has 3 leaves"),
    ],
)
def test_a_wrong_demand_says_what_is_right(demand: object, says: str) -> None:
    with pytest.raises(Refused) as error:
        Link.from_toml(LINK).rates(demand)  # type: ignore[arg-type]
    assert says in str(error.value) and error.value.problems[0].code == "argument"


def test_a_refused_text_has_places_and_remedies() -> None:
    text = LINK + 'prioritty = 1\n[[class]]\nname = "d"\nguarantee = "7mbit"\n'
    with pytest.raises(Refused) as error:
        Link.from_toml(text, name="mine.toml")
    first = error.value.problems[0]
    assert (first.file, first.line, first.column, first.code) == ("mine.toml", 18, 1, "unknown_key")
    assert first.help == 'did you mean "priority"?'
    assert str(error.value).startswith('mine.toml:18:1: error: [[class]] has an unknown key "prioritty"; did you mean')
    assert isinstance(error.value, ValueError)
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) and again.problems == error.value.problems
    missing = pickle.loads(pickle.dumps(fairlink.MissingExtra("polars", "polars", "x")))
    assert "fairlink[polars]" in str(missing) and missing.name == "polars"


def test_the_message_is_the_commands(fairlink_command: object, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(LINK.replace("6mbit", "60mbit"))
    with pytest.raises(Refused) as error:
        Link.from_file(path)
    printed = " ".join(fairlink_command("check", path, ok=False).replace("│", " ").split())  # type: ignore[operator]
    for problem in error.value.problems:
        for part in (problem.message, problem.help or ""):
            assert all(word in printed for word in part.split()), (part, printed)


def test_files_are_os_errors(tmp_path: Path) -> None:
    for method in (Link.from_file, fairlink.Scenario.from_file, fairlink.simulate, Link.from_tc):
        with pytest.raises(FileNotFoundError) as error:
            method(tmp_path / "none.toml")
        assert error.value.filename == str(tmp_path / "none.toml")
        with pytest.raises(IsADirectoryError):
            method(tmp_path)
    with pytest.raises(OSError):
        Link.from_file("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="not a regular file"):
        Link.from_file(tmp_path / "pipe")


def test_files_that_a_text_names_are_where_the_caller_says(tmp_path: Path) -> None:
    text = '[link]\nrate = "9mbit"\n[[classes]]\nfrom = "who.csv"\nname = "{who}"\nweight = 1\n'
    link = Link.from_toml(text, files={"who.csv": "who\nann\nbob\n"})
    assert link.names == ("ann", "bob") and link.to_toml() == text
    expanded = link.to_toml(expanded=True)
    assert 'name = "bob"' in expanded and Link.from_toml(expanded).names == link.names
    (tmp_path / "who.csv").write_text("who\neve\n")
    assert Link.from_toml(text, files=tmp_path).names == ("eve",)
    with pytest.raises(Refused, match="cannot be read"):
        Link.from_toml(text)
    for read in (link, Link.from_toml(text, files=tmp_path), Link.from_file(SCENARIOS / "provider.toml")):
        assert pickle.loads(pickle.dumps(read)).names == read.names


def test_a_tree_takes_every_key_of_the_schema() -> None:
    link, classes = _engine.key_units()
    parameters = list(inspect.signature(Tree.__init__).parameters)[1:]
    assert sorted(name.rstrip("_") for name in parameters) == sorted(name for name, _ in link)
    assert sorted(list(inspect.signature(Tree.add).parameters)[1:]) == sorted(name for name, _ in classes)
    assert [key["name"] for key in json.loads(_engine.keys_json())["class"]] == [name for name, _ in classes]


def test_a_tree_is_the_link_of_its_text() -> None:
    tree = Tree(10e6, scheduler="hls", mtu=1514, overhead="ethernet", buffer=5000)
    tree.add("top", guarantee=6e6).add("a", parent="top", guarantee="2mbit", latency_critical=True, burst=3000)
    tree.add("b", parent="top", guarantee=4e6, buffer=100, queue="codel", ecn=True, match=["udp dst port 53"])
    tree.add('quo"ted'.replace('"', "'"), guarantee=4e6, ceiling=5e6, buffer="50ms")
    link = tree.link()
    assert link.rate_bps == 10_000_000 and link.scheduler == "hls" and len(link) == 4
    check = link.check(lenient=True)
    terms = check["quo'ted"].terms
    assert terms is not None and (terms.guarantee_bps, terms.ceiling_bps) == (4_000_000, 5_000_000)
    assert Link.from_toml(tree.to_toml()).diff(link).same
    curves = Tree("10mbit", scheduler="hfsc")
    curves.add("voice", guarantee=1e6, real_time={"burst": 160, "delay": 0.005, "rate": 64e3}, link_share={"m1": 1e6, "d": 0.01, "m2": 1e6})
    curves.add("data", guarantee=9e6)
    bound = curves.link().check()["voice"].bounds
    assert bound is not None and bound.delay_bound_s is not None and bound.delay_bound_s < 0.01


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("guarantee", math.inf, ValueError),
        ("guarantee", object(), TypeError),
        ("weight", 0, Refused),
        ("weight", 1.5, Refused),
        ("priority", -1, Refused),
        ("queue", "red", Refused),
        ("guarantee", "20mbit", Refused),
        ("match", ["frob"], Refused),
        ("parent", "none", Refused),
    ],
)
def test_wrong_values_of_a_tree_are_refused(key: str, value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind) as error:
        Tree("10mbit").add("a", **{key: value}).link()  # type: ignore[arg-type]
    if isinstance(error.value, Refused):
        assert error.value.problems[0].line is not None


def test_explain_and_diff_say_why() -> None:
    link = Link.from_toml(LINK)
    found = link.explain("a", "a=inf,b=inf,c=inf", step=1e6)
    assert "a" in found.text and found.view.limited_by == ["top", "link"] or found.view.limited_by
    assert found.view.steps is not None and found.view.steps[-1].ideal.allocation_bps == 2e6
    with pytest.raises(Refused, match='there is no class "zz"'):
        link.explain("zz")
    diff = link.diff(Link.from_toml(LINK.replace("5mbit", "6mbit")))
    assert [row["key"] for row in diff.table("keys")] == ["ceiling"]
    with pytest.raises(TypeError):
        link.diff("other")  # type: ignore[arg-type]


def test_schedulers_by_needs() -> None:
    assert fairlink.schedulers(["tree", "latency"]).names[0] == "hls"
    assert len(fairlink.schedulers()) == len(fairlink.schedulers().names) > 20
    with pytest.raises(Refused, match="needs: write one of tree"):
        fairlink.schedulers(["speed"])
    with pytest.raises(TypeError):
        fairlink.schedulers("tree")


IMPORTS = SCENARIOS / "import"


@pytest.mark.parametrize(
    ("link", "classes"),
    [
        (lambda: Link.from_tc(IMPORTS / "eth0.show"), 1),
        (lambda: Link.from_libreqos(IMPORTS / "ShapedDevices.csv", IMPORTS / "network.json"), 1),
        (lambda: Link.from_mikrotik(IMPORTS / "export.rsc"), 1),
        (lambda: Link.from_k8s(IMPORTS / "pods.json", rate="10gbit"), 1),
        (lambda: Link.from_libvirt(IMPORTS / "machine.xml", IMPORTS / "network.xml"), 1),
        (lambda: Link.from_pf(IMPORTS / "pf.conf"), 1),
    ],
)
def test_configurations_of_other_tools_become_links(link: object, classes: int) -> None:
    made = link()  # type: ignore[operator]
    assert len(made) >= classes and made.imported is not None
    document = made.imported.document
    assert len(made.imported.changed) == len(document["changed"])
    assert len(made.imported.left_out) == len(document["left_out"])
    notes = made.imported.table("notes")
    assert all(note["message"] and note["line"] >= 1 for note in notes if "line" in note)
    made.check(lenient=True)


def test_an_import_has_the_rates_before_and_after() -> None:
    made = fairlink.import_config("tc", IMPORTS / "eth0.show", compare=True)
    rows = made.table("rates")
    assert [(row["pauses"], row["class"]) for row in rows[-2:]] == [("1:20", "1:30"), ("1:20", "1:10")]
    assert {row["link"] for row in rows} == {"eth0"} and len(rows) == 5
    case = made.document["links"][0]["cases"][1]["classes"][1]
    assert (rows[-1]["before_bps"], rows[-1]["after_bps"]) == (case["before_bps"], case["after_bps"])
    assert fairlink.import_config("tc", IMPORTS / "eth0.show").table("rates") == []


def test_a_configuration_may_be_a_text() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: htb default 2\n"
        "tc class add dev eth0 parent 1: classid 1:2 htb rate 3mbit ceil 9mbit prio 1\n"
        "tc qdisc add dev eth1 root handle 1: htb default 2\n"
        "tc class add dev eth1 parent 1: classid 1:2 htb rate 3mbit ceil 9mbit\n"
    )
    link = Link.from_tc(text, rate=9e6, device="eth0")
    assert link.rate_bps == 9_000_000 and link.imported is not None
    with pytest.raises(Refused, match="there are 2 links"):
        Link.from_tc(text, rate=9e6)
    both = fairlink.import_config("tc", text, rate=9e6)
    assert len(both.links) == 2
    with pytest.raises(Refused, match="text.tc:1:"):
        Link.from_tc("tc frob\nx\n", rate=9e6)


def test_an_import_has_the_options_of_the_command_and_no_others() -> None:
    text = "tc qdisc add dev eth0 root handle 1: htb default 2\ntc class add dev eth0 parent 1: classid 1:2 htb rate 3mbit\n"
    made = fairlink.import_config("tc", text, rate="9mbit", dev="eth0", as_is=True, direction=None)
    assert made.document["links"][0]["capacity_bps"] == 9_000_000
    for tool, options, said in (
        ("tc", {"weights": "equal"}, "weights: tc has no such option; it has rate, dev, as-is"),
        ("k8s", {"rate": 1e9, "as_is": True}, "as_is: k8s has no such option: pods are limited one by one"),
        ("k8s", {}, "rate: k8s needs it"),
        ("mikrotik", {"queues": "all"}, 'queues: "all" is not one of tree, simple'),
        ("cake", {}, 'tool: "cake" is not one of libreqos, tc,'),
    ):
        with pytest.raises(Refused, match=re.escape(said)):
            fairlink.import_config(tool, text, **options)  # type: ignore[arg-type]


HOSTILE: list[object] = [
    "", "\0", "[", "[link]", "[link]\nrate = 1", '[link]\nrate = "0bit"\n', '[link]\nrate = "999999999999tbit"\n',
    "[[class]]\n" * 10_000, "a = " + "[" * 100_000, '[link]\nrate = "1mbit"\nclass = [' + "{}," * 5000 + "]\n",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "🦀" * 1000, LINK.replace("10mbit", "-1mbit"),
    LINK.replace('"a"', '""'), LINK + LINK, LINK.replace('"top"', '"a"'), "link = 'x.toml'\n", SCENARIO.replace("2s", "0s"),
    SCENARIO.replace("2s", "99999999999999999999s"), SCENARIO.replace("500B", "0B"), SCENARIO.replace("greedy", "trace"),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_refused_or_read(text: str) -> None:
    # A panic would be a BaseException, which is not caught here.
    for read in (Link.from_toml, lambda text: fairlink.simulate(fairlink.Scenario.from_toml(text))):
        try:
            read(text)
        except (Refused, ValueError) as error:
            assert str(error)
    for tool, _ in _engine.IMPORTS:
        try:
            fairlink.import_config(tool, text + "\n", rate=1e9)
        except Refused as error:
            assert str(error)


@pytest.mark.parametrize("value", [None, 1, 1.5, b"x", [], {}, object(), "\ud800", True, -1, 10**400, math.nan])
def test_hostile_arguments_are_python_errors(value: object) -> None:
    link = Link.from_toml(LINK)
    run = fairlink.Simulation(SCENARIO)
    calls = [
        lambda: Link.from_toml(value),
        lambda: Link.from_toml(LINK, name=value),
        lambda: Link.from_toml(LINK, files=value),
        lambda: Link.from_file(value),
        lambda: link.rates(value),
        lambda: link.rates({"a": value}),
        lambda: link.rates({value: 1.0}),
        lambda: link.rates([value] * 3),
        lambda: link.fluid(value, fair=True),
        lambda: link.explain(value),
        lambda: link.explain("a", step=value),
        lambda: link.check(scheduler=value, demand=value, packet=value),
        lambda: link.diff(value),
        lambda: fairlink.schedulers(value),
        lambda: fairlink.schedulers([value]),
        lambda: fairlink.simulate(value),
        lambda: fairlink.Simulation(SCENARIO, scheduler=value),
        lambda: fairlink.Simulation(SCENARIO, seed=value),
        lambda: fairlink.Simulation(SCENARIO, window=value),
        lambda: fairlink.Simulation(SCENARIO, trace=value),
        lambda: run.offer(value, 100),
        lambda: run.offer("a", value),
        lambda: run.offer("a", 100, at=value),
        lambda: run.change(value),
        lambda: run.trace(value),
        lambda: run.step_until(value),
        lambda: fairlink.import_config(value, LINK),
        lambda: fairlink.import_config("tc", value),
        lambda: Tree(value).link(),
        lambda: Tree("1mbit").add(value).link(),
        lambda: Tree("1mbit").add("a", guarantee=value, parent=value).link(),
    ]  # type: list[object]
    for call in calls:
        try:
            call()  # type: ignore[operator]
        except (TypeError, ValueError, OSError, OverflowError, Refused, UnicodeError):
            pass
