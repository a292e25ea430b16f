// Keeps an open page up to date. The server renders everything. When something has changed, this script fetches the same
// page again and inserts the changed parts. Without the script, pages can still be read, and forms sent with the token.
// Decisions are in deciding.js.
"use strict";
(() => {
  const MAX_ENTRIES = 400;         // older ones are removed, with a link to them
  const MAX_LIVE_CHARS = 100000;   // of live text; only the end is kept
  const MAX_OUTPUTS = 8;           // running calls whose output is kept
  const REFRESH_EVERY_MS = 250;
  const RETRY_MS = 2000;
  const RETRY_MAX_MS = 4000;       // the longest pause while the daemon is away
  const POLL_MS = 30000;           // how often a hidden page polls
  const KINDS = ["state", "thread_opened", "turn_started", "turn_ended", "message", "thought", "tool_started", "tool_completed",
    "request", "request_closed", "request_decided", "terminal_input", "warning", "notice", "retrying", "diff"];

  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const page = document.body.dataset.page;

  // Times and clocks.
  function clock(ms) {
    const s = Math.max(0, Math.floor(ms / 1000)), two = (n) => String(n).padStart(2, "0");
    const h = Math.floor(s / 3600), m = Math.floor((s % 3600) / 60);
    return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
  }
  function tick() {
    for (const it of all("[data-since]")) it.textContent = clock(Date.now() - Number(it.dataset.since));
  }
  function localTimes(within) {
    for (const it of all("time[data-at]", within)) {
      const at = new Date(it.textContent.replace(" UTC", "Z").replace(" ", "T"));
      if (isNaN(at)) continue;
      it.title = it.textContent;
      it.dateTime = at.toISOString();
      it.removeAttribute("data-at");
      const isToday = at.toDateString() === new Date().toDateString();
      it.textContent = isToday ? at.toLocaleTimeString() : at.toLocaleString();
    }
  }

  function showCount(count) {
    const badge = $("#open-requests");
    if (!badge) return;
    badge.textContent = count;
    badge.hidden = count === 0;
    document.title = `${count ? `(${count}) ` : ""}${document.body.dataset.heading} – codex-bridge`;
  }

  // Fetches a page: one fetch at a time, and one more if something changed meanwhile.
  function refresher(address, use) {
    let busy = false, again = false, pause = REFRESH_EVERY_MS;
    return async function refresh() {
      if (busy) { again = true; return; }
      busy = true;
      try {
        const response = await fetch(address(), { headers: { accept: "text/html" } });
        if (new URL(response.url).pathname === "/login") { location.assign("/login"); return; }
        if (!response.ok) throw new Error(response.status);
        use(new DOMParser().parseFromString(await response.text(), "text/html"));
        pause = REFRESH_EVERY_MS;
      } catch { again = true; pause = Math.min(2 * pause, RETRY_MAX_MS); }
      setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, pause);
    };
  }

  function updateCount(doc) {
    const badge = $("#open-requests", doc);
    if (badge) showCount(Number(badge.textContent));
  }

  // The list of tasks, deliveries or hosts. The focus stays on the same link or button.
  function replaceList(doc) {
    const here = $("#list"), there = $("#list", doc);
    if (!here || !there) return;
    const focused = here.contains(document.activeElement) ? document.activeElement : null;
    const link = focused?.getAttribute("href"), form = focused?.form?.getAttribute("action");
    localTimes(there);
    here.replaceChildren(...there.childNodes);
    if (link) $(`[href="${CSS.escape(link)}"]`, here)?.focus();
    else if (form) $(`form[action="${CSS.escape(form)}"] button`, here)?.focus();
    updateCount(doc);
    tick();
  }

  // An open card stays as it is, with the text that a person is writing in it. A closed card shows its outcome. New cards
  // are appended.
  function mergeCards(doc) {
    const here = $("#requests"), there = $("#requests", doc);
    if (!here || !there) return;
    const open = new Map(all("[data-key]", there).map((card) => [card.dataset.key, card]));
    for (const card of all(":scope > [data-key]", here)) {
      if (open.has(card.dataset.key)) open.delete(card.dataset.key);
      else if (!card.classList.contains("closed")) closeCard(card);
    }
    for (const card of open.values()) { localTimes(card); here.append(card); }
    const nothing = $("#nothing-open");
    // Other pages of the list may have cards.
    if (nothing) nothing.hidden = !!$("[data-key]", here) || !!$("#nothing-open", doc)?.hidden;
  }
  async function closeCard(card) {
    // A card that is being decided here gets its outcome from that decision.
    if ($(".decide [aria-busy]", card) || card.dataset.closing) return;
    card.dataset.closing = "true";
    all("button, input, textarea, select", card).forEach((control) => { control.disabled = true; });
    try {
      const response = await fetch(`/approvals/${card.dataset.task}/${card.dataset.key}`);
      const drawn = deciding.sameCard(card, new DOMParser().parseFromString(await response.text(), "text/html"));
      if (!drawn) return;
      localTimes(drawn);
      // If it is open after all, the card is replaced.
      if ($("form.decide", drawn)) card.replaceWith(drawn);
      else deciding.close(card, drawn);
    } catch { delete card.dataset.closing; }   // its controls stay disabled, and the next refresh tries again
  }
  function updateCards(doc) {
    mergeCards(doc);
    const more = $("#more", doc);
    if (more) $("#more")?.replaceWith(more);
    updateCount(doc);
  }

  // One task.
  function taskPage(root) {
    const id = root.dataset.task;
    const timeline = $("#timeline"), live = $("#live"), liveText = $("#live-text");
    const liveReasoning = $("#live-reasoning"), reasoningText = $(".said", liveReasoning);
    let last = Number(root.dataset.last);
    let complete = "", text = "", reasoning = "";   // `complete` is shown until its entry arrives
    const outputs = new Map();                  // by call: output may arrive before the entry of its call

    const isFinished = () => $("#controls").dataset.version.startsWith("true");
    const isAtEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 160;
    const toEnd = () => { scrollTo({ top: document.documentElement.scrollHeight }); deciding.scrolled(); };
    // Scrolls to new text, unless a card is in view: then the card does not move.
    function following(change) {
      if (deciding.hasCardInView()) { deciding.keepPlace(change); return; }
      const follow = isAtEnd();
      change();
      if (follow) toEnd();
    }

    const drawLive = () => following(() => {
      liveText.textContent = complete + text;
      reasoningText.textContent = reasoning;
      liveReasoning.hidden = !reasoning;
      live.hidden = !complete && !text && !reasoning;
    });
    function onLive(piece) {
      const end = (text) => text.slice(-MAX_LIVE_CHARS);
      if (piece.live === "text") text = end(piece.so_far ? piece.text : text + piece.text);
      else if (piece.live === "reasoning") reasoning = end(reasoning + piece.text);
      else if (piece.live === "output") {
        const before = piece.so_far ? "" : outputs.get(piece.call_id) ?? "";
        outputs.set(piece.call_id, end(before + piece.text));
        if (outputs.size > MAX_OUTPUTS) outputs.delete(outputs.keys().next().value);
        drawOutput(piece.call_id);
        return;
      }
      drawLive();
    }
    const drawOutput = (callId) => deciding.keepPlace(() => {
      const call = document.getElementById(`call-${callId}`);
      if (!call) return;
      const output = $("[data-live-output]", call);
      if (!output && $(".call.waiting", call)) return;   // the entry does not show yet that the call runs
      if (!output) { outputs.delete(callId); return; }   // the call has ended, and its entry has the output
      output.textContent = outputs.get(callId);
      output.scrollTop = output.scrollHeight;
    });

    const updateTask = (doc) => following(() => {
      const there = $("#task", doc);
      if (!there) return;
      const head = $("#head", doc), isOpen = $("#about").open;
      $("#about", head).open = isOpen;
      localTimes(head);
      $("#head").replaceWith(head);
      const controls = $("#controls", doc);
      if (controls.dataset.version !== $("#controls").dataset.version) {
        const written = $("#controls textarea")?.value;
        $("#controls").replaceWith(controls);
        if (written) $("#controls textarea").value = written;
      }
      removeHiddenCards();
      mergeCards(doc);
      const entries = all("#timeline > li", doc);
      // The summary of the reasoning arrives as an entry.
      if (entries.length) { reasoning = ""; $("#quiet")?.remove(); }
      if (Number(there.dataset.after) > last) {
        // There is a gap: the missing entries are on the earlier pages.
        timeline.replaceChildren();
        $("#earlier")?.remove();
        const earlier = $("#earlier", doc);
        if (earlier) timeline.before(earlier);
      }
      for (const entry of entries) {
        localTimes(entry);
        const known = document.getElementById(entry.id);
        if (known) {
          const opened = $("details[open]", known), fold = $("details", entry);
          if (opened && fold) fold.open = true;
          known.replaceWith(entry);
        } else timeline.append(entry);
      }
      [...outputs.keys()].forEach(drawOutput);
      last = Math.max(last, Number(there.dataset.last));
      removeOldEntries();
      complete = "";
      drawLive();
      document.body.dataset.heading = doc.body.dataset.heading;
      updateCount(doc);
      tick();
      if (isFinished()) { text = ""; drawLive(); }
    });
    // A decision is also in the timeline, so its card is removed once it is out of view.
    function removeHiddenCards() {
      for (const card of all("#requests > .closed")) {
        const box = card.getBoundingClientRect();
        if (box.bottom < 0 || box.top > innerHeight) card.remove();
      }
    }
    function removeOldEntries() {
      if (timeline.children.length <= MAX_ENTRIES) return;
      while (timeline.children.length > MAX_ENTRIES) timeline.firstElementChild.remove();
      let earlier = $("#earlier");
      if (!earlier) {
        earlier = document.createElement("p");
        earlier.id = "earlier";
        earlier.className = "pages";
        const link = document.createElement("a");
        link.className = "button";
        link.textContent = "Show earlier";
        earlier.append(link);
        timeline.before(earlier);
      }
      $("a", earlier).href = `/tasks/${id}?before=${timeline.firstElementChild.dataset.seq}`;
    }

    const refresh = refresher(() => `/tasks/${id}?after=${last}`, updateTask);

    // An event only triggers a refresh; the page has the content.
    const handlers = { live: onLive };
    for (const kind of KINDS) handlers[kind] = () => {
      if (kind === "message" || kind === "turn_started" || kind === "turn_ended") { complete += text; text = ""; }
      refresh();
    };
    if (timeline.scrollHeight > 2 * innerHeight && !location.hash) toEnd();
    return {
      changed: (news) => { if (news.task_id === undefined || news.task_id === id) refresh(); },
      address: () => `/v1/tasks/${id}/events?after=${last}&live=true&news=true`,
      handlers,
      // After a reconnect, the server sends the live text from its beginning.
      lost: () => { complete = text = reasoning = ""; },
    };
  }

  // One stream of news for each visible page: browsers open six connections to a server, for all of its pages together. A
  // hidden page has no stream. It polls for the number in its title, and is refreshed when it becomes visible.
  function follow({ changed, address = () => "/v1/events", handlers = {}, lost = () => {}, refreshesOnOpen = false }) {
    let stream = null, retry = 0, poll = 0, wasLost = refreshesOnOpen;
    const kinds = {
      open_requests: ({ total }) => {
        const isNews = $("#open-requests")?.textContent !== String(total);
        showCount(total);
        if (isNews) changed({});
      },
      task: changed,
      missed: () => changed({}),
      dropped: () => changed({}),
      ...handlers,
    };
    function open() {
      const own = stream = new EventSource(address());
      for (const [kind, handle] of Object.entries(kinds)) own.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
      own.onopen = () => {
        $("#offline").hidden = true;
        if (wasLost) changed({});
        wasLost = false;
      };
      own.onerror = () => {
        wasLost = true;
        $("#offline").hidden = false;
        lost();
        changed({});
        if (own.readyState === EventSource.CLOSED) retry = setTimeout(show, RETRY_MS);
      };
    }
    function show() {
      clearTimeout(retry);
      clearInterval(poll);
      stream?.close();
      if (document.hidden) poll = setInterval(() => changed({}), POLL_MS);
      else open();
    }
    addEventListener("visibilitychange", () => {
      if (!document.hidden) { lost(); changed({}); }
      show();
    });
    show();
  }

  function start() {
    tick();
    setInterval(tick, 1000);
    localTimes(document);
    deciding.start(localTimes);
    addEventListener("submit", (event) => {
      if (event.defaultPrevented) return;
      // After the browser has read the form: a disabled button would not be sent.
      setTimeout(() => all("button", event.target).forEach((button) => { button.disabled = true; }));
    });
    addEventListener("pageshow", () => all("form:not(.decide) button").forEach((button) => { button.disabled = false; }));
    if (["login", "entered", "locked", "error"].includes(page)) return;
    const here = $("[data-live]")?.dataset.live;
    const again = () => location.href;
    // These lists do not depend on tasks. They refresh when the stream opens, because a change may have come before.
    const listed = (refresh) => ({ changed: refresh, handlers: { task: () => {}, [here]: refresh }, refreshesOnOpen: true });
    follow(here === "task" ? taskPage($("#task"))
      : here === "list" ? { changed: refresher(again, replaceList) }
      : here === "cards" ? { changed: refresher(again, updateCards) }
      : here === "hosts" || here === "deliveries" ? listed(refresher(again, replaceList))
      : { changed: refresher(again, updateCount), handlers: { task: () => {} } });   // only the number can change
  }
  start();
})();
