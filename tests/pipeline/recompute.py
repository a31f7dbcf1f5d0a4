"""Computes one run anew from its files, by itself: it imports nothing of the product.

``python recompute.py artifacts/tiny core_1`` reads rollouts, predictions, calls and tables of the
rows of one seed, and what the paper and the parameters say of them. It recomputes labels, rewards,
groups, advantages, scores and tables, and prints each number that differs and how many it compared.
"""

import json
import re
import string
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

CLOSE = 1e-6
PASSAGES = {}
compared, wrong = Counter(), []


def expect(what, place, found, wanted):
    """Count a comparison, and keep it if the two differ by more than rounding."""
    compared[what] += 1
    numbers = isinstance(found, float | int) and isinstance(wanted, float | int)
    if not (abs(found - wanted) <= CLOSE if numbers else found == wanted):
        wrong.append(f"{place}: {what} {found!r}, recomputed {wanted!r}")


def words(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return [word for word in re.sub(r"\b(a|an|the)\b", " ", text).split()]


def overlap(left, right):
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right)) if left or right else 1.0


def answer_f1(answer, golds):
    return max((overlap(words(answer), words(gold)) for gold in golds), default=0.0)


def exact(answer, golds):
    return float(any(words(answer) == words(gold) for gold in golds))


def pieces(text):
    """Runs of letters, digits and marks, and single other signs; a blank around each."""
    text = unicodedata.normalize("NFD", text).casefold()
    kinds = "".join({"L": "w", "N": "w", "M": "w", "Z": " ", "C": " "}.get(
        unicodedata.category(c)[0], ".") for c in text)  # fmt: skip
    return [text[m.start() : m.end()] for m in re.finditer(r"(?<![w])w+|w+|\.", kinds)]


def contains(passage, golds):
    """S3.3, contiguous match tokens; golds of truth words alone match nothing."""
    if all(" ".join(words(gold)) in ("yes", "no", "true", "false") for gold in golds):
        return False
    body = " " + " ".join(pieces(passage)) + " "
    return any(f" {' '.join(run)} " in body for gold in golds if words(gold) if (run := pieces(gold)))


def labels_of(row):
    return [contains(PASSAGES[one["id"]], row["golds"]) for one in row["candidates"]]


def main_reward(end, reward):
    """Eq. 4."""
    if end["terminal"] != "answered":
        return -reward["format_penalty"]
    score = exact if reward["answer_metric"] == "em" else answer_f1
    return score(end["answer"] or "", end["golds"])


def relevance_reward(labels, ranking, reward):
    """Eq. 5."""
    ranked = [labels[position] for position in ranking]
    if reward["ranking_metric"] == "ndcg":
        gains = 1 / np.log2(np.arange(len(labels)) + 2)
        ideal = gains[: min(sum(labels), len(ranked))].sum()
        return float((gains[: len(ranked)] * ranked).sum() / ideal) if ideal else 0.0
    return float(np.mean([any(ranked[:k]) for k in reward["hit_cutoffs"]]))


def rank_reward(call, end, r_rel, r_main, reward):
    """Eq. 6 and its case."""
    good = end["terminal"] == "answered"
    if not good and reward["exclude_malformed_trajectories"]:
        return 0.0, "excluded"
    if call["fault"] is not None:
        return -reward["format_penalty"], "malformed"
    main = r_main if good else 0.0
    if reward["main_threshold"] is not None:
        main = float(main >= reward["main_threshold"])
    passes = r_rel >= reward["gamma"] if reward["gate_inclusive"] else r_rel > reward["gamma"]
    if not reward["use_relevance"] or (reward["use_main"] and not any(call["labels"])):
        return main, "main_only"
    if not reward["use_main"] or not passes:
        return r_rel, "relevance_only"
    return r_rel + main, "relevance_and_main"


def advantages_of(rewards, rules):
    rewards = np.array(rewards)
    if len(rewards) < 2 or np.ptp(rewards) <= 1e-6:
        return [0.0] * len(rewards)
    spread = rewards.std(ddof=1 if rules["std"] == "sample" else 0)
    return list((rewards - rewards.mean()) / (spread + rules["adv_eps"]))


def query_words(query):
    return re.sub(r"\b(a|an|the)\b", " ", re.sub(f"[{re.escape(string.punctuation)}]", " ",
                  query.lower())).split()  # fmt: skip


def groups_of(calls, rules):
    """Algorithm 2 over one question's calls, in their order."""
    if not rules["semantic"]:
        return [calls] if calls else []
    found = []
    for has_answer in (True, False):
        groups = []
        for call in (one for one in calls if one["has_answer"] == has_answer):
            own = query_words(call["query"])
            near = (g for g in groups if overlap(query_words(g[0]["query"]), own) >= rules["delta"])
            group = next(near, None)
            groups.append([call]) if group is None else group.append(call)
        found += groups
    return [group for group in found if len(group) >= rules["k_min"]]


def trajectories(frame):
    """(trajectory row, its call rows) in the order of a file, each call with its labels."""
    found = []
    for row in frame.iter_rows(named=True):
        if row["kind"] == "trajectory":
            found.append((row, []))
        else:
            found[-1][1].append(row | {"labels": labels_of(row)})
    return found


def check_rewards(place, played, reward):
    for end, calls in played:
        r_main = main_reward(end, reward)
        expect("r_main", place, end["r_main"], r_main)
        for call in calls:
            r_rel = relevance_reward(call["labels"], call["ranking"], reward)
            paid, branch = rank_reward(call, end, r_rel, r_main, reward)
            expect("labels", place, [one["relevant"] for one in call["candidates"]], call["labels"])
            expect("has_answer", place, call["has_answer"], any(call["labels"]))
            expect("r_rel", place, call["r_rel"], r_rel)
            expect("r_rank", place, call["r_rank"], paid)
            expect("branch", place, call["branch"], branch)


def check_round(place, played, method, learners):
    """Groups, advantages and what is trained, of every question of a round."""
    questions = defaultdict(list)
    for end, calls in played:
        questions[end["dataset"], end["question_id"]].append((end, calls))
    for members in questions.values():
        wanted = advantages_of([end["r_main"] for end, _ in members], method["advantage"])
        for (end, _), advantage in zip(members, wanted, strict=True):
            expect("agent advantage", place, end["advantage"], advantage)
            check_learning(place, end, advantage, True, "agent" in learners)
        calls = [call for _, own in members for call in own]
        able = [c for c in calls if c["text"] is not None and c["branch"] != "excluded"]
        groups = groups_of(able, method["group"])
        told = defaultdict(list)
        for number, call in enumerate(calls):
            told[call["group"]].append(number)
        mine = [[next(n for n, c in enumerate(calls) if c is one) for one in g] for g in groups]
        inside = [number for group in mine for number in group]
        mine += [rest] if (rest := [n for n in range(len(calls)) if n not in inside]) else []
        expect("groups", place, sorted(told.values()), sorted(sorted(g) for g in mine))
        placed = [id(call) for group in groups for call in group]
        for group in groups:
            wanted = advantages_of([call["r_rank"] for call in group], method["advantage"])
            for call, advantage in zip(group, wanted, strict=True):
                expect("ranker advantage", place, call["advantage"], advantage)
        for call in calls:
            grouped = id(call) in placed
            check_learning(place, call, call["advantage"], grouped, "ranker" in learners)


def check_learning(place, row, advantage, counts, learns):
    expect("trained", place, row["trained"], counts and learns)
    if row["ids"]:
        wanted = [advantage * flag for flag in row["loss_mask"]]
        expect("token advantages", place, float(np.abs(np.subtract(row["advantages"], wanted)).max()), 0.0)
        measured = row["trainer_logprobs"] is not None
        expect("measured", place, measured, bool(counts and learns and advantage))


def check_evaluation(place, folder, reward):
    """Predictions and calls against the whole trajectories; returns the recomputed predictions."""
    played = trajectories(pl.read_parquet(folder / "trajectories.parquet"))
    check_rewards(place, played, reward)
    rows, told = [], pl.read_parquet(folder / "predictions.parquet").iter_rows(named=True)
    calls = pl.read_parquet(folder / "calls.parquet").iter_rows(named=True)
    for (end, own), row in zip(played, told, strict=True):
        good = end["terminal"] == "answered"
        scores = [f(end["answer"] or "", end["golds"]) if good else 0.0 for f in (answer_f1, exact)]
        expect("f1", place, row["f1_bag"], scores[0])
        expect("em", place, row["em"], scores[1])
        expect("searches", place, row["searches"], len(own))
        rows.append({"dataset": end["dataset"], "id": end["question_id"], "f1": scores[0],
                     "em": scores[1], "searches": len(own)})  # fmt: skip
        for call in own:
            line, ranked = next(calls), [call["labels"][p] for p in call["ranking"]]
            expect("labels of calls", place, line["labels"], call["labels"])
            for k in reward["hit_cutoffs"]:
                expect("hit", place, line[f"hit_{k}"], float(any(ranked[:k])))
                expect("retriever hit", place, line[f"retriever_hit_{k}"], float(any(call["labels"][:k])))
    return pl.DataFrame(rows)


def macro(frame, column):
    return frame.group_by("dataset").agg(pl.col(column).mean())[column].mean()


def bounds(left, right, level, draws=4000):
    """Quantiles of a paired bootstrap inside each set, around those that the table may print."""
    rng, means = np.random.default_rng(1), 0.0
    for (name,), part in left.join(right, on=["dataset", "id"]).group_by("dataset"):
        gain = (part["f1"] - part["f1_right"]).to_numpy()
        means = means + rng.choice(gain, (draws, len(gain))).mean(axis=1)
    drawn, tail = means / left["dataset"].n_unique(), (1 - level) / 2
    return np.quantile(drawn, [0, 3 * tail, 1 - 3 * tail, 1])


def check_tables(root, scope, made, told):
    names = {system["label"]: name for name, system in told["systems"].items()}
    folder, level = root / "tables" / scope, told["statistics"]["level"]
    main = pl.read_csv(folder / "main_large.csv", infer_schema_length=None)
    for row in main.filter(pl.col("status").is_null()).iter_rows(named=True):
        frame = made[names[row["System"]]]
        expect("macro", "main_large", row["avg (macro)"], macro(frame, "f1"))
        expect("macro EM", "main_large", row["EM (macro)"], macro(frame, "em"))
        expect("micro", "main_large", row["avg (micro)"], frame["f1"].mean())
        for (name,), part in frame.group_by("dataset"):
            expect("set", "main_large", row[name], part["f1"].mean())
    for row in pl.read_csv(folder / "comparisons.csv").iter_rows(named=True):
        left, right = (made[names[label]] for label in row["Left against right"].split(" against "))
        if row["metric"] == "f1":
            expect("difference", "comparisons", row["difference"], macro(left, "f1") - macro(right, "f1"))
            edges = bounds(left, right, level)
            inside = edges[0] - CLOSE <= row["95% low"] <= edges[1] + CLOSE
            inside &= edges[2] - CLOSE <= row["95% high"] <= edges[3] + CLOSE
            expect("interval", row["Left against right"], inside, True)
    for row in pl.read_csv(folder / "searches_large.csv").drop_nulls("mean").iter_rows(named=True):
        expect("mean searches", "searches", row["mean"], made[names[row["System"]]]["searches"].mean())


def recompute(root, scope):
    """Every comparison of a run: how many of each kind, and the lines of those that differ."""
    compared.clear(), wrong.clear()
    with pa.memory_map(str(root / "data/corpus/passages.arrow")) as source:
        for row in pa.ipc.open_file(source).read_all().to_pylist():
            PASSAGES[row["id"]] = f"{row['title']}\n{row['text']}"
    for path in sorted(root.glob("train/*/seed_0/*/rollouts/*.parquet")):
        row = path.parts[-3]
        told = json.loads((root / f"identity/train@{row}-0.json").read_text())["settings"]
        played = trajectories(pl.read_parquet(path))
        check_rewards(f"{row} {path.name}", played, told["method"]["reward"])
        check_round(f"{row} {path.name}", played, told["method"], told["variant"]["train"])
    made = {}
    for path in sorted(root.glob("evaluate/*/seed_0/*/predictions.parquet")):
        row = path.parts[-2]
        told = json.loads((root / f"identity/evaluate@{row}-0.json").read_text())["settings"]
        made[row] = check_evaluation(row, path.parent, told["measured_by"]["reward"])
    told = json.loads((root / f"identity/tables@{scope}.json").read_text())["settings"]
    check_tables(root, scope, made, told)
    return dict(compared), list(wrong)


if __name__ == "__main__":
    counts, lines = recompute(Path(sys.argv[1]), sys.argv[2])
    print(*lines, *(f"{what}: {count} compared" for what, count in counts.items()), sep="\n")
    sys.exit(bool(lines))
