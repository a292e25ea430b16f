// Decisions on a page: never by accident, and never with the cookie alone.
//
// A decided card stays in its place and shows the outcome, so that no other button moves under a finger that presses
// again. A card that has just appeared or moved ignores presses. Every change is sent with the secret of this tab, which
// comes with the login and which a server on another port cannot read.
"use strict";
const deciding = (() => {
  const GUARD_MS = 700;            // a card ignores presses for this time after it appeared or moved
  const MOVED_PX = 4;              // a smaller move cannot make a person miss a button
  const HEADER = "x-codex-bridge-tab";
  const STORAGE_KEY = "tab";       // of the secret in the session storage
  const SCROLL_KEYS = ["PageUp", "PageDown", "Home", "End", "ArrowUp", "ArrowDown", " "];

  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
  const FORMS = ".request form.decide";

  // The guard. For each form: the position of its buttons, and since when they are there.
  const positions = new Map();
  let lastHeight = 0, hasScrolled = false;
  function updateGuard() {
    const now = performance.now(), height = document.documentElement.scrollHeight;
    // If the height has not changed, only the person scrolls, and that is no move.
    const mayHaveMoved = hasScrolled || height !== lastHeight;
    [lastHeight, hasScrolled] = [height, false];
    const forms = all(FORMS);
    for (const form of positions.keys()) if (!form.isConnected) positions.delete(form);
    for (const form of forms) {
      const box = $(".buttons", form).getBoundingClientRect(), was = positions.get(form);
      const is = { x: box.x, y: box.y, width: box.width, height: box.height, page: box.y + scrollY, since: now };
      const differs = (key) => Math.abs(is[key] - was[key]) > MOVED_PX;
      const isResized = !was || differs("width") || differs("height");
      const isElsewhere = !isResized && (differs("x") || differs("y"));
      if (!isResized && !(isElsewhere && (mayHaveMoved || differs("page")))) {
        is.since = was.since;
        if (!isElsewhere) [is.x, is.y, is.page] = [was.x, was.y, was.page];   // or many small moves would go unnoticed
      }
      positions.set(form, is);
      form.toggleAttribute("data-ready", now - is.since >= GUARD_MS);
    }
    return forms.length;
  }
  function restart() {
    positions.clear();
    updateGuard();
  }
  function watch() {
    if (updateGuard()) requestAnimationFrame(watch);
    else setTimeout(watch, 100);
  }
  const isReady = (form) => { updateGuard(); return form.hasAttribute("data-ready"); };

  // A press counts if the card was ready when the press began and when it ended. A held key presses once.
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
    const began = pressed ?? { button, ok: event.detail === 0 };   // by Enter in a field, or by a screen reader
    pressed = null;
    if (began.ok && began.button === button && isReady(button.form)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  // The secret of the tab.
  const secret = () => sessionStorage.getItem(STORAGE_KEY);
  function unlock(label) {
    const dialog = $("#unlock"), form = $("form", dialog), notice = $(".notice", dialog);
    $("button.primary", form).textContent = label;   // of the pressed button, whose form is sent afterwards
    notice.hidden = true;
    form.reset();
    dialog.showModal();
    return new Promise((resolve) => {
      const end = (secret) => { form.onsubmit = null; dialog.onclose = null; dialog.close(); form.reset(); resolve(secret); };
      dialog.onclose = () => end(null);
      $("button[value=leave]", form).onclick = () => end(null);
      form.onsubmit = async (event) => {
        event.preventDefault();
        const body = new URLSearchParams(new FormData(form));
        try {
          const response = await fetch("/login", { method: "POST", headers: { accept: "application/json" }, body });
          const reply = await response.json();
          if (response.ok) { sessionStorage.setItem(STORAGE_KEY, reply.tab); end(reply.tab); return; }
          notice.textContent = response.status === 401 ? "This token is not known, or was revoked." : reply.detail;
        } catch { notice.textContent = "The daemon cannot be reached. Try again."; }
        notice.hidden = false;
      };
    });
  }
  // Sends a form with the secret of the tab. Asks for the token if the secret is missing or not valid any more.
  async function send(address, body, label) {
    for (;;) {
      const own = secret() ?? await unlock(label);
      if (!own) return null;
      const response = await fetch(address, { method: "POST", headers: { accept: "text/html", [HEADER]: own }, body });
      if (new URL(response.url).pathname === "/login") { location.assign("/login"); return null; }
      const doc = parsed(await response.text());
      if (!$("#locked", doc)) return { response, doc };
      sessionStorage.removeItem(STORAGE_KEY);
    }
  }
  // Adds the secret to a form that the browser itself sends.
  async function addSecret(event) {
    const form = event.target, button = event.submitter;
    if (form.method !== "post" || form.getAttribute("action") === "/login") return;
    if (form.getAttribute("action") === "/logout") { sessionStorage.removeItem(STORAGE_KEY); return; }
    if (!secret()) {
      if (!$("#unlock")) return;   // the page has no user, or the user may change nothing
      event.preventDefault();
      if (await unlock(button?.textContent || "Continue")) form.requestSubmit(button);
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

  // After a decision the person looks at its card: the page does not scroll by itself until the person scrolls.
  let decidedCard = null;
  const isInView = (card) => { const box = card.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; };
  const cardInView = () => (decidedCard?.isConnected && isInView(decidedCard) ? decidedCard : all(FORMS).map((form) => form.closest(".request")).find(isInView));
  // Changes the page without moving the card in view.
  function keepPlace(change) {
    const card = cardInView(), root = document.documentElement;
    const before = card?.getBoundingClientRect().top;
    if (card) root.style.overflowAnchor = "none";   // or the browser would also correct the scroll position
    change();
    const by = card?.isConnected ? card.getBoundingClientRect().top - before : 0;
    if (by) scrollBy({ top: by, behavior: "instant" });
    if (card) requestAnimationFrame(() => requestAnimationFrame(() => { root.style.overflowAnchor = ""; }));
    updateGuard();
  }
  function forgetDecidedCard(event) {
    if (event.type === "keydown" && (!SCROLL_KEYS.includes(event.key) || event.target.closest?.("button, input, textarea, select"))) return;
    decidedCard = null;
  }

  // Shows the outcome in place of the form. The card keeps its height.
  function close(card, drawn, hadFocus = card.contains(document.activeElement)) {
    if (card.classList.contains("closed")) return;
    card.classList.add("closed");
    const form = $(".decide", card), outcome = $(".decide", drawn);
    if (!form || !outcome) return;
    outcome.style.minHeight = `${form.getBoundingClientRect().height}px`;
    outcome.tabIndex = -1;
    form.replaceWith(outcome);
    if (hadFocus) outcome.focus({ preventScroll: true });
    updateGuard();
  }
  const sameCard = (card, doc) => $(`[data-key="${CSS.escape(card.dataset.key)}"]`, doc);

  function showError(form, text) {
    let notice = $(".said", form);
    if (!notice) {
      notice = document.createElement("p");
      notice.setAttribute("role", "alert");
      form.append(notice);
    }
    notice.className = "notice bad said";
    notice.textContent = text;
  }
  async function decide(form, button) {
    const card = form.closest(".request"), body = new URLSearchParams(new FormData(form));
    const buttons = all("button", form).filter((other) => !other.disabled);
    body.append(button.name, button.value);
    decidedCard = card;
    buttons.forEach((other) => { other.disabled = true; });
    button.setAttribute("aria-busy", "true");
    let error = "", sent = null;
    try {
      sent = await send(form.getAttribute("action"), body, button.textContent);
      const drawn = sent?.response.ok && sameCard(card, sent.doc);
      if (drawn && !$("form.decide", drawn)) { onDrawn(drawn); close(card, drawn, true); return; }
      if (sent) error = $("main .notice.bad", sent.doc)?.textContent ?? "That did not work. Reload the page to see the present state.";
    } catch { error = "The daemon cannot be reached. Your decision may or may not have arrived: check before you repeat it."; }
    button.removeAttribute("aria-busy");
    buttons.forEach((other) => { other.disabled = false; });
    if (error) showError(form, error);
    positions.delete(form);
    updateGuard();
  }

  // Replaces the beginning of a diff by the whole, and enables the approval.
  async function openWhole(link) {
    const card = link.closest(".request");
    link.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(link.href);
      const drawn = response.ok && sameCard(card, parsed(await response.text()));
      if (!drawn) throw new Error(response.status);
      $(".files", card).replaceWith($(".files", drawn));
      const cut = $(".cut", drawn);
      if (cut) $(".cut", card).replaceWith(cut); else $(".cut", card).remove();
      const form = $("form.decide", card), whole = $("form.decide", drawn);
      if (form && whole && !$("button[data-held]", whole)) {
        $("input[name=digest]", form).value = $("input[name=digest]", whole).value;
        $(".held", form)?.remove();
        all("button[data-held]", form).forEach((button) => { button.disabled = false; button.removeAttribute("data-held"); });
      }
      positions.delete(form);
      updateGuard();
    } catch { link.removeAttribute("aria-busy"); }
  }

  let onDrawn = () => {};
  function start(drawn) {
    onDrawn = drawn;
    const entered = $("#entered");
    if (entered) {
      sessionStorage.setItem(STORAGE_KEY, entered.dataset.tab);
      location.replace("/tasks");
      return;
    }
    if (["login", "locked"].includes(document.body.dataset.page)) sessionStorage.removeItem(STORAGE_KEY);
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
      } else addSecret(event);
    });
    for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, forgetDecidedCard, { passive: true });
    document.documentElement.dataset.guarded = "";
    addEventListener("pageshow", restart);
    addEventListener("visibilitychange", restart);
    addEventListener("focus", restart);      // a window above the page may have closed
    watch();
  }
  return {
    start, close, sameCard, keepPlace, hasCardInView: () => !!cardInView(),
    scrolled: () => { hasScrolled = true; updateGuard(); },
  };
})();
