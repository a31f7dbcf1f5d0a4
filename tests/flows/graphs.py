"""Small graphs for the tests of schedules and flows."""

from hypothesis import strategies as st

from flows.graph import Graph, build_graph

DIAMOND = build_graph(
    ["top", "left", "right", "bottom", "alone"],
    [("top", "left"), ("top", "right"), ("left", "bottom"), ("right", "bottom")],
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine stages with edges that lead forwards, of three kinds."""
    names = [f"{'abc'[i % 3]}@{i}" for i in range(draw(st.integers(0, 9)))]
    pairs = [(names[i], names[j]) for j in range(len(names)) for i in range(j)]
    return build_graph(names, draw(st.lists(st.sampled_from(pairs))) if pairs else [])


def ancestors(graph: Graph, name: str) -> set[str]:
    """Everything that ``name`` waits for, directly or not."""
    direct = graph.upstream[name]
    return set(direct).union(*(ancestors(graph, before) for before in direct))
