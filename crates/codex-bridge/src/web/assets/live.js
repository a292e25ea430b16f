// Keeps an open page up to date. The server draws everything: this script hears that something has changed, fetches the
// same page again, and puts the parts that are new in place. Without it every page can be read, and every form sent, with
// the token. How people decide is in deciding.js.
"use strict";
(() => {
  const MAX_ENTRIES = 400;         // more are let go at the top, with a way back to them
  const MAX_LIVE_CHARS = 100000;   // of a text that is being written, its end is kept
  const MAX_OUTPUTS = 8;           // calls whose output is kept while they run
  const REFRESH_EVERY_MS = 250;
  const RETRY_MS = 2000;
  const RETRY_MAX_MS = 4000;       // so rarely is a daemon asked that is away
  const LOOK_MS = 30000;           // so often a page looks that nobody sees
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

  // Fetches a page of ours; one fetch at a time, and one more if something changed meanwhile.
  function refresher(address, use) {
    let busy = false, again = false, pause = REFRESH_EVERY_MS;
    return async function refresh() {
      if (busy) { again = true; return; }
      busy = true;
      try {
        const answer = await fetch(address(), { headers: { accept: "text/html" } });
        if (new URL(answer.url).pathname === "/login") { location.assign("/login"); return; }
        if (!answer.ok) throw new Error(answer.status);
        use(new DOMParser().parseFromString(await answer.text(), "text/html"));
        pause = REFRESH_EVERY_MS;
      } catch { again = true; pause = Math.min(2 * pause, RETRY_MAX_MS); }
      setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, pause);
    };
  }

  function countOf(doc) {
    const badge = $("#open-requests", doc);
    if (badge) showCount(Number(badge.textContent));
  }

  // The list of tasks, of deliveries, of hosts. Whoever is at a link or a button in it stays there.
  function useList(doc) {
    const here = $("#list"), there = $("#list", doc);
    if (!here || !there) return;
    const at = here.contains(document.activeElement) ? document.activeElement : null;
    const link = at?.getAttribute("href"), form = at?.form?.getAttribute("action");
    localTimes(there);
    here.replaceChildren(...there.childNodes);
    if (link) $(`[href="${CSS.escape(link)}"]`, here)?.focus();
    else if (form) $(`form[action="${CSS.escape(form)}"] button`, here)?.focus();
    countOf(doc);
    tick();
  }

  // Cards keep what somebody is writing in them: a card that is still there stays as it is. One that is answered stays too,
  // and says so; new ones come below.
  function mergeCards(doc) {
    const here = $("#requests"), there = $("#requests", doc);
    if (!here || !there) return;
    const wanted = new Map(all("[data-key]", there).map((card) => [card.dataset.key, card]));
    for (const card of all(":scope > [data-key]", here)) {
      if (wanted.has(card.dataset.key)) wanted.delete(card.dataset.key);
      else if (!card.classList.contains("closed")) closeCard(card);
    }
    for (const card of wanted.values()) { localTimes(card); here.append(card); }
    const nothing = $("#nothing-open");
    // Another page may have some.
    if (nothing) nothing.hidden = !!$("[data-key]", here) || !!$("#nothing-open", doc)?.hidden;
  }
  async function closeCard(card) {
    // One that is being decided just here is told what came of it.
    if ($(".decide [aria-busy]", card) || card.dataset.closing) return;
    card.dataset.closing = "true";
    all("button, input, textarea, select", card).forEach((it) => { it.disabled = true; });
    try {
      const answer = await fetch(`/approvals/${card.dataset.task}/${card.dataset.key}`);
      const drawn = deciding.sameCard(card, new DOMParser().parseFromString(await answer.text(), "text/html"));
      if (!drawn) return;
      localTimes(drawn);
      // One that is asked again is another one.
      if ($("form.decide", drawn)) card.replaceWith(drawn);
      else deciding.close(card, drawn);
    } catch { delete card.dataset.closing; }   // it cannot be pressed, and is looked at again
  }
  function useCards(doc) {
    mergeCards(doc);
    const more = $("#more", doc);
    if (more) $("#more")?.replaceWith(more);
    countOf(doc);
  }

  // One task.
  function taskPage(root) {
    const id = root.dataset.task;
    const timeline = $("#timeline"), live = $("#live"), liveText = $("#live-text");
    const liveReasoning = $("#live-reasoning"), reasoningText = $(".said", liveReasoning);
    let last = Number(root.dataset.last);
    let held = "", text = "", reasoning = "";   // `held` is whole, and shown until its entry has come
    const outputs = new Map();                  // by call: output may come before the entry of its call

    const isAtRest = () => $("#controls").dataset.version.startsWith("true");
    const isAtEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 160;
    const toEnd = () => { scrollTo({ top: document.documentElement.scrollHeight }); deciding.scrolled(); };
    // Follows what is written, unless somebody is at a card: that stays where it is.
    function following(change) {
      if (deciding.holds()) { deciding.keepPlace(change); return; }
      const follow = isAtEnd();
      change();
      if (follow) toEnd();
    }

    const drawLive = () => following(() => {
      liveText.textContent = held + text;
      reasoningText.textContent = reasoning;
      liveReasoning.hidden = !reasoning;
      live.hidden = !held && !text && !reasoning;
    });
    function heard(told) {
      const end = (so) => so.slice(-MAX_LIVE_CHARS);
      if (told.live === "text") text = end(told.so_far ? told.text : text + told.text);
      else if (told.live === "reasoning") reasoning = end(reasoning + told.text);
      else if (told.live === "output") {
        const before = told.so_far ? "" : outputs.get(told.call_id) ?? "";
        outputs.set(told.call_id, end(before + told.text));
        if (outputs.size > MAX_OUTPUTS) outputs.delete(outputs.keys().next().value);
        drawOutput(told.call_id);
        return;
      }
      drawLive();
    }
    const drawOutput = (callId) => deciding.keepPlace(() => {
      const call = document.getElementById(`call-${callId}`);
      if (!call) return;
      const output = $("[data-live-output]", call);
      if (!output && $(".call.waiting", call)) return;   // its entry does not know yet that it runs
      if (!output) { outputs.delete(callId); return; }   // it has ended, and its entry has all
      output.textContent = outputs.get(callId);
      output.scrollTop = output.scrollHeight;
    });

    const useTask = (doc) => following(() => {
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
      letCardsGo();
      mergeCards(doc);
      const entries = all("#timeline > li", doc);
      // The summary of what was thought comes as an entry of its own.
      if (entries.length) { reasoning = ""; $("#quiet")?.remove(); }
      if (Number(there.dataset.after) > last) {
        // So much has happened that there is a gap: what lies in it is on the earlier pages, as all before it.
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
      letGo();
      held = "";
      drawLive();
      document.body.dataset.heading = doc.body.dataset.heading;
      countOf(doc);
      tick();
      if (isAtRest()) { text = ""; drawLive(); }
    });
    // What was decided is in the timeline, too: its card goes once nobody sees it.
    function letCardsGo() {
      for (const card of all("#requests > .closed")) {
        const box = card.getBoundingClientRect();
        if (box.bottom < 0 || box.top > innerHeight) card.remove();
      }
    }
    function letGo() {
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

    const refresh = refresher(() => `/tasks/${id}?after=${last}`, useTask);

    // Whatever its stream tells is only a sign to look: the page has the words.
    const hears = { live: heard };
    for (const kind of KINDS) hears[kind] = () => {
      if (kind === "message" || kind === "turn_started" || kind === "turn_ended") { held += text; text = ""; }
      refresh();
    };
    if (timeline.scrollHeight > 2 * innerHeight && !location.hash) toEnd();
    return {
      changed: (told) => { if (told.task_id === undefined || told.task_id === id) refresh(); },
      address: () => `/v1/tasks/${id}/events?after=${last}&live=true&news=true`,
      hears,
      // What is being written is told from its beginning to whoever comes back.
      lost: () => { held = text = reasoning = ""; },
    };
  }

  // News, by one stream a page: browsers open six connections to a server, for all of its pages together. A page that
  // nobody sees has none: it looks now and then, for the number in its title, and at once when it is seen again.
  function follow({ changed, address = () => "/v1/events", hears = {}, lost = () => {}, looksFirst = false }) {
    let stream = null, retry = 0, look = 0, wasLost = looksFirst;
    const kinds = {
      open_requests: ({ total }) => {
        const isNews = $("#open-requests")?.textContent !== String(total);
        showCount(total);
        if (isNews) changed({});
      },
      task: changed,
      missed: () => changed({}),
      dropped: () => changed({}),
      ...hears,
    };
    function open() {
      const own = stream = new EventSource(address());
      for (const [kind, hear] of Object.entries(kinds)) own.addEventListener(kind, (event) => hear(JSON.parse(event.data)));
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
      clearInterval(look);
      stream?.close();
      if (document.hidden) look = setInterval(() => changed({}), LOOK_MS);
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
      // After the form has been read: a button that is off is not sent.
      setTimeout(() => all("button", event.target).forEach((it) => { it.disabled = true; }));
    });
    addEventListener("pageshow", () => all("form:not(.decide) button").forEach((it) => { it.disabled = false; }));
    if (["login", "entered", "locked", "wrong"].includes(page)) return;
    const here = $("[data-live]")?.dataset.live;
    const again = () => location.href;
    // What these list changes without a task: they look once more when they hear, since all may have happened before.
    const listed = (refresh) => ({ changed: refresh, hears: { task: () => {}, [here]: refresh }, looksFirst: true });
    follow(here === "task" ? taskPage($("#task"))
      : here === "list" ? { changed: refresher(again, useList) }
      : here === "cards" ? { changed: refresher(again, useCards) }
      : here === "hosts" || here === "deliveries" ? listed(refresher(again, useList))
      : { changed: refresher(again, countOf), hears: { task: () => {} } });   // nothing of it changes but the number
  }
  start();
})();
