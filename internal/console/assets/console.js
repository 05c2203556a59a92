// Pages work without this: it counts leases down and reads live pages anew.
(() => {
  "use strict";
  const refreshEvery = 5000; // milliseconds
  const loaded = new WeakMap();

  const countDown = () => {
    for (const lease of document.querySelectorAll("[data-left]")) {
      if (!loaded.has(lease)) loaded.set(lease, performance.now());
      const passed = Math.floor((performance.now() - loaded.get(lease)) / 1000);
      const left = Math.max(0, Number(lease.dataset.left) - passed);
      lease.textContent = left > 0 ? lease.dataset.text.replace("{n}", String(left)) : lease.dataset.over;
    }
  };

  const live = document.querySelector("[data-live]");
  let paused = false;
  // Whoever is at work in the live part, or reads a part of it aside, keeps it.
  const busy = () => document.hidden || live.contains(document.activeElement) || String(getSelection()) !== "";

  const refresh = async () => {
    if (paused || busy()) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-live]");
    if (!fresh || paused || busy()) return;
    const scrolled = [...live.querySelectorAll(".scroll")].map((table) => table.scrollLeft);
    live.replaceChildren(...fresh.childNodes);
    live.querySelectorAll(".scroll").forEach((table, i) => { table.scrollLeft = scrolled[i] || 0; });
    countDown();
  };

  const problems = document.getElementById("problems");
  if (problems) problems.focus();
  if (document.querySelector("[data-left]") || live) {
    countDown();
    setInterval(countDown, 1000);
  }
  if (live) {
    const { pause, resume } = document.body.dataset;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet pause";
    button.textContent = pause;
    button.addEventListener("click", () => {
      paused = !paused;
      button.textContent = paused ? resume : pause;
    });
    document.querySelector("a.refresh").replaceWith(button);
    setInterval(() => refresh().catch(() => {}), refreshEvery);
  }
})();
