const recording = JSON.parse(byId("data").textContent);
let isDue = false;

function soon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; draw(); });
}

function follow() {
  const source = new EventSource("/events");
  source.onmessage = (event) => { take(JSON.parse(event.data)); soon(); };
  source.onopen = () => { byId("state").className = ""; set(byId("state"), "live"); };
  source.onerror = () => { byId("state").className = "bad"; set(byId("state"), "no answer: this is how it was"); };
}

// A recording: frames up to the slider's time.
function play(frames) {
  const end = frames.at(-1)?.at ?? 0;
  let taken = 0;
  let timer = null;
  const slider = byId("slider");
  byId("player").hidden = false;
  set(byId("state"), "recorded");
  slider.max = end;
  slider.step = Math.max(1, Math.round(end / 2000));
  function seek(at) {
    if (!taken || frames[taken - 1].at > at) { reset(); taken = 0; }
    while (taken < frames.length && frames[taken].at <= at) take(frames[taken++]);
    slider.value = at;
    slider.setAttribute("aria-valuetext", time(at));
    set(byId("clock"), time(at) + " of " + time(end));
    soon();
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    byId("play").setAttribute("aria-pressed", "false");
    set(byId("play"), "Play");
  }
  byId("play").addEventListener("click", () => {
    if (timer) return pause();
    // The whole of it within half a minute, and no slower than it was.
    const step = Math.max(100, end / 300);
    let at = Number(slider.value) >= end ? 0 : Number(slider.value);
    byId("play").setAttribute("aria-pressed", "true");
    set(byId("play"), "Pause");
    timer = setInterval(() => {
      at = Math.min(end, at + step);
      seek(at);
      if (at >= end) pause();
    }, 100);
  });
  slider.addEventListener("input", () => { pause(); seek(Number(slider.value)); });
  seek(end);
}

addEventListener("resize", soon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.redraw()));
recording ? play(recording.frames) : follow();
