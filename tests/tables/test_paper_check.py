"""The table of what does not add up in the paper."""

from cosearch.paper.check import check_paper
from cosearch.tables.paper_check import paper_check_table


def test_the_table_lists_every_finding_in_order():
    found = check_paper()
    table = paper_check_table(found)
    assert [row.label for row in table.rows] == [one.where for one in found]
    assert table.profile == "published"
    assert "| Table 2, RAG, hotpotqa | repeated cell | 0.371 | – |" in table.markdown()
    assert paper_check_table([]).rows == ()
