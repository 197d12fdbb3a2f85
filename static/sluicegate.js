// Connection state, countdowns, shortcuts, copy buttons. Every page works without this file.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const visible = () => document.visibilityState === "visible";

  // ── The live connection ───────────────────────────────────────────────────────────────────────────────
  const events = byId("events");
  let connected = false, tries = 0, asked = 0;

  function say(tone, text) {
    const live = byId("live");
    if (!live) return;
    const dot = document.createElement("span");
    dot.className = `dot ${tone}${tone === "tone-allow" ? " dot--live" : ""}`;
    live.replaceChildren(dot, text);
  }

  function connect() {
    if (!events || connected || !visible() || events._htmx?.sse) return;
    const now = Date.now();
    if (now - asked < 4000) return;
    asked = now;
    tries += 1;
    if (tries > 1) say("tone-hold", `Reconnecting, try ${tries}`);
    htmx.trigger(events, "sluicegate:connect");
  }

  if (events) {
    events.addEventListener("htmx:sse:after:connection", () => { connected = true; tries = 0; say("tone-allow", "Live"); });
    events.addEventListener("htmx:sse:before:connection", (event) => {
      const attempt = event.detail.connection.attempt;
      if (attempt > 0 && visible()) { connected = false; tries = attempt; say("tone-hold", `Reconnecting, try ${attempt}`); }
    });
    events.addEventListener("htmx:sse:error", (event) => {
      connected = false;
      if (event.detail.status === 401) location.reload();
      else if (event.detail.status === 429) say("tone-neutral", "Not live: too many open pages");
    });
    events.addEventListener("htmx:sse:close", () => { connected = false; say("tone-neutral", "Not live"); });
    events.addEventListener("htmx:response:error", () => say("tone-neutral", "Not live"));
    document.addEventListener("visibilitychange", connect);
    document.addEventListener("DOMContentLoaded", () => setTimeout(connect));
    setInterval(connect, 5000);
  }

  // ── Countdowns: the server says how much is left, the page counts on from there ───────────────────────
  const announced = new Set();

  function clock(seconds) {
    const pad = (n) => String(n).padStart(2, "0");
    const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
    return h > 0 ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
  }

  function tick() {
    for (const ring of document.querySelectorAll(".ring[data-left]")) {
      if (ring.basis !== ring.dataset.left) { ring.basis = ring.dataset.left; ring.since = performance.now(); }
      const left = Math.max(0, Number(ring.basis) - (performance.now() - ring.since));
      const seconds = Math.ceil(left / 1000);
      const figure = ring.querySelector("span");
      const arc = ring.querySelector("circle + circle");
      if (figure) figure.textContent = clock(seconds);
      ring.setAttribute("aria-label", `${clock(seconds)} left`);
      if (arc) arc.setAttribute("stroke-dashoffset", String(100 - 100 * left / Math.max(1, Number(ring.dataset.limit))));
      for (const [at, words] of [[60, "1 minute left to decide"], [15, "15 seconds left to decide"]]) {
        const key = `${ring.id} ${at}`;
        if (seconds <= at && seconds > at - 5 && !announced.has(key)) {
          announced.add(key);
          const line = byId("announce");
          if (line) line.textContent = words;
        }
      }
    }
  }
  setInterval(tick, 1000);

  // ── Small things ──────────────────────────────────────────────────────────────────────────────────────
  const seen = new WeakMap();
  setInterval(() => {
    for (const toast of document.querySelectorAll("#toasts > .toast")) {
      const age = (seen.get(toast) ?? 0) + 1;
      seen.set(toast, age);
      if (age > (toast.getAttribute("role") === "alert" ? 12 : 6)) toast.remove();
    }
  }, 1000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (button) {
      const text = byId(button.dataset.copy)?.textContent ?? "";
      try { await navigator.clipboard.writeText(text); button.classList.add("is-copied"); } catch { getSelection()?.selectAllChildren(byId(button.dataset.copy)); }
      setTimeout(() => button.classList.remove("is-copied"), 2000);
    }
    const menu = document.querySelector("details.menu[open]");
    if (menu && !menu.contains(event.target)) menu.open = false;
  });

  // Something said again: the stream shows the turn; without one the page is loaded again.
  document.addEventListener("htmx:after:request", (event) => {
    const form = event.target.closest?.("form[data-again]");
    if (form && event.detail.ctx?.response?.status < 400 && !connected) location.reload();
  });

  const box = byId("say");
  if (box) {
    const draft = `draft ${location.pathname}`;
    box.form?.addEventListener("htmx:after:request", (event) => {
      if (!(event.detail.ctx?.response?.status < 400)) return;
      box.value = "";
      sessionStorage.removeItem(draft);
      // Without a live connection the page shows the turn by being loaded again.
      if (!connected) location.reload();
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); box.form.requestSubmit(); }
    });
    if (!box.value) box.value = sessionStorage.getItem(draft) ?? "";
    box.addEventListener("input", () => sessionStorage.setItem(draft, box.value));
    if (!box.form?.hasAttribute("hx-post")) box.form?.addEventListener("submit", () => sessionStorage.removeItem(draft));
  }

  // ── Shortcuts on the approvals page: they move the focus; Enter decides ───────────────────────────────
  const inbox = byId("pending");
  const cards = () => [...(inbox?.querySelectorAll("article.approval") ?? [])];
  const selected = () => cards().find((card) => card.hasAttribute("aria-current"));
  const field = (node) => node instanceof HTMLElement && node.matches("input, textarea, select");

  function select(card) {
    if (!card) return;
    for (const other of cards()) other.removeAttribute("aria-current");
    card.setAttribute("aria-current", "true");
    card.tabIndex = -1;
    card.focus();
    card.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    const menu = document.querySelector("details.menu[open]");
    if (event.key === "Escape" && menu) { menu.open = false; menu.querySelector("summary").focus(); return; }
    if (!inbox || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && field(document.activeElement)) { selected()?.focus(); return; }
    if (field(document.activeElement)) return;
    const all = cards(), card = selected(), at = all.indexOf(card);
    const focus = (selector) => { const node = card?.querySelector(selector); if (node) { event.preventDefault(); node.focus(); } };
    switch (event.key.toLowerCase()) {
      case "j": select(all[Math.min(at + 1, all.length - 1)]); break;
      case "k": select(all[Math.max(at - 1, 0)]); break;
      case "a": focus(".btn--approve"); break;
      case "d": focus(".btn--deny"); break;
      case "r": focus("[name=reason]"); break;
      case "o": card?.querySelector("a[data-conversation]")?.click(); break;
    }
  });

  // A card that goes away while it has the focus hands it to the next one, else to the page.
  let held = null;
  document.addEventListener("htmx:before:swap", () => { held = cards().findIndex((card) => card.contains(document.activeElement)); });
  document.addEventListener("htmx:after:swap", () => {
    if (held === null || held < 0 || document.activeElement !== document.body) return;
    const next = cards()[Math.min(held, cards().length - 1)];
    if (next) select(next); else byId("main")?.focus();
  });
})();
