"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const lanes = document.getElementById("lanes");
  const cursor = document.getElementById("cursor");
  const brush = document.getElementById("brush");
  const readout = document.getElementById("readout");
  const L = data.left, R = data.right, W = 1200, THIN = "\u202f";
  let v0 = L, v1 = R, at = null, dragFrom = null;
  document.getElementById("hint").hidden = false;

  const perUnit = () => (data.to - data.from) / (R - L);
  const timeOf = x => data.from + (v0 + (x - L) * (v1 - v0) / (R - L) - L) * perUnit();
  const drawingX = event => {
    const frame = lanes.getBoundingClientRect();
    return Math.min(R, Math.max(L, (event.clientX - frame.left) * W / frame.width));
  };
  const pixels = x => x * lanes.getBoundingClientRect().width / W;

  const instant = t => t.toFixed(3).replace("-", "\u2212") + THIN + "s";

  /* The same rule as in svg.py: a text stands inside its interval, after it, before it, or not. */
  function placeLabel(text, X) {
    const a = Math.max(L, X(+text.dataset.a)), b = Math.min(R, X(+text.dataset.b));
    const width = text.textContent.length * 6.4 + 4;
    let place = "no", x = a;
    if (!text.dataset.off && b > a && width <= b - a) { place = "in"; x = (a + b) / 2; }
    else if (text.dataset.c && b >= L && a <= R && b + width <= Math.min(R, X(+text.dataset.c))) { place = "out"; x = b + 3; }
    else if (text.dataset.pre && b >= L && a <= R && a - width >= L) { place = "pre"; x = a - 3; }
    text.classList.remove("in", "out", "pre", "no");
    text.classList.add(place);
    text.setAttribute("x", x.toFixed(1));
  }

  function ticks() {
    const from = timeOf(L), to = timeOf(R), raw = (to - from) / 12;
    const scale = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(s => s * scale).find(s => s >= raw * (1 - 1e-9));
    const found = [];
    for (let n = Math.ceil(from / step - 1e-9); n * step <= to + 1e-9; n++) found.push(n * step);
    return [found, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
  }

  function draw() {
    const k = (R - L) / (v1 - v0), X = x => L + (x - v0) * k;
    for (const g of lanes.querySelectorAll("g.z")) g.setAttribute("transform", `matrix(${k} 0 0 1 ${L - v0 * k} 0)`);
    document.getElementById("hatch").setAttribute("patternTransform", `scale(${1 / k} 1) rotate(45)`);
    document.getElementById("dots").setAttribute("patternTransform", `scale(${1 / k} 1) rotate(-45)`);
    for (const text of lanes.querySelectorAll("text.lab")) placeLabel(text, X);
    for (const mark of lanes.querySelectorAll("g.mark")) mark.setAttribute("transform", `translate(${X(+mark.dataset.a)} 0)`);
    const [times, places] = ticks(), xs = times.map(t => X(L + (t - data.from) / perUnit()));
    for (const grid of lanes.querySelectorAll("path.grid")) grid.setAttribute("d", xs.map(x => `M${x.toFixed(1)} 0V${grid.dataset.h}`).join(""));
    for (const group of lanes.querySelectorAll("g.ticks")) {
      group.replaceChildren(...times.map((t, n) => {
        const text = document.createElementNS(group.namespaceURI, "text");
        text.setAttribute("class", "tick");
        text.setAttribute("x", xs[n]);
        text.setAttribute("y", 13);
        text.textContent = t.toFixed(places).replace("-", "\u2212");
        return text;
      }).filter((text, n) => xs[n] >= L + 4 && xs[n] <= R - 12));
    }
    point(at);
  }

  function read(t) {
    const parts = [instant(t)];
    const phase = data.phases.find(p => p[1] <= t && t < p[2]);
    if (phase) parts.push(phase[0]);
    const active = data.faults.filter(f => f[1] <= t && t <= f[2]);
    parts.push(active.length ? active.map(f => f[0] + (f[3] ? "" : " (not proven)")).join(", ") : "no fault");
    for (const [name, changes] of data.partitions) {
      const now = changes.filter(c => c[0] <= t).pop();
      if (now) parts.push(`${name}: ${now[1] === null ? "no leader" : "leader " + now[1]}, ISR ${now[2].join(" ") || "empty"}`);
    }
    const bin = data.bins.find(b => b[0] <= t && t < b[0] + data.bin);
    if (bin) {
      const rate = n => Math.round(n / data.bin) + "/s";
      parts.push(`acked ${rate(bin[1])}, unknown ${rate(bin[2])}, refused ${rate(bin[3])}, read ${rate(bin[6])}`);
      if (bin[4] !== null) parts.push(`p50 ${bin[4].toPrecision(3)}${THIN}ms, p99 ${bin[5] === null ? "?" : bin[5].toPrecision(3) + THIN + "ms"}`);
    }
    return parts.join(" \u00b7 ");
  }

  function point(t) {
    at = t;
    cursor.hidden = readout.hidden = t === null;
    if (t === null) return;
    const x = L + (L + (t - data.from) / perUnit() - v0) * (R - L) / (v1 - v0);
    cursor.hidden = x < L - .5 || x > R + .5;
    cursor.style.left = pixels(x) + "px";
    readout.textContent = read(t);
  }

  function show(a, b) {
    const width = Math.min(R - L, Math.max((R - L) / 2000, b - a));
    v0 = Math.max(L, Math.min(R - width, a));
    v1 = v0 + width;
    draw();
  }

  lanes.addEventListener("mousemove", event => {
    const x = drawingX(event);
    point(timeOf(x));
    if (dragFrom === null) return;
    brush.hidden = Math.abs(x - dragFrom) < 4;
    brush.style.left = pixels(Math.min(x, dragFrom)) + "px";
    brush.style.width = pixels(Math.abs(x - dragFrom)) + "px";
  });
  lanes.addEventListener("mousedown", event => {
    if (event.button !== 0 || event.target.closest("a, summary")) return;
    const frame = lanes.getBoundingClientRect();
    if ((event.clientX - frame.left) * W / frame.width < L) return;
    dragFrom = drawingX(event);
    event.preventDefault();
    lanes.focus({ preventScroll: true });
  });
  window.addEventListener("mouseup", event => {
    if (dragFrom === null) return;
    const x = drawingX(event), start = dragFrom;
    dragFrom = null;
    brush.hidden = true;
    if (Math.abs(x - start) < 4) return;
    const inDrawing = y => v0 + (y - L) * (v1 - v0) / (R - L);
    show(inDrawing(Math.min(x, start)), inDrawing(Math.max(x, start)));
  });
  lanes.addEventListener("dblclick", () => show(L, R));
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const width = v1 - v0, zoomed = width < R - L - .01;
    const around = at === null ? (v0 + v1) / 2 : L + (at - data.from) / perUnit();
    const about = Math.max(v0, Math.min(v1, around)), share = (about - v0) / width;
    if (event.key === "+" || event.key === "=") show(about - share * width / 1.6, about + (1 - share) * width / 1.6);
    else if (event.key === "-" || event.key === "\u2212") show(about - share * width * 1.6, about + (1 - share) * width * 1.6);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const way = event.key === "ArrowLeft" ? -1 : 1;
      if (zoomed) show(v0 + way * width / 10, v1 + way * width / 10);
      else point(Math.max(data.from, Math.min(data.to, (at === null ? data.from : at) + way * (data.to - data.from) / 200)));
    } else if (event.key === "0" || event.key === "Escape") show(L, R);
    else return;
    event.preventDefault();
  });
  /* A mark leads to a card that may lie in a folded part. */
  const unfold = () => {
    const card = location.hash && document.getElementById(location.hash.slice(1));
    for (let part = card; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (card) card.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
  window.addEventListener("resize", () => point(at));
})();
