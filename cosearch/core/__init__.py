"""The paper's algorithm. It imports the standard library only.

Reading path: ``rollout`` (Eq. 1) -> ``rewards`` (Eqs. 4-6) -> ``grouping`` (Algorithm 2)
-> ``advantages`` (group-relative estimate) -> ``credit`` (what the trainer sees).
"""
