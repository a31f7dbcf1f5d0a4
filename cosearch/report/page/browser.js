"use strict";
// The trajectory browser. Every text of the data becomes a text node; nothing is parsed as markup.
(() => {
  const byId = (id) => document.getElementById(id);
  const { episodes, systems, titles, texts } = JSON.parse(byId("episodes-data").textContent);
  const list = byId("episodes-list");
  const detail = byId("episodes-detail");
  const inputs = [...byId("episodes-filters").querySelectorAll("[data-filter]")];
  const OUTCOMES = {
    "F1 = 1": (episode) => episode.f1 === 1,
    "F1 > 0": (episode) => episode.f1 > 0,
    "F1 = 0": (episode) => episode.f1 === 0,
  };
  const isTest = (episode) => episode.round === null;
  const VALUES = {
    run: (episode) => [isTest(episode) ? "evaluation" : "training"],
    variant: (episode) => [episode.variant],
    round: (episode) => (isTest(episode) ? [] : [String(episode.round)]),
    dataset: (episode) => [episode.dataset],
    outcome: (episode) => Object.keys(OUTCOMES).filter((name) => OUTCOMES[name](episode)),
    terminal: (episode) => [episode.terminal],
    branch: (episode) => episode.calls.map((call) => call.branch),
  };
  const state = { id: "" };
  let shown = [];

  // --- elements -------------------------------------------------------------------------------

  // Control, override and unpaired signs are made visible; marks of direction stay, isolated.
  const UNSEEN = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu;
  const visible = (text) =>
    text.replace(UNSEEN, (sign) => {
      const code = sign.codePointAt(0);
      if (sign === "\n" || sign === "\t") return sign;
      if (code < 32) return String.fromCodePoint(0x2400 + code);
      return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
    });

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children.flat().filter((child) => child !== null));
    return element;
  }

  const quoted = (text) => make("bdi", {}, visible(text));
  const tag = (text, kind) => make("span", { class: `tag ${kind}` }, quoted(text));
  const folded = (label, ...children) =>
    make("details", {}, make("summary", {}, label), ...children);
  const number = (value) => (value === null ? "–" : String(Math.round(value * 1000) / 1000));
  const rewards = (values) => (values.length ? values.map(number).join(", ") : "–");

  function facts(pairs) {
    const rows = pairs.map(([name, value]) =>
      make(
        "div",
        {},
        make("dt", {}, name),
        make("dd", {}, typeof value === "string" ? quoted(value) : value),
      ),
    );
    return make("dl", { class: "facts" }, ...rows);
  }

  // --- one trajectory -------------------------------------------------------------------------

  function said(text) {
    const parts = /^\s*<(reason|think)>([^]*?)<\/\1>\s*([^]*)$/.exec(text);
    if (!parts) return [make("pre", {}, quoted(text))];
    return [
      make("p", { class: "reason" }, quoted(parts[2].trim())),
      make("pre", {}, quoted(parts[3].trim())),
    ];
  }

  function passage(id) {
    const title = quoted(id in titles ? titles[id] : id);
    return id in texts ? folded(title, make("p", {}, quoted(texts[id]))) : title;
  }

  function candidates(call, positions) {
    const head = ["shown", "retrieved", "score", "relevant", "passage"];
    const rows = positions.map((at) => {
      const [id, score, relevant] = call.candidates[at];
      const place = call.ranking.indexOf(at);
      const cells = [place < 0 ? "–" : String(place + 1), String(at + 1), score.toFixed(3)];
      return make(
        "tr",
        { class: relevant ? "relevant" : "" },
        cells.map((cell) => make("td", {}, cell)),
        make("td", {}, relevant ? "● yes" : "no"),
        make("td", { class: "text" }, passage(id)),
      );
    });
    const names = make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)));
    const table = make("table", {}, make("thead", {}, names), make("tbody", {}, rows));
    return make("div", { class: "box", tabindex: "0" }, table);
  }

  // What GRPO made of a trajectory or of a call; an evaluation trains nothing.
  function learned(one) {
    return [
      ["advantage", number(one.advantage)],
      ["trained on", one.trained ? "yes" : "no"],
      ["group", one.group === null ? "none" : one.group],
      ["rewards of the group", rewards(one.mates)],
    ];
  }

  function search(call) {
    const others = call.candidates.map((_, at) => at).filter((at) => !call.ranking.includes(at));
    return make(
      "section",
      { class: "call" },
      make("h5", {}, "Search: ", quoted(call.query)),
      facts([
        ["branch of Eq. 6", call.branch],
        ["r_rank", number(call.r_rank)],
        ["r_rel", number(call.r_rel)],
        ["r_main", number(call.r_main)],
        ["answer in D_N", call.has_answer ? "yes" : "no"],
        ["answer read by the agent", call.shown_answer ? "yes" : "no"],
        ["last documents that did not fit", String(call.dropped_documents)],
        ["documents of which the end was cut", String(call.cut_documents)],
        ...(call.trained === null ? [] : learned(call)),
        ["ranker's fault", call.fault === null ? "none" : call.fault],
      ]),
      call.output ? folded("What the ranker wrote", ...said(call.output)) : null,
      candidates(call, call.ranking),
      others.length
        ? folded(`Not shown to the agent: ${others.length} candidates`, candidates(call, others))
        : null,
    );
  }

  function turns(episode) {
    const count = Math.max(episode.turns.length, ...episode.calls.map((call) => call.turn + 1));
    return Array.from({ length: count }, (_, turn) =>
      make(
        "section",
        { class: "turn" },
        make("h4", {}, `Turn ${turn + 1}`),
        turn < episode.turns.length ? said(episode.turns[turn]) : [],
        episode.calls.filter((call) => call.turn === turn).map(search),
      ),
    );
  }

  function describe(episode) {
    const golds = episode.golds.flatMap((gold, at) => (at ? [" · ", quoted(gold)] : [quoted(gold)]));
    return [
      make("h3", {}, quoted(episode.question)),
      make(
        "p",
        {},
        [episode.dataset, episode.variant, place(episode)].map((text) => tag(text, "")),
        tag(episode.terminal, episode.terminal === "answered" ? "" : "bad"),
        tag(`F1 ${number(episode.f1)}`, episode.f1 === 1 ? "good" : episode.f1 ? "" : "bad"),
        make("a", { class: "permalink", href: address({ id: episode.id }) }, "permalink"),
      ),
      facts([
        ["answer", episode.answer === null ? "none" : episode.answer],
        ["golds", make("span", {}, golds)],
        ["reward", number(episode.reward)],
        ...(isTest(episode) ? [] : learned(episode)),
        ["fault", episode.fault === null ? "none" : episode.fault],
      ]),
      ...turns(episode),
    ];
  }

  // --- which trajectories ---------------------------------------------------------------------

  const address = (chosen) =>
    `#episodes?${new URLSearchParams(Object.entries(chosen).filter(([, value]) => value))}`;

  const place = (episode) => (isTest(episode) ? "evaluation" : `round ${episode.round}`);

  const searched = new Map(
    episodes.map((episode) => {
      const calls = episode.calls.flatMap((call) => [call.query, call.group, call.output]);
      const { question, golds, answer, turns: written, id, group } = episode;
      const words = [question, ...golds, answer, ...written, id, group, ...calls];
      return [episode, words.join("\n").toLowerCase()];
    }),
  );

  function matches(episode) {
    return inputs.every((input) => {
      const { filter } = input.dataset;
      const wanted = state[filter];
      if (!wanted) return true;
      if (filter === "text") return searched.get(episode).includes(wanted.toLowerCase());
      return VALUES[filter](episode).includes(wanted);
    });
  }

  function entry(episode) {
    const link = make(
      "a",
      { href: address({ ...state, id: episode.id }) },
      quoted(episode.question),
      make("small", {}, `${episode.dataset} · F1 ${number(episode.f1)} · ${episode.terminal}`),
      make("small", {}, quoted(episode.variant), ` · ${place(episode)}`),
    );
    return make("li", { "data-id": episode.id }, link);
  }

  function showList() {
    shown = episodes.filter(matches);
    byId("episodes-count").textContent = `${shown.length} of ${episodes.length} shown`;
    list.replaceChildren(...shown.map(entry));
    if (!state.id && shown.length) state.id = shown[0].id;
    showDetail();
  }

  function showDetail() {
    const episode = episodes.find((one) => one.id === state.id);
    const nothing = state.id ? "This page holds no such trajectory." : "Nothing to show.";
    detail.replaceChildren(...(episode ? describe(episode) : [make("p", {}, nothing)]));
    for (const item of list.children) {
      const current = item.dataset.id === state.id;
      item.toggleAttribute("data-current", current);
      if (current) scrollList(item);
    }
  }

  // Moves the list alone; an element's own scrollIntoView would move the page as well.
  function scrollList(item) {
    const box = list.getBoundingClientRect();
    const place = item.getBoundingClientRect();
    if (place.top < box.top) list.scrollTop -= box.top - place.top;
    if (place.bottom > box.bottom) list.scrollTop += place.bottom - box.bottom;
  }

  function scrollPage() {
    const panes = byId("episodes-panes");
    if (panes.getBoundingClientRect().top < 0) panes.scrollIntoView();
  }

  // --- one question under two systems ---------------------------------------------------------

  const tests = episodes.filter(isTest);
  const sides = [...document.querySelectorAll("#versus-choice [data-side]")];
  const panes = [...document.querySelectorAll("#versus-panes article")];
  const questionOf = (episode) => `${episode.dataset}/${episode.question_id}`;
  const byQuestion = new Map();
  for (const episode of tests) {
    if (!byQuestion.has(questionOf(episode))) byQuestion.set(questionOf(episode), new Map());
    byQuestion.get(questionOf(episode)).set(episode.variant, episode);
  }

  const facing = () => Object.fromEntries(sides.map((side) => [side.dataset.side, side.value]));

  function showSides() {
    const { question, left, right } = facing();
    const held = byQuestion.get(question) ?? new Map();
    [left, right].forEach((system, at) => {
      const episode = held.get(system);
      const nothing = "This page holds no such trajectory.";
      panes[at].replaceChildren(...(episode ? describe(episode) : [make("p", {}, nothing)]));
    });
  }

  // A question with what each system of the two made of it.
  function named(held) {
    const [first, second] = systems.slice(0, 2).map((system) => held.get(system));
    const scores = [first, second].filter(Boolean).map((episode) => number(episode.f1));
    const { question, dataset } = held.values().next().value;
    return `${visible(question)} (${dataset}; F1 ${scores.join(", ")})`;
  }

  function fillSides() {
    const [question, left, right] = sides;
    const options = [...byQuestion].map(([value, held]) => make("option", { value }, named(held)));
    question.append(...options);
    for (const side of [left, right]) {
      side.append(...systems.map((value) => make("option", { value }, visible(value))));
    }
    right.selectedIndex = Math.min(1, systems.length - 1);
    for (const side of sides) {
      side.addEventListener("input", () => {
        showSides();
        writeAddress(`#versus?${new URLSearchParams(facing())}`);
      });
    }
    showSides();
  }

  function readSides() {
    if (!sides.length || !location.hash.startsWith("#versus?")) return false;
    const given = new URLSearchParams(location.hash.slice("#versus?".length));
    for (const side of sides) side.value = given.get(side.dataset.side) ?? side.value;
    byId("versus").open = true;
    showSides();
    return true;
  }

  // --- the address and the reader's hands -----------------------------------------------------

  function readAddress() {
    if (!location.hash.startsWith("#episodes?")) return false;
    const given = new URLSearchParams(location.hash.slice("#episodes?".length));
    state.id = given.get("id") ?? "";
    for (const input of inputs) {
      input.value = given.get(input.dataset.filter) ?? "";
      state[input.dataset.filter] = input.value;
    }
    return true;
  }

  // A browser refuses addresses that change too often, as they would under a held key.
  let pending = 0;
  function writeAddress(chosen = address(state)) {
    clearTimeout(pending);
    pending = setTimeout(() => history.replaceState(null, "", chosen), 200);
  }

  function step(by) {
    const at = shown.findIndex((episode) => episode.id === state.id);
    const next = shown[at < 0 ? 0 : at + by];
    if (!next) return;
    state.id = next.id;
    showDetail();
    scrollPage();
    writeAddress();
  }

  function fillSelects() {
    for (const input of inputs.filter((one) => one.dataset.filter in VALUES)) {
      const held = episodes.flatMap(VALUES[input.dataset.filter]);
      const all = input.dataset.filter === "outcome" ? Object.keys(OUTCOMES) : held;
      const options = [...new Set(all)].map((value) => make("option", { value }, visible(value)));
      input.append(...options);
    }
  }

  fillSelects();
  for (const input of inputs) {
    state[input.dataset.filter] = "";
    input.addEventListener("input", () => {
      state[input.dataset.filter] = input.value;
      state.id = "";
      showList();
      writeAddress();
    });
  }
  byId("episodes-filters").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => {
    if (readSides()) byId("versus").scrollIntoView();
    if (!readAddress()) return;
    showList();
    scrollPage();
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") step(1);
    if (event.key === "k") step(-1);
  });
  if (sides.length) {
    fillSides();
    byId("versus-choice").addEventListener("submit", (event) => event.preventDefault());
  }
  const linked = readAddress();
  showList();
  if (linked) byId("episodes-filters").scrollIntoView();
  if (readSides()) byId("versus").scrollIntoView();
})();
