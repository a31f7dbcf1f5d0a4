"""Every table of every profile, from synthetic results of all its rows at the K that each shows."""

from dataclasses import replace

import pytest

from cosearch.params.reading import ConfigError
from cosearch.params.settings import Settings, load_settings
from cosearch.report.glance import glance
from cosearch.statistics.results import ResultSet
from cosearch.tables.evidence import Evidence, scope_of
from cosearch.tables.publish import all_tables, oracle_gap_tables
from tests.evaluated import REWARD, STATISTICS, make_result
from tests.settings import ROOT, tiny, write_params

PROFILES = list(tiny().file.profiles)
TABLES = (
    "main_large scores_large main_small scores_small comparisons detectable ablations_large "
    "walk_large grid grid_changes retrieval_large searches_large cost_large retrieval_small "
    "searches_small cost_small paper_check oracle_large oracle_large_trained oracle_small "
    "oracle_small_trained"
)


def evidence(settings: Settings) -> Evidence:
    """Results of all rows: the same two questions of each data set, under each row's own K."""
    rules = replace(REWARD, hit_cutoffs=settings.method().reward.hit_cutoffs)
    made = make_result("any", questions=2, reward=rules)
    k_of = {
        name: settings.method(settings.overrides_of(name)).rollout.top_k
        for name in settings.systems
    }
    results = [replace(made, system=name, key={**made.key, "top_k": k}) for name, k in k_of.items()]
    return Evidence(
        results=ResultSet(results, scope_of(settings), {}, STATISTICS),
        comparisons=settings.file.comparisons,
        gates={},
        tables=settings.tables,
        k_of=k_of,
        top_k=settings.method().rollout.top_k,
        runs={},
        groups={},
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_every_table_of_a_profile_can_be_built(profile: str) -> None:
    found = evidence(load_settings(profile, ROOT / "params.yaml"))
    tables = [*all_tables(found), *oracle_gap_tables(found)]
    assert set(TABLES.split()) <= {table.name for table in tables}
    assert not [row.label for table in tables for row in table.rows if row.status]
    assert glance(found)


def test_rows_that_are_compared_and_show_other_numbers_of_documents_are_named() -> None:
    paper, small = (
        evidence(load_settings(profile, ROOT / "params.yaml")) for profile in ("paper", "tiny")
    )
    (note,) = (n for n in comparisons(paper).footnotes if "top_k" in n)
    assert "CoSearch 5" in note and "Search-R1 3" in note
    assert not [n for n in comparisons(small).footnotes if "top_k" in n]


def test_a_row_with_another_k_is_refused_in_a_table_of_one_k(tmp_path) -> None:
    def change(params):
        params["rows"]["ndcg"]["set"] = {"rollout.top_k": 7}

    with pytest.raises(ConfigError, match=r"rows\.ndcg: rollout\.top_k is 7, and that of cosearch"):
        load_settings("paper", write_params(tmp_path, change))


def comparisons(found: Evidence):
    (table,) = (table for table in all_tables(found) if table.name == "comparisons")
    return table
