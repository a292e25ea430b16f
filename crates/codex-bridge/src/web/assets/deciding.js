// How people decide on a page: never by accident, and never by the cookie alone.
//
// A decision is made in place. The card stays where it is and says what came of it, so that nothing slides under a finger
// that presses again. What has just come up or moved cannot be pressed. And whatever a form changes is sent with the
// secret of this tab, which the log-in told it and which no other port of this name can read.
"use strict";
const deciding = (() => {
  const GUARD_MS = 700;            // so long a card is deaf after it came up or moved
  const MOVED_PX = 4;              // less than that nobody misses a button by
  const HEADER = "x-codex-bridge-tab";
  const KEPT = "tab";              // under this name the tab keeps its secret
  const SCROLL_KEYS = ["PageUp", "PageDown", "Home", "End", "ArrowUp", "ArrowDown", " "];

  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
  const FORMS = ".request form.decide";

  // The guard. For each form: where its buttons were when they last came to rest, and since when they are there.
  const places = new Map();
  let tallness = 0, hasScrolled = false;
  function look() {
    const now = performance.now(), tall = document.documentElement.scrollHeight;
    // A page that grows or shrinks may scroll by itself; else it is the person who scrolls, and knows.
    const isRestless = hasScrolled || tall !== tallness;
    [tallness, hasScrolled] = [tall, false];
    const forms = all(FORMS);
    for (const form of places.keys()) if (!form.isConnected) places.delete(form);
    for (const form of forms) {
      const box = $(".buttons", form).getBoundingClientRect(), was = places.get(form);
      const is = { x: box.x, y: box.y, width: box.width, height: box.height, page: box.y + scrollY, since: now };
      const differs = (key) => Math.abs(is[key] - was[key]) > MOVED_PX;
      const isOther = !was || differs("width") || differs("height");
      const isElsewhere = !isOther && (differs("x") || differs("y"));
      if (!isOther && !(isElsewhere && (isRestless || differs("page")))) {
        is.since = was.since;
        if (!isElsewhere) [is.x, is.y, is.page] = [was.x, was.y, was.page];   // or it could creep
      }
      places.set(form, is);
      form.toggleAttribute("data-ready", now - is.since >= GUARD_MS);
    }
    return forms.length;
  }
  function restart() {
    places.clear();
    look();
  }
  function watch() {
    if (look()) requestAnimationFrame(watch);
    else setTimeout(watch, 100);
  }
  const isReady = (form) => { look(); return form.hasAttribute("data-ready"); };

  // A press counts if the card was ready when it began and when it ended. A key that is held down presses once.
  let pressed = null;
  const buttonOf = (event) => event.target instanceof Element ? event.target.closest(`${FORMS} button`) : null;
  function pressBegins(event) {
    if (event.type === "keydown" && event.repeat) { pressed = { button: null, ok: false }; return; }
    const button = buttonOf(event);
    pressed = button ? { button, ok: isReady(button.form) } : null;
  }
  function pressEnds(event) {
    const button = buttonOf(event);
    if (!button) return;
    const began = pressed ?? { button, ok: event.detail === 0 };   // by a key in a field, or by a reader of screens
    pressed = null;
    if (began.ok && began.button === button && isReady(button.form)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  // The secret of the tab.
  const secret = () => sessionStorage.getItem(KEPT);
  function unlock(words) {
    const dialog = $("#unlock"), form = $("form", dialog), wrong = $(".notice", dialog);
    $("button.primary", form).textContent = words;   // what was pressed, and is done with the token
    wrong.hidden = true;
    form.reset();
    dialog.showModal();
    return new Promise((resolve) => {
      const end = (given) => { form.onsubmit = null; dialog.onclose = null; dialog.close(); form.reset(); resolve(given); };
      dialog.onclose = () => end(null);
      $("button[value=leave]", form).onclick = () => end(null);
      form.onsubmit = async (event) => {
        event.preventDefault();
        const body = new URLSearchParams(new FormData(form));
        try {
          const answer = await fetch("/login", { method: "POST", headers: { accept: "application/json" }, body });
          const told = await answer.json();
          if (answer.ok) { sessionStorage.setItem(KEPT, told.tab); end(told.tab); return; }
          wrong.textContent = answer.status === 401 ? "This token is not known, or was revoked." : told.detail;
        } catch { wrong.textContent = "The daemon cannot be reached. Try again."; }
        wrong.hidden = false;
      };
    });
  }
  // Sends a form with the secret of the tab; asks for the token if there is none, or if it is worth nothing any more.
  async function send(address, body, words) {
    for (;;) {
      const shown = secret() ?? await unlock(words);
      if (!shown) return null;
      const answer = await fetch(address, { method: "POST", headers: { accept: "text/html", [HEADER]: shown }, body });
      if (new URL(answer.url).pathname === "/login") { location.assign("/login"); return null; }
      const doc = parsed(await answer.text());
      if (!$("#locked", doc)) return { answer, doc };
      sessionStorage.removeItem(KEPT);
    }
  }
  // Forms that lead to another page take it along.
  async function sendAlong(event) {
    const form = event.target, button = event.submitter;
    if (form.method !== "post" || form.getAttribute("action") === "/login") return;
    if (form.getAttribute("action") === "/logout") { sessionStorage.removeItem(KEPT); return; }
    if (!secret()) {
      if (!$("#unlock")) return;   // on a page of nobody's, or of one who came by the socket
      event.preventDefault();
      if (await unlock(button?.textContent || "Go on")) form.requestSubmit(button);
      return;
    }
    let field = $("input[name=tab]", form);
    if (!field) {
      field = document.createElement("input");
      field.type = "hidden";
      field.name = "tab";
      form.append(field);
    }
    field.value = secret();
  }

  // Whoever has decided looks at the card of it: nothing scrolls by itself until they do.
  let held = null;
  const isInView = (it) => { const box = it.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; };
  const holds = () => (held?.isConnected && isInView(held) ? held : all(FORMS).map((form) => form.closest(".request")).find(isInView));
  // Changes the page and leaves the card that somebody looks at where it is.
  function keepPlace(change) {
    const card = holds(), root = document.documentElement;
    const before = card?.getBoundingClientRect().top;
    if (card) root.style.overflowAnchor = "none";   // or the browser does it a second time
    change();
    const by = card?.isConnected ? card.getBoundingClientRect().top - before : 0;
    if (by) scrollBy({ top: by, behavior: "instant" });
    if (card) requestAnimationFrame(() => requestAnimationFrame(() => { root.style.overflowAnchor = ""; }));
    look();
  }
  function letGo(event) {
    if (event.type === "keydown" && (!SCROLL_KEYS.includes(event.key) || event.target.closest?.("button, input, textarea, select"))) return;
    held = null;
  }

  // A card that is decided says so in the place of its form, and is as high as before.
  function close(card, drawn, hadFocus = card.contains(document.activeElement)) {
    if (card.classList.contains("closed")) return;
    card.classList.add("closed");
    const place = $(".decide", card), outcome = $(".decide", drawn);
    if (!place || !outcome) return;
    outcome.style.minHeight = `${place.getBoundingClientRect().height}px`;
    outcome.tabIndex = -1;
    place.replaceWith(outcome);
    if (hadFocus) outcome.focus({ preventScroll: true });
    look();
  }
  const sameCard = (card, doc) => $(`[data-key="${CSS.escape(card.dataset.key)}"]`, doc);

  function say(form, text) {
    let place = $(".said", form);
    if (!place) {
      place = document.createElement("p");
      place.setAttribute("role", "alert");
      form.append(place);
    }
    place.className = "notice bad said";
    place.textContent = text;
  }
  async function decide(form, button) {
    const card = form.closest(".request"), body = new URLSearchParams(new FormData(form));
    const buttons = all("button", form).filter((it) => !it.disabled);
    body.append(button.name, button.value);
    held = card;
    buttons.forEach((it) => { it.disabled = true; });
    button.setAttribute("aria-busy", "true");
    let said = "", sent = null;
    try {
      sent = await send(form.getAttribute("action"), body, button.textContent);
      const drawn = sent?.answer.ok && sameCard(card, sent.doc);
      if (drawn && !$("form.decide", drawn)) { onDrawn(drawn); close(card, drawn, true); return; }
      if (sent) said = $("main .notice.bad", sent.doc)?.textContent ?? "That did not work. Load the page again to see how it stands.";
    } catch { said = "The daemon cannot be reached. Nothing is known of your answer: look again before you repeat it."; }
    button.removeAttribute("aria-busy");
    buttons.forEach((it) => { it.disabled = false; });
    if (said) say(form, said);
    places.delete(form);
    look();
  }

  // The whole diff, in the place of its beginning. Only with it can be agreed.
  async function openWhole(link) {
    const card = link.closest(".request");
    link.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(link.href);
      const drawn = answer.ok && sameCard(card, parsed(await answer.text()));
      if (!drawn) throw new Error(answer.status);
      $(".files", card).replaceWith($(".files", drawn));
      const cut = $(".cut", drawn);
      if (cut) $(".cut", card).replaceWith(cut); else $(".cut", card).remove();
      const form = $("form.decide", card), whole = $("form.decide", drawn);
      if (form && whole && !$("button[data-held]", whole)) {
        $("input[name=digest]", form).value = $("input[name=digest]", whole).value;
        $(".held", form)?.remove();
        all("button[data-held]", form).forEach((it) => { it.disabled = false; it.removeAttribute("data-held"); });
      }
      places.delete(form);
      look();
    } catch { link.removeAttribute("aria-busy"); }
  }

  let onDrawn = () => {};
  function start(drawn) {
    onDrawn = drawn;
    const entered = $("#entered");
    if (entered) {
      sessionStorage.setItem(KEPT, entered.dataset.tab);
      location.replace("/tasks");
      return;
    }
    if (["login", "locked"].includes(document.body.dataset.page)) sessionStorage.removeItem(KEPT);
    for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, pressBegins, true);
    document.addEventListener("click", pressEnds, true);
    document.addEventListener("click", (event) => {
      const link = event.target instanceof Element && event.target.closest(".request a.whole");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (!link.hasAttribute("aria-busy")) openWhole(link);
    });
    document.addEventListener("submit", (event) => {
      if (event.defaultPrevented || event.target.closest("#unlock")) return;
      if (event.target.matches(FORMS)) {
        event.preventDefault();
        if (event.submitter) decide(event.target, event.submitter);
      } else sendAlong(event);
    });
    for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, letGo, { passive: true });
    document.documentElement.dataset.guarded = "";
    addEventListener("pageshow", restart);
    addEventListener("visibilitychange", restart);
    addEventListener("focus", restart);      // whatever lay above the page has gone
    watch();
  }
  return {
    start, close, sameCard, keepPlace, holds: () => !!holds(),
    scrolled: () => { hasScrolled = true; look(); },
  };
})();
