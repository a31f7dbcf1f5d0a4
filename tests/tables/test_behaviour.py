"""What the agent was shown, how often it searched, what a question cost."""

import dataclasses

import polars as pl

from cosearch.tables.behaviour import cost_table, retrieval_table, searches_table


def cells_of(table, label):
    (row,) = (row for row in table.rows if row.label == label)
    return {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}


def test_behaviour_tables_hold_the_numbers_of_the_frames(results, rollouts):
    shared = (rollouts.set_of(results), rollouts.block())
    (one,) = (one for one in results if one.system == "oracle")
    given = one.calls.filter("has_answer")
    retrieval = cells_of(retrieval_table(*shared), "Oracle")
    assert retrieval["Hit@1"] == given["hit_1"].mean()
    assert retrieval["retriever Hit@3"] == given["retriever_hit_3"].mean()
    searches = cells_of(searches_table(*shared), "Oracle")
    assert (searches["1 (%)"], searches["2 (%)"], searches["mean"]) == (50.0, 50.0, 1.5)
    assert searches["1-2 (%)"] == 100.0
    cost = cells_of(cost_table(*shared, seconds={"oracle": 0.25}), "Oracle")
    assert (cost["agent sampled"], cost["ranker read"], cost["seconds"]) == (3.0, 4.5, 0.25)
    assert (retrieval["answer shown"], retrieval["documents shown"]) == (
        given["shown_answer"].mean(),
        3.0,
    )
    assert (retrieval["answers hidden from ranker"], cost["agent dropped"]) == (0.0, 0.0)
    assert "seconds" not in {c.name for c in cost_table(*shared).columns}


def test_a_seed_without_a_value_leaves_no_mean(results, rollouts):
    """One seed of CoSearch never searches: its Hit@k does not exist, nor does their mean."""
    changed = [
        dataclasses.replace(one, calls=one.calls.clear())
        if (one.system, one.seed) == ("cosearch", 1)
        else one
        for one in results
    ]
    table = retrieval_table(rollouts.set_of(changed), rollouts.block())
    assert cells_of(table, "CoSearch")["Hit@1"] is None
    assert cells_of(table, "Untrained agent and ranker")["Hit@1"] is not None


def test_what_was_left_out_is_printed(results, rollouts):
    names = ("dropped_documents", "cut_candidates", "hidden_candidates")
    changed = [
        dataclasses.replace(one, calls=one.calls.with_columns(pl.lit(2).alias(n) for n in names))
        for one in results
    ]
    shared = (rollouts.set_of(changed), rollouts.block())
    cost = cells_of(cost_table(*shared), "Oracle")
    assert (cost["agent dropped"], cost["ranker cut"], cost["queries cut"]) == (3.0, 3.0, 0.0)
    (one,) = (one for one in results if one.system == "oracle")
    relevant = one.calls["labels"].list.sum().sum()
    retrieval = cells_of(retrieval_table(*shared), "Oracle")
    assert retrieval["answers hidden from ranker"] == 2 * one.calls.height / relevant
