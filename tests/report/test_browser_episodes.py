"""Which trajectories a report shows, and that it shows them as they were recorded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.data.corpus import Corpus
from cosearch.report.episodes import (
    Episodes,
    LabelledCandidate,
    first_middle_last,
    read_episodes,
    split_turns,
)
from cosearch.report.spread import spread
from cosearch.report.tested import add_tested
from tests.report import scenes

ENDS = ("answered", "malformed", "search_budget", "token_budget")
BRANCHES = ("malformed", "relevance_only", "relevance_and_main", "main_only", "excluded")


def rare_rows():
    """Sixty plain trajectories, and one each of what is rare: ends, branches, a data set."""
    rows = []
    for question in range(60):
        rows.append(scenes.trajectory_row("nq", question, 0))
        rows.append(scenes.call_row(rows[-1]))
    for at, end in enumerate(ENDS[1:]):
        rows.append(scenes.trajectory_row("nq", 70 + at, 0, terminal=end, answer=None, r_main=-0.2))
    for at, branch in enumerate(BRANCHES):
        rows.append(scenes.trajectory_row("nq", 80 + at, 0, answer="cat", r_main=0.0))
        rows.append(scenes.call_row(rows[-1], branch=branch))
    rows.append(scenes.trajectory_row("musique", 90, 0, answer="red dog", r_main=0.5))
    return rows


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(scenes.make_corpus(tmp_path_factory.mktemp("corpus")))


def read(folder, corpus, limit=100, **runs):
    return read_episodes(runs or {"cosearch": folder}, corpus, yes_no_rule="bag", limit=limit)


def test_a_trajectory_is_shown_as_it_was_recorded(tmp_path, corpus):
    first = scenes.trajectory_row("nq", 0, 0)
    second = scenes.trajectory_row("nq", 0, 1, r_main=0.0, answer="cat")
    later = scenes.call_row(first, turn=1, query="later", group=None, text=None)
    call = scenes.call_row(first, text="[3] > [1]", fault="order", r_rank=-0.2)
    scenes.write_round(tmp_path, 4, [first, later, call, second, scenes.call_row(second)])
    found = read(tmp_path, corpus)
    assert found.recorded == 2
    episode = next(one for one in found.chosen if one.sample == 0)
    assert (episode.variant, episode.round, episode.question_id) == ("cosearch", 4, "nq-0")
    assert (episode.golds, episode.f1, episode.reward) == (("red fox",), 1.0, 1.0)
    assert episode.turns == scenes.TURNS
    assert episode.mates == (1.0, 0.0)
    assert [one.query for one in episode.calls] == ["fox", "later"]
    shown = episode.calls[0]
    assert shown.candidates[2] == LabelledCandidate("p2", 0.7, True)
    assert (shown.ranking, shown.output, shown.fault) == ((2, 0), "[3] > [1]", "order")
    assert shown.mates == (-0.2, 2.0)
    assert (episode.calls[1].group, episode.calls[1].mates) == (None, ())
    assert {id: p.title for id, p in found.passages.items()}["p3"] == "Title 3"


def test_f1_is_zero_without_an_answer_whatever_the_reward(tmp_path, corpus):
    row = scenes.trajectory_row("nq", 0, 0, terminal="search_budget", answer=None, r_main=-0.2)
    scenes.write_round(tmp_path, 1, [row])
    (episode,) = read(tmp_path, corpus).chosen
    assert (episode.f1, episode.reward) == (0.0, -0.2)


def test_passages_the_corpus_lacks_are_left_without_a_title(tmp_path, corpus):
    row = scenes.trajectory_row("nq", 0, 0)
    strange = [{"id": "nowhere", "score": 0.5, "relevant": False}]
    scenes.write_round(tmp_path, 1, [row, scenes.call_row(row, candidates=strange, ranking=[0])])
    assert read(tmp_path, corpus).passages == {}


def test_a_sample_holds_every_data_set_outcome_end_and_branch(tmp_path, corpus):
    scenes.write_round(tmp_path, 1, rare_rows())
    found = read(tmp_path, corpus, limit=9)
    assert len(found.chosen) == 9 < found.recorded
    assert {one.dataset for one in found.chosen} == {"nq", "musique"}
    assert {one.terminal for one in found.chosen} == set(ENDS)
    assert {call.branch for one in found.chosen for call in one.calls} == set(BRANCHES)
    assert {one.f1 for one in found.chosen} == {0.0, 0.5, 1.0}


def test_every_run_and_round_keeps_its_share_and_its_rare_trajectories_first(tmp_path, corpus):
    for number in (1, 2, 5, 9):
        scenes.write_round(tmp_path / "a", number, rare_rows())
    scenes.write_round(tmp_path / "b", 1, rare_rows())
    found = read(None, corpus, limit=4, a=tmp_path / "a", b=tmp_path / "b")
    places = [(one.variant, one.round) for one in found.chosen]
    assert places == [("a", 1), ("a", 2), ("a", 9), ("b", 1)] * 4


@pytest.mark.parametrize(
    ("count", "chosen"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (7, [1, 4, 7])]
)
def test_the_first_the_middle_and_the_last_round_are_chosen(tmp_path, count, chosen):
    for number in range(1, count + 1):
        (tmp_path / f"round_{number:03d}.parquet").touch()
    assert [number for number, _ in first_middle_last(tmp_path)] == chosen


def test_a_run_without_rounds_and_a_broken_round_are_named(tmp_path, corpus):
    with pytest.raises(ValueError, match="no rounds"):
        read(tmp_path, corpus)
    (tmp_path / "round_001.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match=r"round_001\.parquet: not a rollout file"):
        read(tmp_path, corpus)


def write_tests(path, right):
    """Six test questions of two data sets, of which the numbers in ``right`` are answered right."""
    rows = []
    for number in range(6):
        answer = {"answer": "red fox" if number in right else "cat"}
        plain = {"round": None, "group": None, "advantage": None, "trained": None}
        name = "musique" if number > 3 else "nq"
        rows.append(scenes.trajectory_row(name, number, 0, **plain, **answer))
        rows.append(scenes.call_row(rows[-1], group=None, advantage=None, trained=None))
    scenes.write_frame(path, scenes.rollout_frame(rows), scenes.ROLLOUT_SCHEMA)
    return path


def test_the_same_test_questions_are_read_of_every_system(tmp_path, corpus):
    files = {
        name: write_tests(tmp_path / f"{name}.parquet", right)
        for name, right in (("a", {0, 1}), ("b", {1, 2, 4}), ("c", {3}))
    }
    read = Episodes((), 0, {})
    tested = add_tested(read, files, corpus, yes_no_rule="bag", limit=4).tested
    assert (tested.systems, tested.recorded) == (("a", "b", "c"), 6)
    assert [[one.variant for one in row] for row in tested.questions] == [["a", "b", "c"]] * 4
    assert all(len({one.question_id for one in row}) == 1 for row in tested.questions)
    assert {(row[0].f1, row[1].f1) for row in tested.questions} == {
        (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0),
    }  # fmt: skip
    assert {row[0].dataset for row in tested.questions} == {"nq", "musique"}
    assert {one.round for row in tested.questions for one in row} == {None}
    every = add_tested(read, files, corpus, yes_no_rule="bag", limit=10)
    assert len(every.tested.questions) == 6 and every.passages["p3"].title == "Title 3"


def test_a_missing_and_a_broken_file_of_trajectories_are_named(tmp_path, corpus):
    path = tmp_path / "trajectories.parquet"
    for words in ("no such file; run `dvc repro`", "not a file of trajectories"):
        with pytest.raises(ValueError, match=rf"trajectories\.parquet: {words}"):
            add_tested(Episodes((), 0, {}), {"a": path}, corpus, yes_no_rule="bag", limit=4)
        path.write_bytes(b"PAR1 no")


FEATURES = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=3), st.integers(0, 3)),
    st.lists(st.sampled_from("uvwxyz"), max_size=4),
    max_size=30,
)


@given(FEATURES, st.integers(0, 40))
def test_a_sample_is_bounded_and_of_what_there_is(features, limit):
    taken = spread(features, limit)
    assert len(taken) == len(set(taken)) == min(limit, len(features))
    assert set(taken) <= set(features)
    assert taken == spread(dict(reversed(features.items())), limit)


@given(FEATURES)
def test_as_many_picks_as_there_are_features_show_them_all(features):
    kinds = {kind for held in features.values() for kind in held}
    taken = spread(features, len(kinds))
    assert {kind for key in taken for kind in features[key]} == kinds


TURN_FORMS = (
    '<reason>{}</reason>\n\n<tool_call>{{"name":"search","arguments":{{"query":"q"}}}}</tool_call>',
    "<think>{}</think>\n\n<search>query</search>\n",
    "<reason>{}</reason> never closed <tool_call>",
)
REASONS = st.sampled_from(["a", "x\n\ny", " two\n\n\n\nlines ", "</b> a"])
TURNS = st.lists(st.builds(str.format, st.sampled_from(TURN_FORMS), REASONS), max_size=4)


@given(TURNS, st.sampled_from(["", "red\n\nfox", "</i>", "<b>\n\n\n\n</i> ."]))
def test_turns_are_parted_where_a_block_closes_or_reasoning_opens(turns, words):
    last = f"<reason>hm</reason> <answer>{words}"
    for written in ([*turns, last], turns):
        found = split_turns("\n\n".join(written))
        assert [turn.strip() for turn in found] == [turn.strip() for turn in written]


def test_a_turn_without_any_form_stands_alone_after_a_closed_block():
    turns = ("<reason>a</reason> <answer>b</answer>", "free\n\nwords")
    assert split_turns("\n\n".join(turns)) == turns
    assert split_turns("") == ()
