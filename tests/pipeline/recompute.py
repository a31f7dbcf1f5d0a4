"""Computes one run anew from its files, by itself: it imports nothing of the product.

``python tests/pipeline/recompute.py artifacts/tiny core_1`` reads rollouts, predictions, calls and
tables of the rows at seed 0, recomputes labels, rewards, groups, advantages, scores and tables, and
prints how much it compared, and each number that differs. It leaves out what nDCG or a judge paid.
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

CLOSE, PASSAGES, compared, wrong = 1e-6, {}, Counter(), []


def expect(place, **pairs):
    """Count what is compared, found and wanted, and keep what differs by more than rounding."""
    for what, (found, wanted) in pairs.items():
        compared[what] += 1
        if not (abs(found - wanted) <= CLOSE if type(found) is float else found == wanted):
            wrong.append(f"{place}: {what} {found!r}, recomputed {wanted!r}")


def words(text, punctuation=""):
    """Without case and articles; a sign of punctuation becomes ``punctuation``."""
    text = "".join(punctuation if c in string.punctuation else c for c in text.lower())
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def overlap(left, right):
    both = len(left) + len(right)
    return 2 * (Counter(left) & Counter(right)).total() / both if both else 1.0


def scores(end):
    """F1 and exact match of an answer; 0 without a well-formed one."""
    if end["terminal"] != "answered":
        return 0.0, 0.0
    pairs = [(words(end["answer"] or ""), words(gold)) for gold in end["golds"]]
    return max(overlap(*pair) for pair in pairs), float(any(a == b for a, b in pairs))


def pieces(text):
    """Match tokens: runs of letters, digits and marks, and every other sign; joined by blanks."""
    text = unicodedata.normalize("NFD", text).casefold()
    kinds = "".join(unicodedata.category(c)[0] for c in text)
    found = (text[m.start() : m.end()] for m in re.finditer("[LNM]+|[^LNMZC]", kinds))
    return f" {' '.join(found)} "


def labels_of(row):
    """S3.3: which candidates contain an answer. Golds of truth words alone are in none."""
    golds = [gold for gold in map(words, row["golds"]) if gold]
    truth = all(" ".join(gold) in ("yes", "no", "true", "false") for gold in golds)
    runs = [] if truth else [pieces(gold) for gold in row["golds"] if words(gold)]
    return [any(run in pieces(PASSAGES[c["id"]]) for run in runs) for c in row["candidates"]]


def rank_reward(call, good, r_rel, r_main, rules):
    """Eq. 6 and its case."""
    if not good and rules["exclude_malformed_trajectories"]:
        return 0.0, "excluded"
    if call["fault"] is not None:
        return -rules["format_penalty"], "malformed"
    main = r_main if good else 0.0
    main = main if rules["main_threshold"] is None else float(main >= rules["main_threshold"])
    passes = r_rel > rules["gamma"] or (rules["gate_inclusive"] and r_rel == rules["gamma"])
    if not rules["use_relevance"] or (rules["use_main"] and not any(call["labels"])):
        return main, "main_only"
    if rules["use_main"] and passes:
        return r_rel + main, "relevance_and_main"
    return r_rel, "relevance_only"


def advantages(rewards, rules):
    rewards = np.array(rewards)
    if len(rewards) < 2 or np.ptp(rewards) <= CLOSE:
        return [0.0] * len(rewards)
    spread = rewards.std(ddof=1 if rules["std"] == "sample" else 0)
    return list((rewards - rewards.mean()) / (spread + rules["adv_eps"]))


def groups_of(calls, rules):
    """Algorithm 2 over the calls of a question, in their order."""
    if not rules["semantic"]:
        return [calls] if calls else []
    found = []
    for has_answer in (True, False):
        groups = []
        for call in (one for one in calls if one["has_answer"] == has_answer):
            own = words(call["query"], " ")
            near = (g for g in groups if overlap(words(g[0]["query"], " "), own) >= rules["delta"])
            group = next(near, [])
            groups += [] if group else [group]
            group.append(call)
        found += groups
    return [group for group in found if len(group) >= rules["k_min"]]


def trajectories(path):
    """(trajectory row, its call rows), in the order of the file."""
    found = []
    for row in pl.read_parquet(path).iter_rows(named=True):
        if row["kind"] == "trajectory":
            found.append((row, []))
        else:
            found[-1][1].append(row | {"labels": labels_of(row)})
    return found


def check_rewards(place, played, rules):
    for end, calls in played:
        good = end["terminal"] == "answered"
        r_main = scores(end)[rules["answer_metric"] == "em"] if good else -rules["format_penalty"]
        expect(place, r_main=(end["r_main"], r_main))
        for call in calls:
            ranked = [call["labels"][position] for position in call["ranking"]]
            r_rel = float(np.mean([any(ranked[:k]) for k in rules["hit_cutoffs"]]))  # Eq. 5
            paid, branch = rank_reward(call, good, r_rel, r_main, rules)
            if call["branch"] != "judge":
                expect(place, r_rank=(call["r_rank"], paid), branch=(call["branch"], branch))
            expect(place, labels=([c["relevant"] for c in call["candidates"]], call["labels"]))
            i_ans = call["has_answer"], any(call["labels"])
            expect(place, has_answer=i_ans, r_rel=(call["r_rel"], r_rel))


def check_learning(place, row, advantage, counts, learns):
    """The advantage of a row and its tokens, and whether the row entered an update."""
    expect(
        place, advantage=(row["advantage"], advantage), trained=(row["trained"], counts and learns)
    )
    if row["ids"]:
        off = np.subtract(row["advantages"], np.multiply(advantage, row["loss_mask"]))
        measured = row["trainer_logprobs"] is not None, bool(counts and learns and advantage)
        expect(place, token_advantages=(float(np.abs(off).max()), 0.0), measured=measured)


def check_round(place, played, method, learners):
    """Groups, advantages and what is trained, question by question."""
    questions = defaultdict(list)
    for end, calls in played:
        questions[end["dataset"], end["question_id"]].append((end, calls))
    drops = method["credit"]["drop_constant_groups"]
    for members in questions.values():
        own = advantages([end["r_main"] for end, _ in members], method["advantage"])
        for (end, _), advantage in zip(members, own, strict=True):
            check_learning(place, end, advantage, not drops or any(own), "agent" in learners)
        calls = [call for _, each in members for call in each]
        able = [c for c in calls if c["text"] is not None and c["branch"] != "excluded"]
        groups, told = groups_of(able, method["group"]), defaultdict(set)
        for call in calls:
            told[call["group"]].add(id(call))
        outside = told.pop(None, set())
        mine = sorted(sorted(map(id, group)) for group in groups)
        expect(place, groups=(sorted(map(sorted, told.values())), mine))
        for group in groups:
            own = advantages([call["r_rank"] for call in group], method["advantage"])
            for call, advantage in zip(group, own, strict=True):
                check_learning(place, call, advantage, not drops or any(own), "ranker" in learners)
        for call in (one for one in calls if id(one) in outside):
            check_learning(place, call, 0.0, False, "ranker" in learners)


def check_evaluation(place, folder, rules):
    """Predictions and calls against the trajectories; returns the predictions as recomputed."""
    played = trajectories(folder / "trajectories.parquet")
    check_rewards(place, played, rules)
    rows, told = [], pl.read_parquet(folder / "predictions.parquet").iter_rows(named=True)
    lines = pl.read_parquet(folder / "calls.parquet").iter_rows(named=True)
    for (end, calls), row in zip(played, told, strict=True):
        f1, em, n = *scores(end), len(calls)
        expect(place, f1=(row["f1_bag"], f1), em=(row["em"], em), searches=(row["searches"], n))
        rows.append((end["dataset"], end["question_id"], f1, em, n))
        for call in calls:
            line, ranked = next(lines), [call["labels"][position] for position in call["ranking"]]
            for order, labels in (("hit", ranked), ("retriever_hit", call["labels"])):
                for k in rules["hit_cutoffs"]:
                    expect(place, hit=(line[f"{order}_{k}"], float(any(labels[:k]))))
    return pl.DataFrame(rows, ["dataset", "id", "f1", "em", "searches"], orient="row")


def bounds(left, right, level, draws=4000):
    """Quantiles of a paired bootstrap inside each set, around those that a table may print."""
    rng, means = np.random.default_rng(1), 0.0
    for _, part in left.join(right, on=["dataset", "id"]).group_by("dataset"):
        gain = (part["f1"] - part["f1_right"]).to_numpy()
        means = means + rng.choice(gain, (draws, len(gain))).mean(axis=1)
    tail = 3 * (1 - level) / 2
    edges = np.quantile(means / left["dataset"].n_unique(), [0, tail, 1 - tail, 1])
    return (edges + CLOSE * np.array([-1, 1, -1, 1])).tolist()


def check_tables(folder, made, told):
    of = {told["systems"][name]["label"]: frame for name, frame in made.items()}
    sets = {label: frame.drop("id").group_by("dataset").mean() for label, frame in of.items()}

    def rows(name):
        table = pl.read_csv(folder / f"{name}.csv", infer_schema_length=None)
        return table.filter(pl.col("status").is_null()).iter_rows(named=True)

    for row in rows("main_large"):
        label, means = row["System"], sets[row["System"]]
        expect(label, macro=(row["avg (macro)"], means["f1"].mean()))
        expect(label, macro_em=(row["EM (macro)"], means["em"].mean()))
        expect(label, micro=(row["avg (micro)"], of[label]["f1"].mean()))
        for name, mean in means.select("dataset", "f1").iter_rows():
            expect(label, set=(row[name], mean))
    for row in rows("searches_large"):
        expect("searches", mean=(row["mean"], of[row["System"]]["searches"].mean()))
    for row in (one for one in rows("comparisons") if one["metric"] == "f1"):
        left, right = row["Left against right"].split(" against ")
        gain = sets[left]["f1"].mean() - sets[right]["f1"].mean()
        low, most, least, high = bounds(of[left], of[right], told["statistics"]["level"])
        inside = low <= row["95% low"] <= most and least <= row["95% high"] <= high
        expect(f"{left}, {right}", difference=(row["difference"], gain), interval=(inside, True))


def recompute(root, scope):
    """How much of each kind was compared, and a line for each number that differs."""
    compared.clear(), wrong.clear()
    with pa.memory_map(str(root / "data/corpus/passages.arrow")) as source:
        for row in pa.ipc.open_file(source).read_all().to_pylist():
            PASSAGES[row["id"]] = f"{row['title']}\n{row['text']}"
    files = (root / "identity").glob("*.json")
    settings = {file.stem: json.loads(file.read_text("utf-8"))["settings"] for file in files}
    for path in sorted(root.glob("train/*/seed_0/*/rollouts/*.parquet")):
        told, place = settings[f"train@{path.parts[-3]}-0"], f"{path.parts[-3]} {path.stem}"
        if told["method"]["reward"]["ranking_metric"] == "hit":
            played = trajectories(path)
            check_rewards(place, played, told["method"]["reward"])
            check_round(place, played, told["method"], told["variant"]["train"])
    made = {}
    for path in sorted(root.glob("evaluate/*/seed_0/*/predictions.parquet")):
        rules = settings[f"evaluate@{path.parts[-2]}-0"]["measured_by"]["reward"]
        made[path.parts[-2]] = check_evaluation(path.parts[-2], path.parent, rules)
    check_tables(root / "tables" / scope, made, settings[f"tables@{scope}"])
    return dict(compared), list(wrong)


if __name__ == "__main__":
    counts, lines = recompute(Path(sys.argv[1]), sys.argv[2])
    print(*lines, *(f"{what}: {count}" for what, count in counts.items()), sep="\n")
    sys.exit(bool(lines))
